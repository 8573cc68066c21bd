//! The list of what the suite covers, as it stands in docs/conformance/suite.md between two markers: generated, never edited.

use super::generated;
use crate::catalog::Test;
use crate::execute::execute;
use crate::generic::{self, survivors::Survivors};
use crate::sim::SimBackend;
use anyhow::Result;
use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::Path;

const COMMAND: &str = "conformance";

/// The list: every test with its statements and its result on the simulated device.
pub fn list(tests: &[Test]) -> String {
    let mut out = format!(
        "{} tests, {} mutants.\n\n| test | statements | what | assertions | mutants | result |\n|---|---|---|---|---|---|\n",
        tests.len(),
        tests.iter().map(|test| test.mutants.len()).sum::<usize>()
    );
    for test in tests {
        let (result, _) = execute(test, &mut SimBackend::default(), Box::new(|_| {}));
        let code = |names: &[String]| -> String {
            let quoted: Vec<_> = names.iter().map(|name| format!("`{name}`")).collect();
            quoted.join(", ")
        };
        let mutants: Vec<_> = test.mutants.iter().map(|m| m.name.to_owned()).collect();
        let _ = writeln!(
            out,
            "| {} | {} | {} | {} | {} | {} |",
            test.id,
            test.statements.join(", "),
            test.title.replace('|', "\\|"),
            code(&test.assertions),
            mutants.join(", "),
            result.result.name(),
        );
    }
    out + &matrix(tests)
}

/// The generic mutants, how many tests each was caught by, and those that it was not caught by, with the reasons.
fn matrix(tests: &[Test]) -> String {
    let (rows, known) = (generic::matrix(tests), Survivors::known());
    let mut out = format!(
        "\n{} generic mutants, each tried on each test.\n\n| mutant | touches | caught by | passed by |\n|---|---|---|---|\n",
        rows.len()
    );
    let mut survivors: BTreeMap<&str, String> = BTreeMap::new();
    for row in &rows {
        let (touched, caught) = (row.touched(), row.caught.len());
        let passed = row.survived.len();
        let _ = writeln!(out, "| {} | {touched} | {caught} | {passed} |", row.name);
        for (reason, tests) in known.mutants.get(&row.name).into_iter().flatten() {
            let tests: Vec<_> = tests.iter().map(String::as_str).collect();
            let line = format!("| {} | {reason} | {} |\n", row.name, tests.join(", "));
            *survivors.entry(&row.name).or_default() += &line;
        }
    }
    out += "\nWhere a test passes, and why; a test compares it pair by pair. *No fault*: the specification leaves it to a device.\n\n| reason | |\n|---|---|\n";
    for (name, reason) in &known.reasons {
        let _ = writeln!(out, "| {name} | {reason} |");
    }
    out += "\n| mutant | reason | tests |\n|---|---|---|\n";
    rows.iter()
        .filter_map(|row| survivors.get(row.name.as_str()))
        .fold(out, |out, lines| out + lines)
}

/// Puts the list into a file, between the markers.
///
/// # Errors
/// The file cannot be read or written, or has no markers.
pub fn write(path: &Path, tests: &[Test]) -> Result<()> {
    generated::write(path, COMMAND, &list(tests))
}

/// Compares the list in a file with what it must be.
///
/// # Errors
/// It is another, or the file cannot be read or has no markers.
pub fn check(path: &Path, tests: &[Test]) -> Result<()> {
    generated::check(path, COMMAND, &list(tests))
}
