//! Results for people.

use super::Sums;
use super::about::About;
use crate::run::{Entry, TestResult, Verdict};
use std::fmt::Write;

/// What is tested, a line for each device.
pub fn about(about: &About) -> String {
    let lines = about
        .devices
        .iter()
        .map(|device| format!("device: {device}"));
    lines.collect::<Vec<_>>().join("\n")
}

/// One line: how it ended, its name, what it is about, and why if it did not pass; then one for
/// each time that it was inconclusive.
pub fn line(test: &TestResult) -> String {
    let mut line = format!(
        "{:5}  {:28}  {}  ({:.1} s)",
        test.result.name(),
        test.id,
        test.title,
        test.time.as_secs_f64()
    );
    if test.result != Verdict::Pass {
        let _ = write!(line, "\n       {}", test.reason);
    }

    for recorded in &test.entries {
        if let Entry::Inconclusive { assertion, seen } = &recorded.entry {
            let _ = write!(line, "\n       inconclusive: {assertion}: {seen}");
        }
    }

    line
}

/// Every step in order with what was decided in it, then every assertion.
pub fn details(test: &TestResult) -> String {
    let mut text = String::new();
    let mut out = |line: String| {
        text += &line;
        text.push('\n');
    };

    // A check that holds is said once for each step and assertion, with how often.
    let mut held: Vec<(&str, usize)> = Vec::new();
    let flush = |held: &mut Vec<(&str, usize)>, out: &mut dyn FnMut(String)| {
        for (assertion, times) in held.drain(..) {
            out(format!("            {assertion}: {times} held"));
        }
    };

    for recorded in &test.entries {
        match &recorded.entry {
            Entry::Check {
                assertion,
                held: true,
                ..
            } => match held.iter_mut().find(|(known, _)| known == assertion) {
                Some((_, times)) => *times += 1,
                None => held.push((assertion, 1)),
            },
            Entry::Step { number, text } => {
                flush(&mut held, &mut out);
                out(format!("    {number:>6}  {text}"));
            }
            Entry::Note { text } => out(format!("            note: {text}")),
            Entry::Check {
                assertion, seen, ..
            } => {
                flush(&mut held, &mut out);
                out(format!("            {assertion}: FAIL: {seen}"));
            }
            Entry::NotApplicable { assertion, reason } => {
                out(format!("            {assertion}: N/A: {reason}"));
            }
            Entry::Inconclusive { assertion, seen } => {
                flush(&mut held, &mut out);
                out(format!("            {assertion}: inconclusive: {seen}"));
            }
        }
    }

    flush(&mut held, &mut out);

    for assertion in &test.assertions {
        let mut line = format!("    {:5}  {}", assertion.result.name(), assertion.id);
        if !assertion.reason.is_empty() {
            line += ": ";
            line += &assertion.reason;
        }
        out(line);
    }

    text
}

/// The last line.
pub fn sums(sums: &Sums) -> String {
    format!(
        "{} passed, {} failed, {} not applicable, {} inconclusive, {} errors",
        sums.passed, sums.failed, sums.not_applicable, sums.inconclusive, sums.errors
    )
}
