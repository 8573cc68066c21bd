//! What a call of `transmit` may do.

/// Limits of one [`Qp::transmit`](crate::Qp::transmit) call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TransmitOpts {
    /// Payload bytes of requests (and of awaited READ responses) that may be unacknowledged. A
    /// packet counts as at least 256 bytes. One packet may always be on its way. Nothing holds UC
    /// and UD but the budget: to pace them, call less often.
    pub window: u32,
    /// Stop after about so many bytes in this call.
    pub budget: u32,
    /// `false` holds a plain ACK back while
    /// [`Qp::ack_deferrable`](crate::Qp::ack_deferrable), unless a request goes out beside it.
    pub flush_acks: bool,
    /// The packets of a message had better be of one length, where the peer takes that.
    pub fill: bool,
    /// Payload bytes of one message that may go in one piece, where the way out takes a
    /// [`Stretch`](ferroce_wire::Stretch); 0: each packet goes by itself.
    pub stretch: u32,
}
