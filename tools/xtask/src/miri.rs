//! `cargo xtask miri`: the tests of what has no system calls, in an interpreter that sees every
//! wrong access and every overflow.
//!
//! The crates below forbid unsafe code or have little, but what they use (zerocopy, bitflags,
//! smallvec) has not. What maps memory, opens sockets or is called from C cannot run there:
//! ThreadSanitizer and Valgrind look at that.

use anyhow::{Context, Result};

use crate::nightly_toolchain::{output, rustup};

/// State machines and parsers.
const CRATES: &[&str] = &["ferroce-wire", "ferroce-transport", "ferroce-fabric"];
/// Cases of each property: the interpreter is some hundred times slower.
const CASES: &str = "2";

/// Runs them; true if none failed.
pub(crate) fn run() -> Result<bool> {
    output(&["cargo", "miri", "--version"])
        .context("rustup component add miri --toolchain nightly")?;
    let mut command = rustup();
    command.args(["cargo", "miri", "test", "--locked", "--lib"]);
    for name in CRATES {
        command.args(["--package", name]);
    }
    // proptest looks at the time and at its files.
    command.env("MIRIFLAGS", "-Zmiri-disable-isolation");
    command.env("PROPTEST_CASES", CASES);
    let status = command.status().context("cargo miri")?;
    Ok(status.success())
}
