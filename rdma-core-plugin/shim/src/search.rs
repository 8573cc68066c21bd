//! Searches for drivers. A process can have several libibverbs, as packages bring their own; one
//! that comes when the provider is there already would load it in vain, as it registers itself only
//! once. So the provider is told when one of them may be looking.

use crate::told::Told;
use ferroce_cabi::uverbs::before_search;

static BEFORE_SEARCH: Told<before_search> = Told::nothing();

/// For the provider: see [`ferroce_cabi::uverbs::shim_before_search`].
#[cfg_attr(not(test), unsafe(no_mangle))]
#[cfg_attr(test, allow(dead_code))]
pub(crate) extern "C" fn ferroce_shim_before_search(function: before_search) {
    BEFORE_SEARCH.tell(function);
}

/// Somebody looks through a directory.
#[inline]
pub(crate) fn begins() {
    if let Some(function) = BEFORE_SEARCH.function() {
        // SAFETY: it may be called by any thread.
        unsafe { function() };
    }
}
