//! Runs tests on broken devices: each mutant must make its test fail, by the assertion that it
//! names.

use crate::catalog::{Make, Mutant, Test};
use crate::execute::execute;
use crate::run::{TestResult, Verdict};
use crate::sim::SimBackend;

/// A test on a mutant.
pub fn run(test: &Test, mutant: &Mutant) -> TestResult {
    execute(test, &mut backend(mutant), Box::new(|_| {})).0
}

/// A backend whose next rig has that mutant.
pub fn backend(mutant: &Mutant) -> SimBackend {
    match &mutant.make {
        Make::Transport(make) => SimBackend {
            faults: Some(make()),
            ..SimBackend::default()
        },
        Make::Mad(make) => SimBackend {
            mad_faults: Some(make()),
            ..SimBackend::default()
        },
    }
}

/// Whether the mutant was caught, and not by accident.
///
/// # Errors
/// How the test ended instead.
pub fn caught(mutant: &Mutant, result: &TestResult) -> Result<(), String> {
    let failed = result
        .assertions
        .iter()
        .find(|assertion| assertion.result == Verdict::Fail);
    match (result.result, failed) {
        (Verdict::Fail, Some(failed)) if failed.id == mutant.caught_by => Ok(()),
        (Verdict::Fail, Some(failed)) => Err(format!(
            "caught by {}, must be caught by {}: {}",
            failed.id, mutant.caught_by, failed.reason
        )),
        (verdict, _) => Err(format!("ended with {} {}", verdict.name(), result.reason)),
    }
}
