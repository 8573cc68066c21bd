//! The system calls by which a thread of the program sends and receives, while it posts and polls.
//!
//! Not by libc's functions of these names: those are cancellation points, where
//! `pthread_cancel(3)` ends a thread. No verb of the data path is one on an adapter, and a thread
//! that ended here would leave our locks locked. They cost more, too, and the program's are those
//! that the shim has put its own in front of. Whatever else of libc is one is not called in the
//! data path either; `rustix` has no such functions.

use std::io;
use std::os::fd::AsRawFd;

/// `sendmsg(2)`; returns the bytes sent.
///
/// # Safety
///
/// Name, pieces and control data of the message are there until this returns.
#[inline]
pub(super) unsafe fn sendmsg(
    socket: &impl AsRawFd,
    message: &libc::msghdr,
    flags: libc::c_int,
) -> io::Result<usize> {
    let message = std::ptr::from_ref(message);
    // SAFETY: see above; the kernel checks all memory.
    outcome(unsafe { libc::syscall(libc::SYS_sendmsg, socket.as_raw_fd(), message, flags) })
}

/// `recvmsg(2)`; returns the bytes received.
///
/// # Safety
///
/// What the message has for name, pieces and control data can be written until this returns.
#[inline]
pub(super) unsafe fn recvmsg(
    socket: &impl AsRawFd,
    message: &mut libc::msghdr,
    flags: libc::c_int,
) -> io::Result<usize> {
    let message = std::ptr::from_mut(message);
    // SAFETY: see above; the kernel checks all memory.
    outcome(unsafe { libc::syscall(libc::SYS_recvmsg, socket.as_raw_fd(), message, flags) })
}

fn outcome(result: libc::c_long) -> io::Result<usize> {
    usize::try_from(result).map_err(|_| io::Error::last_os_error())
}
