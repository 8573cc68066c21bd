//! `ferroce run`: prepares the environment of a program and becomes it.

use std::env;
use std::os::unix::process::CommandExt;
use std::process::{Command, ExitCode};

use ferroce_control::{Client, ControlError, RuntimeDir, children};
use rustix::io::{Errno, FdFlags};
use rustix::process::Resource;

use crate::arguments::Run;
use crate::daemon;
use crate::env::{drivers_with, preload_with};
use crate::error::Error;
use crate::libibverbs::Libibverbs;
use crate::libraries::{self, Libraries};
use crate::program::Program;
use crate::sanitizer;

/// Where a descriptor that the program knows nothing of is put, so that those that it opens have
/// the numbers that they would have without.
const OUT_OF_THE_WAY: i32 = 100;

/// Starts the daemon if there is none, and executes the program.
pub(crate) fn run(dir: &RuntimeDir, run: &Run) -> Result<ExitCode, Error> {
    libraries::check(dir)?;
    let mut kept = kept_daemon(dir, run);
    // It was about to leave: then there is another soon.
    if matches!(kept, Err(Error::Control(ControlError::Closed))) {
        kept = kept_daemon(dir, run);
    }
    let libraries = kept?;
    warn_if_unserved();
    let (program, arguments) = run.command.split_first().unwrap_or_else(|| unreachable!());
    let preload = preload_with(&libraries, env::var_os("LD_PRELOAD"));

    let file = Program::find(program);
    let sanitizer = sanitizer::of(file.as_ref());
    let preload = match &sanitizer.runtime {
        Some(runtime) => sanitizer::first(runtime, preload),
        None => preload,
    };

    let drivers = drivers_with(&libraries, env::var_os("RDMAV_DRIVERS"));
    let options = sanitizer.options(env::var_os("TSAN_OPTIONS"));
    if let Some(warning) = file.as_ref().and_then(Program::warning) {
        eprintln!("ferroce: {warning}");
    }

    children::are_as_inherited();
    let source = Command::new(program)
        .envs(options.map(|options| ("TSAN_OPTIONS", options)))
        .args(arguments)
        .env("LD_PRELOAD", preload)
        .env("RDMAV_DRIVERS", drivers)
        .env("FERROCE_RUNTIME_DIR", dir.path())
        .exec();

    Err(Error::Exec {
        program: program.to_string_lossy().into_owned(),
        source,
    })
}

/// Says so if programs will not find the device. The program may bring a libibverbs of its own, or
/// need none: it is run all the same.
pub(crate) fn warn_if_unserved() {
    if let Ok(found) = Libibverbs::find()
        && found.version.is_err()
    {
        eprintln!("ferroce: {}", Error::Unserved(found));
    }
}

/// The number, or the highest that the limit of open files (`ulimit -n`) allows.
fn out_of_the_way() -> i32 {
    let limit = rustix::process::getrlimit(Resource::Nofile).current;
    let highest = limit.map_or(i32::MAX, |limit| {
        i32::try_from(limit).unwrap_or(i32::MAX) - 1
    });
    highest.min(OUT_OF_THE_WAY)
}

/// The libraries of the device, whose daemon stays as long as the program.
fn kept_daemon(dir: &RuntimeDir, run: &Run) -> Result<Libraries, Error> {
    let mut client = daemon::ensure(dir, run.idle_exit)?;
    let libraries = libraries::find(dir)?;
    keep_daemon(&mut client)?;
    Ok(libraries)
}

/// Leaves something open in the program that keeps the daemon, so that one that goes when it is
/// idle does not go while the program has yet to open the device. All that the program starts
/// inherits it, under whatever user: it is good for nothing else.
fn keep_daemon(client: &mut Client) -> Result<(), Error> {
    let hold = client.hold()?;
    let failed = |errno: Errno| Error::io("keeping ferroced")(errno.into());
    let kept = rustix::io::fcntl_dupfd_cloexec(&hold, out_of_the_way()).map_err(failed)?;
    rustix::io::fcntl_setfd(&kept, FdFlags::empty()).map_err(failed)?;
    // It stays open until the program ends.
    std::mem::forget(kept);
    Ok(())
}
