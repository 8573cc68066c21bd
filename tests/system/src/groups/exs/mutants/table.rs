//! Which test notices which broken promise: `mutants.toml`, which `cargo xtask exs-mutants` writes
//! and of which the table of `docs/conformance/exs-mutants.md` is made.

use anyhow::{Context, Result};
use serde::Deserialize;

use crate::groups::exs::Mode;
use crate::pages::row;

/// Where it is, from the root of the workspace on.
pub(super) const FILE: &str = "tests/system/src/groups/exs/mutants/mutants.toml";

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    #[serde(default)]
    mutant: Vec<Mutant>,
}

/// A promise that a preloaded library breaks, and the tests that fail then, by program and number;
/// the first of each mode is that which a short run tries.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Mutant {
    pub(super) name: String,
    pub(super) promise: String,
    pub(super) blocking: Vec<String>,
    #[serde(rename = "non-blocking")]
    pub(super) non_blocking: Vec<String>,
}

impl Mutant {
    pub(super) fn caught(&self, mode: Mode) -> &[String] {
        match mode {
            Mode::Blocking => &self.blocking,
            Mode::NonBlocking => &self.non_blocking,
        }
    }
}

pub(super) fn read() -> Result<Vec<Mutant>> {
    let file: File = toml::from_str(include_str!("mutants.toml")).context("mutants.toml")?;
    Ok(file.mutant)
}

/// As the file has it.
pub(super) fn write(mutants: &[Mutant]) -> String {
    let list = |tests: &[String]| {
        let quoted: Vec<String> = tests.iter().map(|test| format!("{test:?}")).collect();
        format!("[{}]", quoted.join(", "))
    };

    let mut text = "# Which tests fail with which promise of the Extended Sockets library broken (tests/exs/mutants), by mode.\n\
                    # Written by `cargo xtask exs-mutants`, not by hand.\n"
        .to_owned();
    for mutant in mutants {
        text += &format!(
            "\n[[mutant]]\nname = {:?}\npromise = {:?}\nblocking = {}\nnon-blocking = {}\n",
            mutant.name,
            mutant.promise,
            list(&mutant.blocking),
            list(&mutant.non_blocking)
        );
    }

    text
}

/// As a document has it.
pub(crate) fn markdown() -> Result<String> {
    let mutants = read()?;
    let caught = |mode| {
        mutants
            .iter()
            .filter(|mutant| !mutant.caught(mode).is_empty())
            .count()
    };

    let mut table = format!(
        "{} mutants; {} are caught in blocking mode, {} in non-blocking mode:\n\n",
        mutants.len(),
        caught(Mode::Blocking),
        caught(Mode::NonBlocking)
    );

    table += &row(&[
        "mutant",
        "the promise that it breaks",
        "caught in blocking mode by",
        "in non-blocking mode by",
    ]);

    table += "|---|---|---|---|\n";

    for mutant in &mutants {
        table += &row(&[
            &format!("`{}`", mutant.name),
            &mutant.promise,
            &by_program(&mutant.blocking),
            &by_program(&mutant.non_blocking),
        ]);
    }

    Ok(table)
}

/// `exs_send 1, 2; exs_mixed 3`.
fn by_program(tests: &[String]) -> String {
    let mut programs: Vec<(&str, Vec<u32>)> = Vec::new();
    for test in tests {
        let (program, number) = test.split_once(' ').unwrap_or((test, ""));
        let number = number.parse().unwrap_or_default();
        match programs.iter_mut().find(|(name, _)| *name == program) {
            Some((_, numbers)) => numbers.push(number),
            None => programs.push((program, vec![number])),
        }
    }

    let texts = programs.into_iter().map(|(program, mut numbers)| {
        numbers.sort_unstable();
        let numbers: Vec<String> = numbers.iter().map(u32::to_string).collect();
        format!("`{program}` {}", numbers.join(", "))
    });
    texts.collect::<Vec<_>>().join("; ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read() {
        let text = write(&[Mutant {
            name: "send.byte".to_owned(),
            promise: "bytes \"arrive\"".to_owned(),
            blocking: vec!["exs_send 16".to_owned(), "exs_mixed 1".to_owned()],
            non_blocking: Vec::new(),
        }]);
        let file: File = toml::from_str(&text).unwrap();
        assert_eq!(file.mutant[0].promise, "bytes \"arrive\"");
        assert_eq!(file.mutant[0].caught(Mode::Blocking).len(), 2);
        assert!(file.mutant[0].caught(Mode::NonBlocking).is_empty());
    }

    #[test]
    fn tests_are_told_program_by_program() {
        let tests = ["a 10", "b 1", "a 9"].map(str::to_owned);
        assert_eq!(by_program(&tests), "`a` 9, 10; `b` 1");
    }
}
