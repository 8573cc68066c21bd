//! A lock whose readers do not get in each other's way.
//!
//! A lock for reading is a word that is written to. Where threads of several lanes read one table
//! for each batch of packets, the line with that word goes from processor to processor each time.
//! So there are several locks: a thread that reads takes one, always the same, and a writer all of
//! them.
//!
//! Threads that poll read nearly all the time, so a writer would hardly ever find all locks free.
//! Therefore he first closes a gate, before which readers wait who have nothing that others wait
//! for. All others pass it (`lock_shared_recursive`), and for them he gives back, while he waits
//! for one lock, what he has of the others: as with one lock, a writer that waits is in nobody's
//! way.

use std::cell::Cell;
use std::sync::atomic::{AtomicUsize, Ordering};

use parking_lot::RawRwLock;
use parking_lot::lock_api::{self, GuardNoSend, RawRwLock as _, RawRwLockRecursive as _};

/// As many as there can be lanes. With more threads some have one in common.
const SHARDS: usize = crate::tuning::MAX_VECTORS as usize;

/// A lock in lines of its own: processors fetch two at a time.
#[repr(align(128))]
struct Padded(RawRwLock);

impl Padded {
    #[expect(clippy::declare_interior_mutable_const, reason = "to begin with")]
    const INIT: Padded = Padded(RawRwLock::INIT);
}

pub(crate) struct Sharded {
    gate: Padded,
    shards: [Padded; SHARDS],
}

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
        &self.shards[own].0
    }

    #[cold]
    fn wait_at_gate(&self) {
        self.gate.0.lock_shared();
        // SAFETY: taken just now.
        unsafe { self.gate.0.unlock_shared() };
    }

    /// A writer has one lock, and takes the others. If one of them is taken, which is returned, he
    /// has none.
    fn take_others(&self, had: usize) -> Result<(), usize> {
        let others = |end| (0..end).filter(move |shard| *shard != had);
        let taken = others(SHARDS).find(|shard| !self.shards[*shard].0.try_lock_exclusive());
        let Some(taken) = taken else {
            return Ok(());
        };
        for shard in others(taken).chain([had]) {
            // SAFETY: it was taken here, or by our caller.
            unsafe { self.shards[shard].0.unlock_exclusive() };
        }
        Err(taken)
    }
}

// SAFETY: a writer has all the locks, so that no reader has any, and no other writer the gate. A
// reader lets go of the lock that it took, as guards stay in their threads (`GuardNoSend`) and a
// thread's lock is always the same.
unsafe impl lock_api::RawRwLock for Sharded {
    const INIT: Sharded = Sharded {
        gate: Padded::INIT,
        shards: [Padded::INIT; SHARDS],
    };

    type GuardMarker = GuardNoSend;

    #[inline]
    fn lock_shared(&self) {
        if self.gate.0.is_locked_exclusive() {
            self.wait_at_gate();
        }
        self.own().lock_shared_recursive();
    }

    #[inline]
    fn try_lock_shared(&self) -> bool {
        self.own().try_lock_shared_recursive()
    }

    #[inline]
    unsafe fn unlock_shared(&self) {
        // SAFETY: the caller has it, by this thread's lock.
        unsafe { self.own().unlock_shared() };
    }

    fn lock_exclusive(&self) {
        self.gate.0.lock_exclusive();
        let mut at = 0;
        loop {
            self.shards[at].0.lock_exclusive();
            match self.take_others(at) {
                Ok(()) => return,
                Err(taken) => at = taken,
            }
        }
    }

    fn try_lock_exclusive(&self) -> bool {
        if !self.gate.0.try_lock_exclusive() {
            return false;
        }
        let all = self.shards[0].0.try_lock_exclusive() && self.take_others(0).is_ok();
        if !all {
            // SAFETY: taken above.
            unsafe { self.gate.0.unlock_exclusive() };
        }
        all
    }

    unsafe fn unlock_exclusive(&self) {
        for lock in self.shards.iter().chain([&self.gate]) {
            // SAFETY: the caller has all of them.
            unsafe { lock.0.unlock_exclusive() };
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
    use std::sync::atomic::AtomicBool;
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
                            let both = match i % 2 {
                                0 => lock.read(),
                                _ => lock.read_recursive(),
                            };
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
    fn who_waits_to_write_keeps_nobody_from_reading() {
        let lock = RwLock::new(());
        let reading = lock.read();
        thread::scope(|scope| {
            let writer = scope.spawn(|| drop(lock.write()));
            for _ in 0..100 {
                // Of threads with each of the locks, and while the writer is at any of them.
                let mut readers = (0..SHARDS).map(|_| scope.spawn(|| drop(lock.read_recursive())));
                readers.try_for_each(|reader| reader.join()).unwrap();
            }
            assert!(!writer.is_finished());
            drop(reading);
        });
    }

    #[test]
    fn who_reads_all_the_time_waits_for_a_writer() {
        let lock = RwLock::new(0u64);
        let over = AtomicBool::new(false);
        thread::scope(|scope| {
            for _ in 0..SHARDS {
                scope.spawn(|| {
                    while !over.load(Ordering::Relaxed) {
                        let read = lock.read();
                        thread::yield_now();
                        drop(read);
                    }
                });
            }
            // Without the gate this would hardly end.
            for _ in 0..500 {
                *lock.write() += 1;
            }
            over.store(true, Ordering::Relaxed);
        });
        assert_eq!(*lock.read(), 500);
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
        assert!(writing.is_some() && lock.try_read().is_none() && lock.try_write().is_none());
        drop(writing);
        assert!(lock.try_read().is_some());
    }
}
