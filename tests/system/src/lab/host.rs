//! One "host": a daemon with a runtime directory of its own, an address, and perhaps a namespace to
//! itself.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open};
use serde_json::Value;
use tempfile::TempDir;

use crate::harness::case::Stop;
use crate::harness::process;
use crate::lab::netns::{Enter, Namespace};

/// A port space as service IDs have it: `RDMA_PS_TCP`.
pub(crate) const TCP: u64 = 0x0106;

/// What `ferroce run` sets, and what programs below it go by.
pub(crate) const VARIABLES: [&str; 7] = [
    "FERROCE_RUNTIME_DIR",
    "RDMAV_DRIVERS",
    "IBV_DRIVERS",
    "LD_PRELOAD",
    "FERROCE_IO_URING",
    "FERROCE_LOOPBACK",
    "FERROCE_RECOVERY",
];

/// A host on which programs run over ferroce.
pub struct Host {
    /// The address that it is reached at.
    pub address: String,
    surroundings: Option<Box<dyn Enter>>,
    programs: PathBuf,
    runtime: Runtime,
    up: bool,
    loopback: bool,
    io_uring: bool,
    recovery: Option<&'static str>,
}

/// A host's runtime directory: one of this machine's, made for it, or one inside its root.
enum Runtime {
    Made(TempDir),
    Inside(PathBuf),
}

impl Runtime {
    fn path(&self) -> &Path {
        match self {
            Runtime::Made(dir) => dir.path(),
            Runtime::Inside(path) => path,
        }
    }
}

impl Host {
    /// A host whose daemon is not started yet; `programs` holds the built product.
    pub fn new(programs: &Path, address: &str, namespace: Option<Namespace>) -> Result<Host> {
        let runtime = tempfile::Builder::new()
            .prefix("ferroce-xtask-")
            .tempdir()?;
        let surroundings = namespace.map(|namespace| Box::new(namespace) as Box<dyn Enter>);
        let runtime = Runtime::Made(runtime);
        Ok(Host::with(address, surroundings, programs, runtime))
    }

    /// A host with files of its own, where both `programs` and the runtime directory are.
    pub fn inside(
        surroundings: Box<dyn Enter>,
        programs: &Path,
        runtime: &Path,
        address: &str,
    ) -> Host {
        let runtime = Runtime::Inside(runtime.to_path_buf());
        Host::with(address, Some(surroundings), programs, runtime)
    }

    /// Programs of this host's device in another network, where they are reached at `address`.
    pub(crate) fn beside(&self, network: Namespace, address: &str) -> Host {
        let (programs, runtime) = (&self.programs, self.runtime_dir());
        Host::inside(Box::new(network), programs, runtime, address)
    }

    /// Programs of this host's device in a network that has nothing, not even a loopback that is
    /// up.
    ///
    /// # Errors
    ///
    /// Skips where that is not for this user to make.
    pub(crate) fn apart(&self) -> Result<Host, Stop> {
        let network = Namespace::new()
            .map_err(|error| Stop::Skip(format!("no network without users: {error:#}")))?;
        Ok(self.beside(network, &self.address))
    }

    fn with(
        address: &str,
        surroundings: Option<Box<dyn Enter>>,
        programs: &Path,
        runtime: Runtime,
    ) -> Host {
        Host {
            address: address.to_owned(),
            surroundings,
            programs: programs.to_path_buf(),
            runtime,
            up: false,
            loopback: true,
            io_uring: true,
            recovery: None,
        }
    }

    /// Programs are run by another build, which is at `programs`; a daemon that is up stays as it
    /// is.
    pub fn run_by(mut self, programs: &Path) -> Host {
        self.programs = programs.to_path_buf();
        self
    }

    /// Programs reach each other over sockets, as if each had a device of its own.
    pub fn without_loopback(mut self) -> Host {
        self.loopback = false;
        self
    }

    /// Programs and daemon do without io_uring, as before Linux 6.1 and in containers that forbid
    /// it.
    pub(crate) fn without_io_uring(mut self) -> Host {
        self.io_uring = false;
        self
    }

    /// Programs recover from losses so from now on: `selective` or `go-back-n`.
    pub fn recovers_by(&mut self, way: &'static str) {
        self.recovery = Some(way);
    }

    /// Starts the daemon at the host's address.
    pub fn up(&mut self) -> Result<()> {
        let address = self.address.clone();
        self.up_with(&["--addr", &address])
    }

    /// Starts the daemon at a loopback address that it finds free, which becomes the host's,
    /// whatever this user has configured.
    pub fn up_anywhere(&mut self) -> Result<()> {
        self.up_with(&["--config", "/dev/null"])?;
        let status = self.status()?;
        let address = status["gids"][0]["addr"].as_str();
        self.address = address.context("a device without addresses")?.to_owned();
        Ok(())
    }

    /// Starts the daemon with these options.
    pub fn up_with(&mut self, options: &[&str]) -> Result<()> {
        let mut command = self.ferroce();
        command.arg("up").args(options);
        let line = process::line_of(&command);
        // To a file, not a pipe: the daemon may keep the descriptors of the command that started
        // it.
        let logs = tempfile::tempdir()?;
        let ended = process::run(command, logs.path(), "up", Duration::from_secs(20))?;
        if !ended.success() {
            bail!("{line}: {}\n{}{}", ended.ending(), ended.out, ended.err);
        }
        self.up = true;
        Ok(())
    }

    /// Stops the daemon.
    pub fn down(&mut self) -> Result<()> {
        self.up = false;
        let output = self
            .ferroce()
            .arg("down")
            .output()
            .context("ferroce down")?;
        if !output.status.success() {
            bail!(
                "ferroce down: {}",
                String::from_utf8_lossy(&output.stderr).trim()
            );
        }
        Ok(())
    }

    /// Kills the daemon, which has no time to say anything.
    pub fn kill_daemon(&mut self) -> Result<()> {
        let pid = self.status()?["pid"].as_i64().unwrap_or_default();
        let pid = Pid::from_raw(i32::try_from(pid)?).context("the daemon's process")?;
        let process = pidfd_open(pid, PidfdFlags::empty()).context("watching the daemon")?;
        rustix::process::kill_process(pid, Signal::KILL).context("killing the daemon")?;
        self.up = false;

        // Until it has let go of everything.
        let mut ended = [PollFd::new(&process, PollFlags::IN)];
        let limit = Timespec {
            tv_sec: 10,
            tv_nsec: 0,
        };

        match poll(&mut ended, Some(&limit)).context("waiting for the daemon's end")? {
            0 => bail!("the daemon outlives SIGKILL by 10 s"),
            _ => Ok(()),
        }
    }

    /// Whether the daemon has a listener on a port of a port space.
    pub(crate) fn listens(&self, space: u64, port: u16) -> Result<bool> {
        Ok(serves(&self.status()?, space, port))
    }

    /// The daemon's own account of itself.
    pub fn status(&self) -> Result<Value> {
        let output = self
            .ferroce()
            .args(["status", "--json"])
            .output()
            .context("ferroce status")?;
        if !output.status.success() {
            bail!(
                "ferroce status --json: {}",
                String::from_utf8_lossy(&output.stderr).trim()
            );
        }
        serde_json::from_slice(&output.stdout).context("ferroce status --json")
    }

    /// The runtime directory.
    pub fn runtime_dir(&self) -> &Path {
        self.runtime.path()
    }

    /// The directory of the built programs.
    pub fn programs(&self) -> &Path {
        &self.programs
    }

    /// A command in the host's namespace, without ferroce's environment.
    pub fn plain(&self, program: impl AsRef<std::ffi::OsStr>) -> Command {
        let mut command = match &self.surroundings {
            Some(surroundings) => {
                let mut enter = surroundings.enter();
                enter.arg(program);
                enter
            }
            None => Command::new(program),
        };

        for name in VARIABLES {
            command.env_remove(name);
        }
        if !self.loopback {
            command.env("FERROCE_LOOPBACK", "off");
        }
        if !self.io_uring {
            command.env("FERROCE_IO_URING", "off");
        }
        if let Some(way) = self.recovery {
            command.env("FERROCE_RECOVERY", way);
        }

        command
    }

    /// The `ferroce` command for this host.
    pub fn ferroce(&self) -> Command {
        let mut command = self.plain(self.programs.join("ferroce"));
        command.arg("--runtime-dir").arg(self.runtime.path());
        command
    }

    /// The words that run a program over ferroce on this host, from a process on the other one.
    pub fn prefix(&self) -> Vec<OsString> {
        let prefix = self.run("");
        std::iter::once(prefix.get_program())
            .chain(prefix.get_args())
            .filter(|word| !word.is_empty())
            // Both hosts are in one user namespace, and whoever is in it cannot enter it again.
            .filter(|word| *word != "-U" && *word != "--preserve-credentials")
            .map(OsString::from)
            .collect()
    }

    /// A program run over ferroce on this host.
    pub fn run(&self, program: impl AsRef<std::ffi::OsStr>) -> Command {
        let mut command = self.ferroce();
        command.args(["run", "--"]).arg(program);
        command
    }
}

impl Drop for Host {
    fn drop(&mut self) {
        if self.up {
            let _ = self.down();
        }
    }
}

/// Whether a daemon has a listener on a port of a port space, by its account of itself.
pub(crate) fn serves(status: &Value, space: u64, port: u16) -> bool {
    let wanted = space << 16 | u64::from(port);
    let services = status["cm"]["services"].as_array();
    services.is_some_and(|all| all.iter().any(|id| id.as_u64() == Some(wanted)))
}
