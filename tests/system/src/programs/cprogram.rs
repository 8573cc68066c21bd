//! The C programs of `tests/verbs`: compiled here with the system's compiler against stock
//! libibverbs, run over ferroce, each of their tests counted for itself.
//!
//! A program run with the name of a test runs that test and prints one line, `ok NAME`,
//! `skip NAME: why` or `not ok NAME: why`; without a name it runs all of them. `--list` prints the
//! names.

use std::ffi::{OsStr, OsString};
use std::fs::{self, File};
use std::iter;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use rustix::fs::FlockOperation;

use crate::build;
use crate::harness::case::{Ending, Parts, Stop};
use crate::harness::process::{self, Finished};
use crate::lab::{Lab, Place};

/// The directory of the sources.
pub(crate) fn sources() -> PathBuf {
    build::workspace().join("tests/verbs")
}

/// Compiles `tests/verbs/NAME.c` together with what such programs share.
pub(crate) fn compile(name: &str) -> Result<PathBuf> {
    compile_by(name, &CC)
}

/// A compiler, with what it is told beside the usual.
pub(crate) struct Compiler {
    /// Its name.
    pub program: &'static str,
    /// How its programs differ in name from those of `cc`.
    pub suffix: &'static str,
    /// Its further options.
    pub options: &'static [&'static str],
}

const CC: Compiler = Compiler {
    program: "cc",
    suffix: "",
    options: &[],
};

/// The same with this compiler.
pub(crate) fn compile_by(name: &str, compiler: &Compiler) -> Result<PathBuf> {
    let sources = sources();
    let program = build::scratch("verbs")?.join(format!("{name}{}", compiler.suffix));

    // Those of the connection manager have a second process of their own, or none.
    let common: &[&str] = match name.starts_with("cm_") {
        true => &["harness.c", "device.c", "cm_ids.c"],
        false => &["harness.c", "device.c", "endpoint.c", "remote.c"],
    };

    let own = format!("{name}.c");
    let inputs = common.iter().copied().chain(iter::once(own.as_str()));
    let inputs: Vec<_> = inputs.map(|file| sources.join(file)).collect();
    let headers = [
        "answers.h",
        "device.h",
        "harness.h",
        "endpoint.h",
        "full_queues.h",
        "interrupter.h",
        "own_address.h",
        "cm_ids.h",
    ]
    .map(|file| sources.join(file));

    // Cases beside this one want the same program, and one that runs must not be replaced: it
    // starts itself once more, by its name.
    let _alone = alone()?;
    let newest = inputs
        .iter()
        .chain(&headers)
        .filter_map(|path| modified(path))
        .max();
    if modified(&program).is_some_and(|built| Some(built) > newest) {
        return Ok(program);
    }

    let libraries = [
        "-pthread",
        "-Wl,--as-needed",
        "-libverbs",
        "-lrdmacm",
        "-lmlx5",
        "-lefa",
    ];

    let arguments = inputs
        .into_iter()
        .map(OsString::from)
        .chain(libraries.map(OsString::from))
        .chain(compiler.options.iter().map(OsString::from));
    compile_with_by(compiler.program, &program, arguments)?;
    Ok(program)
}

/// Waits until no other process of the tests compiles one of these programs; until the file is
/// closed, none does.
fn alone() -> Result<File> {
    let path = build::scratch("verbs")?.join("lock");
    let open = || -> std::io::Result<File> {
        let lock = File::create(&path)?;
        rustix::fs::flock(&lock, FlockOperation::LockExclusive)?;
        Ok(lock)
    };
    open().with_context(|| format!("{}", path.display()))
}

/// Compiles a C program, every warning an error.
pub(crate) fn compile_with(
    program: &Path,
    arguments: impl IntoIterator<Item = impl AsRef<OsStr>>,
) -> Result<()> {
    compile_with_by(CC.program, program, arguments)
}

fn compile_with_by(
    compiler: &str,
    program: &Path,
    arguments: impl IntoIterator<Item = impl AsRef<OsStr>>,
) -> Result<()> {
    // Under another name first: a case beside this one may be running it.
    let mut unfinished = program.as_os_str().to_owned();
    unfinished.push(format!(".{}", std::process::id()));
    let mut command = Command::new(compiler);
    command
        .args(["-std=gnu11", "-D_GNU_SOURCE", "-O2", "-g"])
        .args(["-Wall", "-Wextra", "-Werror", "-o"])
        .arg(&unfinished)
        .args(arguments);

    let output = command.output().context(compiler.to_owned())?;
    if !output.status.success() {
        bail!(
            "{}\n{}",
            process::line_of(&command),
            String::from_utf8_lossy(&output.stderr)
        );
    }

    fs::rename(&unfinished, program).with_context(|| format!("{}", program.display()))
}

/// Runs all tests of a program at a place. Where the place has two hosts, the tests' second process
/// is on the other.
pub(crate) fn run(lab: &mut Lab, place: Place, name: &str, limit: Duration) -> Parts {
    let program = compile(name)?;
    let dir = lab.case_dir()?;
    let site = lab.site(place)?;
    let mut command = site.client().run(&program);
    if let Some(other) = site.other() {
        // How the second process of a test gets onto the other host: the words of a command, one a
        // line.
        command.env("PEER_COMMAND", other.prefix().join(OsStr::new("\n")));
    }
    let finished = process::run(command, &dir, "program", limit)?;
    Ok(endings(&finished))
}

/// Runs a program that says "ready" when something is to be made different, and makes it so.
pub(crate) fn run_through_change(
    command: Command,
    dir: &Path,
    limit: Duration,
    make: impl FnOnce() -> Ending,
) -> Parts {
    let mut running = process::spawn(command, dir, "program")?;
    let ready = running.wait_until(limit, |running| running.output().contains("ready"));
    let made = match ready {
        true => make(),
        false => Ok(()),
    };
    let finished = running.finish(limit);
    made?;
    Ok(endings(&finished))
}

/// Reads the program's lines.
pub(crate) fn endings(finished: &Finished) -> Vec<(String, Ending)> {
    let mut endings: Vec<(String, Ending)> = Vec::new();
    for line in finished.out.lines() {
        let (verdict, rest) = if let Some(rest) = line.strip_prefix("not ok ") {
            ("not ok", rest)
        } else if let Some(rest) = line.strip_prefix("skip ") {
            ("skip", rest)
        } else if let Some(rest) = line.strip_prefix("ok ") {
            ("ok", rest)
        } else {
            continue;
        };

        let (name, why) = rest.split_once(": ").unwrap_or((rest, ""));
        let ending = match verdict {
            "ok" => Ok(()),
            "skip" => Err(Stop::Skip(why.to_owned())),
            _ => Err(Stop::with(why, &[finished])),
        };
        endings.push((name.to_owned(), ending));
    }

    let told_failure = endings
        .iter()
        .any(|(_, ending)| matches!(ending, Err(Stop::Fail(_))));
    if !finished.success() && !told_failure {
        endings.push((
            "exit".to_owned(),
            Err(Stop::with(finished.ending(), &[finished])),
        ));
    } else if let Some(line) = crate::programs::perftest::odd(&finished.err) {
        endings.push((
            "stderr".to_owned(),
            Err(Stop::with(format!("says on stderr: {line}"), &[finished])),
        ));
    } else if endings.is_empty() {
        endings.push((
            "output".to_owned(),
            Err(Stop::with("no test reported", &[finished])),
        ));
    }

    endings
}

fn modified(path: &Path) -> Option<std::time::SystemTime> {
    fs::metadata(path)
        .and_then(|metadata| metadata.modified())
        .ok()
}

/// Compiles one C file that needs nothing of the harness.
pub(crate) fn compile_plain(name: &str, flags: &[impl AsRef<OsStr>]) -> Result<PathBuf> {
    let source = sources().join(format!("{name}.c"));
    let program = build::scratch("verbs")?.join(name);
    let _alone = alone()?;
    if modified(&program).is_some_and(|built| Some(built) > modified(&source)) {
        return Ok(program);
    }
    let flags = flags.iter().map(AsRef::as_ref);
    compile_with(&program, iter::once(source.as_os_str()).chain(flags))?;
    Ok(program)
}
