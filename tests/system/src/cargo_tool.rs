//! Commands that cargo gets from other crates, and how a machine that has them not comes by them.

use anyhow::{Context, Result, bail};

use crate::build;

/// Makes sure that `cargo NAME` is there: what is missing is built from crates.io, into where cargo
/// keeps what it installs.
///
/// Built without optimisation, in a third of the time: what these commands do takes seconds, or is
/// done by the compiler.
pub fn ensure(name: &str) -> Result<()> {
    let mut probe = build::cargo();
    let probe = probe.args([name, "--version"]).output();
    if probe.is_ok_and(|output| output.status.success()) {
        return Ok(());
    }
    let package = format!("cargo-{name}");
    println!("xtask: installing {package}");
    let mut install = build::cargo();
    install.args(["install", "--quiet", "--locked", "--debug", &package]);
    if !install.status().context("cargo install")?.success() {
        bail!("{package} cannot be installed: is crates.io within reach?");
    }
    Ok(())
}
