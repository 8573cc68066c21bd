//! The wheel's Python package in an environment: a user's tests run by pytest, which finds fixtures
//! and marker by itself.

use std::fs;
use std::path::Path;

use crate::harness::case::{Ending, expect};
use crate::lab::Lab;
use crate::packages::{self, PYTHON};

use super::here::{PIP, Place};
use super::named;

/// What the user has written.
const TESTS: &str = include_str!("test_wheel.py");

/// With the distribution's pytest.
pub(super) fn at_hand(lab: &mut Lab, packages: &Path) -> Ending {
    packages::ensure(packages::PYTEST)?;
    tests(lab, packages, &["--system-site-packages"], &[])
}

/// With whichever pytest is the newest in PyPI.
pub(super) fn newest(lab: &mut Lab, packages: &Path) -> Ending {
    tests(lab, packages, &[], &["pytest"])
}

/// In an environment that is made so, into which this is installed, too.
fn tests(lab: &mut Lab, packages: &Path, options: &[&str], others: &[&str]) -> Ending {
    packages::ensure(packages::PYTHON_VENV)?;
    let place = Place::new(lab)?;
    let venv = place.path("venv").to_string_lossy().into_owned();
    let make = [&["-m", "venv"], options, &[&venv]].concat();
    place.python(lab, PYTHON.as_ref(), &make)?;

    let python = Path::new(&venv).join("bin/python");
    let wheel = named(packages, "ferroce-", ".whl")?.remove(0);
    let wheel = wheel.to_string_lossy();
    let install = [PIP, &["install", "--quiet", &wheel], others].concat();
    place.python(lab, &python, &install)?;

    let file = place.path("test_wheel.py");
    fs::write(&file, TESTS).map_err(anyhow::Error::from)?;
    let file = file.to_string_lossy();
    let run = ["-m", "pytest", "-p", "no:cacheprovider", &file];
    let said = place.said(lab, &python, &run)?;
    expect(said.contains("2 passed"), || {
        format!("not two tests passed: {said}")
    })
}
