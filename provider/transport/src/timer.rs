//! The timers of a requester: Local ACK Timeout, the RNR wait, and two of loss recovery towards a
//! peer with selective acknowledgements. Points in time only; nothing fires by itself.

use crate::Time;
use crate::tuning::LONG_ACK_TIMEOUT;
use std::time::Duration;

/// The Local ACK Timeout in nanoseconds for an exponent of 0–31, `None` where it is infinite
/// (C9-140).
pub(crate) fn ack_timeout(exponent: u8) -> Option<u64> {
    (exponent != 0).then(|| 4096u64 << exponent.min(31))
}

/// The requester's timers and retry counters.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Timers {
    /// When the oldest unacknowledged request counts as lost (C9-139).
    pub ack: Option<Time>,
    /// A Local ACK Timeout has passed since the last progress.
    pub silent: bool,
    /// Until when nothing may be sent after an RNR NAK.
    pub rnr: Option<Time>,
    /// When the scoreboard is to be looked at again: what was overtaken may be lost by then.
    pub reorder: Option<Time>,
    /// When silence is asked about.
    pub probe: Option<Time>,
    /// Retries left of `retry_cnt`.
    pub retries: u8,
    /// Retries left of `rnr_retry`; not counted down from 7.
    pub rnr_retries: u8,
    /// State of the jitter's generator.
    pub seed: u64,
    /// By what T_tr is multiplied; 0 and 1: by nothing.
    pub stretch: u32,
}

impl Timers {
    /// When a Local ACK Timeout that starts now ends; C9-142 allows T_tr to 4·T_tr. Of a short one:
    /// after 2·T_tr and at most half a T_tr more, since programs set it with an adapter's answering
    /// time in mind; and after one more where that has passed once already, since a peer that is
    /// still silent rather waits for a processor than that the same was lost twice. Of a long one:
    /// after T_tr and two to four parts in 256, as adapters do; the two are for a request that
    /// leaves a little after its timer has started. What is random spreads queue pairs that lost
    /// together, so that they do not retry together.
    pub(crate) fn ack_deadline(&mut self, now: Time, exponent: u8) -> Option<Time> {
        let t = ack_timeout(exponent)?.saturating_mul(u64::from(self.stretch.max(1)));
        // xorshift64
        self.seed ^= self.seed << 13;
        self.seed ^= self.seed >> 7;
        self.seed ^= self.seed << 17;
        let spread = self.seed & 0xff;
        let waits = match exponent {
            LONG_ACK_TIMEOUT.. => t + (t >> 7) + (t >> 15) * spread,
            _ => (2 + u64::from(self.silent)) * t + (t >> 9) * spread,
        };
        Some(now + Duration::from_nanos(waits))
    }

    pub(crate) fn next(&self) -> Option<Time> {
        // An iterator over those that run is compiled to looks at times that are none, too, which
        // is right and what Valgrind complains of.
        let timers = [self.ack, self.rnr, self.reorder, self.probe];
        let next = timers.map(|timer| timer.unwrap_or(Time::MAX));
        let next = next[0].min(next[1]).min(next[2]).min(next[3]);
        (next != Time::MAX).then_some(next)
    }

    pub(crate) fn stop(&mut self) {
        self.ack = None;
        self.rnr = None;
        self.reorder = None;
        self.probe = None;
        self.silent = false;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_timeout_keeps_to_its_bounds() {
        // C9-142
        for (exponent, silent) in (1..=31).flat_map(|e| [(e, false), (e, true)]) {
            let t = ack_timeout(exponent).expect("finite");
            let mut timers = Timers {
                seed: 0x1b7a,
                silent,
                ..Timers::default()
            };

            let (mut least, mut most) = (u64::MAX, 0);
            for _ in 0..2000 {
                let waits = timers
                    .ack_deadline(Time::ZERO, exponent)
                    .expect("finite")
                    .as_nanos();
                (least, most) = (least.min(waits), most.max(waits));
            }

            // Below the upper end by what it may take until the retry is seen.
            assert!(
                least > t && most < 4 * t - t / 4,
                "{exponent}: {least} to {most}"
            );

            // Near the lower end, where a process has time enough to answer; else the peer is given
            // more the second time.
            let long = exponent >= LONG_ACK_TIMEOUT;
            assert_eq!(most < t + t / 50, long, "{exponent}: {most}");
            assert_eq!(least >= 3 * t, silent && !long, "{exponent}: {least}");

            assert!(most - least > t / 200, "{exponent}: {least} to {most}");
        }

        assert_eq!(Timers::default().ack_deadline(Time::ZERO, 0), None);
    }
}
