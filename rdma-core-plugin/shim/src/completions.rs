//! Reads of completion channels. The provider, which writes them, may have the thread that is about
//! to sleep in one receive by itself for a moment first.

use crate::descriptors;
use crate::told::Told;
use ferroce_cabi::uverbs::before_read;
use libc::c_int;

static BEFORE_READ: Told<before_read> = Told::nothing();

/// For the provider: see [`ferroce_cabi::uverbs::shim_before_read`].
#[cfg_attr(not(test), unsafe(no_mangle))]
#[cfg_attr(test, allow(dead_code))]
pub(crate) extern "C" fn ferroce_shim_before_read(function: before_read) {
    BEFORE_READ.tell(function);
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
