//! When which queue pair wants to be called again.
//!
//! A QP moves its deadline with every acknowledgement. To keep that cheap the heap is lazy: a QP
//! has an entry at or before its real deadline, and when the entry comes up the QP says whether it
//! is due. Completion queues whose events are moderated have a heap of their own, with the same
//! rule.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::sync::{Arc, Weak};

use ferroce_transport::{AtomicTime, Duration, Time};

use crate::locks;

/// The time now, of `CLOCK_MONOTONIC`.
#[inline]
pub(crate) fn now() -> Time {
    #[cfg(test)]
    if let Some(now) = super::virtual_time::VirtualTime::now() {
        return now;
    }
    Time::from_nanos(read(libc::CLOCK_MONOTONIC))
}

/// How long the calling thread has had a processor.
pub(super) fn processor_time() -> Time {
    Time::from_nanos(read(libc::CLOCK_THREAD_CPUTIME_ID))
}

/// Nanoseconds since 1970.
pub(crate) fn wall_clock() -> u64 {
    read(libc::CLOCK_REALTIME)
}

fn read(clock: libc::clockid_t) -> u64 {
    let mut ts = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: `ts` is a valid place for the result, and the clocks asked for always exist.
    unsafe { libc::clock_gettime(clock, &mut ts) };
    ts.tv_sec as u64 * 1_000_000_000 + ts.tv_nsec as u64
}

/// A span as the kernel takes it.
pub(super) fn timespec(span: Duration) -> libc::timespec {
    libc::timespec {
        tv_sec: span.as_secs() as _,
        tv_nsec: span.subsec_nanos() as libc::c_long,
    }
}

/// What has something to do later.
pub(crate) trait Alarmed: Send + Sync {
    /// An alarm that it set has come up.
    fn alarm(self: Arc<Self>, now: Time);
}

/// Who set an alarm.
pub(crate) struct Alarm {
    pub(crate) handle: u32,
    pub(crate) of: Weak<dyn Alarmed>,
}

impl PartialEq for Alarm {
    fn eq(&self, other: &Alarm) -> bool {
        self.handle == other.handle
    }
}

impl Eq for Alarm {}

impl PartialOrd for Alarm {
    fn partial_cmp(&self, other: &Alarm) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Alarm {
    fn cmp(&self, other: &Alarm) -> std::cmp::Ordering {
        self.handle.cmp(&other.handle)
    }
}

/// Where alarms are set.
pub(crate) trait Alarms: Send + Sync {
    fn add_alarm(&self, at: Time, alarm: Alarm);
}

/// A heap of what wants to be called, earliest first.
pub(crate) struct Timers<T> {
    heap: locks::Mutex<BinaryHeap<Reverse<(Time, T)>>, { locks::TIMERS }>,
    next: AtomicTime,
}

impl<T: Ord> Timers<T> {
    pub(crate) fn new() -> Timers<T> {
        Timers {
            heap: locks::Mutex::new(BinaryHeap::new()),
            next: AtomicTime::new(Time::MAX),
        }
    }

    /// The earliest entry; `Time::MAX` when there is none.
    pub(crate) fn next(&self) -> Time {
        self.next.load()
    }

    /// Adds an entry; returns whether it is now the earliest.
    pub(crate) fn add(&self, at: Time, what: T) -> bool {
        let mut heap = self.heap.lock();
        heap.push(Reverse((at, what)));
        let first = at < self.next.load();
        if first {
            self.next.store(at);
        }
        first
    }

    /// Takes one entry that is due.
    pub(crate) fn pop(&self, now: Time) -> Option<T> {
        let mut heap = self.heap.lock();
        let due = match heap.peek() {
            Some(Reverse((at, _))) if *at <= now => heap.pop().map(|Reverse((_, what))| what),
            _ => None,
        };
        self.next
            .store(heap.peek().map_or(Time::MAX, |Reverse((at, _))| *at));
        due
    }
}
