//! The EXS library's example programs, compiled here with the system's compiler against the header and the library.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::build;
use crate::process;

/// Compiles `exs/examples/NAME.c` against the library in `library`, where the program also finds it.
pub fn example(library: &Path, name: &str) -> Result<PathBuf> {
    let program = build::scratch("exs-examples")?.join(name);
    let include = build::workspace().join("exs/include");
    compile(
        &program,
        name,
        [
            format!("-I{}", include.display()),
            format!("-L{}", library.display()),
            format!("-Wl,-rpath,{}", library.display()),
            "-lexs".to_owned(),
        ],
    )?;
    Ok(program)
}

/// Compiles `exs/examples/NAME.c`, with what the compiler must be told to find the library.
pub fn compile(
    program: &Path,
    name: &str,
    flags: impl IntoIterator<Item = impl AsRef<OsStr>>,
) -> Result<()> {
    let examples = build::workspace().join("exs/examples");
    let mut command = Command::new("cc");
    command
        .args(["-std=gnu11", "-D_GNU_SOURCE", "-O2", "-g"])
        .args(["-Wall", "-Wextra", "-Werror", "-o"])
        .arg(program)
        .arg(examples.join(format!("{name}.c")))
        .arg(examples.join("common.c"))
        .args(flags);
    let output = command.output().context("cc")?;
    if !output.status.success() {
        bail!(
            "{}\n{}",
            process::line_of(&command),
            String::from_utf8_lossy(&output.stderr)
        );
    }
    Ok(())
}
