//! Errors are errno values from where they arise; this is their one type.

use std::io;

/// An errno value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{}", io::Error::from_raw_os_error(*.0))]
pub(crate) struct Errno(pub i32);

/// What may fail with an errno.
pub(crate) type Result<T> = std::result::Result<T, Errno>;

impl Errno {
    /// The calling thread's errno, as a C function has just set it.
    pub(crate) fn last() -> Self {
        io::Error::last_os_error().into()
    }
}

impl From<io::Error> for Errno {
    fn from(error: io::Error) -> Self {
        Self(
            error
                .raw_os_error()
                .filter(|code| *code > 0)
                .unwrap_or(libc::EIO),
        )
    }
}
