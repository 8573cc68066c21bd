//! The headers as they lie on the wire. Byte order is in the types; bit fields are taken apart by the
//! modules that own them. Nothing outside this crate sees these.

use zerocopy::byteorder::big_endian::{U16, U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// 24 bits, big-endian.
#[derive(Clone, Copy, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(transparent)]
pub(crate) struct U24([u8; 3]);

impl U24 {
    /// Keeps the low 24 bits.
    pub(crate) const fn new(v: u32) -> U24 {
        let [_, a, b, c] = v.to_be_bytes();
        U24([a, b, c])
    }

    pub(crate) const fn value(self) -> u32 {
        u32::from_be_bytes([0, self.0[0], self.0[1], self.0[2]])
    }
}

#[derive(Clone, Copy, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub(crate) struct RawBth {
    pub(crate) opcode: u8,
    /// SE, M, pad count (2), TVer (4).
    pub(crate) flags: u8,
    pub(crate) pkey: U16,
    /// FECN, BECN, reserved (6): the ICRC takes all eight as ones.
    pub(crate) variant: u8,
    pub(crate) dest_qp: U24,
    /// AckReq, reserved (7).
    pub(crate) ack: u8,
    pub(crate) psn: U24,
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
    pub(crate) syndrome: u8,
    pub(crate) msn: U24,
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
    pub(crate) reserved: u8,
    pub(crate) src_qp: U24,
}

/// XRCETH: a reserved byte and the XRC shared receive queue's number.
#[derive(Clone, Copy, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub(crate) struct RawXrcEth {
    pub(crate) reserved: u8,
    pub(crate) srq: U24,
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
    fn u24_keeps_24_bits() {
        assert_eq!(U24::new(0xff12_3456).value(), 0x12_3456);
        assert_eq!(U24::new(0x12_3456).as_bytes(), [0x12, 0x34, 0x56]);
    }
}
