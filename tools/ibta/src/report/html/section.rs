//! A test's part of the page: why, assertions, the sequence, steps, packets.

use super::decode::{Decoded, decode};
use super::ladder;
use super::markup::{Text, time};
use crate::run::{Entry, TestResult, Verdict};
use crate::trace::{Frame, Trace};
use std::fmt::Write;
use std::time::Duration;

/// Of tests with more packets than that the first and the last are shown.
const MANY: usize = 120;
const FIRST: usize = 80;
const LAST: usize = 20;

/// The class of a verdict, as style and script know it.
pub(super) fn class(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Pass => "pass",
        Verdict::Fail => "fail",
        Verdict::NotApplicable => "na",
        Verdict::Inconclusive => "inconclusive",
        Verdict::Error => "error",
    }
}

/// The part of a test whose capture is at `capture`, as the page names it.
pub(super) fn section(test: &TestResult, trace: &Trace, capture: Option<&str>) -> String {
    let mut out = head(test, trace.frames.len());
    if test.result != Verdict::Pass && !test.reason.is_empty() {
        let _ = writeln!(
            out,
            "<p class=\"reason {}\">{}</p>",
            class(test.result),
            Text(&test.reason)
        );
    }

    out += &assertions(test);

    let count = trace.frames.len();
    let left = match count {
        0..=MANY => (count, count),
        _ => (FIRST, count - LAST),
    };

    let packets: Vec<(&Frame, Decoded)> = trace.frames.iter().map(|f| (f, decode(f))).collect();
    if count > 0 {
        let drawing = ladder::draw(&test.entries, &packets, left);
        let _ = writeln!(out, "<h4>Sequence</h4>\n<div class=wide>{drawing}</div>");
    }

    out += &steps(test);
    if count > 0 {
        out += &table(&packets, left, capture);
    }

    out += "</div></details>\n";
    out
}

fn head(test: &TestResult, packets: usize) -> String {
    let statements = test.statements.join(", ");
    let verdict = test.result.name();
    format!(
        "<details class=test id=\"{id}\" data-verdict={class} data-group=\"{group}\">\
         <summary><span class=\"verdict {class}\">{verdict}</span><b>{id}</b><span class=title>{title}</span>\
         <span class=about>{about}</span><span class=cost>{packets} packets, {time}</span></summary>\n<div class=body>\n",
        id = Text(&test.id),
        class = class(test.result),
        group = Text(&test.family),
        title = Text(&test.title),
        about = Text(statements),
        time = Text(time(test.time)),
    )
}

fn assertions(test: &TestResult) -> String {
    let mut out = "<h4>Assertions</h4>\n<table class=assertions>\n".to_owned();
    for assertion in &test.assertions {
        let _ = writeln!(
            out,
            "<tr><td><span class=\"verdict {}\">{}</span><td><code>{}</code><td>{}",
            class(assertion.result),
            assertion.result.name(),
            Text(&assertion.id),
            Text(&assertion.reason)
        );
    }
    out + "</table>\n"
}

/// Every step with what was decided in it. A check that holds is said once for each step and
/// assertion, with how often.
fn steps(test: &TestResult) -> String {
    let mut out = "<h4>Steps</h4>\n<ol class=steps>\n".to_owned();
    let mut held: Vec<(&str, usize)> = Vec::new();
    let mut open = false;
    let flush = |held: &mut Vec<(&str, usize)>, out: &mut String| {
        for (assertion, times) in held.drain(..) {
            let _ = write!(out, "<p class=held>✓ <code>{}</code>", Text(assertion));
            if times > 1 {
                let _ = write!(out, " {times} times");
            }
            out.push_str("</p>");
        }
    };

    for recorded in &test.entries {
        if let Entry::Check {
            assertion,
            held: true,
            ..
        } = &recorded.entry
        {
            match held.iter_mut().find(|(known, _)| known == assertion) {
                Some((_, times)) => *times += 1,
                None => held.push((assertion, 1)),
            }
            continue;
        }

        if !matches!(recorded.entry, Entry::Note { .. }) {
            flush(&mut held, &mut out);
        }

        if matches!(recorded.entry, Entry::Step { .. }) || !open {
            out += "<li>";
            open = true;
        }

        let _ = match &recorded.entry {
            Entry::Step { number, text } => write!(
                out,
                "<span class=number>{}</span> {} <span class=when>{}</span>",
                Text(number),
                Text(text),
                Text(time(recorded.at))
            ),
            Entry::Note { text } => write!(out, "<p class=note>{}</p>", Text(text)),
            Entry::Check {
                assertion, seen, ..
            } => write!(
                out,
                "<p class=broken>✗ <code>{}</code> {}</p>",
                Text(assertion),
                Text(seen)
            ),
            Entry::NotApplicable { assertion, reason } => write!(
                out,
                "<p class=note>not applicable: <code>{}</code> {}</p>",
                Text(assertion),
                Text(reason)
            ),
            Entry::Inconclusive { assertion, seen } => write!(
                out,
                "<p class=open>inconclusive: <code>{}</code> {}</p>",
                Text(assertion),
                Text(seen)
            ),
        };
    }

    flush(&mut held, &mut out);
    out + "</ol>\n"
}

fn table(packets: &[(&Frame, Decoded)], left: (usize, usize), capture: Option<&str>) -> String {
    let mut out = "<h4>Packets</h4>\n".to_owned();
    if let Some(capture) = capture {
        let _ = writeln!(
            out,
            "<p>All of them, for Wireshark: <a class=capture href=\"{0}\">{0}</a></p>",
            Text(capture)
        );
    }

    out += "<div class=wide><table class=packets>\n<tr><th>#<th>time<th>after<th>by<th>packet<th>headers\n";
    let mut last = Duration::ZERO;
    for (n, (frame, packet)) in packets.iter().enumerate() {
        if (left.0..left.1).contains(&n) {
            if n == left.0 {
                let _ = writeln!(out, "<tr><td colspan=6>{} more", left.1 - left.0);
            }
            last = frame.at;
            continue;
        }

        let after = frame.at.saturating_sub(last);
        last = frame.at;
        let by = if frame.by_device { "device" } else { "tester" };
        let _ = write!(
            out,
            "<tr class={by}><td>{}<td>{}<td>{}<td>{by}<td>{}",
            n + 1,
            Text(time(frame.at)),
            Text(time(after)),
            Text(&packet.name)
        );

        if let Some(problem) = &packet.problem {
            let _ = write!(out, "<p class=broken>{}</p>", Text(problem));
        }

        out += "<td>";
        for (n, (name, fields)) in packet.headers.iter().enumerate() {
            let line = if n > 0 { "<br>" } else { "" };
            let _ = write!(out, "{line}<b>{name}</b> {}", Text(fields));
        }

        out.push('\n');
    }

    out + "</table></div>\n"
}
