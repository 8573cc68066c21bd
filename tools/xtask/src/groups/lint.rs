//! Group `lint`: the workspace is formatted, neither clippy nor rustdoc has a warning, the fuzz targets are programs, the product
//! compiles for the other targets that it is for, and every dependency comes from where it may, under a licence that is allowed.

use std::time::Duration;

use crate::build;
use crate::case::{Case, Stop};
use crate::portable::Target;
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
        cargo(
            "lint/fuzz targets",
            &[
                "clippy",
                "--quiet",
                "--package",
                "ferroce-fuzz",
                "--features",
                "programs",
                "--bins",
                "--",
                "-D",
                "warnings",
            ],
        ),
        // Advisories want a database that is fetched; they are `cargo deny check advisories`, by hand.
        cargo(
            "lint/deny",
            &["deny", "check", "bans", "licenses", "sources"],
        ),
        elsewhere("lint/aarch64", Target::Aarch64),
        elsewhere("lint/musl", Target::X86_64Musl),
    ]
}

/// What differs between architectures and C libraries are types above all, which the compiler sees without linking.
fn elsewhere(name: &'static str, target: Target) -> Case {
    Case::new(name, move |lab| {
        target.ensure().map_err(|error| {
            let target = target.name();
            Stop::Skip(format!("no Rust library for {target}: {error:#}"))
        })?;
        let mut command = build::cargo();
        command.args(["check", "--quiet", "--target", target.name()]);
        for package in build::PRODUCT {
            command.args(["--package", package]);
        }
        command.env("RUSTFLAGS", format!("-D warnings {}", target.flags()));
        let finished = process::run(command, &lab.case_dir()?, "cargo", LIMIT)?;
        match finished.success() {
            true => Ok(()),
            false => Err(Stop::with(finished.ending(), &[&finished])),
        }
    })
}

fn cargo(name: &'static str, arguments: &'static [&'static str]) -> Case {
    Case::new(name, move |lab| {
        // rustdoc comes with rustc; the others may have been left out.
        let remedy = match arguments[0] {
            "fmt" => Some("rustup component add rustfmt"),
            "clippy" => Some("rustup component add clippy"),
            "deny" => Some("cargo install --locked cargo-deny"),
            _ => None,
        };
        if let Some(remedy) = remedy {
            let mut probe = build::cargo();
            probe.args([arguments[0], "--version"]);
            if !process::run(probe, &lab.case_dir()?, "probe", LIMIT)?.success() {
                return Err(Stop::Skip(format!(
                    "cargo {} is not here: {remedy}",
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
