//! What comes to a thread from others while it is among locks of ours: cancellation, and signals
//! where it waits awake inside a system call that would sleep.
//!
//! The provider and the shim do so in `read(2)` and `write(2)`, where signals have to do what they
//! do there. They are held back meanwhile; if what was waited for has not come in the end, and a
//! signal has whose handler ends such a call (`signal(7)`, without `SA_RESTART`), the call ends
//! with `EINTR`. Such calls are also where a thread may be cancelled, but not among locks of ours:
//! that waits for the real one.

use libc::{c_int, c_ulong, sigset_t};
use std::mem::{transmute, zeroed};
use std::ptr::null_mut;

/// `PTHREAD_CANCEL_DISABLE`, glibc's and musl's.
const CANCEL_DISABLE: c_int = 1;

unsafe extern "C" {
    fn pthread_setcancelstate(state: c_int, old: *mut c_int) -> c_int;
}

/// Cancellation held back from the calling thread, until it is dropped: calls that the C library
/// makes one of its cancellation points end no thread.
pub struct Uncancelled {
    before: c_int,
}

impl Uncancelled {
    /// Holds it back.
    #[must_use]
    pub fn begin() -> Uncancelled {
        let mut before = 0;
        // SAFETY: a number, of this thread.
        unsafe { pthread_setcancelstate(CANCEL_DISABLE, &raw mut before) };
        Uncancelled { before }
    }
}

impl Drop for Uncancelled {
    fn drop(&mut self) {
        // SAFETY: what was before, of this thread.
        unsafe { pthread_setcancelstate(self.before, null_mut()) };
    }
}

/// Signals and cancellation held back from the calling thread, until it is dropped: in the order of
/// these, as handlers of signals run then, and may not come back.
pub struct Held {
    _uncancelled: Uncancelled,
    signals: Blocked,
}

/// Signals held back, and those that had been before.
struct Blocked {
    before: sigset_t,
    /// Those that had not been.
    newly: sigset_t,
}

/// A set of signals as both C libraries have it: bits in words.
type Words = [c_ulong; size_of::<sigset_t>() / size_of::<c_ulong>()];

/// What is in `all` and not in `some`.
fn without(all: &sigset_t, some: &sigset_t) -> sigset_t {
    // SAFETY: as long, and without a bit that means nothing.
    unsafe {
        let [mut left, some] = [*all, *some].map(|set| transmute::<sigset_t, Words>(set));
        for (left, some) in left.iter_mut().zip(some) {
            *left &= !some;
        }
        transmute::<Words, sigset_t>(left)
    }
}

impl Held {
    /// Holds back all but faults, as the engine meets some in the program's memory.
    #[must_use]
    pub fn all() -> Held {
        let uncancelled = Uncancelled::begin();
        // SAFETY: plain sets of signals, of this thread.
        unsafe {
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
                _uncancelled: uncancelled,
                signals: Blocked {
                    before,
                    newly: without(&all, &before),
                },
            }
        }
    }

    /// Lets in what has come meanwhile, and answers whether a handler ran.
    #[must_use]
    pub fn let_in(&self) -> bool {
        let at_once = libc::timespec {
            tv_sec: 0,
            tv_nsec: 0,
        };
        let before = &raw const self.signals.before;
        // A signal that has no handler is none for this call. SAFETY: no descriptors, a time, and
        // what was before, of this thread.
        let found = unsafe { libc::ppoll(null_mut(), 0, &raw const at_once, before) };
        // SAFETY: the calling thread's own.
        found < 0 && unsafe { *libc::__errno_location() } == libc::EINTR
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
                    && libc::sigismember(&raw const self.signals.before, signal) == 0
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

impl Drop for Blocked {
    /// Not to the mask of before: the engine unblocks faults in a thread once, which may have been
    /// meanwhile.
    fn drop(&mut self) {
        // SAFETY: what was blocked here, of this thread.
        unsafe { libc::pthread_sigmask(libc::SIG_UNBLOCK, &raw const self.newly, null_mut()) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::ptr::without_provenance_mut;
    use std::sync::atomic::{AtomicU32, Ordering};

    unsafe extern "C" {
        fn pthread_testcancel();
    }

    /// How often the handler ran.
    static RUNS: AtomicU32 = AtomicU32::new(0);

    extern "C" fn run(_: c_int) {
        RUNS.fetch_add(1, Ordering::SeqCst);
    }

    #[test]
    fn a_signal_is_let_in_when_it_may_be() {
        // SAFETY: a signal to this thread.
        let raise = |signal| unsafe { libc::pthread_kill(libc::pthread_self(), signal) };
        // SAFETY: a handler that only counts.
        unsafe { libc::signal(libc::SIGUSR1, run as *const () as libc::sighandler_t) };
        let held = Held::all();
        assert!(!held.let_in());
        raise(libc::SIGUSR1);
        assert_eq!(RUNS.load(Ordering::SeqCst), 0);
        assert!(held.let_in());
        assert_eq!(RUNS.load(Ordering::SeqCst), 1);
        // One that does nothing is none.
        raise(libc::SIGWINCH);
        assert!(!held.let_in());
        raise(libc::SIGUSR1);
        drop(held);
        assert_eq!(RUNS.load(Ordering::SeqCst), 2);
    }

    #[test]
    fn what_was_unblocked_meanwhile_stays_so() {
        let change = |how, signals: &[c_int]| {
            // SAFETY: plain sets of signals, of this thread.
            unsafe {
                let (mut set, mut before): (sigset_t, sigset_t) = (zeroed(), zeroed());
                for signal in signals {
                    libc::sigaddset(&raw mut set, *signal);
                }
                libc::pthread_sigmask(how, &raw const set, &raw mut before);
                before
            }
        };
        let blocked = || {
            let now = change(libc::SIG_BLOCK, &[]);
            [libc::SIGSEGV, libc::SIGBUS, libc::SIGUSR2, libc::SIGTERM]
                // SAFETY: an initialised set.
                .map(|signal| unsafe { libc::sigismember(&raw const now, signal) == 1 })
        };
        change(libc::SIG_UNBLOCK, &[libc::SIGTERM]);
        change(
            libc::SIG_BLOCK,
            &[libc::SIGSEGV, libc::SIGBUS, libc::SIGUSR2],
        );

        let held = Held::all();
        assert_eq!(blocked(), [true, true, true, true]);
        change(libc::SIG_UNBLOCK, &[libc::SIGSEGV]);
        drop(held);
        assert_eq!(blocked(), [false, true, true, false]);
    }

    /// How far the thread has come.
    static STEP: AtomicU32 = AtomicU32::new(0);

    extern "C" fn sleep_and_go_on(_: *mut libc::c_void) -> *mut libc::c_void {
        let held = Uncancelled::begin();
        STEP.store(1, Ordering::Release);
        while STEP.load(Ordering::Acquire) != 2 {
            // SAFETY: a number. It is a cancellation point.
            unsafe { libc::usleep(100) };
        }
        STEP.store(3, Ordering::Release);
        drop(held);
        // SAFETY: nothing here is to be dropped any more.
        unsafe { pthread_testcancel() };
        STEP.store(4, Ordering::Release);
        null_mut()
    }

    #[test]
    fn a_thread_is_cancelled_when_it_may_be_again() {
        let mut thread = 0;
        let mut result = null_mut();
        // SAFETY: a thread that lives until it is joined, and places for what is told.
        unsafe {
            let made = libc::pthread_create(
                &raw mut thread,
                std::ptr::null(),
                sleep_and_go_on,
                null_mut(),
            );
            assert_eq!(made, 0);
            while STEP.load(Ordering::Acquire) == 0 {
                std::hint::spin_loop();
            }
            assert_eq!(libc::pthread_cancel(thread), 0);
            STEP.store(2, Ordering::Release);
            assert_eq!(libc::pthread_join(thread, &raw mut result), 0);
        }
        assert_eq!(STEP.load(Ordering::Acquire), 3);
        // `PTHREAD_CANCELED`
        assert_eq!(result, without_provenance_mut(usize::MAX));
    }
}
