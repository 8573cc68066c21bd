//! A process that runs the cases whose names it is given, a line each, and answers each with a
//! line.

use std::fs::File;
use std::io::{Write, stderr, stdin, stdout};
use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};

use crate::groups::GROUPS;
use crate::harness::case::{Case, Endings, Stop};
use crate::lab::Lab;

/// The first line that a worker says.
pub(super) const READY: &str = "ready";

/// How a case ended.
#[derive(Deserialize, Serialize)]
pub(crate) struct Ended {
    /// What it answered.
    pub endings: Endings,
    /// How long it ran.
    pub took: Duration,
    /// Where the output of its programs is.
    pub logs: PathBuf,
}

/// Runs cases until there are no more names.
///
/// # Errors
///
/// Whoever gives the names is gone.
pub fn work(programs: PathBuf, logs: PathBuf) -> Result<()> {
    // What cases print must not come between the answers.
    let mut answers = File::from(rustix::io::dup(stdout()).context("standard output")?);
    rustix::stdio::dup2_stdout(stderr()).context("standard output")?;
    writeln!(answers, "{READY}").context("saying so")?;

    let mut lab = Lab::new(programs, logs);
    for name in stdin().lines() {
        let name = name.context("the name of a case")?;
        let from = Instant::now();
        let endings = match find(&name) {
            Some(case) => case.run(&mut lab),
            None => Endings::One(Err(Stop::fail("there is no such case"))),
        };
        let ended = Ended {
            endings,
            took: from.elapsed(),
            logs: lab.case_logs(),
        };
        let answer = serde_json::to_string(&ended)?;
        writeln!(answers, "{answer}").context("answering")?;
    }

    Ok(())
}

fn find(name: &str) -> Option<Case> {
    let group = name.split('/').next()?;
    let group = GROUPS.iter().find(|known| known.name == group)?;
    (group.cases)().into_iter().find(|case| case.name == name)
}
