//! The lock by which only one daemon runs on a runtime directory. The kernel releases it when the
//! daemon dies in whatever way.

use std::fs::File;
use std::io::{self, Read, Write};

use ferroce_control::{Premises, RuntimeDir};
use rustix::fs::{FlockOperation, OFlags};
use rustix::io::Errno;

use crate::{Config, DaemonError};

/// How the device is configured, and what it says to who looks into it.
const SETTINGS: &str = "ferroced.toml";
const REMEMBERED: &str = "# The device of this directory, which `ferroce run` starts again should ferroced have died.\n\
    # Another `ferroce up` replaces it, `ferroce down` removes it.\n";
/// The lock's file.
const LOCK: &str = "ferroced.lock";
/// The log, and what it was before it became too long.
const LOGS: [&str; 2] = ["ferroced.log", "ferroced.log.1"];

/// The held lock, and the runtime directory. When it is released, its file goes, the log, and the
/// directory too if it was made by ferroce and nothing else is in it.
#[derive(Debug)]
pub(crate) struct Lock {
    premises: Premises,
    file: File,
    keep_log: bool,
}

impl Drop for Lock {
    fn drop(&mut self) {
        // While the lock is still held: afterwards the file may be another daemon's.
        if !self.keep_log {
            for log in LOGS {
                let _ = self.premises.remove(log);
            }
        }
        let _ = self.premises.remove(LOCK);
    }
}

impl Lock {
    fn say_whose(&mut self) -> io::Result<()> {
        self.file.set_len(0)?;
        writeln!(self.file, "{}", std::process::id())
    }

    /// Says that the log tells of something that ought to be read.
    pub(crate) fn keep_log(&mut self) {
        self.keep_log = true;
    }

    /// Writes down how the device is configured.
    pub(crate) fn remember(&self, config: &Config) -> Result<(), DaemonError> {
        const NEW: &str = ".new-ferroced.toml";
        let text = toml::to_string(config)
            .map_err(|e| DaemonError::Setting(format!("remembering the settings: {e}")))?;
        let failed =
            |errno: Errno| DaemonError::file(self.premises.path().join(SETTINGS))(errno.into());
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::TRUNC;
        let mut file = self.premises.open(NEW, flags).map_err(failed)?;
        let written = file
            .write_all(REMEMBERED.as_bytes())
            .and_then(|()| file.write_all(text.as_bytes()))
            .map_err(DaemonError::file(self.premises.path().join(NEW)))
            .and_then(|()| self.premises.rename(NEW, SETTINGS).map_err(failed));
        if written.is_err() {
            let _ = self.premises.remove(NEW);
        }
        written
    }

    /// Removes what [`remember`](Self::remember) has written.
    pub(crate) fn forget(&self) {
        let _ = self.premises.remove(SETTINGS);
    }

    /// The runtime directory.
    pub(crate) fn premises(&self) -> &Premises {
        &self.premises
    }

    /// Removes the links that `ferroce run` has made.
    pub(crate) fn remove_links(&self) {
        if let Err(error) = self.premises.remove_links("lib", is_link_of_run) {
            tracing::warn!(%error, "cannot clean up");
        }
    }

    /// Takes the lock or says who has it.
    pub(crate) fn take(dir: &RuntimeDir) -> Result<Self, DaemonError> {
        let premises = dir.prepare()?;
        let path = dir.lock();
        let failed = |errno: Errno| DaemonError::file(&path)(errno.into());

        // A daemon that leaves removes the file while it holds the lock: what was locked may be
        // gone.
        for _ in 0..100 {
            let flags = OFlags::RDWR | OFlags::CREATE;
            let mut file = premises.open(LOCK, flags).map_err(failed)?;
            match rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive) {
                Ok(()) => {}
                Err(Errno::WOULDBLOCK) => {
                    let mut pid = String::new();
                    let _ = file.read_to_string(&mut pid);
                    let pid = match pid.trim().parse::<u32>() {
                        Ok(pid) => format!(" (process {pid})"),
                        Err(_) => String::new(),
                    };
                    return Err(DaemonError::AlreadyRunning {
                        path: dir.path().to_path_buf(),
                        pid,
                    });
                }
                Err(errno) => return Err(failed(errno)),
            }

            if premises.has(LOCK, &file) {
                // Dropped, it takes its files along, also where there is no room for the number.
                let mut lock = Self {
                    premises,
                    file,
                    keep_log: false,
                };
                lock.say_whose().map_err(DaemonError::file(&path))?;
                return Ok(lock);
            }
        }

        Err(DaemonError::Setting(format!(
            "{} keeps changing",
            path.display()
        )))
    }
}

/// Whether `ferroce run` gives this name to a link: that of the shim, of a driver for a version of
/// libibverbs, or one of these while the link is made, `.NAME.PID`.
fn is_link_of_run(name: &str) -> bool {
    let number = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let proper = |name: &str| {
        let driver = name.strip_prefix("libferroce-rdmav");
        let driver = driver.and_then(|rest| rest.strip_suffix(".so"));
        name == "libferroce-shim.so" || driver.is_some_and(number)
    };
    let unfinished = name
        .strip_prefix('.')
        .and_then(|name| name.rsplit_once('.'));
    proper(name) || unfinished.is_some_and(|(name, pid)| proper(name) && number(pid))
}

#[cfg(test)]
mod tests {
    use super::*;
    use ferroce_cabi::pabi;

    #[test]
    fn links_are_known_by_their_whole_names() {
        for number in pabi::numbers() {
            assert!(is_link_of_run(&pabi::driver_file("libferroce", number)));
        }
        for name in [
            "libferroce-shim.so",
            ".libferroce-shim.so.12",
            ".libferroce-rdmav34.so.1",
        ] {
            assert!(is_link_of_run(name), "{name}");
        }

        for name in [
            "libferroce.so",
            "libferroce-mine.so",
            "libferroce-rdmav.so",
            "libferroce-rdmav34.so.1",
            ".libferroce-shim.so",
            ".libferroce-shim.so.x",
        ] {
            assert!(!is_link_of_run(name), "{name}");
        }
    }

    #[test]
    fn one_at_a_time_and_the_other_is_named() {
        let temp = tempfile::tempdir().unwrap();
        let dir = RuntimeDir::resolve(Some(&temp.path().join("run")));
        let lock = Lock::take(&dir).unwrap();
        let message = Lock::take(&dir).unwrap_err().to_string();
        assert!(
            message.contains(&format!("process {}", std::process::id())),
            "{message}"
        );
        assert!(message.contains("ferroce down"), "{message}");
        drop(lock);
        assert!(!dir.path().exists());
        Lock::take(&dir).unwrap();
    }
}
