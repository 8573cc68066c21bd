//! Starting and stopping the machine's device: what the unit does, and who has no systemd.

use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, ExitCode};

use ferroce_control::{Client, ControlError, RuntimeDir};

use super::arguments::Start;
use super::manifest::Manifest;
use super::place::RUNTIME;
use super::{files, links};
use crate::daemon::{self, option};
use crate::error::Error;

/// The device's runtime directory.
pub(super) fn runtime() -> RuntimeDir {
    RuntimeDir::resolve(Some(Path::new(RUNTIME)))
}

/// `ferroce system start`.
pub(super) fn start(start: &Start) -> Result<ExitCode, Error> {
    let manifest = Manifest::of_enabled()?;
    if start.foreground {
        make_places()?;
        let mut command = command(&manifest)?;
        let source = command.arg("--foreground").exec();
        return Err(Error::Exec {
            program: "ferroced".into(),
            source,
        });
    }

    match Client::connect(&runtime()) {
        Ok(_) => return Ok(ExitCode::SUCCESS),
        Err(ControlError::NotRunning { .. }) => {}
        Err(error) => return Err(error.into()),
    }
    bring_up(&manifest)?;
    Ok(ExitCode::SUCCESS)
}

/// Starts the daemon in the background, and waits until it serves.
pub(super) fn bring_up(manifest: &Manifest) -> Result<(), Error> {
    make_places()?;
    daemon::start(&mut command(manifest)?)
}

/// `ferroce system stop`.
pub(super) fn stop() -> Result<ExitCode, Error> {
    take_down()?;
    Ok(ExitCode::SUCCESS)
}

/// Stops the daemon, if there is one, and takes away what was made at its start.
pub(super) fn take_down() -> Result<(), Error> {
    match daemon::down(&runtime()) {
        Ok(_) | Err(Error::Control(ControlError::NotRunning { .. })) => {}
        Err(error) => return Err(error),
    }
    links::remove()?;
    files::remove_if_empty(RUNTIME)
}

/// The links, and the runtime directory: all users shall find the image in it; the sockets are for
/// those of the group.
fn make_places() -> Result<(), Error> {
    links::make()?;
    files::make_directory(RUNTIME)
}

fn command(manifest: &Manifest) -> Result<Command, Error> {
    let mut command = daemon::command(&runtime())?;
    command.env_remove("SYSFS_PATH");
    command.arg(option("--group", &manifest.group));
    // A machine's device stays, whatever a file of settings says for those of users.
    command.args(["--idle-exit", "0"]);
    for addr in &manifest.addr {
        command.arg(option("--addr", addr));
    }
    if let Some(netdev) = &manifest.netdev {
        command.arg(option("--netdev", netdev));
    }
    Ok(command)
}
