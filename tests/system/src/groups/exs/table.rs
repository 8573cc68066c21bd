//! The programs of the conformance framework and how many tests each has: `programs.toml`, of which
//! the table of `docs/conformance/exs.md` is made.

use std::sync::OnceLock;

use anyhow::{Context, Result};
use serde::Deserialize;

use super::Mode;
use crate::pages::row;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    program: Vec<Program>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Program {
    pub(super) name: String,
    /// Of the thesis; empty where it has none.
    section: String,
    modes: String,
    /// Numbers of tests in the thesis, and of those that it only lists.
    numbered: String,
    unimplemented: String,
    /// How many it has.
    pub(super) tests: usize,
}

impl Program {
    /// Whether it has tests in a mode.
    fn is_performed(&self, mode: Mode) -> bool {
        self.modes == "both" || self.modes == mode.name()
    }

    /// What its file is called.
    pub(super) fn file(&self) -> String {
        format!("test_{}", self.name)
    }
}

pub(super) fn read() -> Result<Vec<Program>> {
    let file: File = toml::from_str(include_str!("programs.toml")).context("programs.toml")?;
    Ok(file.program)
}

/// The names of all programs that have tests in a mode: what others stand on comes first.
pub(crate) fn performed(mode: Mode) -> Vec<&'static str> {
    static ROWS: OnceLock<Vec<Program>> = OnceLock::new();
    let rows = ROWS.get_or_init(|| read().unwrap_or_default());
    let performed = rows.iter().filter(|row| row.is_performed(mode));
    performed.map(|row| row.name.as_str()).collect()
}

/// As a document has it.
pub(crate) fn markdown() -> Result<String> {
    let programs = read()?;
    let tests: usize = programs.iter().map(|program| program.tests).sum();
    let mut table = format!("{tests} tests:\n\n");
    table += &row(&[
        "program `test_…`",
        "section",
        "modes",
        "numbered in the thesis",
        "unimplemented in the thesis",
        "tests",
    ]);

    table += "|---|---|---|---|---|---|\n";

    for program in &programs {
        table += &row(&[
            &format!("`{}`", program.name),
            &program.section,
            &program.modes,
            &program.numbered,
            &program.unimplemented,
            &program.tests.to_string(),
        ]);
    }

    Ok(table)
}
