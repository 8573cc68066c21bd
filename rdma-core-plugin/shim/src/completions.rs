//! Reads of completion channels. The provider, which writes them, may have the thread that is about
//! to sleep in one receive by itself for a moment first.

use crate::descriptors;
use ferroce_cabi::uverbs::before_read;
use libc::{c_int, c_void};
use std::mem::transmute;
use std::ptr::null_mut;
use std::sync::atomic::{AtomicPtr, Ordering};

/// The provider's function; null: none.
static BEFORE_READ: AtomicPtr<c_void> = AtomicPtr::new(null_mut());

/// For the provider: see [`ferroce_cabi::uverbs::shim_before_read`].
#[cfg_attr(not(test), unsafe(no_mangle))]
#[cfg_attr(test, allow(dead_code))]
pub(crate) extern "C" fn ferroce_shim_before_read(function: before_read) {
    BEFORE_READ.store(function as *mut c_void, Ordering::Release);
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
    let function = BEFORE_READ.load(Ordering::Acquire);
    if function.is_null() {
        return None;
    }
    // SAFETY: what was stored is a function of this type, and a provider stays.
    let function = unsafe { transmute::<*mut c_void, before_read>(function) };
    // SAFETY: it takes any descriptor.
    let errno = unsafe { function(fd) };
    (errno != 0).then_some(errno)
}
