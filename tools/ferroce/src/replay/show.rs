//! Steps in words: a line for each, and one below it for what changed and what differs.

use std::io::{self, Write};

use ferroce_replay::{Kind, Step, Summary, Verdict};

/// What was printed so far.
#[derive(Default)]
pub(super) struct Text {
    /// Whose steps these are, and when they began.
    of: Option<(u32, u64)>,
}

impl Text {
    /// Prints a step. Times are counted from the first one of the queue pair.
    pub(super) fn step(&mut self, out: &mut impl Write, step: &Step) -> io::Result<()> {
        let begin = match self.of {
            Some((qp, begin)) if qp == step.qp => begin,
            _ => {
                self.of = Some((step.qp, step.time));
                writeln!(
                    out,
                    "QP {:#x}, from {} s since 1970",
                    step.qp,
                    seconds(step.time)
                )?;
                step.time
            }
        };

        let kind = match step.kind {
            Kind::Set => "set",
            Kind::Posted => "posted",
            Kind::Came => "in",
            Kind::Sent => "out",
            Kind::Completed => "done",
            Kind::State => "state",
            Kind::Timer => "timer",
            Kind::Fault => "fault",
        };
        let verdict = match step.verdict {
            Verdict::Given => "",
            Verdict::Agrees => "  [agrees]",
            Verdict::Differs => "  [DIFFERS]",
            Verdict::Unknown => "  [unknown]",
        };
        let after = seconds(step.time.saturating_sub(begin));
        writeln!(
            out,
            "{:>7} +{after} {kind:<6} {}{verdict}",
            step.number, step.text
        )?;

        if !step.changes.is_empty() {
            let changes = step.changes.iter();
            let words =
                changes.map(|change| format!("{} {} > {}", change.name, change.from, change.to));
            writeln!(out, "{:27}{}", "", words.collect::<Vec<_>>().join(", "))?;
        }
        match &step.note {
            Some(note) => writeln!(out, "{:27}{note}", ""),
            None => Ok(()),
        }
    }
}

/// Prints what it came to.
pub(super) fn sum(out: &mut impl Write, summary: &Summary) -> io::Result<()> {
    let Summary {
        qp,
        peer,
        service,
        steps,
        agreed,
        differed,
        unknown,
        state,
        ..
    } = summary;
    write!(
        out,
        "QP {qp:#x}, {service}, peer {peer:#x}: {steps} steps, {agreed} agree, {differed} differ"
    )?;
    if *unknown > 0 {
        write!(out, ", of {unknown} it is not known")?;
    }
    writeln!(out, "; it ends in {state}")?;
    match summary.assumed.is_empty() {
        true => Ok(()),
        false => writeln!(
            out,
            "    not in the capture: {}",
            summary.assumed.join("; ")
        ),
    }
}

fn seconds(nanos: u64) -> String {
    format!("{}.{:09}", nanos / 1_000_000_000, nanos % 1_000_000_000)
}
