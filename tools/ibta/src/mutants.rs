//! Broken devices: the command that runs all of them, and the option that runs a test on one.

use crate::select::{catalogue, select};
use anyhow::{Result, bail};
use ferroce_ibta::catalog::Test;
use ferroce_ibta::generic::{self, survivors::Survivors};
use ferroce_ibta::mutate;
use ferroce_ibta::sim::SimBackend;
use ferroce_ibta::suite;
use std::path::Path;
use std::process::ExitCode;

/// Runs tests on their mutants, and says which were caught; those of the suite on the generic
/// mutants, too.
pub(crate) fn run(ids: &[String], family: Option<&str>, as_written: bool) -> Result<ExitCode> {
    let all = ids.is_empty() && family.is_none();
    let tests = select(catalogue(as_written), ids, family, all)?;
    let (mut caught, mut missed) = (0, 0);
    for test in &tests {
        for mutant in &test.mutants {
            let verdict = mutate::caught(mutant, &mutate::run(test, mutant));
            let word = match &verdict {
                Ok(()) => "caught",
                Err(_) => "MISSED",
            };

            crate::say(format_args!(
                "{word}  {}  {}: {}",
                test.id, mutant.name, mutant.what
            ));

            match verdict {
                Ok(()) => caught += 1,
                Err(why) => {
                    crate::say(format_args!("        {why}"));
                    missed += 1;
                }
            }
        }
    }

    let known = Survivors::known();
    let rows = match as_written {
        true => Vec::new(),
        false => generic::matrix(&tests),
    };

    for row in rows {
        let (name, touched) = (&row.name, row.touched());
        crate::say(format_args!(
            "generic  {name}: caught by {} of {touched}",
            row.caught.len()
        ));
        caught += row.caught.len();
        let survived = row.survived.iter();
        for test in survived.filter(|test| known.reason(name, test).is_none()) {
            missed += 1;
            crate::say(format_args!("        MISSED by {test}"));
        }
    }

    crate::say(format_args!("{caught} caught, {missed} missed"));
    Ok(ExitCode::from(u8::from(missed > 0)))
}

/// Writes the table of the tests that pass on generic mutants.
pub(crate) fn write(path: &Path) -> Result<ExitCode> {
    let rows = generic::matrix(&suite::all());
    Survivors::renew(path, &rows)?;
    Ok(ExitCode::SUCCESS)
}

/// A device that is a mutant of the only test.
pub(crate) fn broken(tests: &[Test], name: &str) -> Result<SimBackend> {
    let [test] = tests else {
        bail!("a mutant is of one test: name that test only");
    };
    match test.mutants.iter().find(|mutant| mutant.name == name) {
        Some(mutant) => Ok(mutate::backend(mutant)),
        None => {
            let names: Vec<_> = test.mutants.iter().map(|mutant| mutant.name).collect();
            bail!(
                "{} has no mutant {name}; it has {}",
                test.id,
                names.join(", ")
            )
        }
    }
}
