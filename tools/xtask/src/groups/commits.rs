//! Group `lint`, continued: the newest commit is said as CONTRIBUTING asks.

use std::process::Command;

use super::lint::LIMIT;
use crate::build;
use crate::case::{Case, Ending, Stop};
use crate::lab::Lab;
use crate::process;

/// Characters of a subject that `git log --oneline` shows whole on a terminal of 80.
const SUBJECT: usize = 72;

pub(super) fn cases() -> Vec<Case> {
    vec![Case::new("lint/newest commit", newest)]
}

fn newest(lab: &mut Lab) -> Ending {
    let mut show = Command::new("git");
    show.args(["log", "-1", "--no-merges", "--format=%B"]);
    show.current_dir(build::workspace());
    let shown = process::run(show, &lab.case_dir()?, "git", LIMIT)?;
    if !shown.success() {
        return Err(Stop::Skip("git knows of no commit here".to_owned()));
    }
    match complaint(&shown.out) {
        Some(complaint) => Err(Stop::with(complaint, &[&shown])),
        None => Ok(()),
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
