//! Whether GitHub and GitLab would take the files that are theirs, as their published schemas have
//! it: by check-jsonschema of PyPI, which brings those along.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::Result;

use super::github::document;
use super::gitlab::TEMPLATE;
use crate::build;
use crate::harness::case::{Case, Parts, Stop};
use crate::harness::process;
use crate::lab::Lab;

/// What is asked of pip.
const CHECKER: &str = "check-jsonschema==0.39.0";
const LIMIT: Duration = Duration::from_secs(300);

/// Files, whose they are, and whether docs/ci.md has them.
const FILES: &[(&str, &str, bool)] = &[
    ("action.yml", "vendor.github-actions", false),
    (TEMPLATE, "vendor.gitlab-ci", false),
    (
        ".github/workflows/rdma.yml",
        "vendor.github-workflows",
        true,
    ),
    (".gitlab-ci.yml", "vendor.gitlab-ci", true),
];

pub(super) fn cases() -> Vec<Case> {
    vec![Case::many("documents/schemas", schemas)]
}

fn schemas(lab: &mut Lab) -> Parts {
    let dir = lab.case_dir()?;
    let checker = checker(&dir)?;
    let mut endings = Vec::new();
    for &(name, schema, printed) in FILES {
        let file = match printed {
            true => dir.join(Path::new(name).file_name().unwrap_or_default()),
            false => build::workspace().join(name),
        };
        if printed {
            fs::write(&file, document(name)?).map_err(anyhow::Error::from)?;
        }

        let mut command = Command::new(&checker);
        command.args(["--builtin-schema", schema]).arg(&file);
        let finished = process::run(command, &dir, "schema", LIMIT)?;
        let ending = match finished.success() {
            true => Ok(()),
            false => Err(Stop::with(
                format!("it is not as {schema} has it"),
                &[&finished],
            )),
        };
        endings.push((name.to_owned(), ending));
    }
    Ok(endings)
}

/// The program, installed where what is worth keeping is.
fn checker(logs: &Path) -> Result<PathBuf, Stop> {
    let place = build::cache()?.join(CHECKER);
    let program = place.join("bin/check-jsonschema");
    if program.is_file() {
        return Ok(program);
    }

    println!("xtask: installing {CHECKER}");
    let mut make = Command::new("/usr/bin/python3");
    make.args(["-m", "venv"]).arg(&place);
    let mut install = Command::new(place.join("bin/pip"));
    install.args(["install", "--quiet", CHECKER]);
    for (command, name) in [(make, "venv"), (install, "pip")] {
        let finished = process::run(command, logs, name, LIMIT)?;
        if !finished.success() {
            let why = finished.err.lines().last().unwrap_or_default().to_owned();
            let _ = fs::remove_dir_all(&place);
            return Err(Stop::Skip(format!("{CHECKER} cannot be installed: {why}")));
        }
    }
    Ok(program)
}
