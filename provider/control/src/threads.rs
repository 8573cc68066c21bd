//! Threads of ours in a program that does not know of them: its handlers of signals run on its own.

use std::io;
use std::mem::MaybeUninit;
use std::thread::{Builder, JoinHandle};

/// Starts a thread with a stack of so many bytes, which takes no signals but these.
pub fn spawn(
    name: &str,
    stack: usize,
    takes: &[libc::c_int],
    work: impl FnOnce() + Send + 'static,
) -> io::Result<JoinHandle<()>> {
    let mut blocked = MaybeUninit::<libc::sigset_t>::uninit();
    let mut before = MaybeUninit::<libc::sigset_t>::uninit();

    // SAFETY: both sets are valid places; the new thread inherits the mask, and ours is restored
    // below.
    unsafe {
        libc::sigfillset(blocked.as_mut_ptr());
        for signal in takes {
            libc::sigdelset(blocked.as_mut_ptr(), *signal);
        }
        libc::pthread_sigmask(libc::SIG_SETMASK, blocked.as_ptr(), before.as_mut_ptr());
    }

    let spawned = Builder::new()
        .name(name.into())
        .stack_size(stack)
        .spawn(work);

    // SAFETY: `before` was filled by the call above.
    unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, before.as_ptr(), std::ptr::null_mut()) };
    spawned
}
