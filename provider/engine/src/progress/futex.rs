//! Words that threads of this process sleep on.

use std::io;
use std::sync::atomic::AtomicU32;

use ferroce_transport::Duration;

use crate::progress::timers;

/// Sleeps while the word is `expected`, until somebody wakes us, but no longer than `most`. Returns
/// whether it ended before.
pub(crate) fn wait(word: &AtomicU32, expected: u32, most: Duration) -> bool {
    let timeout = timers::timespec(most);
    // SAFETY: the word and the timeout outlive the call.
    let ended = unsafe {
        libc::syscall(
            libc::SYS_futex,
            word.as_ptr(),
            libc::FUTEX_WAIT | libc::FUTEX_PRIVATE_FLAG,
            expected,
            &raw const timeout,
        )
    };
    ended == 0 || io::Error::last_os_error().raw_os_error() != Some(libc::ETIMEDOUT)
}

/// Wakes all who sleep on the word.
pub(crate) fn wake(word: &AtomicU32) {
    // SAFETY: the word is alive for the call, which does not look at it.
    unsafe {
        libc::syscall(
            libc::SYS_futex,
            word.as_ptr(),
            libc::FUTEX_WAKE | libc::FUTEX_PRIVATE_FLAG,
            i32::MAX,
        )
    };
}
