//! Whose turn it is to start a daemon on a runtime directory. Others wait, but not for ever: who
//! has the turn may be stopped.

use std::os::fd::{AsFd, AsRawFd};
use std::thread;
use std::time::{Duration, Instant};

use ferroce_control::{Premises, RuntimeDir, process};
use rustix::fs::{FlockOperation, fcntl_lock};
use rustix::io::Errno;

use crate::error::Error;

/// How long others wait: a daemon starts in a fraction of it.
const PATIENCE: Duration = Duration::from_secs(15);
/// How often they look. The kernel has no wait for a lock that ends after a while.
const PAUSE: Duration = Duration::from_millis(20);

/// Held by who starts a daemon: a record lock on the directory's marker, which the kernel releases
/// with the process.
#[derive(Debug)]
pub(crate) struct Turn {
    premises: Premises,
}

impl Turn {
    /// Makes the directory if need be, and waits for the turn.
    pub(crate) fn take(dir: &RuntimeDir) -> Result<Self, Error> {
        Self::take_within(dir, PATIENCE)
    }

    fn take_within(dir: &RuntimeDir, patience: Duration) -> Result<Self, Error> {
        let premises = dir.prepare()?;
        let deadline = Instant::now() + patience;
        let failed =
            |errno: Errno| Error::io("waiting for the turn to start ferroced")(errno.into());
        loop {
            match fcntl_lock(premises.marker(), FlockOperation::NonBlockingLockExclusive) {
                Ok(_) => return Ok(Self { premises }),
                Err(Errno::AGAIN | Errno::ACCESS | Errno::INTR) => {}
                Err(errno) => return Err(failed(errno)),
            }

            if Instant::now() >= deadline {
                let holder = holder(premises.marker()).map_err(failed)?;
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
    pub(crate) fn premises(&self) -> &Premises {
        &self.premises
    }
}

/// The write lock on all of the marker that is in the way of one of ours.
fn holder(marker: impl AsFd) -> Result<libc::flock, Errno> {
    let mut lock = libc::flock {
        l_type: libc::F_WRLCK as libc::c_short,
        l_whence: libc::SEEK_SET as libc::c_short,
        l_start: 0,
        l_len: 0,
        l_pid: 0,
    };

    // SAFETY: the descriptor is open, and the lock is the caller's to be written.
    match unsafe { libc::fcntl(marker.as_fd().as_raw_fd(), libc::F_GETLK, &raw mut lock) } {
        -1 => {
            let error = std::io::Error::last_os_error();
            Err(Errno::from_io_error(&error).unwrap_or(Errno::IO))
        }
        _ => Ok(lock),
    }
}
