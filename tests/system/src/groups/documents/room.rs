//! Where a reader's commands are run: a home and a runtime directory that are new, a network of
//! its own with `lo` and `eth0`, and processes that end with the shell that started them.

use std::fs::{self, Permissions};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result};
use tempfile::TempDir;

use super::table::{Row, Unit};
use crate::build;
use crate::harness::case::{Ending, Stop};
use crate::harness::process::{self, Finished};
use crate::packages;

/// The longest are a build by cargo, where nothing is to be built, and a transfer of 10 s.
pub(super) const LIMIT: Duration = Duration::from_secs(120);
/// Where everything is that the packages bring.
const PATHS: &str = "/usr/local/bin:/usr/bin:/bin:/usr/local/sbin:/usr/sbin:/sbin";
/// What cargo and rustup go by, beside the home.
const CARGO: [&str; 4] = [
    "CARGO_HOME",
    "RUSTUP_HOME",
    "RUSTUP_TOOLCHAIN",
    "CARGO_TARGET_DIR",
];
/// Brings the network up, changes to a directory, and becomes the shell of a script.
const INSIDE: &str = r#"
    ip link set lo up
    ip link add eth0 type veth peer name eth1
    ip addr add 192.0.2.7/24 dev eth0
    ip link set eth0 up
    ip link set eth1 up
    cd "$1"
    shift
    exec "$@""#;

/// A reader's machine, as it were.
pub(super) struct Room {
    dir: TempDir,
}

impl Room {
    /// With what is installed below a prefix in `~/.local`, if it is there already, and some files
    /// in the directory that commands are run in.
    pub(super) fn new(prefix: Option<&Path>, files: &[(String, String)]) -> Result<Room> {
        let dir = tempfile::Builder::new()
            .prefix("ferroce-reader-")
            .tempdir()?;
        let room = Room { dir };
        for name in ["home", "work", "run"] {
            fs::create_dir(room.dir.path().join(name))?;
        }
        fs::set_permissions(room.run(), Permissions::from_mode(0o700))?;
        if let Some(prefix) = prefix {
            symlink(prefix, room.home().join(".local"))?;
        }

        for (name, text) in files {
            let file = room.work().join(name);
            fs::create_dir_all(file.parent().context("a file's directory")?)?;
            fs::write(&file, text).with_context(|| file.display().to_string())?;
        }
        Ok(room)
    }

    pub(super) fn home(&self) -> PathBuf {
        self.dir.path().join("home")
    }

    pub(super) fn work(&self) -> PathBuf {
        self.dir.path().join("work")
    }

    /// Where what runs meets.
    pub(super) fn run(&self) -> PathBuf {
        self.dir.path().join("run")
    }

    /// A command inside, in this directory, to which the program is appended: with what a login
    /// gives it, and nothing of ours.
    pub(super) fn enter(&self, at: &Path) -> Command {
        let mut command = Command::new("unshare");
        if !rustix::process::geteuid().is_root() {
            command.args(["-U", "-r"]);
        }
        let home = self.home();
        command
            .args(["-n", "-m", "-p", "-f", "--mount-proc", "--kill-child"])
            .args(["sh", "-ec", INSIDE, "sh"])
            .arg(at)
            .env_clear()
            .env("HOME", &home)
            .env("XDG_RUNTIME_DIR", self.run())
            .env("PATH", format!("{}/.local/bin:{PATHS}", home.display()))
            .env("LANG", "C.UTF-8")
            .env("TERM", "dumb")
            .env("CHECKOUT", build::workspace());
        command
    }

    /// What a reader types, in a shell of its own.
    pub(super) fn types(&self, unit: &Unit, logs: &Path) -> Result<Finished, Stop> {
        let row = &unit.row;
        let wait = if row.stays { "" } else { "wait\n" };
        let script = format!("{}\n{}{wait}{}\n", row.before, unit.script(), row.after);

        let mut command = match row {
            Row { checkout: true, .. } => self.with_cargo(build::workspace()),
            Row { cargo: true, .. } => self.with_cargo(&self.work()),
            _ => self.enter(&self.work()),
        };
        command.args(["sh", "-ec", &script]);
        Ok(process::run(command, logs, "typed", LIMIT)?)
    }

    fn with_cargo(&self, at: &Path) -> Command {
        let mut command = self.enter(at);
        for name in CARGO {
            if let Some(value) = std::env::var_os(name) {
                command.env(name, value);
            }
        }

        // Those of the home that is not here.
        let real = std::env::var_os("HOME")
            .map(PathBuf::from)
            .unwrap_or_default();
        for (name, place) in [("CARGO_HOME", ".cargo"), ("RUSTUP_HOME", ".rustup")] {
            if std::env::var_os(name).is_none() {
                command.env(name, real.join(place));
            }
        }
        let cargo = std::env::var_os("CARGO").map(PathBuf::from);
        let cargo = cargo
            .or_else(|| packages::which("cargo"))
            .unwrap_or_default();
        let cargo = cargo.parent().unwrap_or(Path::new("/usr/bin"));
        let ours = self.home().join(".local/bin");
        command.env(
            "PATH",
            format!("{}:{}:{PATHS}", ours.display(), cargo.display()),
        );
        command
    }
}

/// Whether it went as its row says.
pub(super) fn judge(unit: &Unit, finished: &Finished) -> Ending {
    if !finished.success() {
        return Err(Stop::with(finished.ending(), &[finished]));
    }

    let said = format!("{}\n{}", finished.out, finished.err);
    for (text, times) in &unit.row.shows {
        let seen = said.matches(text).count();
        if seen < *times {
            let what = format!("{text:?} is shown {seen} times, not {times}");
            return Err(Stop::with(what, &[finished]));
        }
    }

    match unit.row.never.iter().find(|text| said.contains(*text)) {
        Some(text) => Err(Stop::with(format!("{text:?} is shown"), &[finished])),
        None => Ok(()),
    }
}
