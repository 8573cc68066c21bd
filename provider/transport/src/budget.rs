//! How much one call of [`transmit`](crate::Qp::transmit) may still send.

/// What is left of a call's budget.
pub(crate) struct Budget(i64);

impl Budget {
    /// Headers and handling, in bytes' worth.
    const OVERHEAD: i64 = 64;

    /// Of so many bytes, but of one packet at least.
    pub fn of(bytes: u32) -> Budget {
        Budget(i64::from(bytes.max(1)))
    }

    pub fn spend(&mut self, bytes: u32) {
        self.0 -= i64::from(bytes) + Self::OVERHEAD;
    }

    pub fn is_spent(&self) -> bool {
        self.0 <= 0
    }
}
