//! `ferroce completions`, and what packages take: the manual pages and completions of this command.

use std::path::Path;
use std::process::ExitCode;

use clap::CommandFactory;
use ferroce_manual::For;

use crate::arguments::Arguments;
use crate::error::Error;
use crate::show::print;

/// Users' commands.
const SECTION: u8 = 1;

/// Prints the completions for a shell.
pub(crate) fn completions(shell: For) -> Result<ExitCode, Error> {
    let mut text = Vec::new();
    ferroce_manual::completions(Arguments::command(), shell, &mut text)
        .map_err(Error::io("making completions"))?;
    print(&text)
}

/// Writes all of it below a directory.
pub(crate) fn write(dir: &Path) -> Result<ExitCode, Error> {
    ferroce_manual::write(Arguments::command(), SECTION, dir)
        .map_err(Error::io(dir.display().to_string()))?;
    Ok(ExitCode::SUCCESS)
}
