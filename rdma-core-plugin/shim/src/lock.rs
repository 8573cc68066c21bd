//! A lock that needs nothing but the kernel: no allocation, no thread-local state, good before
//! constructors have run.

use crate::sys;
use std::sync::atomic::{AtomicU32, Ordering};

/// Free, held, held with others waiting.
const FREE: u32 = 0;
const HELD: u32 = 1;
const CONTENDED: u32 = 2;

/// The lock. Whoever takes it must not wait for anything that another thread does under it.
pub(crate) struct Lock(AtomicU32);

/// The right to what a lock protects.
pub(crate) struct Guard<'a>(&'a Lock);

impl Drop for Guard<'_> {
    fn drop(&mut self) {
        if self.0.0.swap(FREE, Ordering::Release) == CONTENDED {
            sys::futex_wake(&self.0.0);
        }
    }
}

impl Lock {
    /// A free one.
    pub(crate) const fn new() -> Self {
        Lock(AtomicU32::new(FREE))
    }

    /// Waits for it.
    pub(crate) fn lock(&self) -> Guard<'_> {
        let free = (FREE, HELD, Ordering::Acquire, Ordering::Relaxed);
        if self
            .0
            .compare_exchange(free.0, free.1, free.2, free.3)
            .is_err()
        {
            while self.0.swap(CONTENDED, Ordering::Acquire) != FREE {
                sys::futex_wait(&self.0, CONTENDED);
            }
        }
        Guard(self)
    }

    /// Takes it if it is free.
    pub(crate) fn try_lock(&self) -> Option<Guard<'_>> {
        self.0
            .compare_exchange(FREE, HELD, Ordering::Acquire, Ordering::Relaxed)
            .ok()
            .map(|_| Guard(self))
    }

    /// Makes it free whoever held it: a forked child does this, where the holders do not exist.
    pub(crate) fn reset(&self) {
        self.0.store(FREE, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::UnsafeCell;

    struct Counter(Lock, UnsafeCell<u32>);
    // SAFETY: the number is reached under the lock only.
    unsafe impl Sync for Counter {}

    #[test]
    fn one_at_a_time() {
        let counter = Counter(Lock::new(), UnsafeCell::new(0));
        let counter = &counter;
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(move || {
                    for _ in 0..10_000 {
                        let _guard = counter.0.lock();
                        // SAFETY: under the lock.
                        unsafe { *counter.1.get() += 1 };
                    }
                });
            }
        });

        let guard = counter.0.lock();
        assert!(counter.0.try_lock().is_none());
        drop(guard);
        assert!(counter.0.try_lock().is_some());

        // SAFETY: the threads have ended.
        assert_eq!(unsafe { *counter.1.get() }, 40_000);
    }
}
