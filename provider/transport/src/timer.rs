//! The two timers of a requester: Local ACK Timeout and the RNR wait. Points in time only; nothing fires by itself.

use crate::Time;

/// The Local ACK Timeout in nanoseconds for an exponent of 0–31, `None` where it is infinite.
pub(crate) fn ack_timeout(exponent: u8) -> Option<u64> {
    (exponent != 0).then(|| 4096u64 << exponent.min(31))
}

/// The requester's timers and retry counters.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Timers {
    /// When the oldest unacknowledged request counts as lost.
    pub ack: Option<Time>,
    /// Until when nothing may be sent after an RNR NAK.
    pub rnr: Option<Time>,
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
    /// When a Local ACK Timeout that starts now ends: after 2·T_tr and, spread so that queue pairs which lost together do
    /// not retry together, at most half a T_tr later. C9-142 allows T_tr to 4·T_tr. Programs set T_tr with an adapter's
    /// answering time in mind; a peer that is a process may have to wait for a processor first.
    pub fn ack_deadline(&mut self, now: Time, exponent: u8) -> Option<Time> {
        let t = ack_timeout(exponent)?.saturating_mul(u64::from(self.stretch.max(1)));
        // xorshift64
        self.seed ^= self.seed << 13;
        self.seed ^= self.seed >> 7;
        self.seed ^= self.seed << 17;
        Some(now.saturating_add(2 * t + (t >> 9) * (self.seed & 0xff)))
    }

    pub fn next(&self) -> Option<Time> {
        match (self.ack, self.rnr) {
            (Some(a), Some(b)) => Some(a.min(b)),
            (a, b) => a.or(b),
        }
    }

    pub fn stop(&mut self) {
        self.ack = None;
        self.rnr = None;
    }
}
