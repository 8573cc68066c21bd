//! Group `lint`: the workspace is formatted, and neither clippy nor rustdoc has a warning.

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
        cargo(
            "lint/rustdoc",
            &["doc", "--quiet", "--workspace", "--no-deps"],
        ),
    ]
}

fn cargo(name: &'static str, arguments: &'static [&'static str]) -> Case {
    Case::new(name, move |lab| {
        // rustdoc comes with rustc; the other two may have been left out.
        let component = match arguments[0] {
            "fmt" => Some("rustfmt"),
            "clippy" => Some("clippy"),
            _ => None,
        };
        if let Some(component) = component {
            let mut probe = build::cargo();
            probe.args([arguments[0], "--version"]);
            if !process::run(probe, &lab.case_dir()?, "probe", LIMIT)?.success() {
                return Err(Stop::Skip(format!(
                    "cargo {} is not here: rustup component add {component}",
                    arguments[0]
                )));
            }
        }
        let mut command = build::cargo();
        command.args(arguments).env("RUSTDOCFLAGS", "-D warnings");
        let finished = process::run(command, &lab.case_dir()?, "cargo", LIMIT)?;
        if finished.success() {
            Ok(())
        } else {
            Err(Stop::with(finished.ending(), &[&finished]))
        }
    })
}
