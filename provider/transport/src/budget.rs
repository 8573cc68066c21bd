//! How much one call of [`transmit`](crate::Qp::transmit) may still send.

use crate::tuning::PACKET_OVERHEAD;

/// What is left of a call's budget, and how it may go out.
pub(crate) struct Budget {
    left: i64,
    /// Payload bytes of one message that may go in one piece.
    stretch: u32,
}

impl Budget {
    /// Of so many bytes, but of one packet at least.
    pub(crate) fn of(bytes: u32) -> Budget {
        Budget {
            left: i64::from(bytes.max(1)),
            stretch: 0,
        }
    }

    /// Nothing is left of it: what has no cost may still go out.
    pub(crate) fn nothing() -> Budget {
        Budget {
            left: 0,
            stretch: 0,
        }
    }

    /// The same, to be spent on stretches of so many bytes at most.
    pub(crate) fn in_stretches_of(self, stretch: u32) -> Budget {
        Budget { stretch, ..self }
    }

    /// Of `packets` of a message, each of `mtu` bytes, those that may go in one piece: what is left
    /// is room for them. One always may.
    #[inline(always)]
    pub(crate) fn stretch(&self, packets: u64, room: u64, mtu: u32) -> u32 {
        if self.stretch == 0 {
            return 1;
        }
        let bytes = room.min(self.left.max(0) as u64).min(self.stretch.into());
        packets.min(bytes / u64::from(mtu)).max(1) as u32
    }

    pub(crate) fn spend(&mut self, bytes: u32) {
        self.left -= i64::from(bytes) + PACKET_OVERHEAD;
    }

    pub(crate) fn is_spent(&self) -> bool {
        self.left <= 0
    }
}
