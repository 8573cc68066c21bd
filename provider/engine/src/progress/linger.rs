//! Whether the helper waits awake for what comes next, and for how long.
//!
//! Where packets follow each other closely a sleep costs more than it gives: the wake-up, and the
//! processor's way in and out of idleness. But the helper may share its processor with the very
//! program that it works for, or with the peer. It cannot see that; what it sees is whether waiting
//! awake pays. Knows no clock and does nothing by itself.

use ferroce_transport::{Duration, Time};

use crate::tuning::{
    LINGER_GAP, LINGER_TRIES, MAX_LINGER, MAX_LINGER_BACKOFF, MIN_LINGER, MIN_LINGER_BACKOFF,
};

/// What became of a wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// Something came.
    Paid,
    /// Nothing came.
    InVain,
    /// Somebody else wanted the processor, for long.
    Crowded,
    /// Ended for another reason.
    Cut,
}

#[derive(Debug)]
pub(crate) struct Linger {
    /// How long after each other packets usually come, the recent ones counting most.
    usual: Duration,
    /// Since when nothing has been left to do.
    idle_since: Time,
    in_vain: u32,
    backoff: Duration,
    off_until: Time,
}

impl Default for Linger {
    fn default() -> Linger {
        Linger {
            usual: LINGER_GAP,
            idle_since: Time::ZERO,
            in_vain: 0,
            backoff: MIN_LINGER_BACKOFF,
            off_until: Time::ZERO,
        }
    }
}

impl Linger {
    /// Something came at a time and was handled at another, whether it was waited for awake or
    /// asleep.
    pub(crate) fn received(&mut self, at: Time, handled: Time) {
        let gap = at - self.idle_since;
        // One long gap says that the traffic is another from here on, but not how close it will be.
        self.usual = (3 * self.usual + gap.min(4 * LINGER_GAP)) / 4;
        self.idle_since = handled;
    }

    /// How long to wait awake now, if at all.
    pub(crate) fn worth(&self, now: Time) -> Option<Duration> {
        (self.usual < LINGER_GAP && now >= self.off_until)
            .then(|| (2 * self.usual).clamp(MIN_LINGER, MAX_LINGER))
    }

    /// A wait has ended.
    pub(crate) fn ended(&mut self, now: Time, outcome: Outcome) {
        match outcome {
            Outcome::Cut => {}
            Outcome::Paid => {
                self.in_vain = 0;
                self.backoff = MIN_LINGER_BACKOFF;
            }
            Outcome::InVain => {
                self.in_vain += 1;
                if self.in_vain >= LINGER_TRIES {
                    self.off_until = now + self.backoff;
                    self.backoff = (2 * self.backoff).min(MAX_LINGER_BACKOFF);
                }
            }
            Outcome::Crowded => self.off_until = now + MAX_LINGER_BACKOFF,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MICROSECOND: Duration = Duration::from_micros(1);

    /// Packets so far apart; returns the time of the last.
    fn packets(linger: &mut Linger, mut now: Time, gap: Duration, count: u32) -> Time {
        for _ in 0..count {
            linger.received(now + gap, now + gap + MICROSECOND);
            now += gap + MICROSECOND;
        }
        now
    }

    fn after_close_traffic() -> Linger {
        let mut linger = Linger::default();
        packets(&mut linger, Time::ZERO, Duration::from_micros(5), 20);
        linger
    }

    #[test]
    fn close_traffic_is_waited_for_and_sparse_traffic_is_not() {
        let mut linger = Linger::default();
        let mut now = packets(&mut linger, Time::ZERO, Duration::from_micros(5), 20);
        assert_eq!(linger.worth(now), Some(MIN_LINGER));
        now = packets(&mut linger, now, Duration::from_micros(80), 20);
        let patience = linger.worth(now).unwrap();
        assert!((Duration::from_micros(140)..=Duration::from_micros(160)).contains(&patience));
        now = packets(&mut linger, now, Duration::from_micros(10_000), 20);
        assert_eq!(linger.worth(now), None);
        // And soon again, when they come closer.
        now = packets(&mut linger, now, Duration::from_micros(5), 7);
        assert!(linger.worth(now).is_some());
    }

    #[test]
    fn what_does_not_pay_is_tried_less_and_less_often() {
        let mut linger = after_close_traffic();
        let (mut now, mut waits, mut last) = (Time::ZERO, 0, Time::ZERO);
        let mut longest = Duration::ZERO;
        while now < Time::from_nanos(1_000_000_000) {
            if linger.worth(now).is_some() {
                longest = longest.max(now - last);
                last = now;
                waits += 1;
                linger.ended(now, Outcome::InVain);
            }
            now += Duration::from_micros(100);
        }

        assert!((20..40).contains(&waits), "{waits}");
        assert!(longest <= MAX_LINGER_BACKOFF + Duration::from_micros(200));
        while linger.worth(now).is_none() {
            now += Duration::from_micros(100);
        }
        linger.ended(now, Outcome::Paid);
        assert!(linger.worth(now).is_some());
        linger.ended(now, Outcome::InVain);
        assert!(linger.worth(now).is_some());
    }

    #[test]
    fn a_crowd_ends_it_for_long() {
        let mut linger = after_close_traffic();
        let at = Time::from_nanos(7);
        linger.ended(at, Outcome::Crowded);
        assert_eq!(linger.worth(Time::ZERO + MAX_LINGER_BACKOFF), None);
        assert!(linger.worth(at + MAX_LINGER_BACKOFF).is_some());
    }
}
