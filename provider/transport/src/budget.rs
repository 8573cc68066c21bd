//! How much one call of [`transmit`](crate::Qp::transmit) may still send.

use crate::tuning::PACKET_OVERHEAD;

/// What is left of a call's budget.
pub(crate) struct Budget(i64);

impl Budget {
    /// Of so many bytes, but of one packet at least.
    pub(crate) fn of(bytes: u32) -> Budget {
        Budget(i64::from(bytes.max(1)))
    }

    /// Nothing is left of it: what has no cost may still go out.
    pub(crate) fn nothing() -> Budget {
        Budget(0)
    }

    pub(crate) fn spend(&mut self, bytes: u32) {
        self.0 -= i64::from(bytes) + PACKET_OVERHEAD;
    }

    pub(crate) fn is_spent(&self) -> bool {
        self.0 <= 0
    }
}
