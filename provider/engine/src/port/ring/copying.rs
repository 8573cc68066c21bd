//! How long records are copied into a ring: through the caches, or past them.
//!
//! What one processor has written another reads out of the first one's cache. That is quick where
//! they share a cache further out, and takes three times as long where they do not; by way of
//! memory it takes the same everywhere, something in between. Which is faster changes with where
//! the two threads are, in a virtual machine every few seconds, and nothing tells. So the other way
//! is tried now and then, and taken if it is faster
//! ([0041](../../../../../docs/decisions/0041-past-the-caches.md)).

use ferroce_transport::{Duration, Time};

use crate::memory::guard;
use crate::tuning::{
    COPY_FIRST_TRIAL, COPY_PAUSE, COPY_STRETCH, COPY_TRIAL, COPY_TRIALS_APART, LONG_RECORD,
};

/// Which way is taken, and what is known about it.
pub(super) struct Copying {
    past_caches: bool,
    phase: Phase,
    /// The last two stretches outside trials, in picoseconds for a byte.
    usual: [u64; 2],
    stretch: Stretch,
}

#[derive(Clone, Copy)]
enum Phase {
    /// So many stretches until the next trial.
    Usual(u32),
    /// So many are left of one, and the best so far.
    Trial(u32, u64),
}

/// Records that were followed by another, and what passed until then.
#[derive(Clone, Copy, Default)]
struct Stretch {
    bytes: u64,
    took: Duration,
    /// When the last record began, and its length.
    last: Time,
    last_len: u64,
}

impl Copying {
    pub(super) fn new() -> Copying {
        Copying {
            past_caches: false,
            phase: Phase::Usual(COPY_FIRST_TRIAL),
            usual: [u64::MAX; 2],
            stretch: Stretch::default(),
        }
    }

    /// Past the caches, always.
    #[cfg(test)]
    pub(super) fn past_caches() -> Copying {
        Copying {
            past_caches: true,
            phase: Phase::Usual(u32::MAX),
            ..Copying::new()
        }
    }

    /// A record of `len` bytes is about to be copied. Returns whether it goes past the caches.
    #[inline]
    pub(super) fn next(&mut self, now: impl FnOnce() -> Time, len: usize) -> bool {
        if len < LONG_RECORD || !guard::has_way_past_caches() {
            return false;
        }
        self.choose(now(), len as u64)
    }

    fn choose(&mut self, now: Time, len: u64) -> bool {
        let stretch = &mut self.stretch;
        // After a pause, as between two messages, it goes on without the record before.
        let gap = now - stretch.last;
        if gap <= COPY_PAUSE {
            stretch.bytes += stretch.last_len;
            stretch.took += gap;
        }
        (stretch.last, stretch.last_len) = (now, len);

        let Stretch { bytes, took, .. } = *stretch;
        if bytes >= COPY_STRETCH {
            (stretch.bytes, stretch.took) = (0, Duration::ZERO);
            self.ended((took.as_nanos() as u64).saturating_mul(1000) / bytes);
        }
        self.past_caches
    }

    /// A stretch took so many picoseconds for a byte.
    fn ended(&mut self, cost: u64) {
        self.phase = match self.phase {
            Phase::Usual(left) => {
                self.usual = [self.usual[1], cost];
                if left > 1 {
                    Phase::Usual(left - 1)
                } else {
                    self.past_caches = !self.past_caches;
                    Phase::Trial(COPY_TRIAL, u64::MAX)
                }
            }
            Phase::Trial(left, best) if left > 1 => Phase::Trial(left - 1, best.min(cost)),
            Phase::Trial(_, best) => {
                let best = best.min(cost);
                // By a tenth at least, as chance would choose otherwise.
                let is_faster =
                    best.saturating_mul(10) < self.usual[0].min(self.usual[1]).saturating_mul(9);
                if !is_faster {
                    self.past_caches = !self.past_caches;
                }
                Phase::Usual(COPY_TRIALS_APART)
            }
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A transfer of so many bytes in records of 64 KiB, each of which takes what `cost` says of
    /// the way and the time, in nanoseconds; returns which share of it went past the caches.
    fn transfer(copying: &mut Copying, start: Time, bytes: u64, cost: impl Fn(bool) -> u64) -> f64 {
        const RECORD: u64 = 64 << 10;
        let (mut now, mut past) = (start, 0);
        for _ in 0..bytes / RECORD {
            let way = copying.choose(now, RECORD);
            past += u64::from(way);
            now += Duration::from_nanos(cost(way));
        }
        past as f64 / (bytes / RECORD) as f64
    }

    #[test]
    fn the_faster_way_is_taken() {
        let mut copying = Copying::new();
        let at = |seconds: u64| Time::from_nanos(seconds * 1_000_000_000);
        let far = |past| if past { 10_000 } else { 25_000 };
        let near = |past| if past { 10_000 } else { 6_000 };

        let share = transfer(&mut copying, at(1), 4 << 30, far);
        assert!(share > 0.95, "{share} where processors are far");
        let share = transfer(&mut copying, at(10), 4 << 30, near);
        assert!(share < 0.15, "{share} after they have come near");
        let share = transfer(&mut copying, at(20), 4 << 30, near);
        assert!(share < 0.02, "{share} while they are near");
        let share = transfer(&mut copying, at(30), 4 << 30, far);
        assert!(share > 0.85, "{share} after they have gone apart");
    }

    #[test]
    fn a_tenth_is_not_enough() {
        let mut copying = Copying::new();
        let even = |past| if past { 9_500 } else { 10_000 };
        let share = transfer(&mut copying, Time::from_nanos(1), 8 << 30, even);
        assert!(share < 0.02, "{share}");
    }

    #[test]
    fn pauses_are_no_part_of_it() {
        let mut copying = Copying::new();
        // One record a millisecond: nothing is learned, and nothing tried.
        let share = transfer(&mut copying, Time::from_nanos(1), 1 << 30, |_| 1_000_000);
        assert_eq!(share, 0.0);
    }

    #[test]
    fn messages_apart_from_each_other_tell_as_well() {
        let mut copying = Copying::new();
        let (mut now, mut past) = (Time::from_nanos(1), 0);
        // Of 1 MiB, as ib_send_lat has them.
        for message in 0..1000 {
            for _ in 0..8 {
                let way = copying.choose(now, 128 << 10);
                past += u32::from(way && message >= 100);
                now += Duration::from_micros(if way { 20 } else { 50 });
            }
            now += Duration::from_millis(1);
        }
        assert!(past > 9 * 900 * 8 / 10, "{past} records past the caches");
    }

    #[test]
    fn short_records_take_no_time() {
        let mut copying = Copying::new();
        let never = || unreachable!("a look at the clock");
        assert!(!copying.next(never, LONG_RECORD - 1));
    }
}
