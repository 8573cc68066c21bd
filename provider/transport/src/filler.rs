//! Packets of one length.
//!
//! The kernel takes several packets in one call, and passes them on as one, only if they are of one
//! length. The first of an RDMA WRITE is longer than those that follow by its RETH, the first of a
//! READ's answer by its AETH. Between two ends that both know it the others are filled up to that
//! length behind their payload (`docs/wire.md`), so that several messages go out together.
//!
//! Who understands it shows that in all packets that cannot be filled. Nothing of it is shown to a
//! peer that nobody says is of our kind.

use ferroce_wire::{Packet, opcode};

/// What a queue pair knows of filled packets.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Filling {
    /// The peer may be one that understands them, as does this side.
    pub(crate) expected: bool,
    /// It does: its responder has shown it, and its requester.
    by_responder: bool,
    by_requester: bool,
    /// The way out is better off with them.
    pub(crate) worth_it: bool,
}

impl Filling {
    /// For requests.
    #[inline]
    pub(crate) fn of_requests(self) -> Fill {
        Fill {
            shown: self.expected,
            wanted: self.worth_it && self.by_responder,
        }
    }

    /// For responses.
    #[inline]
    pub(crate) fn of_responses(self) -> Fill {
        Fill {
            shown: self.expected,
            wanted: self.worth_it && self.by_requester,
        }
    }

    /// Takes note of what a packet shows, and takes off what fills it: then it is returned anew.
    #[inline]
    pub(crate) fn open<'a>(&mut self, packet: &Packet<'a>) -> Option<Packet<'a>> {
        if !packet.bth.filled || !self.expected {
            return None;
        }
        if packet.info.filler > 0 {
            return Some(packet.without_filler());
        }
        match packet.info.is_response() {
            true => self.by_responder = true,
            false => self.by_requester = true,
        }
        None
    }
}

/// What becomes of the packets of one direction.
#[derive(Clone, Copy)]
pub(crate) struct Fill {
    /// This side shows that it understands filled packets.
    pub(crate) shown: bool,
    wanted: bool,
}

impl Fill {
    /// [`Bth::filled`](ferroce_wire::Bth::filled) of a packet. `full`: its payload is as long as
    /// can be; others end a run anyway.
    #[inline(always)]
    pub(crate) fn bit(self, opcode: u8, full: bool) -> bool {
        match opcode::info(opcode) {
            Some(info) if info.filler > 0 => self.wanted && full,
            _ => self.shown,
        }
    }
}
