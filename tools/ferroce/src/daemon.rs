//! Starting and stopping `ferroced`.

use std::env;
use std::ffi::{OsStr, OsString};
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Command, ExitCode, Stdio};
use std::time::{Duration, Instant};

use ferroce_control::{Client, ControlError, Event, RuntimeDir, loopback, process};

use crate::arguments::{Switch, Up};
use crate::error::Error;
use crate::libraries;
use crate::turn::Turn;

/// How long the daemon may take to stop.
const PATIENCE: Duration = Duration::from_secs(10);

/// `ferroce up`.
pub(crate) fn up(dir: &RuntimeDir, up: &Up) -> Result<ExitCode, Error> {
    let mut command = command(dir)?;
    for addr in &up.addr {
        command.arg(option("--addr", addr));
    }
    for cable in &up.cable {
        command.arg(option("--cable", cable));
    }

    for (name, value) in [
        ("--netdev", &up.netdev),
        ("--link-layer", &up.link_layer),
        ("--name", &up.name),
        ("--congestion", &up.congestion),
    ] {
        if let Some(value) = value {
            command.arg(option(name, value));
        }
    }

    if let Some(config) = &up.config {
        command.arg(option("--config", config));
    }
    if let Some(seconds) = up.idle_exit {
        command.arg("--idle-exit").arg(seconds.to_string());
    }
    if let Some(factor) = up.stretch_timeouts {
        command.arg("--stretch-timeouts").arg(factor.to_string());
    }

    if up.foreground {
        name_libraries(dir);
        let source = command.arg("--foreground").exec();
        return Err(Error::Exec {
            program: "ferroced".into(),
            source,
        });
    }

    {
        let _turn = Turn::take(dir)?;
        start(&mut command)?;
        name_libraries(dir);
    }

    let status = Client::connect(dir)?.status()?;
    let addrs: Vec<String> = status.gids.iter().map(|gid| gid.addr.to_string()).collect();
    match status.device.ib_ports {
        0 if addrs.is_empty() => println!(
            "{} is up without an address: {} has none yet",
            status.device.name, status.device.netdev
        ),
        0 => println!(
            "{} is up at {}{}",
            status.device.name,
            addrs.join(", "),
            match up.says_where() || !status.gids.iter().all(|gid| gid.addr.is_loopback()) {
                true => "",
                false => ", for programs of this machine (--netdev or --addr puts it on a network)",
            }
        ),
        1 => println!("{} is up with an InfiniBand port", status.device.name),
        n => println!("{} is up with {n} InfiniBand ports", status.device.name),
    }

    Ok(ExitCode::SUCCESS)
}

/// Makes the links under which programs load the libraries, as the daemon before has taken them
/// away that shells have in their environment (`ferroce env`). Where there are no libraries, or no
/// list can hold their names, `run` and `env` say so: a daemon is good for other things.
fn name_libraries(dir: &RuntimeDir) {
    if let Err(error) = libraries::find(dir)
        && !matches!(error, Error::NoLibrary { .. } | Error::Separator(_))
    {
        eprintln!("ferroce: {error}");
    }
}

/// `ferroce switch`.
pub(crate) fn switch(dir: &RuntimeDir, switch: &Switch) -> Result<ExitCode, Error> {
    let mut command = command(dir)?;
    command.arg("--switch").arg(switch.ports.to_string());
    for cable in &switch.cable {
        command.arg(option("--cable", cable));
    }
    if let Some(name) = &switch.name {
        command.arg(option("--name", name));
    }
    Err(Error::Exec {
        program: "ferroced".into(),
        source: command.exec(),
    })
}

/// `ferroce down`.
pub(crate) fn down(dir: &RuntimeDir) -> Result<ExitCode, Error> {
    let mut client = match Client::connect(dir) {
        Err(error @ ControlError::NotRunning { .. }) => return forget(dir, error),
        connected => connected?,
    };
    // Who starts a program meanwhile waits, and takes what the daemon leaves for no remains. Who
    // may not have the turn may end the daemon all the same.
    let _turn = Turn::take(dir).ok();
    let status = client.status()?;
    match client.shutdown() {
        Ok(()) | Err(ControlError::Closed) => {}
        Err(error) => return Err(error.into()),
    }

    let deadline = Instant::now() + PATIENCE;
    loop {
        match client.wait_event(deadline.saturating_duration_since(Instant::now())) {
            Some(Event::Shutdown) => break,
            Some(_) => {}
            None => {
                return Err(Error::DoesNotStop {
                    who: process::describe(status.pid),
                });
            }
        }
    }

    let users = status.clients.iter().filter(|client| client.slot.is_some());
    for user in users {
        eprintln!(
            "ferroce: {} (process {}) has lost its device",
            user.name, user.pid
        );
    }

    Ok(ExitCode::SUCCESS)
}

/// There is no daemon to stop. If one has died, `ferroce run` shall not start it again.
fn forget(dir: &RuntimeDir, error: ControlError) -> Result<ExitCode, Error> {
    if !dir.settings().is_file() {
        return Err(error.into());
    }
    let turn = Turn::take(dir)?;
    let name = dir.settings();
    let name = name.file_name().unwrap_or_default().to_string_lossy();
    turn.premises()
        .remove(&name)
        .map_err(|errno| Error::io(dir.settings().display().to_string())(errno.into()))?;
    eprintln!("ferroce: ferroced had died; what it was configured with is forgotten");
    Ok(ExitCode::SUCCESS)
}

/// Connects to the daemon; starts one if there is none. Of several who try at once one starts it
/// and the others wait.
pub(crate) fn ensure(dir: &RuntimeDir, idle_exit: u64) -> Result<Client, Error> {
    match Client::connect(dir) {
        Err(ControlError::NotRunning { .. }) => {}
        other => return Ok(other?),
    }

    let _turn = Turn::take(dir)?;
    match Client::connect(dir) {
        Err(ControlError::NotRunning { .. }) => {}
        other => return Ok(other?),
    }

    // Left behind by one that did not leave but died: programs shall find the device that they had.
    let remembered = dir.settings();
    let died = remembered.is_file();
    let mut command = command(dir)?;
    match died {
        true => command.arg("--config").arg(&remembered),
        false => command.arg("--idle-exit").arg(idle_exit.to_string()),
    };

    let started = start(&mut command);

    // Somebody may have started one by other means in this moment.
    let mut client = match (started, Client::connect(dir)) {
        (_, Ok(client)) => client,
        (Err(Error::NotStarted), Err(_)) if died => return Err(Error::NotRestarted(remembered)),
        (Err(error), Err(_)) => return Err(error),
        (Ok(()), Err(error)) => return Err(error.into()),
    };
    tell_of(&mut client, died)?;
    Ok(client)
}

/// Says what a program's user would not expect of the device that was just started for it.
fn tell_of(client: &mut Client, died: bool) -> Result<(), Error> {
    let status = client.status()?;
    let addrs: Vec<String> = status.gids.iter().map(|gid| gid.addr.to_string()).collect();
    let name = status.device.name;
    let at = match addrs.is_empty() {
        true => String::new(),
        false => format!(" at {}", addrs.join(", ")),
    };
    if died {
        eprintln!("ferroce: ferroced had died; {name} is up again{at}");
    } else if status.gids.iter().any(|gid| loopback::is_further(gid.addr)) {
        eprintln!("ferroce: 127.0.0.1 is taken by another device; {name} is up{at}");
    }
    Ok(())
}

/// An option with its value, in one: a value may begin with a dash, as interfaces' names may.
pub(crate) fn option(name: &str, value: impl AsRef<OsStr>) -> OsString {
    let mut option = OsString::from(name);
    option.push("=");
    option.push(value);
    option
}

pub(crate) fn command(dir: &RuntimeDir) -> Result<Command, Error> {
    let exe = env::current_exe().map_err(Error::io("finding this program"))?;
    let program = exe.with_file_name("ferroced");
    if !program.is_file() {
        return Err(Error::NoDaemon(exe));
    }
    let mut command = Command::new(program);
    // Under another `ferroce run` the daemon would take that one's device for the host's.
    command.env_remove("LD_PRELOAD").env_remove("RDMAV_DRIVERS");
    command.arg("--runtime-dir").arg(dir.path());
    Ok(command)
}

/// Runs `ferroced`, which returns when the daemon in the background is ready or has failed.
pub(crate) fn start(command: &mut Command) -> Result<(), Error> {
    let program = PathBuf::from(command.get_program());
    let status = command
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .status()
        .map_err(Error::io(format!("starting {}", program.display())))?;
    match status.code() {
        Some(0) => Ok(()),
        // Of its parser, which has said what it does not understand.
        Some(2) => Err(Error::Misused),
        _ => Err(Error::NotStarted),
    }
}
