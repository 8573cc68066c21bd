//! `cargo xtask models`: what threads and processes agree on by shared words, in every order in
//! which they may be interrupted and everything that each may see (loom). `cargo test` tries the
//! orders with few interruptions only.

use anyhow::{Context, Result};

use ferroce_system::build;

/// Interruptions of threads that could go on, in one run of a model. With one more it takes ten
/// times as long.
const PREEMPTIONS: &str = "5";

/// Runs them; true if none failed.
pub(crate) fn run() -> Result<bool> {
    let status = build::cargo()
        .args(["test", "--locked", "--profile", "unit"])
        .args(["--package", "ferroce-engine", "--test", "models"])
        .env("LOOM_MAX_PREEMPTIONS", PREEMPTIONS)
        .status()
        .context("cargo test")?;
    Ok(status.success())
}
