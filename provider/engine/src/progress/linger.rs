//! Whether the helper waits awake for what comes next, and for how long.
//!
//! Where packets follow each other closely a sleep costs more than it gives: the wake-up, and the processor's way in and out of
//! idleness. But the helper may share its processor with the very program that it works for, or with the peer. It cannot
//! see that; what it sees is whether waiting awake pays. Knows no clock and does nothing by itself.

use ferroce_transport::Time;

/// Packets that come closer after each other than this are worth waiting for.
const CLOSE: Time = 150_000;
/// The shortest and the longest wait.
const SHORTEST: Time = 50_000;
const LONGEST: Time = 200_000;
/// Waits in vain, in a row, after which none is tried for a while.
const TRIES: u32 = 3;
/// That while at first, and at most: it doubles with every further wait in vain.
const BREAK: Time = 2_000_000;
const LONGEST_BREAK: Time = 50_000_000;

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
    usual: Time,
    /// Since when nothing has been left to do.
    idle_since: Time,
    in_vain: u32,
    pause: Time,
    paused_until: Time,
}

impl Default for Linger {
    fn default() -> Linger {
        Linger {
            usual: CLOSE,
            idle_since: 0,
            in_vain: 0,
            pause: BREAK,
            paused_until: 0,
        }
    }
}

impl Linger {
    /// Something came at a time and was handled at another, whether it was waited for awake or asleep.
    pub fn came(&mut self, at: Time, handled: Time) {
        let gap = at.saturating_sub(self.idle_since);
        // One long gap says that the traffic is another from here on, but not how close it will be.
        self.usual = (3 * self.usual + gap.min(4 * CLOSE)) / 4;
        self.idle_since = handled;
    }

    /// How long to wait awake now, if at all.
    pub fn worth(&self, now: Time) -> Option<Time> {
        (self.usual < CLOSE && now >= self.paused_until)
            .then(|| (2 * self.usual).clamp(SHORTEST, LONGEST))
    }

    /// A wait has ended.
    pub fn ended(&mut self, now: Time, outcome: Outcome) {
        match outcome {
            Outcome::Cut => {}
            Outcome::Paid => {
                self.in_vain = 0;
                self.pause = BREAK;
            }
            Outcome::InVain => {
                self.in_vain += 1;
                if self.in_vain >= TRIES {
                    self.paused_until = now + self.pause;
                    self.pause = (2 * self.pause).min(LONGEST_BREAK);
                }
            }
            Outcome::Crowded => self.paused_until = now + LONGEST_BREAK,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MICROSECOND: Time = 1_000;

    /// Packets so far apart; returns the time of the last.
    fn packets(linger: &mut Linger, mut now: Time, gap: Time, count: u32) -> Time {
        for _ in 0..count {
            linger.came(now + gap, now + gap + MICROSECOND);
            now += gap + MICROSECOND;
        }
        now
    }

    fn after_close_traffic() -> Linger {
        let mut linger = Linger::default();
        packets(&mut linger, 0, 5 * MICROSECOND, 20);
        linger
    }

    #[test]
    fn close_traffic_is_waited_for_and_sparse_traffic_is_not() {
        let mut linger = Linger::default();
        let mut now = packets(&mut linger, 0, 5 * MICROSECOND, 20);
        assert_eq!(linger.worth(now), Some(SHORTEST));
        now = packets(&mut linger, now, 80 * MICROSECOND, 20);
        let patience = linger.worth(now).unwrap();
        assert!((140 * MICROSECOND..=160 * MICROSECOND).contains(&patience));
        now = packets(&mut linger, now, 10_000 * MICROSECOND, 20);
        assert_eq!(linger.worth(now), None);
        // And soon again, when they come closer.
        now = packets(&mut linger, now, 5 * MICROSECOND, 7);
        assert!(linger.worth(now).is_some());
    }

    #[test]
    fn what_does_not_pay_is_tried_less_and_less_often() {
        let mut linger = after_close_traffic();
        let (mut now, mut waits, mut last) = (0, 0, 0);
        let mut longest = 0;
        while now < 1_000_000_000 {
            if linger.worth(now).is_some() {
                longest = longest.max(now - last);
                last = now;
                waits += 1;
                linger.ended(now, Outcome::InVain);
            }
            now += 100 * MICROSECOND;
        }
        assert!((20..40).contains(&waits), "{waits}");
        assert!(longest <= LONGEST_BREAK + 200 * MICROSECOND);
        while linger.worth(now).is_none() {
            now += 100 * MICROSECOND;
        }
        linger.ended(now, Outcome::Paid);
        assert!(linger.worth(now).is_some());
        linger.ended(now, Outcome::InVain);
        assert!(linger.worth(now).is_some());
    }

    #[test]
    fn a_crowd_ends_it_for_long() {
        let mut linger = after_close_traffic();
        linger.ended(7, Outcome::Crowded);
        assert_eq!(linger.worth(LONGEST_BREAK), None);
        assert!(linger.worth(7 + LONGEST_BREAK).is_some());
    }
}
