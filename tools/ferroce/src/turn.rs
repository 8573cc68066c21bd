//! Whose turn it is to start a daemon on a runtime directory. Others wait, but not for ever: who has the turn may be stopped.

use std::thread;
use std::time::{Duration, Instant};

use ferroce_control::{Premises, RuntimeDir, process};
use nix::fcntl::{FcntlArg, fcntl};
use nix::libc;

use crate::error::Error;

/// How long others wait: a daemon starts in a fraction of it.
const PATIENCE: Duration = Duration::from_secs(15);
/// How often they look. The kernel has no wait for a lock that ends after a while.
const PAUSE: Duration = Duration::from_millis(20);

/// Held by who starts a daemon: a record lock on the directory's marker, which the kernel releases with the process.
#[derive(Debug)]
pub struct Turn {
    premises: Premises,
}

impl Turn {
    /// Makes the directory if need be, and waits for the turn.
    pub fn take(dir: &RuntimeDir) -> Result<Self, Error> {
        Self::take_within(dir, PATIENCE)
    }

    fn take_within(dir: &RuntimeDir, patience: Duration) -> Result<Self, Error> {
        let premises = dir.prepare()?;
        let deadline = Instant::now() + patience;
        let failed =
            |errno: nix::Error| Error::io("waiting for the turn to start ferroced")(errno.into());
        loop {
            match fcntl(premises.marker(), FcntlArg::F_SETLK(&whole())) {
                Ok(_) => return Ok(Self { premises }),
                Err(nix::Error::EAGAIN | nix::Error::EACCES | nix::Error::EINTR) => {}
                Err(errno) => return Err(failed(errno)),
            }
            if Instant::now() >= deadline {
                let mut holder = whole();
                fcntl(premises.marker(), FcntlArg::F_GETLK(&mut holder)).map_err(failed)?;
                // Who has let go in this moment has no number.
                if i32::from(holder.l_type) != libc::F_UNLCK {
                    return Err(Error::Waiting {
                        who: process::describe(holder.l_pid.unsigned_abs()),
                        path: dir.path().to_path_buf(),
                        seconds: patience.as_secs(),
                    });
                }
            }
            thread::sleep(PAUSE);
        }
    }

    /// The directory.
    pub fn premises(&self) -> &Premises {
        &self.premises
    }
}

/// A write lock on all of a file.
fn whole() -> libc::flock {
    libc::flock {
        l_type: libc::F_WRLCK as libc::c_short,
        l_whence: libc::SEEK_SET as libc::c_short,
        l_start: 0,
        l_len: 0,
        l_pid: 0,
    }
}
