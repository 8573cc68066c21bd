//! Interoperation with rdma_rxe, the Linux kernel's soft-RoCE, in a throw-away guest.
//!
//! Outside, [`run`] starts the guest, has this very program run the plan inside, and reads what it
//! says.

mod bad_network;
mod connected;
mod cprograms;
pub(crate) mod differs;
mod exchange;
mod exs;
mod failing;
mod field;
mod inside;
mod outcome;
mod pairs;
mod patience;
mod plan;
mod programs;
mod setting;
mod table;
mod wire;

use std::path::Path;
use std::time::Duration;

use anyhow::Result;

use crate::build;
use crate::groups::exs_programs_dir;
use crate::harness::case::{Ending, Stop};
use crate::harness::process::Finished;
use crate::lab::guest;
use crate::lab::load::Watch;
use crate::packages;
use crate::programs::cprogram;
use outcome::Outcome;
use programs::Program;
use setting::Setting;

/// How long the whole plan may take on a machine that has nothing else to do.
const PROMISED: Duration = Duration::from_secs(900);
/// What others may use of the processors for the machine to count as such.
const NOTHING_ELSE: f64 = 0.05;

/// What of the plan is wanted.
#[derive(Clone, Debug, clap::Args)]
pub struct Scope {
    /// One program of each kind only
    #[arg(long)]
    pub short: bool,
    /// All conformance programs of the Extended Sockets library instead: between the two, and over
    /// rdma_rxe alone
    #[arg(long, conflicts_with = "short")]
    pub exs: bool,
    /// Only runs whose name, setting and all, has this part, or one of these: once for each part,
    /// as settings have commas
    #[arg(long, value_name = "PART", allow_hyphen_values = true)]
    pub only: Vec<String>,
}

/// What there is to run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Plan {
    /// Every program and every packet.
    Whole,
    /// One program of each kind.
    Short,
    /// The Extended Sockets library's conformance programs.
    Exs,
}

impl Plan {
    /// What asks for it on the command line.
    fn option(self) -> Option<&'static str> {
        match self {
            Plan::Whole => None,
            Plan::Short => Some("--short"),
            Plan::Exs => Some("--exs"),
        }
    }

    /// When the guest is ended, whatever else the machine has to do.
    fn limit(self) -> Duration {
        Duration::from_secs(match self {
            Plan::Whole => 1_800,
            Plan::Short => 420,
            Plan::Exs => 4 * 3_600,
        })
    }

    /// The runs of programs.
    fn steps(self) -> Vec<(Program, Setting)> {
        match self {
            Plan::Whole => plan::plan(false),
            Plan::Short => plan::plan(true),
            Plan::Exs => exs::plan(),
        }
    }
}

impl Scope {
    /// Which of the plans it is of.
    fn plan(&self) -> Plan {
        match (self.short, self.exs) {
            (_, true) => Plan::Exs,
            (true, false) => Plan::Short,
            (false, false) => Plan::Whole,
        }
    }

    /// Whether a program of this name is wanted.
    fn wants(&self, name: &str) -> bool {
        self.only.is_empty() || self.only.iter().any(|part| name.contains(part))
    }
}

/// A part of the result: the run's name, how it ended and how long it took.
pub struct Run {
    /// Program and setting.
    pub name: String,
    /// How it ended.
    pub ending: Ending,
    /// How long it took.
    pub elapsed: Duration,
}

/// Runs the plan in a guest, and answers every run and the table. `share` gets what is kept of it.
pub fn run(scope: &Scope, share: &Path) -> Result<(Vec<Run>, String), Stop> {
    let plan = scope.plan();
    for (program, _) in plan.steps() {
        match program {
            Program::C(name, _) => drop(cprogram::compile(name)?),
            Program::Exs(..) => drop(exs_programs_dir()?),
            _ => {}
        }
    }

    let this = std::env::current_exe().map_err(anyhow::Error::from)?;
    let (this, dir) = (this.to_string_lossy(), share.to_string_lossy());
    let mut command = vec![&*this, "interop", "--inside", &*dir];
    command.extend(plan.option());

    // In one word, as a part may begin like an option.
    let parts: Vec<String> = scope
        .only
        .iter()
        .map(|part| format!("--only={part}"))
        .collect();
    command.extend(parts.iter().map(String::as_str));
    let watch = Watch::begin()?;
    let finished = guest::run(&command, share, "runner", plan.limit())?;
    let others = watch.others()?;
    let text = std::fs::read_to_string(share.join(inside::OUTCOMES)).unwrap_or_default();
    let (mut runs, table) = result(&text, &finished);
    if plan == Plan::Whole && scope.only.is_empty() && finished.success() {
        runs.push(Run {
            name: format!("all within {} minutes", PROMISED.as_secs() / 60),
            ending: in_time(finished.elapsed, others),
            elapsed: finished.elapsed,
        });
    }

    Ok((runs, table))
}

/// What the runner told, and that it ended before its time if it did: every run and the table.
fn result(text: &str, finished: &Finished) -> (Vec<Run>, String) {
    let outcomes: Vec<Outcome> = text.lines().filter_map(Outcome::read).collect();
    let table = table::markdown(&outcomes);
    let mut runs: Vec<Run> = outcomes
        .into_iter()
        .map(|outcome| Run {
            name: format!("{} ({})", outcome.program, outcome.setting.name()),
            ending: outcome.ending,
            elapsed: Duration::from_secs_f64(outcome.seconds),
        })
        .collect();

    if !finished.success() || runs.is_empty() {
        let ending = Err(Stop::with(
            format!("the runner: {}", finished.ending()),
            &[finished],
        ));
        runs.push(Run {
            name: "to the end".to_owned(),
            ending,
            elapsed: finished.elapsed,
        });
    }

    (runs, table)
}

/// Whether the whole plan keeps its time, where `others` is what other programs used of the
/// processors (0 to 1): who shares the machine cannot tell.
fn in_time(elapsed: Duration, others: f64) -> Ending {
    let slow = format!(
        "{:.0} s, not {}, while other programs used {:.0} % of this machine's processors",
        elapsed.as_secs_f64(),
        PROMISED.as_secs(),
        others * 100.0
    );
    match (elapsed > PROMISED, others > NOTHING_ELSE) {
        (false, _) => Ok(()),
        (true, false) => Err(Stop::fail(slow)),
        (true, true) => Err(Stop::Skip(slow)),
    }
}

/// The command: inside the guest the runner, outside everything with the table at the end, which
/// may go to a file.
pub fn command(scope: &Scope, inside: Option<&Path>, table: Option<&Path>) -> Result<bool> {
    if let Some(share) = inside {
        inside::run(share, scope)?;
        return Ok(true);
    }

    packages::ensure(packages::INTEROP)?;
    build::product()?;
    let (runs, text) = run(scope, &build::scratch("interop")?).map_err(Stop::into_error)?;
    let mut report = crate::harness::report::Report::default();
    for run in runs {
        report.record(&run.name, run.ending, run.elapsed);
    }
    println!("{text}");
    if let Some(file) = table {
        std::fs::write(file, &text)?;
    }

    Ok(report.conclude())
}

#[cfg(test)]
mod tests {
    use std::os::unix::process::ExitStatusExt;
    use std::process::ExitStatus;

    use super::*;

    #[test]
    fn what_was_told_before_a_crash_is_shown_with_it() {
        let line = r#"{"program":"rping","server":"rxe","family":"IPv4","mtu":1500,"bad":false,"verdict":"ok","why":"","seconds":1.0}"#;
        let finished = Finished {
            line: "guest".to_owned(),
            status: Some(ExitStatus::from_raw(126 << 8)),
            out: String::new(),
            err: "Kernel panic".to_owned(),
            elapsed: Duration::ZERO,
        };

        // A line that was cut off is none.
        let (runs, table) = result(&format!("{line}\n{}", &line[..40]), &finished);
        assert!(table.contains("| rping |  |  |  |  | ok |"), "{table}");
        let [rping, end] = &runs[..] else {
            panic!("{} runs", runs.len());
        };

        assert!(rping.name.starts_with("rping") && rping.ending.is_ok());
        let Err(Stop::Fail(failure)) = &end.ending else {
            panic!("a crash is no failure");
        };

        assert_eq!(failure.commands[0].err, "Kernel panic");
    }

    #[test]
    fn the_promise_is_for_a_machine_without_other_work() {
        let late = PROMISED + Duration::from_secs(1);
        assert!(in_time(PROMISED, 0.0).is_ok());
        assert!(in_time(PROMISED, 0.9).is_ok());
        assert!(matches!(in_time(late, 0.01), Err(Stop::Fail(_))));
        assert!(matches!(in_time(late, 0.5), Err(Stop::Skip(_))));
    }
}
