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
        Fill {
            shown: self.expected,
            wanted: self.worth_it && self.by_responder,
            near: self.near,
        }
    }

    /// For responses.
    #[inline]
    pub(crate) fn of_responses(self) -> Fill {
        Fill {
            shown: self.expected,
            wanted: self.worth_it && self.by_requester,
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
        let filler = match opcode::info(bth.opcode).map_or(Filler::None, |info| info.filler) {
            Filler::None => {
                bth.filled = self.shown;
                bth.pad = Bth::pad_for(len as usize);
                return 0;
            }
            Filler::Fixed(shorter) => i64::from(shorter),
            Filler::Counted(shorter) => {
                match i64::from(mtu) + i64::from(shorter) - i64::from(len) {
                    room if room >= COUNT_LEN as i64 => room,
                    _ => 0,
                }
            }
        };
        bth.filled = self.wanted && filler > 0 && (level || len == mtu);
        match bth.filled {
            true => filler as u16,
            false => {
                bth.pad = Bth::pad_for(len as usize);
                0
            }
        }
    }
}
