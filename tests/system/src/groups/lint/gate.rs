//! What the gates share: a command that has to succeed, and a tool that is not here.

use std::process::Command;
use std::time::Duration;

use crate::build;
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

/// The files of the repository that are named so (`*.rs`), as git lists them.
pub(super) fn tracked(lab: &mut Lab, pattern: &str) -> Result<Vec<String>, Stop> {
    let mut list = Command::new("git");
    list.args(["ls-files", pattern])
        .current_dir(build::workspace());

    let listed = process::run(list, &lab.case_dir()?, "git", LIMIT)?;
    match listed.out.is_empty() {
        true => Err(Stop::with(format!("git lists no {pattern}"), &[&listed])),
        false => Ok(listed.out.lines().map(str::to_owned).collect()),
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
