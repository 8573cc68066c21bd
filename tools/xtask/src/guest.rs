//! Commands inside a throw-away guest with Debian's own kernel, for what needs rdma_rxe (`tests/interop/guest`).
//!
//! The guest has this machine's files at the same paths, and what it writes is gone afterwards but below the shared directory.

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use anyhow::Result;

use crate::build;
use crate::case::Stop;
use crate::packages;
use crate::process::{self, Finished};

/// The exit code of the script where there is no guest; why is on its standard error.
const NO_GUEST: i32 = 125;
/// What the guest's own time-out comes before ours by, so that it is the one that tells.
const LEEWAY: Duration = Duration::from_secs(20);

/// Runs a command as root in a guest that may write below `share`; skips, with the reason, where no guest can be had.
///
/// `share/NAME.out` grows while the command writes, to standard output or error; `share/console.log` is what the kernel had to say.
pub fn run(command: &[&str], share: &Path, name: &str, limit: Duration) -> Result<Finished, Stop> {
    packages::ensure(packages::GUEST)
        .map_err(|error| Stop::Skip(format!("no guest: {error:#}")))?;
    let mut guest = Command::new(build::workspace().join("tests/interop/guest"));
    guest
        .args(command)
        .env("GUEST_SHARE", share)
        .env("GUEST_TIMEOUT", limit.as_secs().to_string());
    let finished = process::run(guest, share, name, limit + LEEWAY)?;
    match finished.status.and_then(|status| status.code()) {
        Some(NO_GUEST) => Err(Stop::Skip(format!(
            "no guest: {}",
            finished.err.lines().last().unwrap_or_default()
        ))),
        _ => Ok(finished),
    }
}

/// Runs a command and prints what it wrote; whether it ended well.
pub fn show(command: &[String]) -> Result<bool> {
    const LIMIT: Duration = Duration::from_secs(3600);
    let words: Vec<&str> = command.iter().map(String::as_str).collect();
    let finished =
        run(&words, &build::scratch("guest")?, "output", LIMIT).map_err(Stop::into_error)?;
    print!("{}", finished.out);
    eprint!("{}", finished.err);
    if !finished.success() {
        eprintln!("xtask: {}", finished.ending());
    }
    Ok(finished.success())
}
