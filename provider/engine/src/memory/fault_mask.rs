//! Faults must be deliverable in every thread that touches registered memory: for one in a thread
//! that has the signal blocked the kernel ends the process, whatever handler there is (see
//! `guard`).
//!
//! So SIGSEGV and SIGBUS are unblocked in a thread once, before its first access. Worker threads
//! have them blocked mostly because they block everything, for signals to go to a thread that waits
//! for them (`sigwait`, `signalfd`). Such a program notices nothing: a signal that was *sent*, not
//! raised by a fault, and meets a thread that was unblocked here, is sent on to those who wait, and
//! the thread has it blocked from then on, as it wished.
//!
//! Left alone is what a system call in each poll would cost: a thread that blocks them anew later
//! has them blocked. A thread that such a thread makes inherits the mask, without being known here.

use std::cell::Cell;
use std::sync::atomic::{AtomicUsize, Ordering};

/// The signals of faults; a signal's bit is its place.
const SIGNALS: [libc::c_int; 2] = [libc::SIGSEGV, libc::SIGBUS];
/// The bits, in a word whose rest is a thread: those are aligned to more.
const BITS: usize = 0b11;

/// Threads that were unblocked, and of what: a handler can look at nothing that might have to be
/// allocated. A thread is known by its `pthread_self`, which stays the same in a forked child.
static THREADS: [AtomicUsize; 1024] = [const { AtomicUsize::new(0) }; 1024];

thread_local! {
    static ADMITTED: Admitted = const {
        Admitted {
            done: Cell::new(false),
            entry: Cell::new(None),
        }
    };
}

/// What a thread knows of itself, from its first access to its end.
struct Admitted {
    done: Cell<bool>,
    /// In the table, if something was unblocked.
    entry: Cell<Option<&'static AtomicUsize>>,
}

impl Drop for Admitted {
    fn drop(&mut self) {
        if let Some(entry) = self.entry.get() {
            entry.store(0, Ordering::Relaxed);
        }
    }
}

/// Makes faults deliverable in the calling thread, the first time that it is called there.
pub(super) fn admit() {
    // A thread that ends has no storage any more; it keeps its mask.
    let _ = ADMITTED.try_with(|admitted| {
        if !admitted.done.replace(true) {
            admitted.entry.set(unblock());
        }
    });
}

/// Unblocks what the calling thread has blocked. `None`: that was nothing, or there is no room to
/// remember it, without which it cannot be.
#[cold]
fn unblock() -> Option<&'static AtomicUsize> {
    let blocked = blocked();
    if blocked == 0 {
        return None;
    }
    // Known before a signal can come.
    let word = this_thread() | blocked;
    let entry = THREADS.iter().find(|entry| {
        entry
            .compare_exchange(0, word, Ordering::Relaxed, Ordering::Relaxed)
            .is_ok()
    })?;
    change(libc::SIG_UNBLOCK, &set(blocked));
    Some(entry)
}

/// For the handler: a signal was sent, and met this thread. Whether that was only because it was
/// unblocked here; then it has been sent on, and is blocked again when the handler returns.
///
/// # Safety
/// The arguments are a signal handler's.
pub(super) unsafe fn send_on(
    signal: libc::c_int,
    info: *mut libc::siginfo_t,
    context: *mut libc::c_void,
) -> bool {
    let Some(place) = SIGNALS.iter().position(|known| *known == signal) else {
        return false;
    };

    let (thread, bit) = (this_thread(), 1 << place);
    let known = |entry: &&AtomicUsize| {
        let word = entry.load(Ordering::Relaxed);
        word & !BITS == thread && word & bit != 0
    };
    let Some(entry) = THREADS.iter().find(known) else {
        return false;
    };

    // Not of that signal any more.
    entry.fetch_and(!bit, Ordering::Relaxed);

    // SAFETY: the kernel passes a valid context and information. The mask is that of the moment
    // after the handler; until then the signal is blocked, as its handler runs. The calls only
    // queue what is told.
    unsafe {
        libc::sigaddset(
            &mut (*context.cast::<libc::ucontext_t>()).uc_sigmask,
            signal,
        );
        let (process, thread) = (libc::getpid(), libc::syscall(libc::SYS_gettid));
        let sent = match (*info).si_code {
            libc::SI_TKILL => {
                libc::syscall(libc::SYS_rt_tgsigqueueinfo, process, thread, signal, info)
            }
            // To the process, by this thread's number: what kill(2) says of the sender, the kernel
            // takes from nobody but whom it is sent to.
            _ => libc::syscall(libc::SYS_rt_sigqueueinfo, thread, signal, info),
        };
        if sent != 0 {
            libc::kill(process, signal);
        }
    }

    true
}

fn this_thread() -> usize {
    // SAFETY: has no preconditions, and is async-signal-safe.
    unsafe { libc::pthread_self() as usize }
}

/// The bits of the signals that the calling thread has blocked.
fn blocked() -> usize {
    let now = change(libc::SIG_BLOCK, &set(0));
    let bit = |place: usize| {
        // SAFETY: an initialised set.
        usize::from(unsafe { libc::sigismember(&now, SIGNALS[place]) } == 1) << place
    };
    bit(0) | bit(1)
}

/// The signals of some bits.
fn set(bits: usize) -> libc::sigset_t {
    // SAFETY: all zeroes is a valid set on Linux, an empty one; the signals exist.
    unsafe {
        let mut set: libc::sigset_t = std::mem::zeroed();
        libc::sigemptyset(&mut set);
        for (place, signal) in SIGNALS.into_iter().enumerate() {
            if bits & 1 << place != 0 {
                libc::sigaddset(&mut set, signal);
            }
        }
        set
    }
}

/// Changes the calling thread's mask; answers what it was.
fn change(how: libc::c_int, signals: &libc::sigset_t) -> libc::sigset_t {
    let mut before = set(0);
    // SAFETY: both sets are valid for the call.
    unsafe { libc::pthread_sigmask(how, signals, &mut before) };
    before
}

#[cfg(test)]
mod tests {
    use super::*;

    fn known() -> Option<usize> {
        let words = THREADS.iter().map(|entry| entry.load(Ordering::Relaxed));
        let mine = |word: &usize| word & !BITS == this_thread();
        words.filter(mine).map(|word| word & BITS).next()
    }

    #[test]
    fn a_thread_is_unblocked_once_and_forgotten_at_its_end() {
        let ended = std::thread::spawn(|| {
            change(libc::SIG_BLOCK, &set(0b10));
            admit();
            assert_eq!((blocked(), known()), (0, Some(0b10)));

            change(libc::SIG_BLOCK, &set(0b11));
            admit();
            assert_eq!(blocked(), 0b11, "the program's own wish");
            this_thread()
        });
        let ended = ended.join().unwrap();
        let left = |entry: &AtomicUsize| entry.load(Ordering::Relaxed) & !BITS == ended;
        assert!(!THREADS.iter().any(left));
    }

    #[test]
    fn a_thread_that_blocks_nothing_is_left_alone() {
        let alone = std::thread::spawn(|| {
            change(libc::SIG_UNBLOCK, &set(0b11));
            admit();
            known()
        });
        assert_eq!(alone.join().unwrap(), None);
    }
}
