//! The one error type of the control path. Its messages say what the user can do about it.

use std::io;
use std::path::PathBuf;

use rustix::io::Errno;

/// Why a control operation failed.
#[derive(Debug, thiserror::Error)]
pub enum ControlError {
    /// Nothing listens on the runtime directory's socket.
    #[error("no ferroced answers at {}: start one with `ferroce up`", .socket.display())]
    NotRunning {
        /// The socket that was tried.
        socket: PathBuf,
    },
    /// The runtime directory is not one that may be trusted.
    #[error("runtime directory {}: {reason}", .path.display())]
    Directory {
        /// The directory in question.
        path: PathBuf,
        /// What is wrong with it and what to do.
        reason: String,
    },
    /// Daemon and client are of different builds.
    #[error(
        "ferroced at {} speaks control protocol {theirs}, this program {ours}: \
         restart it with `ferroce down` and `ferroce up`",
        .socket.display()
    )]
    Version {
        /// The daemon's socket.
        socket: PathBuf,
        /// The daemon's protocol version.
        theirs: u32,
        /// This library's protocol version.
        ours: u32,
    },
    /// The daemon understood and said no.
    #[error("{message}")]
    Refused {
        /// A positive errno.
        errno: i32,
        /// The daemon's explanation.
        message: String,
    },
    /// The daemon closed the connection.
    #[error("ferroced has closed the connection (it was stopped or it died)")]
    Closed,
    /// The daemon did not answer in time.
    #[error("{who} did not answer within {seconds} s")]
    Timeout {
        /// The daemon's program and process.
        who: String,
        /// How long the client waited.
        seconds: u64,
    },
    /// What the daemon sent makes no sense.
    #[error("unintelligible message from ferroced: {0}")]
    Malformed(String),
    /// A system call failed.
    #[error("{what}: {source}")]
    Io {
        /// What was being done.
        what: &'static str,
        /// Why it failed.
        source: io::Error,
    },
}

impl ControlError {
    /// The positive errno that stands for this error at a C boundary.
    pub fn errno(&self) -> i32 {
        match self {
            Self::NotRunning { .. } | Self::Closed => Errno::NODEV.raw_os_error(),
            Self::Directory { .. } => Errno::ACCESS.raw_os_error(),
            Self::Version { .. } | Self::Malformed(_) => Errno::PROTO.raw_os_error(),
            Self::Refused { errno, .. } => *errno,
            Self::Timeout { .. } => Errno::TIMEDOUT.raw_os_error(),
            Self::Io { source, .. } => source
                .raw_os_error()
                .unwrap_or_else(|| Errno::IO.raw_os_error()),
        }
    }

    pub(crate) fn io(what: &'static str) -> impl Fn(Errno) -> Self {
        move |errno| Self::Io {
            what,
            source: errno.into(),
        }
    }
}
