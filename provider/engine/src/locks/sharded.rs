//! A lock whose readers do not get in each other's way.
//!
//! A lock for reading is a word that is written to. Where threads of several lanes read one table
//! for each batch of packets, the line with that word goes from processor to processor each time.
//! So there are several locks: a thread that reads takes one, always the same, and a writer all of
//! them, in order.

use std::cell::Cell;
use std::sync::atomic::{AtomicUsize, Ordering};

use parking_lot::RawRwLock;
use parking_lot::lock_api::{self, GuardNoSend};

/// As many as there can be lanes. With more threads some have one in common.
const SHARDS: usize = crate::tuning::MAX_VECTORS as usize;

/// A lock in lines of its own: processors fetch two at a time.
#[repr(align(128))]
struct Padded(RawRwLock);

pub(crate) struct Sharded([Padded; SHARDS]);

impl Sharded {
    /// The calling thread's.
    #[inline]
    fn own(&self) -> &RawRwLock {
        thread_local! {
            // Without a destructor, so that it is there as long as the thread is.
            static OWN: Cell<usize> = const { Cell::new(SHARDS) };
        }
        static NEXT: AtomicUsize = AtomicUsize::new(0);

        let mut own = OWN.get();
        if own == SHARDS {
            own = NEXT.fetch_add(1, Ordering::Relaxed) % SHARDS;
            OWN.set(own);
        }
        &self.0[own].0
    }

    fn all(&self) -> impl DoubleEndedIterator<Item = &RawRwLock> {
        self.0.iter().map(|shard| &shard.0)
    }
}

// SAFETY: a writer has all the locks, so that no reader has any, and no other writer the first. A
// reader lets go of the lock that it took, as guards stay in their threads (`GuardNoSend`) and a
// thread's lock is always the same.
unsafe impl lock_api::RawRwLock for Sharded {
    #[expect(
        clippy::declare_interior_mutable_const,
        reason = "what the trait wants"
    )]
    const INIT: Sharded = Sharded([const { Padded(RawRwLock::INIT) }; SHARDS]);

    type GuardMarker = GuardNoSend;

    #[inline]
    fn lock_shared(&self) {
        self.own().lock_shared();
    }

    #[inline]
    fn try_lock_shared(&self) -> bool {
        self.own().try_lock_shared()
    }

    #[inline]
    unsafe fn unlock_shared(&self) {
        // SAFETY: the caller has it, by this thread's lock.
        unsafe { self.own().unlock_shared() };
    }

    fn lock_exclusive(&self) {
        for lock in self.all() {
            lock.lock_exclusive();
        }
    }

    fn try_lock_exclusive(&self) -> bool {
        for (i, lock) in self.all().enumerate() {
            if !lock.try_lock_exclusive() {
                for taken in self.all().take(i) {
                    // SAFETY: it was taken just now.
                    unsafe { taken.unlock_exclusive() };
                }
                return false;
            }
        }
        true
    }

    unsafe fn unlock_exclusive(&self) {
        for lock in self.all().rev() {
            // SAFETY: the caller has all of them.
            unsafe { lock.unlock_exclusive() };
        }
    }
}

// SAFETY: as above.
unsafe impl lock_api::RawRwLockRecursive for Sharded {
    #[inline]
    fn lock_shared_recursive(&self) {
        self.own().lock_shared_recursive();
    }

    #[inline]
    fn try_lock_shared_recursive(&self) -> bool {
        self.own().try_lock_shared_recursive()
    }
}

#[cfg(test)]
mod tests {
    use std::thread;

    use super::*;

    type RwLock<T> = lock_api::RwLock<Sharded, T>;

    #[test]
    fn a_writer_is_alone() {
        let lock = RwLock::new([0u32; 2]);
        thread::scope(|scope| {
            for _ in 0..2 * SHARDS {
                scope.spawn(|| {
                    for i in 0..2_000 {
                        if i % 50 == 0 {
                            let mut both = lock.write();
                            both[0] += 1;
                            thread::yield_now();
                            both[1] += 1;
                        } else {
                            let both = lock.read_recursive();
                            assert_eq!(both[0], both[1]);
                            // Again, whether or not a writer waits meanwhile.
                            let again = lock.read_recursive();
                            assert_eq!(both[0], again[1]);
                        }
                    }
                });
            }
        });
        let writes = 2 * SHARDS as u32 * 2_000 / 50;
        assert_eq!(*lock.read(), [writes; 2]);
    }

    #[test]
    fn who_only_tries_leaves_nothing_taken() {
        let lock = RwLock::new(());
        let reading = lock.read();
        thread::scope(|scope| {
            for _ in 0..SHARDS {
                scope.spawn(|| assert!(lock.try_write().is_none()));
            }
            assert!(lock.try_read_recursive().is_some());
        });
        drop(reading);
        let writing = lock.try_write();
        assert!(writing.is_some() && lock.try_read().is_none());
        drop(writing);
        assert!(lock.try_read().is_some());
    }
}
