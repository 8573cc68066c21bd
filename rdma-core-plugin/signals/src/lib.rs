//! Waiting awake inside a system call that would sleep.
//!
//! The provider and the shim do so in `read(2)` and `write(2)`, where signals have to do what they
//! do there. They are held back meanwhile; if what was waited for has not come in the end, and a
//! signal has whose handler ends such a call (`signal(7)`, without `SA_RESTART`), the call ends
//! with `EINTR`. Such calls are also where a thread may be cancelled, but not among locks of ours:
//! that waits for the real one.

use libc::{c_int, sigset_t};
use std::mem::zeroed;
use std::ptr::null_mut;

/// `PTHREAD_CANCEL_DISABLE`, glibc's and musl's.
const CANCEL_DISABLE: c_int = 1;

unsafe extern "C" {
    fn pthread_setcancelstate(state: c_int, old: *mut c_int) -> c_int;
}

/// Signals and cancellation held back from the calling thread, until it is dropped.
pub struct Held {
    before: sigset_t,
    cancel_state: c_int,
}

impl Held {
    /// Holds back all but faults, as the engine meets some in the program's memory.
    #[must_use]
    pub fn all() -> Held {
        let mut cancel_state = 0;
        // SAFETY: plain sets of signals and numbers, of this thread.
        unsafe {
            pthread_setcancelstate(CANCEL_DISABLE, &raw mut cancel_state);
            let (mut all, mut before): (sigset_t, sigset_t) = (zeroed(), zeroed());
            libc::sigfillset(&raw mut all);
            for fault in [
                libc::SIGSEGV,
                libc::SIGBUS,
                libc::SIGILL,
                libc::SIGFPE,
                libc::SIGTRAP,
                libc::SIGABRT,
            ] {
                libc::sigdelset(&raw mut all, fault);
            }
            libc::pthread_sigmask(libc::SIG_BLOCK, &raw const all, &raw mut before);
            Held {
                before,
                cancel_state,
            }
        }
    }

    /// Whether a signal has come meanwhile at which a call that sleeps ends.
    #[must_use]
    pub fn would_end_a_call(&self) -> bool {
        // SAFETY: plain sets of signals, and room for what is known of a handler.
        unsafe {
            let mut pending: sigset_t = zeroed();
            libc::sigpending(&raw mut pending);
            (1..=libc::SIGRTMAX()).any(|signal| {
                libc::sigismember(&raw const pending, signal) == 1
                    && libc::sigismember(&raw const self.before, signal) == 0
                    && ends_a_call(signal)
            })
        }
    }
}

/// Whether the program has a handler for a signal, and no `SA_RESTART`.
fn ends_a_call(signal: c_int) -> bool {
    // SAFETY: room for what is known of a handler.
    unsafe {
        let mut action: libc::sigaction = zeroed();
        libc::sigaction(signal, null_mut(), &raw mut action) == 0
            && ![libc::SIG_DFL, libc::SIG_IGN].contains(&action.sa_sigaction)
            && action.sa_flags & libc::SA_RESTART == 0
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        // SAFETY: what was before, of this thread. Handlers run in the last call, and may not come
        // back.
        unsafe {
            pthread_setcancelstate(self.cancel_state, null_mut());
            libc::pthread_sigmask(libc::SIG_SETMASK, &raw const self.before, null_mut());
        }
    }
}
