//! Commands that have to succeed.

use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::harness::process::line_of;

/// Runs a command that has to succeed.
pub(crate) fn done(command: &mut Command) -> Result<()> {
    output_of(command).map(drop)
}

/// What a command prints, if it succeeds.
pub(crate) fn output_of(command: &mut Command) -> Result<String> {
    let line = line_of(command);
    let output = command.output().with_context(|| line.clone())?;
    if !output.status.success() {
        let (out, err) = (
            String::from_utf8_lossy(&output.stdout),
            String::from_utf8_lossy(&output.stderr),
        );
        bail!("{line}: {}\n{}{}", output.status, out.trim(), err.trim());
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}
