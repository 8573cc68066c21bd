//! The signals that ask a daemon or a switch to leave, as a descriptor.

use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, FromRawFd, OwnedFd};

use crate::DaemonError;

/// Which they are.
const SIGNALS: [libc::c_int; 3] = [libc::SIGTERM, libc::SIGINT, libc::SIGHUP];

/// SIGTERM, SIGINT and SIGHUP, which do nothing any more but make this readable.
#[derive(Debug)]
pub struct Signals(OwnedFd);

impl Signals {
    /// From here on they come through a descriptor. To be called while there is one thread only.
    pub fn block() -> Result<Self, DaemonError> {
        let failed = |error: io::Error| DaemonError::Os {
            what: "waiting for signals".into(),
            source: error,
        };

        let mut set = MaybeUninit::uninit();

        // SAFETY: the set is initialized by the first call, and lives on.
        let set = unsafe {
            libc::sigemptyset(set.as_mut_ptr());
            for signal in SIGNALS {
                libc::sigaddset(set.as_mut_ptr(), signal);
            }
            set.assume_init()
        };

        // SAFETY: the set is valid, and where the old one would go is nowhere.
        let error = unsafe { libc::pthread_sigmask(libc::SIG_BLOCK, &set, std::ptr::null_mut()) };
        if error != 0 {
            return Err(failed(io::Error::from_raw_os_error(error)));
        }

        // SAFETY: the set is valid; -1 asks for a new descriptor.
        let fd = unsafe { libc::signalfd(-1, &set, libc::SFD_CLOEXEC | libc::SFD_NONBLOCK) };
        if fd < 0 {
            return Err(failed(io::Error::last_os_error()));
        }

        // SAFETY: it was made just now, and is nobody else's.
        Ok(Self(unsafe { OwnedFd::from_raw_fd(fd) }))
    }

    /// The number of one that has come.
    pub(crate) fn take(&self) -> Option<u32> {
        let mut info = [0; size_of::<libc::signalfd_siginfo>()];
        let len = rustix::io::read(&self.0, &mut info).ok()?;
        // `ssi_signo` is the first.
        let number = info.get(..len)?.first_chunk()?;
        Some(u32::from_ne_bytes(*number))
    }
}

impl AsFd for Signals {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}
