//! Interoperation with rdma_rxe, the Linux kernel's soft-RoCE, in a throw-away guest.
//!
//! Outside, [`run`] starts the guest, has this very program run the plan inside, and reads what it says.

mod exchange;
mod field;
mod inside;
mod outcome;
mod programs;
mod table;
mod wire;

use std::path::Path;
use std::time::Duration;

use anyhow::Result;

use crate::build;
use crate::case::{Ending, Stop};
use crate::cprogram;
use crate::guest;
use outcome::Outcome;
use programs::Program;

/// How long the guest may take.
const WHOLE: Duration = Duration::from_secs(1800);
const SHORT: Duration = Duration::from_secs(420);

/// What of the plan is wanted.
#[derive(Clone, Debug, clap::Args)]
pub struct Scope {
    /// One program of each kind only
    #[arg(long)]
    pub short: bool,
    /// Only runs whose name, setting and all, has this part, or one of these
    #[arg(
        long,
        value_name = "PART,PART",
        value_delimiter = ',',
        allow_hyphen_values = true
    )]
    pub only: Vec<String>,
}

impl Scope {
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
    for (program, _) in programs::plan(scope.short) {
        if let Program::C(name, _) = program {
            cprogram::compile(name)?;
        }
    }
    let this = std::env::current_exe().map_err(anyhow::Error::from)?;
    let (this, dir) = (this.to_string_lossy(), share.to_string_lossy());
    let mut command = vec![&*this, "interop", "--inside", &*dir];
    if scope.short {
        command.push("--short");
    }
    // In one word, as a part may begin like an option.
    let parts: Vec<String> = scope
        .only
        .iter()
        .map(|part| format!("--only={part}"))
        .collect();
    command.extend(parts.iter().map(String::as_str));
    let limit = if scope.short { SHORT } else { WHOLE };
    let finished = guest::run(&command, share, "runner", limit)?;
    let text = std::fs::read_to_string(share.join(inside::OUTCOMES)).unwrap_or_default();
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
            &[&finished],
        ));
        runs.push(Run {
            name: "to the end".to_owned(),
            ending,
            elapsed: finished.elapsed,
        });
    }
    Ok((runs, table))
}

/// The command: inside the guest the runner, outside everything with the table at the end, which may go to a file.
pub fn command(scope: &Scope, inside: Option<&Path>, table: Option<&Path>) -> Result<bool> {
    if let Some(share) = inside {
        inside::run(share, scope)?;
        return Ok(true);
    }
    build::product()?;
    let (runs, text) = run(scope, &build::scratch("interop")?).map_err(Stop::into_error)?;
    let mut report = crate::report::Report::default();
    for run in runs {
        report.record(&run.name, run.ending, run.elapsed);
    }
    println!("{text}");
    if let Some(file) = table {
        std::fs::write(file, &text)?;
    }
    Ok(report.conclude())
}
