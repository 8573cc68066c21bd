//! The local route header of the InfiniBand link layer. RoCE has none.

use crate::raw::{RawLrh, put, take};

/// Bytes of an LRH.
pub const LEN: usize = size_of::<RawLrh>();

/// What follows an LRH (the LNH field).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum NextHeader {
    /// Not InfiniBand: a raw packet with a two-byte Ethertype header.
    Raw = 0,
    /// Not InfiniBand: a raw packet with an IPv6 header.
    Ipv6 = 1,
    /// InfiniBand, local: a BTH.
    Local = 2,
    /// InfiniBand, global: a GRH, then a BTH.
    Global = 3,
}

/// Local route header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lrh {
    /// Virtual lane, 4 bits.
    pub vl: u8,
    /// Link version, 4 bits; only 0 exists.
    pub version: u8,
    /// Service level, 4 bits.
    pub sl: u8,
    /// Next header.
    pub next: NextHeader,
    /// Destination LID.
    pub dlid: u16,
    /// Length in words of 4 bytes, 11 bits: from the first byte of the LRH to the last before the
    /// VCRC.
    pub words: u16,
    /// Source LID.
    pub slid: u16,
}

impl Lrh {
    /// Reads an LRH from the front of `bytes` and returns what lies behind it; `None` if they are
    /// too few.
    pub fn parse(mut bytes: &[u8]) -> Option<(Lrh, &[u8])> {
        let raw: &RawLrh = take(&mut bytes)?;
        let lrh = Lrh {
            vl: raw.vl_version >> 4,
            version: raw.vl_version & 0x0f,
            sl: raw.sl_next >> 4,
            next: match raw.sl_next & 3 {
                0 => NextHeader::Raw,
                1 => NextHeader::Ipv6,
                2 => NextHeader::Local,
                _ => NextHeader::Global,
            },
            dlid: raw.dlid.get(),
            words: raw.length.get() & 0x7ff,
            slid: raw.slid.get(),
        };

        Some((lrh, bytes))
    }

    /// Writes the header to the front of `out` and returns its length, 8.
    ///
    /// # Panics
    /// If `out` is too short.
    pub fn emit(&self, out: &mut [u8]) -> usize {
        let raw = RawLrh {
            vl_version: self.vl << 4 | self.version & 0x0f,
            sl_next: self.sl << 4 | self.next as u8,
            dlid: self.dlid.into(),
            length: (self.words & 0x7ff).into(),
            slid: self.slid.into(),
        };
        let mut at = 0;
        put(out, &mut at, &raw);
        at
    }
}
