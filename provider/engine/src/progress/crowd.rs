//! Whether others want the processor of a thread that polls in vain, and what it does for them
//! (`make_room`).
//!
//! While processors are free it offers its own by `sched_yield`, which costs nothing then and lets
//! a peer or a helper on the same processor answer. Where strangers keep the processors busy, each
//! of them would take a turn of milliseconds first, while whoever sleeps until something comes is
//! preferred when it does. So there the thread sleeps, for a moment.

use std::sync::atomic::{AtomicU64, Ordering};

use ferroce_transport::{AtomicTime, Duration, Time};

use crate::tuning::{MAX_YIELD, MAX_YIELD_BACKOFF, MIN_YIELD_BACKOFF};

/// Whether others want the processors, as the last offers showed.
#[derive(Default)]
pub(crate) struct Crowd {
    /// Until when they are taken to.
    until: AtomicTime,
    /// For how long the last offer had that, in nanoseconds.
    backoff: AtomicU64,
}

impl Crowd {
    /// Whether an offer would take long.
    pub(super) fn is_there(&self, now: Time) -> bool {
        now < self.until.load()
    }

    /// Whether an offer has taken long and no short one has followed: without a look at the clock.
    #[inline]
    pub(super) fn is_suspected(&self) -> bool {
        self.backoff.load(Ordering::Relaxed) != 0
    }

    /// An offer was made and has ended. Of two threads that say so at once one may be lost, which
    /// does no harm.
    pub(crate) fn offered(&self, before: Time, after: Time) {
        if after - before <= MAX_YIELD {
            self.backoff.store(0, Ordering::Relaxed);
            return;
        }
        let last = Duration::from_nanos(self.backoff.load(Ordering::Relaxed));
        let backoff = (2 * last).clamp(MIN_YIELD_BACKOFF, MAX_YIELD_BACKOFF);
        self.backoff
            .store(backoff.as_nanos() as u64, Ordering::Relaxed);
        self.until.store(after + backoff);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_has_the_processors_to_himself_goes_on_offering() {
        let crowd = Crowd::default();
        for now in (0..1_000_000).step_by(1_000).map(Time::from_nanos) {
            assert!(!crowd.is_there(now));
            crowd.offered(now, now + MAX_YIELD);
        }
    }

    #[test]
    fn among_others_offers_become_rare_and_one_short_one_ends_that() {
        let crowd = Crowd::default();
        let (mut now, mut offers) = (Time::ZERO, 0);
        while now < Time::from_nanos(10_000_000_000) {
            if !crowd.is_there(now) {
                offers += 1;
                crowd.offered(now, now + Duration::from_millis(10));
            }
            now += Duration::from_millis(1);
        }

        // Of ten seconds, less than one in twenty.
        assert!((10..50).contains(&offers), "{offers}");

        now += MAX_YIELD_BACKOFF;
        crowd.offered(now, now + Duration::from_micros(1));
        crowd.offered(now, now + 2 * MAX_YIELD);
        assert!(crowd.is_there(now + MIN_YIELD_BACKOFF));
        assert!(!crowd.is_there(now + 2 * MAX_YIELD + MIN_YIELD_BACKOFF));
    }
}
