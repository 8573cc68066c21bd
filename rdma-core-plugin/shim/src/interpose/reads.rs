//! Reads of descriptors: umad files, completion channels and asynchronous events.

use libc::{c_int, c_void, size_t, ssize_t};

use crate::next::call_next;
use crate::{completions, descriptors, sys, umad};

/// What comes of a read without the next library: of a umad file, or of a completion channel for
/// which a signal ended the wait. `None`: it is to be done.
///
/// # Safety
/// The buffer is writable.
unsafe fn read_instead(fd: c_int, buf: *mut c_void, count: size_t) -> Option<ssize_t> {
    if !descriptors::umad(fd) {
        return completions::before_read(fd).map(|errno| sys::fail(errno) as ssize_t);
    }
    // SAFETY: as the caller promises.
    match unsafe { umad::read(fd, buf, count) } {
        Some(Ok(n)) => Some(n as ssize_t),
        Some(Err(errno)) => Some(sys::fail(errno) as ssize_t),
        None => {
            descriptors::set(fd, None);
            None
        }
    }
}

/// # Safety
/// As `read(2)`.
#[cfg_attr(not(test), unsafe(no_mangle))]
#[cfg_attr(test, allow(dead_code))]
pub(super) unsafe extern "C-unwind" fn read(fd: c_int, buf: *mut c_void, count: size_t) -> ssize_t {
    // SAFETY: the caller's buffer.
    if let Some(n) = unsafe { read_instead(fd, buf, count) } {
        return n;
    }
    let n = call_next!(read(fd => c_int, buf => *mut c_void, count => size_t) -> ssize_t, -1);
    completions::after_read(fd, count, n)
}

/// # Safety
/// As glibc's checked `read`, which aborts when `room` is too small for `count`.
#[cfg_attr(not(test), unsafe(no_mangle))]
#[cfg_attr(test, allow(dead_code))]
pub(super) unsafe extern "C-unwind" fn __read_chk(
    fd: c_int,
    buf: *mut c_void,
    count: size_t,
    room: size_t,
) -> ssize_t {
    if count <= room {
        // SAFETY: the caller's buffer.
        if let Some(n) = unsafe { read_instead(fd, buf, count) } {
            return n;
        }
    }
    let n = call_next!(__read_chk(fd => c_int, buf => *mut c_void, count => size_t, room => size_t) -> ssize_t, -1);
    completions::after_read(fd, count, n)
}
