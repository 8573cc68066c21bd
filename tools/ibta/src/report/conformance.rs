//! The list of what the suite covers, as it stands in docs/conformance/suite.md between two
//! markers: generated, never edited.

use super::generated;
use crate::catalog::Test;
use crate::execute::execute;
use crate::generic::survivors::Survivors;
use crate::sim::SimBackend;
use anyhow::Result;
use std::collections::BTreeSet;
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

    out + &matrix(&Survivors::known())
}

/// The generic mutants, how many tests each is caught by, and those that pass on it, with the
/// reasons: as the table has it, which is compared with what is found.
fn matrix(known: &Survivors) -> String {
    let mut out = format!(
        "\n{} generic mutants, each tried on each test.\n\n| mutant | touches | caught by | passed by |\n|---|---|---|---|\n",
        known.mutants.len()
    );

    let mut survivors = String::new();
    for (name, entry) in &known.mutants {
        let (touches, passed) = (entry.touches, entry.passed());
        let caught = touches - passed;
        let _ = writeln!(out, "| {name} | {touches} | {caught} | {passed} |");
        let named = |tests: &BTreeSet<String>| {
            let tests: Vec<_> = tests.iter().map(String::as_str).collect();
            tests.join(", ")
        };

        if let Some(reason) = &entry.others {
            let caught = match entry.caught_by.is_empty() {
                true => "all".to_owned(),
                false => format!("all but {}", named(&entry.caught_by)),
            };
            let _ = writeln!(survivors, "| {name} | {reason} | {caught} |");
        }

        for (reason, tests) in &entry.passes {
            let _ = writeln!(survivors, "| {name} | {reason} | {} |", named(tests));
        }
    }

    out += "\nWhere a test passes, and why; a test compares it pair by pair. *No fault*: the specification leaves it to a device.\n\n| reason | |\n|---|---|\n";
    for (name, reason) in &known.reasons {
        let _ = writeln!(out, "| {name} | {reason} |");
    }
    out + "\n| mutant | reason | tests |\n|---|---|---|\n" + &survivors
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
