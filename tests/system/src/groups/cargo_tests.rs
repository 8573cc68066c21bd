//! `cargo test`, but that the test programs run beside each other, as many as there are processors:
//! cargo runs one after the other, and most of them have work for one processor only.
//!
//! Each gets what cargo gives it: the directory of its package, and `CARGO_MANIFEST_DIR`.
//! cargo-nextest does the same, with a process for each test; it would have to be built anew, for
//! minutes, on every machine that has none.

use std::fs;
use std::iter;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result};
use serde::Deserialize;

use crate::build;
use crate::harness::case::{Parts, Stop};
use crate::harness::process::{self, Finished};
use crate::lab::Lab;

/// For one program, and for building them all.
const LIMIT: Duration = Duration::from_secs(1200);

/// A line of what `cargo test --message-format json` prints, as far as we look.
#[derive(Deserialize)]
struct Message {
    manifest_path: Option<PathBuf>,
    executable: Option<PathBuf>,
    profile: Option<Profile>,
}

#[derive(Deserialize)]
struct Profile {
    test: bool,
}

/// Something to run.
#[derive(Debug, PartialEq, Eq)]
enum ToRun {
    /// All examples in documentation: cargo's own to build.
    Documentation,
    Program {
        executable: PathBuf,
        package: PathBuf,
    },
}

/// Which tests are run. All are built of the whole workspace, as the features of what crates have
/// in common follow from what is built at once: nothing is built twice.
pub(crate) enum Tests {
    All,
    /// The programs in `tests` of the package in this folder, which has no other tests.
    OfPackage(&'static str),
}

impl Tests {
    fn options(&self) -> Result<Vec<String>> {
        let mut options = vec!["--workspace".to_owned()];
        if let Tests::OfPackage(folder) = self {
            let folder = build::workspace().join(folder).join("tests");
            for entry in fs::read_dir(&folder).with_context(|| folder.display().to_string())? {
                let path = entry?.path();
                if path.extension().is_some_and(|extension| extension == "rs") {
                    let name = path.file_stem().unwrap_or_default().to_string_lossy();
                    options.extend(["--test".to_owned(), name.into_owned()]);
                }
            }
        }
        Ok(options)
    }

    /// What of all that has been built.
    fn programs(&self, messages: &str) -> Vec<ToRun> {
        let all = programs(messages);
        match self {
            // The longest of all comes first.
            Tests::All => iter::once(ToRun::Documentation).chain(all).collect(),
            Tests::OfPackage(folder) => {
                let folder = build::workspace().join(folder);
                let ours = |test: &ToRun| matches!(test, ToRun::Program { package, .. } if *package == folder);
                all.into_iter().filter(ours).collect()
            }
        }
    }
}

/// Builds the tests, with all checks, and runs them; each counts.
pub(crate) fn run(lab: &mut Lab, tests: &Tests, seeds: &str) -> Parts {
    let dir = lab.case_dir()?;
    let mut command = build::cargo();
    command.args(["test", "--locked", "--profile", build::TESTED]);
    command.args(tests.options()?);
    command.args(["--no-run", "--message-format", "json-render-diagnostics"]);
    let built = process::run(command, &dir, "build", LIMIT)?;
    if !built.success() {
        return Err(Stop::with(built.ending(), &[&built]));
    }

    let programs = tests.programs(&built.out);
    if programs
        .iter()
        .all(|test| matches!(test, ToRun::Documentation))
    {
        return Err(Stop::with("cargo built no tests", &[&built]));
    }

    let tests = Mutex::new(programs.into_iter().enumerate());
    let next = || tests.lock().unwrap_or_else(PoisonError::into_inner).next();
    let all = Mutex::new(Vec::new());
    thread::scope(|scope| {
        for _ in 0..thread::available_parallelism().map_or(1, usize::from) {
            scope.spawn(|| {
                while let Some((number, tests)) = next() {
                    let ended = one(&tests, seeds, &dir, number);
                    all.lock()
                        .unwrap_or_else(PoisonError::into_inner)
                        .push((number, ended));
                }
            });
        }
    });

    let mut all = all.into_inner().unwrap_or_else(PoisonError::into_inner);
    all.sort_by_key(|(number, _)| *number);
    let mut endings = Vec::new();
    for (_, ended) in all {
        endings.extend(crate::groups::unit::endings(&ended?));
    }
    Ok(endings)
}

/// The test programs that cargo has built.
fn programs(messages: &str) -> Vec<ToRun> {
    let read = |line| {
        let message: Message = serde_json::from_str(line).ok()?;
        let test = message.profile.is_some_and(|profile| profile.test);
        let package = message.manifest_path?.parent()?.to_owned();
        test.then_some(ToRun::Program {
            executable: message.executable?,
            package,
        })
    };
    messages.lines().filter_map(read).collect()
}

fn one(test: &ToRun, seeds: &str, dir: &Path, number: usize) -> Result<Finished, Stop> {
    let mut command = match test {
        ToRun::Documentation => {
            let mut command = build::cargo();
            command.args(["test", "--locked", "--profile", build::TESTED]);
            command.args(["--workspace", "--doc", "--no-fail-fast"]);
            command
        }
        ToRun::Program {
            executable,
            package,
        } => {
            let mut command = std::process::Command::new(executable);
            command.current_dir(package);
            command.env("CARGO_MANIFEST_DIR", package);
            command
        }
    };

    command.env("FERROCE_SIM_SEEDS", seeds);
    Ok(process::run(
        command,
        dir,
        &format!("tests-{number}"),
        LIMIT,
    )?)
}
