//! Packets of one length.
//!
//! The kernel takes several packets in one call, and passes them on as one, only if they are of one
//! length. The first of an RDMA WRITE is longer than those that follow by its RETH, the first of a
//! READ's answer by its AETH, and the last of most messages is shorter than the others. Between two
//! ends that both know it they are filled up to the first's length behind their payload
//! (`docs/wire.md`), so that several messages go out together.
//!
//! Who understands it shows that in all packets that cannot be filled. Nothing of it is shown to a
//! peer that nobody says is of our kind.

use ferroce_wire::packet::COUNT_LEN;
use ferroce_wire::{Bth, Filler, Packet, opcode};

/// What a queue pair knows of filled packets.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Filling {
    /// The peer may be one that understands them, as does this side.
    pub(crate) expected: bool,
    /// It is on this machine.
    pub(crate) near: bool,
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
        self.towards(self.by_responder)
    }

    /// For responses.
    #[inline]
    pub(crate) fn of_responses(self) -> Fill {
        self.towards(self.by_requester)
    }

    /// For packets to a side that has shown that it `understands` filled ones, or has not.
    #[inline]
    fn towards(self, understands: bool) -> Fill {
        Fill {
            shown: self.expected,
            wanted: self.worth_it && understands,
            near: self.near,
        }
    }

    /// Takes note of what a packet shows, and takes off what fills it: then it is returned anew.
    #[inline]
    pub(crate) fn open<'a>(&mut self, packet: &Packet<'a>) -> Option<Packet<'a>> {
        if !packet.bth.filled || !self.expected {
            return None;
        }
        if packet.info.filler != Filler::None {
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
    near: bool,
}

impl Fill {
    /// Whether the last packet of a message of so many is to be filled, however short it is: what
    /// `follows` can go out with it then. Else it ends a run anyway. A line may be slower than the
    /// processor that makes the packets, so it carries data instead.
    #[inline]
    pub(crate) fn levels(self, packets: u64, follows: bool) -> bool {
        self.wanted && self.near && packets > 1 && follows
    }

    /// Pad count, bit and filler of a packet with `len` bytes of payload, where the path MTU is
    /// `mtu`. `level`: it is filled though its payload is shorter than that.
    #[inline(always)]
    pub(crate) fn apply(self, bth: &mut Bth, len: u32, mtu: u32, level: bool) -> u16 {
        let kind = opcode::info(bth.opcode).map_or(Filler::None, |info| info.filler);
        let least = match kind {
            Filler::None => {
                bth.filled = self.shown;
                bth.pad = Bth::pad_for(len as usize);
                return 0;
            }
            Filler::Fixed(_) => 1,
            Filler::Counted(_) => COUNT_LEN as i64,
        };
        let room = i64::from(mtu) + i64::from(kind.shorter()) - i64::from(len);
        bth.filled = self.wanted && room >= least && (level || len == mtu);
        if bth.filled {
            return room as u16;
        }
        bth.pad = Bth::pad_for(len as usize);
        0
    }
}
