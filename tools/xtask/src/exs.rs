//! The EXS library's example programs, compiled here with the system's compiler against the header and the library.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::build;
use crate::process;

/// Compiles `exs/examples/NAME.c` against the library in `library`, where the program also finds it.
pub fn example(library: &Path, name: &str) -> Result<PathBuf> {
    let examples = build::workspace().join("exs/examples");
    let program = build::scratch("exs")?.join(name);
    let mut command = Command::new("cc");
    command
        .args(["-std=gnu11", "-D_GNU_SOURCE", "-O2", "-g"])
        .args(["-Wall", "-Wextra", "-Werror", "-o"])
        .arg(&program)
        .arg(examples.join(format!("{name}.c")))
        .arg(examples.join("common.c"))
        .args(flags(library));
    let output = command.output().context("cc")?;
    if !output.status.success() {
        bail!(
            "{}\n{}",
            process::line_of(&command),
            String::from_utf8_lossy(&output.stderr)
        );
    }
    Ok(program)
}

/// What the compiler must be told to use the library.
pub fn flags(library: &Path) -> [String; 4] {
    let include = build::workspace().join("exs/include");
    let library = library.display();
    [
        format!("-I{}", include.display()),
        format!("-L{library}"),
        format!("-Wl,-rpath,{library}"),
        "-lexs".to_owned(),
    ]
}
