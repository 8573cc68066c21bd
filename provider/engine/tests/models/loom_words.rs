//! loom's words, and a descriptor that can be waited for.
//!
//! loom takes sequentially consistent accesses for acquiring and releasing ones only, but knows
//! fences; so here such an access stands between two. Nor does it know that what a swap has written
//! follows at once upon what it read: a store of another thread might come in between, so a store
//! is a swap here. Both order a little more than the language promises; what mixes such accesses
//! with others has fences of its own.

use std::sync::atomic::Ordering;

use loom::sync::atomic::{self, AtomicU32, AtomicU64};
use loom::sync::{Condvar, Mutex};

use crate::words::{Bits, Word};

fn among_all<R>(order: Ordering, access: impl FnOnce() -> R) -> R {
    if order != Ordering::SeqCst {
        return access();
    }
    atomic::fence(Ordering::SeqCst);
    let result = access();
    atomic::fence(Ordering::SeqCst);
    result
}

macro_rules! words {
    ($($atomic:ty: $value:ty),*) => {$(
        impl Word for $atomic {
            type Value = $value;

            fn load(&self, order: Ordering) -> $value {
                among_all(order, || self.load(order))
            }

            fn store(&self, value: $value, order: Ordering) {
                among_all(order, || self.swap(value, order));
            }

            fn swap(&self, value: $value, order: Ordering) -> $value {
                among_all(order, || self.swap(value, order))
            }

            fn change(&self, from: $value, to: $value) -> bool {
                self.compare_exchange(from, to, Ordering::AcqRel, Ordering::Relaxed).is_ok()
            }

            fn fence() {
                atomic::fence(Ordering::SeqCst);
            }
        }
    )*};
}

words!(AtomicU32: u32, AtomicU64: u64);

impl Bits for AtomicU64 {
    fn fetch_or(&self, bits: u64, order: Ordering) -> u64 {
        among_all(order, || self.fetch_or(bits, order))
    }
}

/// Tries a model in every order of events in which the threads are interrupted, where they need not
/// be, twice at most, or as often as `LOOM_MAX_PREEMPTIONS` says: `cargo xtask models` says more.
pub(crate) fn check(model: impl Fn() + Send + Sync + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = builder.preemption_bound.or(Some(2));
    builder.check(model);
}

/// An eventfd. Who waits for one that nobody wakes ends the model: all threads wait.
pub(crate) struct Event {
    woken: Mutex<bool>,
    changed: Condvar,
}

impl Event {
    pub(crate) fn new() -> Event {
        Event {
            woken: Mutex::new(false),
            changed: Condvar::new(),
        }
    }

    pub(crate) fn wake(&self) {
        *self.woken.lock().unwrap() = true;
        self.changed.notify_one();
    }

    /// Reads it when nobody waits for it.
    pub(crate) fn clear(&self) {
        *self.woken.lock().unwrap() = false;
    }

    /// Waits until it was woken, and clears that.
    pub(crate) fn wait(&self) {
        let mut woken = self.woken.lock().unwrap();
        while !*woken {
            woken = self.changed.wait(woken).unwrap();
        }
        *woken = false;
    }
}

/// What a thread sleeps by while a word has a value, as by a futex.
pub(crate) struct Futex {
    lock: Mutex<()>,
    woken: Condvar,
}

impl Futex {
    pub(crate) fn new() -> Futex {
        Futex {
            lock: Mutex::new(()),
            woken: Condvar::new(),
        }
    }

    /// Sleeps until woken, but not if the word is another already.
    pub(crate) fn wait(&self, word: &AtomicU32, expected: u32) {
        let lock = self.lock.lock().unwrap();
        if word.load(Ordering::SeqCst) == expected {
            drop(self.woken.wait(lock).unwrap());
        }
    }

    pub(crate) fn wake(&self) {
        let _lock = self.lock.lock().unwrap();
        self.woken.notify_all();
    }
}
