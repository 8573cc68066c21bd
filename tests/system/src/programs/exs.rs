//! The EXS library's example programs, compiled here with the system's compiler against the header
//! and the library.

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

use anyhow::Result;

use crate::build;
use crate::programs::cprogram;

/// Compiles `exs/examples/NAME.c` against the library in `library`, where the program also finds
/// it.
pub(crate) fn example(library: &Path, name: &str) -> Result<PathBuf> {
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
pub(crate) fn compile(
    program: &Path,
    name: &str,
    flags: impl IntoIterator<Item = impl AsRef<OsStr>>,
) -> Result<()> {
    let examples = build::workspace().join("exs/examples");
    let sources = [format!("{name}.c"), "common.c".to_owned()].map(|file| examples.join(file));
    let flags: Vec<OsString> = flags.into_iter().map(|f| f.as_ref().to_owned()).collect();
    let arguments = sources.iter().map(|path| path.as_os_str());
    cprogram::compile_with(
        program,
        arguments.chain(flags.iter().map(OsString::as_os_str)),
    )
}
