//! How far a network reorders packets, as it has shown.

use crate::Duration;
use crate::tuning::MAX_REORDERING;

/// How far the network has been seen to reorder: in quarters of a round trip.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Reordering(pub u8);

impl Reordering {
    /// Once more, now.
    pub(crate) fn seen(&mut self) {
        self.0 = (self.0 + 1).min(MAX_REORDERING);
    }

    /// How long a packet that was overtaken may be late.
    pub(crate) fn patience(self, rtt: Duration) -> Duration {
        rtt / 4 * u32::from(self.0.max(1))
    }
}
