//! Commands that are programs of their own, as git has them: what few need, and what takes long to
//! build, is not in `ferroce` itself.

use std::env;
use std::ffi::OsString;
use std::os::unix::process::CommandExt;
use std::process::{Command, ExitCode};

use ferroce_control::RuntimeDir;

use crate::error::Error;

/// Becomes `ferroce-NAME`, which is beside this program, with these options. It gets the runtime
/// directory by its variable.
pub(crate) fn become_part(
    name: &str,
    dir: &RuntimeDir,
    options: &[OsString],
) -> Result<ExitCode, Error> {
    let exe = env::current_exe().map_err(Error::io("finding this program"))?;
    let program = exe.with_file_name(format!("ferroce-{name}"));
    let source = Command::new(&program)
        .args(options)
        .env("FERROCE_RUNTIME_DIR", dir.path())
        .exec();

    Err(Error::Exec {
        program: program.display().to_string(),
        source,
    })
}
