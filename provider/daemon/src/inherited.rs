//! What a daemon in the background must not inherit.

use std::fs;
use std::io;
use std::os::fd::{BorrowedFd, RawFd};

use rustix::io::FdFlags;
use rustix::stdio::raw_stderr;

/// Keeps all but the standard streams from the programs that this one starts. Whoever started it
/// may have a pipe open whose end it waits for, as direnv and make do: it would wait for the
/// daemon's.
///
/// # Errors
///
/// There is no `/proc`.
pub fn keep_none() -> io::Result<()> {
    for entry in fs::read_dir("/proc/self/fd")?.flatten() {
        let number = entry
            .file_name()
            .to_str()
            .and_then(|name| name.parse().ok());
        let Some(fd) = number.filter(|fd: &RawFd| *fd > raw_stderr()) else {
            continue;
        };
        // SAFETY: nothing but a flag is changed of it, and one that has been closed since, as that
        // of this listing may be, is refused.
        let fd = unsafe { BorrowedFd::borrow_raw(fd) };
        let _ = rustix::io::fcntl_setfd(fd, FdFlags::CLOEXEC);
    }
    Ok(())
}
