//! What needs a nightly toolchain: which is asked for, with its parts, and never the one that runs
//! us.

use std::process::Command;

use anyhow::{Context, Result, bail};

use ferroce_system::build;

/// `rustup run nightly`, without what the toolchain that runs us has set.
pub(crate) fn rustup() -> Command {
    let mut command = Command::new("rustup");
    command
        .current_dir(build::workspace())
        .args(["run", "nightly"]);
    for name in ["CARGO", "RUSTC", "RUSTDOC", "RUSTUP_TOOLCHAIN"] {
        command.env_remove(name);
    }
    command
}

/// What a command of the nightly toolchain prints.
pub(crate) fn output(words: &[&str]) -> Result<String> {
    let output = rustup().args(words).output().context("rustup")?;
    if !output.status.success() {
        bail!(
            "a nightly toolchain is needed: rustup toolchain install nightly --component rust-src\n{}",
            String::from_utf8_lossy(&output.stderr).trim()
        );
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}
