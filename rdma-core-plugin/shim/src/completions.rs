//! Reads of completion channels. The provider, which writes them, may have the thread that is about
//! to sleep in one receive by itself for a moment first.

use crate::descriptors;
use crate::sys;
use crate::told::Told;
use ferroce_cabi::uverbs::{before_read, channel_closed, make_channel};
use libc::{c_int, size_t, ssize_t};

static BEFORE_READ: Told<before_read> = Told::nothing();
static MAKE: Told<make_channel> = Told::nothing();
static CLOSED: Told<channel_closed> = Told::nothing();

/// For the provider: see [`ferroce_cabi::uverbs::shim_before_read`].
#[cfg_attr(not(test), unsafe(no_mangle))]
#[cfg_attr(test, allow(dead_code))]
pub(crate) extern "C" fn ferroce_shim_before_read(function: before_read) {
    BEFORE_READ.tell(function);
}

/// For the provider: see [`ferroce_cabi::uverbs::shim_make_channels`].
#[cfg_attr(not(test), unsafe(no_mangle))]
#[cfg_attr(test, allow(dead_code))]
pub(crate) extern "C" fn ferroce_shim_make_channels(make: make_channel, closed: channel_closed) {
    MAKE.tell(make);
    CLOSED.tell(closed);
}

/// For the provider: see [`ferroce_cabi::uverbs::shim_has_events`].
#[cfg_attr(not(test), unsafe(no_mangle))]
#[cfg_attr(test, allow(dead_code))]
pub(crate) extern "C" fn ferroce_shim_has_events(fd: c_int) {
    descriptors::set_completions(fd);
}

/// A new channel of the device file that is open there; `None`: nobody knows it. The error is an
/// errno.
pub(crate) fn make(device: c_int) -> Result<Option<c_int>, c_int> {
    let Some(function) = MAKE.function() else {
        return Ok(None);
    };
    // SAFETY: it takes any descriptor.
    match unsafe { function(device) } {
        0 => Ok(None),
        fd if fd > 0 => Ok(Some(fd)),
        error => Err(-error),
    }
}

/// A channel's descriptor is about to be closed.
pub(crate) fn closing(fd: c_int) {
    if let Some(function) = CLOSED.function() {
        // SAFETY: it takes any descriptor.
        unsafe { function(fd) };
    }
}

/// What a read returns: of the events of a device that is gone not the end of a file, but what the
/// kernel has such reads fail with.
#[inline]
pub(crate) fn after_read(fd: c_int, count: size_t, n: ssize_t) -> ssize_t {
    match n == 0 && count != 0 && descriptors::completions(fd) {
        true => sys::fail(libc::EIO) as ssize_t,
        false => n,
    }
}

/// A thread is about to read. Returns what the read fails with, if it is not to be done.
#[inline]
pub(crate) fn before_read(fd: c_int) -> Option<c_int> {
    match descriptors::completions(fd) {
        true => tell(fd),
        false => None,
    }
}

fn tell(fd: c_int) -> Option<c_int> {
    let function = BEFORE_READ.function()?;
    // SAFETY: it takes any descriptor.
    let errno = unsafe { function(fd) };
    (errno != 0).then_some(errno)
}
