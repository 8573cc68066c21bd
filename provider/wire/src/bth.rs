//! The base transport header (section 9.2), first in every packet of the transport.

use crate::raw::{ByteAnd24, RawBth, put, take};

/// Bytes of a BTH.
pub const LEN: usize = size_of::<RawBth>();

/// Where the byte that the ICRC takes as ones lies in the BTH (FECN, BECN and six reserved bits).
pub(crate) const VARIANT_BYTE: usize = std::mem::offset_of!(RawBth, variant_dest_qp);

/// Base transport header.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Bth {
    /// Operation and service; see [`opcode`](crate::opcode).
    pub opcode: u8,
    /// Solicited event.
    pub solicited: bool,
    /// Migration state: the sender is in the migrated state.
    pub migreq: bool,
    /// Bytes, 0 to 3, that fill the payload up to a multiple of four.
    pub pad: u8,
    /// Transport header version, 4 bits; only 0 exists.
    pub tver: u8,
    /// Partition key.
    pub pkey: u16,
    /// Forward explicit congestion notification.
    pub fecn: bool,
    /// Backward explicit congestion notification.
    pub becn: bool,
    /// Destination QP number, 24 bits.
    pub dest_qp: u32,
    /// The requester asks for an acknowledgement.
    pub ack_req: bool,
    /// The sender understands selective acknowledgements: one of seven reserved bits, of which
    /// others take no notice.
    pub selective: bool,
    /// The third of those bits. In a packet whose opcode has a
    /// [filler](crate::opcode::OpcodeInfo::filler): zero bytes stand behind its payload, so that
    /// the message's packets are of one length. In others: the sender understands such packets.
    pub filled: bool,
    /// Packet sequence number, 24 bits.
    pub psn: u32,
}

impl Bth {
    /// Reads a BTH from the front of `bytes`; `None` if they are too few.
    pub fn parse(mut bytes: &[u8]) -> Option<Bth> {
        Bth::take(&mut bytes)
    }

    /// The pad count that goes with a payload of `len` bytes.
    pub const fn pad_for(len: usize) -> u8 {
        (len.wrapping_neg() & 3) as u8
    }

    /// Reserved bits but the two of ours are not looked at; [`put`](Self::put) writes zeros there
    /// (C9-6).
    pub(crate) fn take(bytes: &mut &[u8]) -> Option<Bth> {
        let raw: &RawBth = take(bytes)?;
        let first = raw.opcode_flags_pkey.get();
        let variant = raw.variant_dest_qp.byte();
        Some(Bth {
            opcode: (first >> 24) as u8,
            solicited: first & 1 << 23 != 0,
            migreq: first & 1 << 22 != 0,
            pad: (first >> 20) as u8 & 3,
            tver: (first >> 16) as u8 & 0x0f,
            pkey: first as u16,
            fecn: variant & 0x80 != 0,
            becn: variant & 0x40 != 0,
            dest_qp: raw.variant_dest_qp.number(),
            ack_req: raw.ack_psn.byte() & 0x80 != 0,
            selective: raw.ack_psn.byte() & 0x40 != 0,
            filled: raw.ack_psn.byte() & 0x10 != 0,
            psn: raw.ack_psn.number(),
        })
    }

    /// Fields wider than their place on the wire are cut to it.
    pub(crate) fn put(&self, out: &mut [u8], at: &mut usize) {
        let flags = u32::from(self.solicited) << 7
            | u32::from(self.migreq) << 6
            | u32::from(self.pad & 3) << 4
            | u32::from(self.tver & 0x0f);
        let first = u32::from(self.opcode) << 24 | flags << 16 | u32::from(self.pkey);
        let variant = u8::from(self.fecn) << 7 | u8::from(self.becn) << 6;
        let asks = u8::from(self.ack_req) << 7
            | u8::from(self.selective) << 6
            | u8::from(self.filled) << 4;
        let raw = RawBth {
            opcode_flags_pkey: first.into(),
            variant_dest_qp: ByteAnd24::new(variant, self.dest_qp),
            ack_psn: ByteAnd24::new(asks, self.psn),
        };
        put(out, at, &raw);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pad_fills_to_four() {
        for len in 0..=4096 {
            assert_eq!((len + usize::from(Bth::pad_for(len))) % 4, 0);
            assert!(Bth::pad_for(len) < 4);
        }
    }

    #[test]
    fn the_byte_that_the_icrc_skips() {
        assert_eq!(VARIANT_BYTE, 4);
    }

    #[test]
    fn too_short() {
        assert_eq!(Bth::parse(&[0; 11]), None);
        assert!(Bth::parse(&[0; 12]).is_some());
    }
}
