//! `cargo xtask tsan`: the engine's tests under ThreadSanitizer, for what several threads share.
//!
//! The sanitizer has to see the standard library too, so that is built with it: this needs a nightly toolchain with its
//! sources, and is therefore not part of the tests. What the engine does to the program's memory in assembly, and what
//! the kernel does, the sanitizer does not see; races there are between the program and its peer, as with hardware.

use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::build;

/// Runs them; true if none failed and no race was found.
pub fn run() -> Result<bool> {
    let sysroot = nightly(&["rustc", "--print", "sysroot"])?;
    let sources = Path::new(sysroot.trim()).join("lib/rustlib/src/rust/library");
    if !sources.exists() {
        bail!(
            "the sources of the standard library are missing: rustup component add rust-src --toolchain nightly"
        );
    }
    let version = nightly(&["rustc", "-vV"])?;
    let host = version
        .lines()
        .find_map(|line| line.strip_prefix("host: "))
        .context("rustc -vV names no host")?;
    let status = rustup()
        .args(["cargo", "test", "-Zbuild-std", "--target", host])
        .args(["--profile", "unit", "--package", "ferroce-engine"])
        // No documentation tests: rustdoc would have to be built for the sanitizer, too.
        .args(["--lib", "--tests"])
        .arg("--target-dir")
        .arg(build::scratch("tsan")?)
        .env("RUSTFLAGS", "-Zsanitizer=thread")
        .env("TSAN_OPTIONS", "halt_on_error=1")
        .status()
        .context("cargo test")?;
    Ok(status.success())
}

/// What a command of the nightly toolchain prints.
fn nightly(words: &[&str]) -> Result<String> {
    let output = rustup().args(words).output().context("rustup")?;
    if !output.status.success() {
        bail!(
            "a nightly toolchain is needed: rustup toolchain install nightly --component rust-src\n{}",
            String::from_utf8_lossy(&output.stderr).trim()
        );
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// `rustup run nightly`, without what the toolchain that runs us has set.
fn rustup() -> Command {
    let mut command = Command::new("rustup");
    command
        .current_dir(build::workspace())
        .args(["run", "nightly"]);
    for name in ["CARGO", "RUSTC", "RUSTDOC", "RUSTUP_TOOLCHAIN"] {
        command.env_remove(name);
    }
    command
}
