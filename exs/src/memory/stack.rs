//! The calling thread's own stack: memory that is there for sure, so that nobody need ask the
//! kernel. Most of what applications have events written to, and descriptions read from, are
//! variables.

use std::mem::MaybeUninit;
use std::ops::Range;

thread_local! {
    /// `None`: the C library does not say.
    static STACK: Option<Range<usize>> = bounds();
}

/// Whether a range is in the part of the calling thread's stack that is in use: that of its
/// callers. Stacks grow downwards.
pub(super) fn holds(address: usize, length: usize) -> bool {
    let variable = 0_u8;
    let here = std::ptr::from_ref(std::hint::black_box(&variable)) as usize;
    if length == 0 || address < here {
        return false;
    }
    let within = |stack: &Range<usize>| {
        // A coroutine or a signal handler may run on another.
        stack.contains(&here) && address <= stack.end && length <= stack.end - address
    };
    // A thread that is ending may have let go of it.
    STACK.try_with(|stack| stack.as_ref().is_some_and(within)) == Ok(true)
}

/// What the C library says, which looks into `/proc/self/maps` for a process's first thread.
fn bounds() -> Option<Range<usize>> {
    let mut attributes = MaybeUninit::<libc::pthread_attr_t>::uninit();
    let (mut lowest, mut size) = (std::ptr::null_mut(), 0);
    // SAFETY: places for what is asked for, which is let go of afterwards.
    unsafe {
        let thread = libc::pthread_self();
        if libc::pthread_getattr_np(thread, attributes.as_mut_ptr()) != 0 {
            return None;
        }
        let got = libc::pthread_attr_getstack(attributes.as_ptr(), &mut lowest, &mut size);
        libc::pthread_attr_destroy(attributes.as_mut_ptr());
        if got != 0 {
            return None;
        }
    }
    let lowest = lowest as usize;
    Some(lowest..lowest.checked_add(size)?)
}
