//! How often this process was forked, as what its parent had open is not a child's to use.

use std::sync::Once;
use std::sync::atomic::{AtomicU32, Ordering};

static FORKS: AtomicU32 = AtomicU32::new(0);

extern "C" fn forked() {
    FORKS.fetch_add(1, Ordering::Relaxed);
}

/// Has forks counted from now on.
pub(crate) fn watch() {
    static AT_FORK: Once = Once::new();
    // SAFETY: the handler only touches an atomic.
    AT_FORK.call_once(|| unsafe {
        libc::pthread_atfork(None, None, Some(forked));
    });
}

/// The forks on the way from the first of the processes to this one, since they were watched.
pub(crate) fn count() -> u32 {
    FORKS.load(Ordering::Relaxed)
}
