//! Whether others want the processor of a thread that polls in vain, and what it does for them (`make_room`).
//!
//! While processors are free it offers its own by `sched_yield`, which costs nothing then and lets a peer or a helper on the same
//! processor answer. Where strangers keep the processors busy, each of them would take a turn of milliseconds first, while whoever
//! sleeps until something comes is preferred when it does. So there the thread sleeps, for a moment.

use std::sync::atomic::{AtomicU64, Ordering};

use ferroce_transport::Time;

/// An offer that took so long went to somebody who has much to do.
pub(crate) const LONG_YIELD: Time = 200_000;
/// After it none is made for so long, at first and at most: it doubles with every further one that takes long.
const BREAK: Time = 10_000_000;
const LONGEST_BREAK: Time = 320_000_000;
/// Whether others want the processors, as the last offers showed.
#[derive(Default)]
pub(crate) struct Crowd {
    /// Until when they are taken to.
    until: AtomicU64,
    /// For how long the last offer had that.
    pause: AtomicU64,
}

impl Crowd {
    /// Whether an offer would take long.
    pub(crate) fn is_there(&self, now: Time) -> bool {
        now < self.until.load(Ordering::Relaxed)
    }

    /// Whether an offer has taken long and no short one has followed: without a look at the clock.
    #[inline]
    pub(crate) fn is_suspected(&self) -> bool {
        self.pause.load(Ordering::Relaxed) != 0
    }

    /// An offer was made and has ended. Of two threads that say so at once one may be lost, which does no harm.
    pub(crate) fn offered(&self, before: Time, after: Time) {
        if after.saturating_sub(before) <= LONG_YIELD {
            self.pause.store(0, Ordering::Relaxed);
            return;
        }
        let pause = (2 * self.pause.load(Ordering::Relaxed)).clamp(BREAK, LONGEST_BREAK);
        self.pause.store(pause, Ordering::Relaxed);
        self.until.store(after + pause, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_has_the_processors_to_himself_goes_on_offering() {
        let crowd = Crowd::default();
        for now in (0..1_000_000).step_by(1_000) {
            assert!(!crowd.is_there(now));
            crowd.offered(now, now + LONG_YIELD);
        }
    }

    #[test]
    fn among_others_offers_become_rare_and_one_short_one_ends_that() {
        let crowd = Crowd::default();
        let (mut now, mut offers) = (0, 0);
        while now < 10_000_000_000 {
            if !crowd.is_there(now) {
                offers += 1;
                crowd.offered(now, now + 10_000_000);
            }
            now += 1_000_000;
        }
        // Of ten seconds, less than one in twenty.
        assert!((10..50).contains(&offers), "{offers}");

        now += LONGEST_BREAK;
        crowd.offered(now, now + 1_000);
        crowd.offered(now, now + 2 * LONG_YIELD);
        assert!(crowd.is_there(now + BREAK));
        assert!(!crowd.is_there(now + 2 * LONG_YIELD + BREAK));
    }
}
