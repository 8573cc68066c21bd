//! Management datagrams: the header that all of them share.
//!
//! A MAD is 256 bytes, 24 of them this header. Of the classes only that of the communication
//! manager is taken apart further, in [`cm`](crate::cm). Nothing here knows what a class, a method
//! or an attribute asks for.

use zerocopy::byteorder::big_endian::{U16, U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// Bytes of a MAD.
pub const LEN: usize = 256;
/// Bytes of the common header.
pub const HEADER_LEN: usize = size_of::<RawMadHeader>();
/// The only base version.
pub const BASE_VERSION: u8 = 1;
/// Management class of communication management.
pub const CLASS_CM: u8 = 0x07;
/// Version of that class.
pub const CLASS_VERSION_CM: u8 = 2;
/// The queue pair of subnet management.
pub const QP0: u32 = 0;
/// The queue pair of general services.
pub const QP1: u32 = 1;
/// The queue pair that packets for multicast groups are for: nobody's own.
pub const MULTICAST_QPN: u32 = 0xff_ffff;
/// Q_Key of every QP1.
pub const QP1_QKEY: u32 = 0x8001_0000;
/// The default P_Key with full membership.
pub const DEFAULT_PKEY: u16 = 0xffff;

/// Methods that classes have in common (section 13.4.5).
pub mod method {
    /// Asks for an attribute.
    pub const GET: u8 = 0x01;
    /// Changes one.
    pub const SET: u8 = 0x02;
    /// A message that is no request, of which communication management has no other.
    pub const SEND: u8 = 0x03;
    /// Tells of something that happened.
    pub const TRAP: u8 = 0x05;
    /// Passes on what a trap told.
    pub const REPORT: u8 = 0x06;
    /// Tells that a trap has been heard.
    pub const TRAP_REPRESS: u8 = 0x07;
    /// Answers Get and Set.
    pub const GET_RESP: u8 = 0x81;
    /// The bit that responses have.
    pub const RESPONSE: u8 = 0x80;
}

/// Status of responses: the values that classes have in common (section 13.4.7).
pub mod status {
    /// Neither base nor class version, or not together.
    pub const BAD_VERSION: u16 = 0x0004;
    /// No such method.
    pub const UNSUPPORTED_METHOD: u16 = 0x0008;
    /// No such attribute, or not with this method.
    pub const UNSUPPORTED_ATTRIBUTE: u16 = 0x000c;
    /// A component or the attribute modifier has a value that it must not have.
    pub const INVALID_VALUE: u16 = 0x001c;
}

/// One MAD as it lies in a packet.
pub type Mad = [u8; LEN];

/// A GID, in the order of the wire.
pub type Gid = [u8; 16];

/// The header of every MAD.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MadHeader {
    /// [`BASE_VERSION`].
    pub base_version: u8,
    /// Management class.
    pub class: u8,
    /// Version of the class.
    pub class_version: u8,
    /// Method; the top bit is set in responses.
    pub method: u8,
    /// Status, of responses.
    pub status: u16,
    /// What the class makes of these 16 bits.
    pub class_specific: u16,
    /// Transaction identifier.
    pub tid: u64,
    /// Attribute.
    pub attribute: u16,
    /// Attribute modifier.
    pub modifier: u32,
}

#[derive(Clone, Copy, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
struct RawMadHeader {
    base_version: u8,
    class: u8,
    class_version: u8,
    method: u8,
    status: U16,
    class_specific: U16,
    tid: U64,
    attribute: U16,
    reserved: U16,
    modifier: U32,
}

impl MadHeader {
    /// The header of a message of the communication manager.
    pub fn cm(attribute: u16, tid: u64, modifier: u32) -> MadHeader {
        MadHeader {
            base_version: BASE_VERSION,
            class: CLASS_CM,
            class_version: CLASS_VERSION_CM,
            method: method::SEND,
            tid,
            attribute,
            modifier,
            ..MadHeader::default()
        }
    }

    /// Whether somebody has asked for it: it has the bit of responses, or is a TrapRepress, which
    /// goes without.
    pub fn is_response(&self) -> bool {
        self.method & method::RESPONSE != 0 || self.method == method::TRAP_REPRESS
    }

    /// Reads the header from the front of `bytes`; `None` if they are too few.
    pub fn parse(bytes: &[u8]) -> Option<MadHeader> {
        let (raw, _) = RawMadHeader::ref_from_prefix(bytes).ok()?;
        Some(MadHeader {
            base_version: raw.base_version,
            class: raw.class,
            class_version: raw.class_version,
            method: raw.method,
            status: raw.status.get(),
            class_specific: raw.class_specific.get(),
            tid: raw.tid.get(),
            attribute: raw.attribute.get(),
            modifier: raw.modifier.get(),
        })
    }

    /// Writes the header to the front of `mad`.
    pub fn emit(&self, mad: &mut Mad) {
        let raw = RawMadHeader {
            base_version: self.base_version,
            class: self.class,
            class_version: self.class_version,
            method: self.method,
            status: self.status.into(),
            class_specific: self.class_specific.into(),
            tid: self.tid.into(),
            attribute: self.attribute.into(),
            reserved: U16::ZERO,
            modifier: self.modifier.into(),
        };
        mad[..HEADER_LEN].copy_from_slice(raw.as_bytes());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_header_lies_where_it_should() {
        let header = MadHeader {
            base_version: 1,
            class: 7,
            class_version: 2,
            method: 3,
            status: 0x0405,
            class_specific: 0x0607,
            tid: 0x0809_0a0b_0c0d_0e0f,
            attribute: 0x1011,
            modifier: 0x1415_1617,
        };

        let mut mad = [0xff; LEN];
        header.emit(&mut mad);
        let mut expected: Vec<u8> = vec![1, 7, 2, 3];
        expected.extend(4..=0x11);
        expected.extend([0, 0]); // reserved
        expected.extend(0x14..=0x17);
        assert_eq!(mad[..HEADER_LEN], expected);
        assert_eq!(mad[HEADER_LEN], 0xff);
        assert_eq!(MadHeader::parse(&mad), Some(header));
        assert_eq!(MadHeader::parse(&mad[..HEADER_LEN - 1]), None);
    }
}
