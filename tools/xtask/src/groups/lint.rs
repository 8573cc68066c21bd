//! Group `lint`: the workspace is formatted and has no clippy warnings.

use std::time::Duration;

use crate::build;
use crate::case::{Case, Stop};
use crate::process;

const LIMIT: Duration = Duration::from_secs(900);

pub(super) fn cases() -> Vec<Case> {
    vec![
        cargo("lint/rustfmt", &["fmt", "--all", "--check"]),
        cargo(
            "lint/clippy",
            &[
                "clippy",
                "--quiet",
                "--workspace",
                "--all-targets",
                "--",
                "-D",
                "warnings",
            ],
        ),
    ]
}

fn cargo(name: &'static str, arguments: &'static [&'static str]) -> Case {
    Case::new(name, move |lab| {
        let component = if arguments[0] == "fmt" {
            "rustfmt"
        } else {
            "clippy"
        };
        let mut probe = build::cargo();
        probe.args([arguments[0], "--version"]);
        if !process::run(probe, &lab.case_dir()?, "probe", LIMIT)?.success() {
            return Err(Stop::Skip(format!(
                "cargo {} is not here: rustup component add {component}",
                arguments[0]
            )));
        }
        let mut command = build::cargo();
        command.args(arguments);
        let finished = process::run(command, &lab.case_dir()?, "cargo", LIMIT)?;
        if finished.success() {
            Ok(())
        } else {
            Err(Stop::with(finished.ending(), &[&finished]))
        }
    })
}
