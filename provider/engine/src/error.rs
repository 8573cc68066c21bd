//! The engine's errors, and the one place where they become an errno.

use std::io;

use ferroce_control::ControlError;
use ferroce_transport::{ModifyError, PostError};

/// What a verb can fail with.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The daemon cannot be reached, or refused.
    #[error(transparent)]
    Control(#[from] ControlError),
    /// A system call failed.
    #[error("{what}: {source}")]
    Io {
        /// What was tried.
        what: &'static str,
        /// The system's answer.
        source: io::Error,
    },
    /// An attribute of queue pair modification is missing, not allowed or out of range.
    #[error(transparent)]
    Modify(#[from] ModifyError),
    /// A work request was refused.
    #[error(transparent)]
    Post(#[from] PostError),
    /// The object is still used by another.
    #[error("{0} is in use")]
    Busy(&'static str),
    /// Whoever asks would wait for itself.
    #[error("waiting for itself: {0}")]
    Deadlock(&'static str),
    /// An argument is out of range or contradicts another.
    #[error("invalid argument: {0}")]
    Invalid(&'static str),
    /// A limit of the device, or a queue, is exhausted.
    #[error("out of room: {0}")]
    Full(&'static str),
    /// The memory is not mapped, or lacks the permission asked for.
    #[error("memory at {addr:#x}+{len:#x} is not mapped with the permissions asked for")]
    BadMemory {
        /// Start of the range.
        addr: u64,
        /// Its length in bytes.
        len: u64,
    },
    /// The object is another's.
    #[error("not permitted: {0}")]
    Forbidden(&'static str),
    /// There is no such object.
    #[error("not found: {0}")]
    Missing(&'static str),
    /// What was to be opened does not exist.
    #[error("{0}")]
    Absent(&'static str),
    /// Not offered by this device.
    #[error("not supported: {0}")]
    Unsupported(&'static str),
    /// A fault on command has the verb fail.
    #[error("fault {fault} has {verb} fail")]
    Injected {
        /// The fault's number.
        fault: u32,
        /// The verb.
        verb: &'static str,
        /// What it fails with.
        errno: i32,
    },
    /// The process forked, or the object failed; it can only be destroyed.
    #[error("the device is gone for this process")]
    Dead,
}

/// Shorthand.
pub type Result<T, E = Error> = std::result::Result<T, E>;

impl Error {
    pub(crate) fn io(what: &'static str, source: io::Error) -> Error {
        Error::Io { what, source }
    }

    pub(crate) fn last_os(what: &'static str) -> Error {
        Error::io(what, io::Error::last_os_error())
    }

    /// The positive errno that the C API reports.
    pub fn errno(&self) -> i32 {
        match self {
            Error::Control(e) => e.errno(),
            Error::Io { source, .. } => source.raw_os_error().unwrap_or(libc::EIO),
            Error::Modify(_) | Error::Invalid(_) => libc::EINVAL,
            Error::Post(PostError::QueueFull) => libc::ENOMEM,
            Error::Post(_) => libc::EINVAL,
            Error::Busy(_) => libc::EBUSY,
            Error::Deadlock(_) => libc::EDEADLK,
            Error::Full(_) => libc::ENOMEM,
            Error::Absent(_) => libc::EAGAIN,
            Error::BadMemory { .. } => libc::EFAULT,
            Error::Forbidden(_) => libc::EPERM,
            Error::Missing(_) => libc::ENOENT,
            Error::Unsupported(_) => libc::EOPNOTSUPP,
            Error::Injected { errno, .. } => *errno,
            Error::Dead => libc::EIO,
        }
    }
}
