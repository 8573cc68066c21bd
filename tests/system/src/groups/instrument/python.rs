//! The Python package, by its own tests: devices, faults, captures, and pytest's plugin in runs of
//! pytest's own, with stock programs.

use std::process::Command;
use std::time::Duration;

use crate::build;
use crate::harness::case::{Case, Ending, Parts, Stop};
use crate::harness::process::{self, Finished};
use crate::lab::Lab;
use crate::packages::PYTHON;

const LIMIT: Duration = Duration::from_secs(300);

pub(super) fn cases() -> Vec<Case> {
    vec![Case::many("instrument/python", tests)]
}

fn tests(lab: &mut Lab) -> Parts {
    lab.vacate();
    let dir = lab.case_dir()?;
    let sources = build::workspace().join("tools/python");
    let mut pytest = Command::new(PYTHON);
    pytest
        .args(["-m", "pytest", "-v", "-p", "no:cacheprovider"])
        .args(["-o", "console_output_style=classic"])
        .arg(format!("--basetemp={}", dir.join("pytest").display()))
        .arg("tests")
        .current_dir(&sources)
        .env("PYTHONPATH", &sources)
        .env("PYTHONDONTWRITEBYTECODE", "1")
        .env("FERROCE_COMMAND", lab.programs().join("ferroce"));
    let finished = process::run(pytest, &dir, "pytest", LIMIT)?;

    let endings = endings(&finished);
    let failed = endings.iter().any(|(_, ending)| ending.is_err());
    match endings.is_empty() || failed == finished.success() {
        true => Err(Stop::with(finished.ending(), &[&finished])),
        false => Ok(endings),
    }
}

/// A line of pytest's for each test: its file and name, and the verdict.
fn endings(finished: &Finished) -> Vec<(String, Ending)> {
    let tests = finished.out.lines().filter_map(|line| {
        let (name, verdict) = line.strip_prefix("tests/")?.rsplit_once(' ')?;
        let (file, name) = name.split_once(".py::")?;
        let ending = match verdict {
            "PASSED" => Ok(()),
            // Nothing is skipped there.
            "FAILED" | "ERROR" | "SKIPPED" => Err(Stop::with(verdict, &[finished])),
            _ => return None,
        };
        Some((format!("{file}/{name}"), ending))
    });
    tests.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn verdicts_are_read_and_what_tests_print_is_not() {
        let finished = Finished {
            line: String::new(),
            status: None,
            out: "collected 3 items\n\ntests/test_a.py::test_x[a-b c] PASSED\n\
                  tests/test_a.py::test_y FAILED\ntests/test_a.py:7: AssertionError\n\
                  FAILED tests/test_a.py::test_y - assert\n"
                .to_owned(),
            err: String::new(),
            elapsed: Duration::ZERO,
        };
        let endings = endings(&finished);
        assert_eq!(endings.len(), 2);
        assert!(endings[0].0 == "test_a/test_x[a-b c]" && endings[0].1.is_ok());
        assert!(endings[1].0 == "test_a/test_y" && endings[1].1.is_err());
    }
}
