//! Group `lint`, continued: commits are said as CONTRIBUTING asks.

use std::process::Command;

use super::gate::{LIMIT, missing};
use crate::build;
use crate::harness::case::{Case, Ending, Stop};
use crate::harness::process::{self, Finished};
use crate::lab::Lab;

/// Characters of a subject that `git log --oneline` shows whole on a terminal of 80.
const SUBJECT: usize = 72;

/// From here on every commit is looked at. Some of those before are not as they should be.
const SINCE: &str = "2d6ad87a";

pub(crate) fn cases() -> Vec<Case> {
    vec![Case::new("lint/commits", commits)]
}

fn commits(lab: &mut Lab) -> Ending {
    let git = |lab: &mut Lab, words: &[&str]| -> Result<Finished, Stop> {
        let mut command = Command::new("git");
        command.args(words).current_dir(build::workspace());
        Ok(process::run(command, &lab.case_dir()?, "git", LIMIT)?)
    };
    let known = git(lab, &["merge-base", "--is-ancestor", SINCE, "HEAD"])?.success();

    // A shallow clone has the newest commit at least.
    let range = match known {
        true => format!("{SINCE}..HEAD"),
        false => "-1".to_owned(),
    };
    let shown = git(lab, &["log", "--no-merges", "--format=%h %B%x00", &range])?;
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
