//! What is done when a libibverbs may be about to look for devices: the provider registers with
//! those that have come since it was loaded, as its constructor runs only once.

use crate::device;
use crate::guard::quietly;
use crate::stand_in;
use ferroce_cabi::uverbs::{self, SHIM_BEFORE_SEARCH};
use libc::{c_int, c_void, dl_phdr_info, size_t};
use std::sync::atomic::{AtomicU64, Ordering};

/// How many objects had been loaded in the life of the process when this was last done.
static LOADED: AtomicU64 = AtomicU64::new(0);

/// Has the shim call this before searches, if there is one.
pub(crate) fn register() {
    // SAFETY: it takes such a function.
    unsafe { stand_in::tell_shim::<uverbs::before_search>(SHIM_BEFORE_SEARCH, before_search) };
}

extern "C" fn before_search() {
    quietly((), || {
        let loaded = loaded();
        if loaded == 0 || LOADED.load(Ordering::Acquire) != loaded {
            device::register();
            LOADED.store(loaded, Ordering::Release);
        }
    });
}

/// How many objects have been loaded in the life of the process; 0: the C library does not count.
fn loaded() -> u64 {
    unsafe extern "C" fn first(info: *mut dl_phdr_info, size: size_t, adds: *mut c_void) -> c_int {
        if size >= size_of::<dl_phdr_info>() {
            // SAFETY: what `dl_iterate_phdr` hands over: an entry of that size, and the number that
            // it was given below.
            unsafe { adds.cast::<u64>().write((*info).dlpi_adds) };
        }
        1
    }

    let mut adds = 0_u64;
    // SAFETY: the number outlives the call, and `first` takes it for what it is.
    unsafe { libc::dl_iterate_phdr(Some(first), (&raw mut adds).cast()) };
    adds
}
