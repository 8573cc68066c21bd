//! Group `lint`, continued: what makes a file easy to read and rustfmt does not look at. No comment
//! is wider than code may be, and no file longer than one subject needs.

use std::fs;

use anyhow::Context;

use super::gate::tracked;
use crate::build;
use crate::harness::case::{Case, Ending, Stop};
use crate::lab::Lab;

/// The most columns of a comment, its indentation included: as many as rustfmt gives code.
const COLUMNS: usize = 100;
/// The most lines of a file.
const LINES: usize = 400;

pub(crate) fn cases() -> Vec<Case> {
    vec![Case::new("lint/shape", shape)]
}

fn shape(lab: &mut Lab) -> Ending {
    let mut wrong = Vec::new();
    for name in tracked(lab, "*.rs")? {
        let file = build::workspace().join(&name);
        let text = fs::read_to_string(&file).with_context(|| name.clone())?;
        wrong.extend(faults(&text).map(|fault| format!("{name}: {fault}")));
    }

    match wrong.is_empty() {
        true => Ok(()),
        false => Err(Stop::fail(wrong.join("\n"))),
    }
}

/// What is wrong with a source.
fn faults(text: &str) -> impl Iterator<Item = String> {
    let lines = text.lines().count();
    let long = (lines > LINES).then(|| format!("{lines} lines, where {LINES} is the most"));
    long.into_iter().chain(wide(text))
}

/// Comments on lines of their own that are too wide. Examples are code, which is as wide as it is,
/// and a word that is too long is no sentence to be wrapped.
fn wide(text: &str) -> Vec<String> {
    let mut example = false;
    let mut found = Vec::new();
    for (number, line) in text.lines().enumerate() {
        let Some(comment) = line.trim_start().strip_prefix("//") else {
            example = false;
            continue;
        };
        let said = comment.trim_start_matches(['/', '!']).trim();
        let fence = said.starts_with("```");
        let columns = line.chars().count();
        if columns > COLUMNS && !example && !fence && said.contains(' ') {
            let number = number + 1;
            found.push(format!(
                "line {number} is a comment of {columns} columns, where {COLUMNS} is the most"
            ));
        }

        example ^= fence;
    }

    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(text: &str) -> Vec<String> {
        faults(text).collect()
    }

    #[test]
    fn wide_comments_are_told_but_not_wide_code_or_examples() {
        let words = |columns: usize| "a ".repeat(columns / 2);
        assert!(of(&format!("//! {}", words(96))).is_empty());
        let wide = format!("    /// {}b\n", words(94));
        assert_eq!(
            of(&wide),
            ["line 1 is a comment of 103 columns, where 100 is the most"]
        );
        assert!(of(&wide.replace("///", "f();")).is_empty());
        assert!(of(&format!("/// ```\n{wide}/// ```\n")).is_empty());
        assert_eq!(of(&format!("/// ```\n/// ```\n{wide}")).len(), 1);
        assert!(of(&wide.replace("a ", "a-")).is_empty());
    }

    #[test]
    fn long_files_are_told() {
        assert!(of(&"\n".repeat(LINES)).is_empty());
        assert_eq!(
            of(&"\n".repeat(LINES + 1)),
            ["401 lines, where 400 is the most"]
        );
    }
}
