//! The order of locks, in one place. In debug builds each is checked when it is taken.
//!
//! A thread that holds a lock takes only those of a higher rank, so no two threads can wait for
//! each other. A lock that is only tried may be of any rank, as nobody waits. One thing differs:
//! tables are read by whoever holds nothing higher than a queue pair, as receiving reads them
//! before it locks one (`read`), posting after (`read_after`). Who reads after does not wait for a
//! writer that waits, and who writes to a table holds neither another nor a queue pair.
//!
//! None is held while a program's own code runs. Between `ibv_wr_start` and `ibv_wr_complete` a
//! program may do anything: its requests are collected outside of the engine (the provider's
//! builder), whose lock keeps off nobody but another thread that builds for the same queue pair.
//!
//! Locks that are not of these types are held for a look at what they protect, and nothing else is
//! locked meanwhile; or they are of an object's life (`life`, `closed`) and come before all others.

mod sharded;

use std::ops::{Deref, DerefMut};

use parking_lot::lock_api;

use self::sharded::Sharded;

/// The receive side.
pub(crate) const RECEIVE: u8 = 0;
/// A table that is written to.
const TABLE: u8 = 1;
/// The table of receivers, which is read.
pub(crate) const RECEIVERS: u8 = 2;
/// That of queue pairs, which is read.
pub(crate) const QUEUE_PAIRS: u8 = 3;
/// Those of keys and of address handles, which are read.
pub(crate) const KEYS: u8 = 4;
/// A queue pair.
pub(crate) const QUEUE_PAIR: u8 = 5;
/// A completion queue or a shared receive queue.
pub(crate) const QUEUE: u8 = 6;
/// The sender's end of a ring.
pub(crate) const RING: u8 = 7;
/// Timers.
pub(crate) const TIMERS: u8 = 8;

/// A mutex of a rank.
#[derive(Default)]
pub(crate) struct Mutex<T, const RANK: u8>(parking_lot::Mutex<T>);

impl<T, const RANK: u8> Mutex<T, RANK> {
    pub(crate) const fn new(value: T) -> Self {
        Mutex(parking_lot::Mutex::new(value))
    }

    /// Waits for it.
    #[inline]
    pub(crate) fn lock(&self) -> Guard<parking_lot::MutexGuard<'_, T>> {
        check::order(RANK);
        Guard::new(self.0.lock(), RANK)
    }

    /// Takes it if nobody has it.
    #[inline]
    pub(crate) fn try_lock(&self) -> Option<Guard<parking_lot::MutexGuard<'_, T>>> {
        Some(Guard::new(self.0.try_lock()?, RANK))
    }
}

/// A table, with the rank that it has when it is read.
#[derive(Default)]
pub(crate) struct Table<T, const RANK: u8>(lock_api::RwLock<Sharded, T>);

type ReadGuard<'a, T> = Guard<lock_api::RwLockReadGuard<'a, Sharded, T>>;

impl<T, const RANK: u8> Table<T, RANK> {
    pub(crate) const fn new(value: T) -> Self {
        Table(lock_api::RwLock::new(value))
    }

    /// Waits for a writer, also for one that waits himself.
    #[inline]
    pub(crate) fn read(&self) -> ReadGuard<'_, T> {
        check::order(RANK);
        Guard::new(self.0.read(), RANK)
    }

    /// As [`read`](Self::read), for who may hold a queue pair or this table: waits for no writer
    /// that waits.
    #[inline]
    pub(crate) fn read_after(&self) -> ReadGuard<'_, T> {
        check::read();
        Guard::new(self.0.read_recursive(), RANK)
    }

    /// As [`read`](Self::read), if nobody writes.
    #[inline]
    pub(crate) fn try_read(&self) -> Option<ReadGuard<'_, T>> {
        Some(Guard::new(self.0.try_read_recursive()?, RANK))
    }

    /// Waits until nobody uses what is in it.
    #[inline]
    pub(crate) fn write(&self) -> Guard<lock_api::RwLockWriteGuard<'_, Sharded, T>> {
        check::order(TABLE);
        Guard::new(self.0.write(), TABLE)
    }
}

/// A lock that is held.
pub(crate) struct Guard<G> {
    guard: G,
    _held: check::Held,
}

/// A mutex that is held.
pub(crate) type MutexGuard<'a, T> = Guard<parking_lot::MutexGuard<'a, T>>;

impl<G> Guard<G> {
    #[inline]
    fn new(guard: G, rank: u8) -> Guard<G> {
        let _held = check::Held::new(rank);
        Guard { guard, _held }
    }
}

impl<G: Deref> Deref for Guard<G> {
    type Target = G::Target;

    #[inline]
    fn deref(&self) -> &G::Target {
        &self.guard
    }
}

impl<G: DerefMut> DerefMut for Guard<G> {
    #[inline]
    fn deref_mut(&mut self) -> &mut G::Target {
        &mut self.guard
    }
}

#[cfg(debug_assertions)]
mod check {
    use std::cell::Cell;

    use super::{QUEUE_PAIR, TIMERS};

    const RANKS: usize = TIMERS as usize + 1;

    thread_local! {
        /// How many locks of each rank this thread holds.
        static HELD: Cell<[u8; RANKS]> = const { Cell::new([0; RANKS]) };
    }

    fn highest() -> Option<u8> {
        // A thread that ends has lost its storage.
        let held = HELD.try_with(Cell::get).ok()?;
        (0..RANKS as u8)
            .rev()
            .find(|rank| held[usize::from(*rank)] != 0)
    }

    /// A lock of this rank is about to be waited for.
    #[track_caller]
    pub(super) fn order(rank: u8) {
        let highest = highest();
        let fits = highest.is_none_or(|highest| highest < rank);
        assert!(
            fits,
            "a lock of rank {rank} is taken beneath one of {highest:?}"
        );
    }

    /// A table is about to be read.
    #[track_caller]
    pub(super) fn read() {
        let highest = highest();
        let fits = highest.is_none_or(|highest| highest <= QUEUE_PAIR);
        assert!(fits, "a table is read beneath a lock of rank {highest:?}");
    }

    /// A lock that this thread holds.
    pub(super) struct Held(u8);

    impl Held {
        pub(super) fn new(rank: u8) -> Held {
            change(rank, 1);
            Held(rank)
        }
    }

    impl Drop for Held {
        fn drop(&mut self) {
            change(self.0, -1);
        }
    }

    fn change(rank: u8, by: i8) {
        let _ = HELD.try_with(|held| {
            let mut now = held.get();
            let count = &mut now[usize::from(rank)];
            *count = count.saturating_add_signed(by);
            held.set(now);
        });
    }
}

#[cfg(not(debug_assertions))]
mod check {
    #[inline(always)]
    pub(super) fn order(_: u8) {}

    #[inline(always)]
    pub(super) fn read() {}

    pub(super) struct Held;

    impl Held {
        #[inline(always)]
        pub(super) fn new(_: u8) -> Held {
            Held
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Locks {
        receive: Mutex<(), RECEIVE>,
        qps: Table<(), QUEUE_PAIRS>,
        keys: Table<(), KEYS>,
        a: Mutex<(), QUEUE_PAIR>,
        b: Mutex<(), QUEUE_PAIR>,
        cq: Mutex<(), QUEUE>,
    }

    fn locks() -> Locks {
        Locks {
            receive: Mutex::new(()),
            qps: Table::new(()),
            keys: Table::new(()),
            a: Mutex::new(()),
            b: Mutex::new(()),
            cq: Mutex::new(()),
        }
    }

    #[test]
    fn receiving_and_posting_take_locks_in_order() {
        let locks = locks();
        {
            let _rx = locks.receive.lock();
            let (_qps, _keys) = (locks.qps.read(), locks.keys.read());
            drop(locks.a.lock());
            let _b = locks.b.lock();
            drop(locks.cq.lock());
        }
        let _posting = locks.a.lock();
        let _keys = locks.keys.read_after();
        // Nobody waits here.
        assert!(locks.receive.try_lock().is_some());
    }

    #[test]
    #[should_panic(expected = "rank 5 is taken beneath one of Some(5)")]
    fn two_queue_pairs_are_too_many() {
        let locks = locks();
        let _a = locks.a.lock();
        let _b = locks.b.lock();
    }

    #[test]
    #[should_panic(expected = "rank 1 is taken beneath one of Some(5)")]
    fn who_holds_a_queue_pair_does_not_write_to_a_table() {
        let locks = locks();
        let _a = locks.a.lock();
        let _keys = locks.keys.write();
    }

    #[test]
    #[should_panic(expected = "a table is read beneath a lock of rank Some(6)")]
    fn who_holds_a_completion_queue_reads_no_table() {
        let locks = locks();
        let _cq = locks.cq.lock();
        let _keys = locks.keys.read_after();
    }

    #[test]
    #[should_panic(expected = "rank 4 is taken beneath one of Some(5)")]
    fn who_holds_a_queue_pair_waits_for_no_writer() {
        let locks = locks();
        let _a = locks.a.lock();
        let _keys = locks.keys.read();
    }

    #[test]
    #[should_panic(expected = "rank 3 is taken beneath one of Some(4)")]
    fn tables_are_read_in_order() {
        let locks = locks();
        let _keys = locks.keys.read();
        let _qps = locks.qps.read();
    }

    #[test]
    fn what_was_let_go_of_is_not_held() {
        let locks = locks();
        let cq = locks.cq.lock();
        let a = locks.a.try_lock();
        drop(cq);
        drop(a);
        drop(locks.keys.write());
        let _rx = locks.receive.lock();
    }
}
