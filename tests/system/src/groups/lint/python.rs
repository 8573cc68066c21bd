//! Group `lint`, continued: the Python package's types fit, its code is plain, and it says nothing
//! that the oldest Python that it promises does not know. `tools/python/setup.cfg` has the rules.

use std::process::Command;

use super::gate::{missing, succeeds};
use crate::build;
use crate::harness::case::{Case, Ending, Stop};
use crate::lab::Lab;
use crate::packages;

pub(crate) fn cases() -> Vec<Case> {
    vec![
        Case::new("lint/Python's types", types),
        Case::new("lint/Python's style", style),
    ]
}

fn types(lab: &mut Lab) -> Ending {
    let mut mypy = tool("mypy")?;
    mypy.args(["--package", "ferroce", "--cache-dir"])
        .arg(build::scratch("mypy")?);
    succeeds(lab, mypy)
}

fn style(lab: &mut Lab) -> Ending {
    let mut flake8 = tool("flake8")?;
    flake8.args(["ferroce", "tests"]);
    succeeds(lab, flake8)
}

/// A tool of the distribution's, at the package.
fn tool(name: &str) -> Result<Command, Stop> {
    packages::ensure(packages::PYTHON_LINT).map_err(|error| missing(format!("{error:#}")))?;
    let mut command = Command::new(format!("/usr/bin/{name}"));
    command.current_dir(build::workspace().join("tools/python"));
    Ok(command)
}
