//! `ferroce run`: prepares the environment of a program and becomes it.

use std::env;
use std::os::unix::process::CommandExt;
use std::process::{Command, ExitCode};

use ferroce_control::{Client, RuntimeDir};
use rustix::io::FdFlags;

use crate::arguments::Run;
use crate::daemon;
use crate::error::Error;
use crate::libibverbs::Libibverbs;
use crate::libraries::{self, appended};
use crate::sanitizer;

/// Where a descriptor that the program knows nothing of is put, so that those that it opens have the
/// numbers that they would have without.
const OUT_OF_THE_WAY: i32 = 100;

/// Starts the daemon if there is none, and executes the program.
pub fn run(dir: &RuntimeDir, run: &Run) -> Result<ExitCode, Error> {
    let client = daemon::ensure(dir, run.idle_exit)?;
    let libraries = libraries::find(dir)?;
    keep_daemon(client)?;
    warn_if_unserved();
    let (program, arguments) = run.command.split_first().unwrap_or_else(|| unreachable!());
    let preload = appended(env::var_os("LD_PRELOAD"), &libraries.shim, &[':', ' ']);
    let runtime = sanitizer::runtime(program);
    let preload = match &runtime {
        Some(runtime) => sanitizer::first(runtime, preload),
        None => preload,
    };
    let drivers = appended(env::var_os("RDMAV_DRIVERS"), &libraries.driver, &[':', ';']);
    let options = sanitizer::options(runtime.as_deref(), env::var_os("TSAN_OPTIONS"));
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

/// Says so if programs will not find the device. The program may bring a libibverbs of its own, or need none: it is run all the same.
fn warn_if_unserved() {
    if let Ok(found) = Libibverbs::find()
        && found.version.is_err()
    {
        eprintln!("ferroce: {}", Error::Unserved(found));
    }
}

/// Leaves the connection open in the program, so that a daemon that goes when it is idle does not go
/// while the program has yet to open the device.
fn keep_daemon(client: Client) -> Result<(), Error> {
    let kept = rustix::io::fcntl_dupfd_cloexec(client.event_fd(), OUT_OF_THE_WAY)
        .and_then(|fd| rustix::io::fcntl_setfd(&fd, FdFlags::empty()).map(|()| fd))
        .map_err(|errno| Error::io("keeping the connection to ferroced")(errno.into()))?;
    // It stays open until the program ends.
    std::mem::forget(kept);
    Ok(())
}
