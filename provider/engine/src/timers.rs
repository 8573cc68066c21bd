//! When which queue pair wants to be called again.
//!
//! A QP moves its deadline with every acknowledgement. To keep that cheap the heap is lazy: a QP has an entry at or before
//! its real deadline, and when the entry comes up the QP says whether it is due.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use ferroce_transport::Time;
use parking_lot::Mutex;

/// Monotonic time in nanoseconds.
pub(crate) fn now() -> Time {
    let mut ts = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: `ts` is a valid place for the result, and CLOCK_MONOTONIC always exists.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &mut ts) };
    ts.tv_sec as u64 * 1_000_000_000 + ts.tv_nsec as u64
}

pub(crate) struct Timers {
    heap: Mutex<BinaryHeap<Reverse<(Time, u16)>>>,
    next: AtomicU64,
}

impl Timers {
    pub(crate) fn new() -> Timers {
        Timers {
            heap: Mutex::new(BinaryHeap::new()),
            next: AtomicU64::new(Time::MAX),
        }
    }

    /// The earliest entry; `Time::MAX` when there is none.
    pub(crate) fn next(&self) -> Time {
        self.next.load(Relaxed)
    }

    /// Adds an entry; returns whether it is now the earliest.
    pub(crate) fn add(&self, at: Time, index: u16) -> bool {
        let mut heap = self.heap.lock();
        heap.push(Reverse((at, index)));
        let first = at < self.next.load(Relaxed);
        if first {
            self.next.store(at, Relaxed);
        }
        first
    }

    /// Takes one entry that is due.
    pub(crate) fn pop(&self, now: Time) -> Option<u16> {
        let mut heap = self.heap.lock();
        let due = match heap.peek() {
            Some(Reverse((at, _))) if *at <= now => heap.pop().map(|Reverse((_, index))| index),
            _ => None,
        };
        self.next.store(
            heap.peek().map_or(Time::MAX, |Reverse((at, _))| *at),
            Relaxed,
        );
        due
    }
}
