//! The list of what the suite covers, as it stands in docs/conformance/suite.md between two markers: generated, never edited.

use super::generated;
use crate::catalog::Test;
use crate::execute::execute;
use crate::generic;
use crate::sim::SimBackend;
use anyhow::Result;
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

/// The generic mutants, how many tests each was caught by, and those that it was not caught by.
fn matrix(tests: &[Test]) -> String {
    let mut out = format!(
        "\n{} generic mutants, each tried on each test of the transport.\n\n| mutant | touches | caught by | passed by |\n|---|---|---|---|\n",
        generic::ALL.len()
    );
    let mut survivors = String::new();
    for mutant in generic::ALL {
        let (caught, survived) = mutant.matrix(tests);
        let _ = writeln!(
            out,
            "| {} | {} | {} | {} |",
            mutant.name,
            caught.len() + survived.len(),
            caught.len(),
            survived.len(),
        );
        if let Some(reason) = mutant.survives {
            let _ = writeln!(
                survivors,
                "| {} | {reason} | {} |",
                mutant.name,
                survived.join(", ")
            );
        }
    }
    out + "\nWhere a test passes, and why. What is *no fault* the specification leaves to a device; elsewhere another test catches the mutant.\n\n| mutant | why | tests |\n|---|---|---|\n"
        + &survivors
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
