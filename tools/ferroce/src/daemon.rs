//! Starting and stopping `ferroced`.

use std::env;
use std::fs::{self, File, OpenOptions};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Command, ExitCode, Stdio};
use std::time::{Duration, Instant};

use ferroce_control::{Client, ControlError, Event, RuntimeDir};
use rustix::fs::{FlockOperation, OFlags};

use crate::arguments::{Switch, Up};
use crate::error::Error;

/// How long the daemon may take to stop.
const PATIENCE: Duration = Duration::from_secs(10);

/// `ferroce up`.
pub fn up(dir: &RuntimeDir, up: &Up) -> Result<ExitCode, Error> {
    let mut command = command(dir)?;
    for addr in &up.addr {
        command.arg("--addr").arg(addr);
    }
    for cable in &up.cable {
        command.arg("--cable").arg(cable);
    }
    for (option, value) in [
        ("--netdev", &up.netdev),
        ("--link-layer", &up.link_layer),
        ("--name", &up.name),
    ] {
        if let Some(value) = value {
            command.arg(option).arg(value);
        }
    }
    if let Some(config) = &up.config {
        command.arg("--config").arg(config);
    }
    if let Some(seconds) = up.idle_exit {
        command.arg("--idle-exit").arg(seconds.to_string());
    }
    if up.foreground {
        let source = command.arg("--foreground").exec();
        return Err(Error::Exec {
            program: "ferroced".into(),
            source,
        });
    }
    {
        let _turn = StartLock::take(dir)?;
        start(&mut command)?;
    }
    let status = Client::connect(dir)?.status()?;
    let addrs: Vec<String> = status.gids.iter().map(|gid| gid.addr.to_string()).collect();
    match status.device.ib_ports {
        0 => println!("{} is up at {}", status.device.name, addrs.join(", ")),
        1 => println!("{} is up with an InfiniBand port", status.device.name),
        n => println!("{} is up with {n} InfiniBand ports", status.device.name),
    }
    Ok(ExitCode::SUCCESS)
}

/// `ferroce switch`.
pub fn switch(dir: &RuntimeDir, switch: &Switch) -> Result<ExitCode, Error> {
    let mut command = command(dir)?;
    command.arg("--switch").arg(switch.ports.to_string());
    for cable in &switch.cable {
        command.arg("--cable").arg(cable);
    }
    if let Some(name) = &switch.name {
        command.arg("--name").arg(name);
    }
    Err(Error::Exec {
        program: "ferroced".into(),
        source: command.exec(),
    })
}

/// `ferroce down`.
pub fn down(dir: &RuntimeDir) -> Result<ExitCode, Error> {
    let mut client = Client::connect(dir)?;
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
            None => return Err(Error::DoesNotStop { pid: status.pid }),
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

/// Connects to the daemon; starts one if there is none. Of several who try at once one starts it and the
/// others wait.
pub fn ensure(dir: &RuntimeDir, idle_exit: u64) -> Result<Client, Error> {
    match Client::connect(dir) {
        Err(ControlError::NotRunning { .. }) => {}
        other => return Ok(other?),
    }
    let _turn = StartLock::take(dir)?;
    match Client::connect(dir) {
        Err(ControlError::NotRunning { .. }) => {}
        other => return Ok(other?),
    }
    let started = start(command(dir)?.arg("--idle-exit").arg(idle_exit.to_string()));
    // Somebody may have started one by other means in this moment.
    match (started, Client::connect(dir)) {
        (_, Ok(client)) => Ok(client),
        (Err(error), Err(_)) => Err(error),
        (Ok(()), Err(error)) => Err(error.into()),
    }
}

fn command(dir: &RuntimeDir) -> Result<Command, Error> {
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
fn start(command: &mut Command) -> Result<(), Error> {
    let program = PathBuf::from(command.get_program());
    let status = command
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .status()
        .map_err(Error::io(format!("starting {}", program.display())))?;
    if status.success() {
        Ok(())
    } else {
        Err(Error::NotStarted)
    }
}

/// Held by who starts a daemon on a runtime directory: a lock on the directory itself.
struct StartLock {
    _directory: File,
}

impl StartLock {
    fn take(dir: &RuntimeDir) -> Result<Self, Error> {
        loop {
            dir.prepare()?;
            let opened = OpenOptions::new()
                .read(true)
                .custom_flags((OFlags::DIRECTORY | OFlags::NOFOLLOW).bits() as i32)
                .open(dir.path());
            let Ok(directory) = opened else { continue };
            rustix::io::retry_on_intr(|| {
                rustix::fs::flock(&directory, FlockOperation::LockExclusive)
            })
            .map_err(|errno| Error::io("locking the runtime directory")(errno.into()))?;
            // A daemon that leaves removes the directory.
            let same = match (directory.metadata(), fs::symlink_metadata(dir.path())) {
                (Ok(ours), Ok(there)) => ours.ino() == there.ino() && ours.dev() == there.dev(),
                _ => false,
            };
            if same {
                return Ok(Self {
                    _directory: directory,
                });
            }
        }
    }
}
