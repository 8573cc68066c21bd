//! The headers as they lie on the wire. Byte order is in the types; bit fields are taken apart by
//! the modules that own them. Nothing outside this crate sees these.

use zerocopy::byteorder::big_endian::{U16, U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// A word of one byte and a 24-bit number, as so many of these headers have. One word and not four
/// bytes, so that what was just written can be read again (for the ICRC) without waiting for the
/// store to finish.
#[derive(Clone, Copy, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(transparent)]
pub(crate) struct ByteAnd24(U32);

impl ByteAnd24 {
    /// Keeps the low 24 bits of `number`.
    pub(crate) fn new(byte: u8, number: u32) -> ByteAnd24 {
        ByteAnd24(U32::new(u32::from(byte) << 24 | number & 0xff_ffff))
    }

    pub(crate) fn byte(self) -> u8 {
        (self.0.get() >> 24) as u8
    }

    pub(crate) fn number(self) -> u32 {
        self.0.get() & 0xff_ffff
    }
}

#[derive(Clone, Copy, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub(crate) struct RawBth {
    /// Opcode (8), SE, M, pad count (2), TVer (4), partition key (16).
    pub(crate) opcode_flags_pkey: U32,
    /// FECN, BECN and six reserved bits, which the ICRC takes as ones; destination QP.
    pub(crate) variant_dest_qp: ByteAnd24,
    /// AckReq and seven reserved bits; PSN.
    pub(crate) ack_psn: ByteAnd24,
}

#[derive(Clone, Copy, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub(crate) struct RawReth {
    pub(crate) va: U64,
    pub(crate) rkey: U32,
    pub(crate) len: U32,
}

#[derive(Clone, Copy, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub(crate) struct RawAeth {
    pub(crate) syndrome_msn: ByteAnd24,
}

#[derive(Clone, Copy, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub(crate) struct RawAtomicEth {
    pub(crate) va: U64,
    pub(crate) rkey: U32,
    pub(crate) swap_add: U64,
    pub(crate) compare: U64,
}

#[derive(Clone, Copy, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub(crate) struct RawDeth {
    pub(crate) qkey: U32,
    /// A reserved byte and the source QP.
    pub(crate) src_qp: ByteAnd24,
}

/// XRCETH: a reserved byte and the XRC shared receive queue's number.
#[derive(Clone, Copy, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub(crate) struct RawXrcEth {
    pub(crate) srq: ByteAnd24,
}

#[derive(Clone, Copy, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub(crate) struct RawLrh {
    /// VL (4), LVer (4).
    pub(crate) vl_version: u8,
    /// SL (4), reserved (2), LNH (2).
    pub(crate) sl_next: u8,
    pub(crate) dlid: U16,
    /// Reserved (5), length in words of 4 bytes (11).
    pub(crate) length: U16,
    pub(crate) slid: U16,
}

/// IPv4 header without options.
#[derive(FromBytes, IntoBytes, Unaligned, KnownLayout, Immutable)]
#[repr(C)]
pub(crate) struct RawIpv4 {
    pub version_ihl: u8,
    pub tos: u8,
    pub total_len: U16,
    pub id: U16,
    pub flags_offset: U16,
    pub ttl: u8,
    pub protocol: u8,
    pub checksum: U16,
    pub source: [u8; 4],
    pub destination: [u8; 4],
}

#[derive(Clone, Copy, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub(crate) struct RawGrh {
    /// Version (4), traffic class (8), flow label (20).
    pub(crate) version_class_flow: U32,
    pub(crate) payload_len: U16,
    pub(crate) next_header: u8,
    pub(crate) hop_limit: u8,
    pub(crate) sgid: [u8; 16],
    pub(crate) dgid: [u8; 16],
}

/// Takes one header off the front of `bytes`.
pub(crate) fn take<'a, T>(bytes: &mut &'a [u8]) -> Option<&'a T>
where
    T: FromBytes + KnownLayout + Immutable + Unaligned,
{
    let (header, rest) = T::ref_from_prefix(bytes).ok()?;
    *bytes = rest;
    Some(header)
}

/// Writes one header at `*at` and moves `*at` behind it.
///
/// # Panics
/// If `out` is too short.
pub(crate) fn put<T: IntoBytes + Immutable>(out: &mut [u8], at: &mut usize, header: &T) {
    let bytes = header.as_bytes();
    out[*at..*at + bytes.len()].copy_from_slice(bytes);
    *at += bytes.len();
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_those_of_the_specification() {
        assert_eq!(size_of::<RawLrh>(), 8);
        assert_eq!(size_of::<RawGrh>(), 40);
        assert_eq!(size_of::<RawBth>(), 12);
        assert_eq!(size_of::<RawReth>(), 16);
        assert_eq!(size_of::<RawAeth>(), 4);
        assert_eq!(size_of::<RawAtomicEth>(), 28);
        assert_eq!(size_of::<RawDeth>(), 8);
        assert_eq!(size_of::<RawXrcEth>(), 4);
    }

    #[test]
    fn a_number_keeps_24_bits() {
        let word = ByteAnd24::new(0xa5, 0xff12_3456);
        assert_eq!((word.byte(), word.number()), (0xa5, 0x12_3456));
        assert_eq!(word.as_bytes(), [0xa5, 0x12, 0x34, 0x56]);
    }
}
