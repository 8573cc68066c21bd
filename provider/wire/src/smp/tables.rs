//! The attributes that are blocks of a table. Which block it is says the attribute modifier.

use super::Data;

/// 32 entries of the P_Key table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PKeyBlock(pub [u16; 32]);

/// The ports of 32 multicast LIDs: bit n of a mask is port n of the sixteen that the modifier
/// names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MulticastBlock(pub [u16; 32]);

/// Eight GUIDs of a port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GuidInfo(pub [u64; 8]);

/// The ports of 64 LIDs; 255 is none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LinearBlock(pub [u8; 64]);

/// The virtual lane of each service level; 15 drops.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SlToVl(pub [u8; 16]);

/// How long a virtual lane may send.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct VlWeight {
    /// Virtual lane, 4 bits.
    pub vl: u8,
    /// Units of 64 bytes; 0 skips the entry.
    pub weight: u8,
}

/// 32 entries of an arbitration table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct VlArbitration(pub [VlWeight; 32]);

macro_rules! numbers {
    ($($block:ident: $number:ident, $entries:literal, $bytes:literal;)*) => {$(
        impl $block {
            /// Reads all entries.
            pub fn parse(data: &Data) -> $block {
                let mut entries = [0; $entries];
                for (entry, bytes) in entries.iter_mut().zip(data.chunks_exact($bytes)) {
                    *entry = $number::from_be_bytes(*bytes.first_chunk().expect("chunks of this size"));
                }
                $block(entries)
            }

            /// Writes all entries.
            pub fn emit(&self, data: &mut Data) {
                for (entry, bytes) in self.0.iter().zip(data.chunks_exact_mut($bytes)) {
                    bytes.copy_from_slice(&entry.to_be_bytes());
                }
            }
        }
    )*};
}

numbers! {
    PKeyBlock: u16, 32, 2;
    MulticastBlock: u16, 32, 2;
    GuidInfo: u64, 8, 8;
    LinearBlock: u8, 64, 1;
}

impl SlToVl {
    /// Reads all sixteen.
    pub fn parse(data: &Data) -> SlToVl {
        let mut vls = [0; 16];
        for (pair, byte) in vls.chunks_exact_mut(2).zip(data) {
            pair.copy_from_slice(&[byte >> 4, byte & 15]);
        }
        SlToVl(vls)
    }

    /// Writes all sixteen; what follows them becomes zero.
    pub fn emit(&self, data: &mut Data) {
        data.fill(0);
        for (pair, byte) in self.0.chunks_exact(2).zip(data) {
            *byte = pair[0] << 4 | pair[1] & 15;
        }
    }
}

impl VlArbitration {
    /// Reads all entries.
    pub fn parse(data: &Data) -> VlArbitration {
        let mut entries = [VlWeight::default(); 32];
        for (entry, bytes) in entries.iter_mut().zip(data.chunks_exact(2)) {
            *entry = VlWeight {
                vl: bytes[0] & 15,
                weight: bytes[1],
            };
        }
        VlArbitration(entries)
    }

    /// Writes all entries.
    pub fn emit(&self, data: &mut Data) {
        for (entry, bytes) in self.0.iter().zip(data.chunks_exact_mut(2)) {
            bytes.copy_from_slice(&[entry.vl & 15, entry.weight]);
        }
    }
}
