//! `cargo xtask tsan`: the engine's tests under ThreadSanitizer, for what several threads share.
//!
//! The sanitizer has to see the standard library too, so that is built with it: this needs a
//! nightly toolchain with its sources, and is therefore not part of the tests. What the engine does
//! to the program's memory in assembly, and what the kernel does, the sanitizer does not see; races
//! there are between the program and its peer, as with hardware.

use std::path::Path;

use anyhow::{Context, Result, bail};

use crate::nightly_toolchain::{output, rustup};
use ferroce_system::build;

/// Runs them; true if none failed and no race was found.
pub(crate) fn run() -> Result<bool> {
    let sysroot = output(&["rustc", "--print", "sysroot"])?;
    let sources = Path::new(sysroot.trim()).join("lib/rustlib/src/rust/library");
    if !sources.exists() {
        bail!(
            "the sources of the standard library are missing: rustup component add rust-src --toolchain nightly"
        );
    }

    let version = output(&["rustc", "-vV"])?;
    let host = version
        .lines()
        .find_map(|line| line.strip_prefix("host: "))
        .context("rustc -vV names no host")?;

    let status = rustup()
        .args(["cargo", "test", "--locked", "-Zbuild-std"])
        .args(["--target", host])
        .args(["--profile", "unit", "--package", "ferroce-engine"])
        // No documentation tests: rustdoc would have to be built for the sanitizer, too.
        .args(["--lib", "--tests"])
        .arg("--target-dir")
        .arg(build::scratch("tsan")?)
        // loom changes stacks without telling the sanitizer.
        .args(["--", "--skip", "models::"])
        .env("RUSTFLAGS", "-Zsanitizer=thread")
        .env("TSAN_OPTIONS", "halt_on_error=1")
        .status()
        .context("cargo test")?;

    Ok(status.success())
}
