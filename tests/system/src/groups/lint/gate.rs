//! What the gates share: a command that has to succeed, and a tool that is not here.

use std::process::Command;
use std::time::Duration;

use crate::harness::case::{Ending, Stop};
use crate::harness::process;
use crate::lab::Lab;

/// As little as this machine may be: a first build of everything.
pub(super) const LIMIT: Duration = Duration::from_secs(900);

/// What a gate needs is not here. A person may go without; in continuous integration a gate that is
/// not tried is none.
pub(super) fn missing(why: String) -> Stop {
    match std::env::var_os("CI") {
        Some(_) => Stop::fail(format!("{why}; with CI set no gate is skipped")),
        None => Stop::Skip(why),
    }
}

/// Runs a command that has to exit with 0.
pub(super) fn succeeds(lab: &mut Lab, command: Command) -> Ending {
    let finished = process::run(command, &lab.case_dir()?, "command", LIMIT)?;
    if finished.success() {
        Ok(())
    } else {
        Err(Stop::with(finished.ending(), &[&finished]))
    }
}
