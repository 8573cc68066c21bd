//! How long a requester hears nothing from a peer with selective acknowledgements before it asks.
//!
//! Two round trips are enough where packets are lost. But a peer is a process: where it has to wait
//! for a processor its answers are late by milliseconds, and to ask then costs both what they lack.
//! An answer tells one from the other, by when it comes after a probe: about a round trip later if
//! the probe brought it about, at any time if nothing was lost.

use crate::tuning::{FIRST_PROBE, MAX_PATIENCE, MAX_PROBES, PATIENCE_HOLDS};
use crate::{Duration, Time};

/// Silence, and what has been learnt about it.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Silence {
    /// Probes since there was news.
    probes: u8,
    /// When the last of them fell due.
    probed: Time,
    /// Since when there has been no news, once there was a probe.
    since: Time,
    /// The peer has been silent for nearly so long, and nothing was lost.
    patience: Duration,
    /// How long that counts.
    until: Time,
}

impl Silence {
    /// How long it is waited before the next probe, if a round trip takes `rtt`.
    pub(crate) fn wait(&self, now: Time, rtt: Duration) -> Duration {
        let least = if now < self.until {
            self.patience
        } else {
            FIRST_PROBE
        };
        (2 * rtt).max(least) * (1 << self.probes)
    }

    /// A probe is due. Whether it is the first since there was news.
    pub(crate) fn probe(&mut self, now: Time, rtt: Duration) -> bool {
        let first = self.probes == 0;
        if first {
            self.since = now - self.wait(now, rtt);
        }
        self.probes = (self.probes + 1).min(MAX_PROBES);
        self.probed = now;
        first
    }

    /// There was news.
    #[inline]
    pub(crate) fn ends(&mut self, now: Time, rtt: Duration) {
        if self.probes > 0 {
            self.judge(now, rtt);
        }
    }

    /// There was news, after a probe or more: whose is it?
    #[cold]
    fn judge(&mut self, now: Time, rtt: Duration) {
        let after = now - self.probed;
        if !rtt.is_zero() && (after < rtt / 2 || after > 2 * rtt) {
            let silence = (now - self.since).min(MAX_PATIENCE);
            self.patience = silence + silence / 4;
            self.until = now + self.patience * PATIENCE_HOLDS;
        }
        self.probes = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RTT: Duration = Duration::from_micros(90);

    fn at(micros: u64) -> Time {
        Time::from_nanos(micros * 1000)
    }

    /// Silence from 10,000 µs on, and probes until there is news.
    fn until(silence: &mut Silence, news: Time) -> u32 {
        let (mut now, mut probes) = (at(10_000), 0);
        loop {
            now = now + silence.wait(now, RTT);
            if now >= news {
                break;
            }
            assert_eq!(silence.probe(now, RTT), probes == 0);
            probes += 1;
        }
        if probes > 0 {
            silence.ends(news, RTT);
        }
        probes
    }

    #[test]
    fn who_is_late_is_given_time() {
        let mut silence = Silence::default();
        // 200, 400, 800, 1,600 µs after one another.
        assert_eq!(until(&mut silence, at(15_000)), 4);
        assert_eq!(until(&mut silence, at(16_000)), 0);
        // And again once that is long ago.
        let then = silence.until;
        assert_eq!(
            silence.wait(then - Duration::from_nanos(1), RTT),
            Duration::from_micros(6250)
        );
        assert_eq!(silence.wait(then, RTT), FIRST_PROBE);
    }

    #[test]
    fn an_answer_to_the_probe_is_a_loss() {
        let mut silence = Silence::default();
        assert_eq!(until(&mut silence, at(10_200 + 95)), 1);
        assert_eq!(silence.wait(at(10_295), RTT), FIRST_PROBE);
        // The answer was on its way.
        assert_eq!(until(&mut silence, at(10_200 + 20)), 1);
        assert_eq!(silence.wait(at(10_220), RTT), Duration::from_micros(275));
    }

    #[test]
    fn there_is_an_end_to_patience() {
        let mut silence = Silence::default();
        until(&mut silence, at(9_000_000));
        assert_eq!(
            silence.wait(at(9_000_000), RTT),
            MAX_PATIENCE + MAX_PATIENCE / 4
        );
    }
}
