//! What a thread does that is about to read a completion channel: it receives by itself for a
//! moment where that is likely to bring an event, instead of being woken for it.
//!
//! It does so inside `read(2)`, so signals have to do what they do there. They are held back
//! meanwhile; if there is no event in the end, and one has come whose handler ends a `read`
//! (`signal(7)`, without `SA_RESTART`), this one ends with `EINTR`. `read` is where a thread may be
//! cancelled, but not among the engine's locks: that waits for the real one.

use crate::guard::quietly;
use crate::stand_in;
use ferroce_cabi::uverbs::{SHIM_BEFORE_READ, shim_before_read};
use ferroce_engine::AwakeWait;
use libc::{c_int, sigset_t};
use std::mem::zeroed;
use std::ptr::null_mut;

/// `PTHREAD_CANCEL_DISABLE`, glibc's and musl's.
const CANCEL_DISABLE: c_int = 1;

unsafe extern "C" {
    fn pthread_setcancelstate(state: c_int, old: *mut c_int) -> c_int;
}

/// Has the shim call this before reads of completion channels, if there is one.
pub(crate) fn register() {
    let Some(address) = stand_in::of_shim(SHIM_BEFORE_READ) else {
        return;
    };
    // SAFETY: the type that the shim's function of this name has.
    let tell = unsafe { std::mem::transmute::<*mut libc::c_void, shim_before_read>(address) };
    // SAFETY: a function of the type that it takes, of a library that stays.
    unsafe { tell(before_read) };
}

extern "C" fn before_read(fd: c_int) -> c_int {
    quietly(0, || {
        let Some(wait) = AwakeWait::worth(fd) else {
            return 0;
        };
        let held = Held::all();
        let has_event = wait.wait();
        match !has_event && held.would_end_a_read() {
            true => libc::EINTR,
            false => 0,
        }
    })
}

/// Signals and cancellation held back from the calling thread, until it is dropped.
struct Held {
    before: sigset_t,
    cancel_state: c_int,
}

impl Held {
    fn all() -> Held {
        let mut cancel_state = 0;
        // SAFETY: plain sets of signals and numbers, of this thread. Faults are not held back, as
        // the engine meets some in the program's memory.
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

    /// Whether a signal has come meanwhile at which a `read` that sleeps ends.
    fn would_end_a_read(&self) -> bool {
        // SAFETY: plain sets of signals, and room for what is known of a handler.
        unsafe {
            let mut pending: sigset_t = zeroed();
            libc::sigpending(&raw mut pending);
            (1..=libc::SIGRTMAX()).any(|signal| {
                libc::sigismember(&raw const pending, signal) == 1
                    && libc::sigismember(&raw const self.before, signal) == 0
                    && ends_a_read(signal)
            })
        }
    }
}

/// Whether the program has a handler for a signal, and no `SA_RESTART`.
fn ends_a_read(signal: c_int) -> bool {
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
