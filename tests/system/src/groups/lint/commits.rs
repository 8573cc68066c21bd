//! Group `lint`, continued: commits are said as CONTRIBUTING asks.

use std::process::Command;

use super::gate::{LIMIT, missing};
use crate::build;
use crate::harness::case::{Case, Ending, Stop};
use crate::harness::process;
use crate::lab::Lab;

/// Characters of a subject that `git log --oneline` shows whole on a terminal of 80.
const SUBJECT: usize = 72;

/// Commits of this time and later are looked at. Some of those before are not as they should be. A
/// time and not a commit, whose name changes with all that is before it.
const SINCE: &str = "2026-11-27T05:00:00Z";

pub(crate) fn cases() -> Vec<Case> {
    vec![Case::new("lint/commits", commits)]
}

fn commits(lab: &mut Lab) -> Ending {
    let mut log = Command::new("git");
    log.args(["log", "--no-merges", "--format=%h %B%x00", "--since", SINCE]);
    log.current_dir(build::workspace());
    let shown = process::run(log, &lab.case_dir()?, "git", LIMIT)?;
    if !shown.success() {
        return Err(missing("git knows of no commit here".to_owned()));
    }

    let complaints: Vec<String> = shown
        .out
        .split('\0')
        .filter_map(|shown| shown.trim_start().split_once(' '))
        .filter_map(|(commit, message)| Some(format!("{commit}: {}", complaint(message)?)))
        .collect();

    match complaints.is_empty() {
        true => Ok(()),
        false => Err(Stop::fail(complaints.join("\n"))),
    }
}

/// What is wrong with a message.
fn complaint(message: &str) -> Option<String> {
    let mut lines = message.trim_end().lines();
    let subject = lines.next().unwrap_or_default();
    let length = subject.chars().count();
    if length > SUBJECT {
        return Some(format!(
            "the subject has {length} characters, {SUBJECT} are allowed"
        ));
    }

    if lines.next().is_some_and(|line| !line.is_empty()) {
        return Some("no empty line follows the subject".to_owned());
    }
    if lines.next().is_none() {
        return Some("there is no body that says why".to_owned());
    }

    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_have_a_short_subject_and_a_reason() {
        assert_eq!(complaint("cm: what\n\nBecause.\n"), None);
        assert!(complaint("cm: what\n").is_some());
        assert!(complaint("cm: what\nBecause.\n").is_some());
        assert!(complaint(&format!("{}\n\nBecause.\n", "x".repeat(73))).is_some());
        assert_eq!(
            complaint(&format!("{}\n\nBecause.\n", "ö".repeat(72))),
            None
        );
    }
}
