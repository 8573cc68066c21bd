//! Searches for drivers. A process can have several libibverbs, as packages bring their own; one
//! that comes when the provider is there already would load it in vain, as it registers itself only
//! once. So the provider is told when one of them may be looking.

use ferroce_cabi::uverbs::before_search;
use libc::c_void;
use std::mem::transmute;
use std::ptr::null_mut;
use std::sync::atomic::{AtomicPtr, Ordering};

/// The provider's function; null: none.
static BEFORE_SEARCH: AtomicPtr<c_void> = AtomicPtr::new(null_mut());

/// For the provider: see [`ferroce_cabi::uverbs::shim_before_search`].
#[cfg_attr(not(test), unsafe(no_mangle))]
#[cfg_attr(test, allow(dead_code))]
pub(crate) extern "C" fn ferroce_shim_before_search(function: before_search) {
    BEFORE_SEARCH.store(function as *mut c_void, Ordering::Release);
}

/// Somebody looks through a directory.
#[inline]
pub(crate) fn begins() {
    let function = BEFORE_SEARCH.load(Ordering::Acquire);
    if function.is_null() {
        return;
    }
    // SAFETY: what was stored is a function of this type, and a provider stays.
    let function = unsafe { transmute::<*mut c_void, before_search>(function) };
    // SAFETY: it may be called by any thread.
    unsafe { function() };
}
