//! The global route header: IPv6's layout, between LRH and BTH, and the first 40 bytes of a UD receive buffer.

use crate::raw::{RawGrh, put, take};

/// Bytes of a GRH.
pub const LEN: usize = size_of::<RawGrh>();

/// Next-header value of a GRH that is followed by a BTH.
pub const NEXT_BTH: u8 = 0x1b;

/// Global route header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Grh {
    /// Version, 4 bits; 6.
    pub version: u8,
    /// Traffic class.
    pub traffic_class: u8,
    /// Flow label, 20 bits.
    pub flow_label: u32,
    /// Bytes from behind the GRH to the end of the ICRC.
    pub payload_len: u16,
    /// Next header; [`NEXT_BTH`].
    pub next_header: u8,
    /// Hop limit.
    pub hop_limit: u8,
    /// Source GID, network byte order.
    pub sgid: [u8; 16],
    /// Destination GID, network byte order.
    pub dgid: [u8; 16],
}

impl Grh {
    /// Reads a GRH from the front of `bytes` and returns what lies behind it; `None` if they are too few.
    pub fn parse(mut bytes: &[u8]) -> Option<(Grh, &[u8])> {
        let raw: &RawGrh = take(&mut bytes)?;
        let first = raw.version_class_flow.get();
        let grh = Grh {
            version: (first >> 28) as u8,
            traffic_class: (first >> 20) as u8,
            flow_label: first & 0xf_ffff,
            payload_len: raw.payload_len.get(),
            next_header: raw.next_header,
            hop_limit: raw.hop_limit,
            sgid: raw.sgid,
            dgid: raw.dgid,
        };
        Some((grh, bytes))
    }

    /// Writes the header to the front of `out` and returns its length, 40.
    ///
    /// # Panics
    /// If `out` is too short.
    pub fn emit(&self, out: &mut [u8]) -> usize {
        let first = u32::from(self.version) << 28
            | u32::from(self.traffic_class) << 20
            | self.flow_label & 0xf_ffff;
        let raw = RawGrh {
            version_class_flow: first.into(),
            payload_len: self.payload_len.into(),
            next_header: self.next_header,
            hop_limit: self.hop_limit,
            sgid: self.sgid,
            dgid: self.dgid,
        };
        let mut at = 0;
        put(out, &mut at, &raw);
        at
    }
}
