//! What crosses the wire: InfiniBand transport headers, the opcode table, PSN arithmetic and the
//! invariant CRC, for RoCEv2 and for the InfiniBand link layer; management datagrams and the
//! messages of the communication manager.
//!
//! This crate parses and emits and does nothing else. It never keeps connection state, never
//! decides what an out-of-order packet means, and never allocates. Whatever the bytes, parsing
//! returns a value or an error.
//!
//! ```
//! use ferroce_wire::{Bth, Ext, Header, Packet, Reth, opcode};
//!
//! let header = Header {
//!     bth: Bth { opcode: opcode::RC_WRITE_ONLY, pkey: 0xffff, dest_qp: 0x11, psn: 7, ..Bth::default() },
//!     ext: Ext { reth: Some(Reth { va: 0x1000, rkey: 5, len: 4 }), ..Ext::default() },
//! };
//! let mut datagram = [0u8; 64];
//! let n = header.emit(&mut datagram);
//! datagram[n..n + 4].copy_from_slice(b"data");
//! let packet = Packet::parse(&datagram[..n + 4 + 4]).unwrap(); // 4 bytes of payload, 4 of ICRC
//! assert_eq!(packet.payload.to_array(), Some(*b"data"));
//! assert_eq!(packet.ext, header.ext);
//! ```
#![forbid(unsafe_code)]

pub mod aeth;
pub mod bits;
pub mod bth;
pub mod cm;
mod crc;
pub mod ext;
pub mod greeting;
pub mod grh;
pub mod icrc;
pub mod identification;
pub mod link;
pub mod lrh;
pub mod mad;
pub mod mtu;
pub mod octets;
pub mod opcode;
pub mod packet;
pub mod pkey;
pub mod pma;
pub mod psn;
mod raw;
pub mod sa;
pub mod selective;
pub mod smp;
pub mod stretch;
pub mod time;

pub use aeth::{Aeth, CreditCode, NakCode, Syndrome, rnr_timer_nanos};
pub use bth::Bth;
pub use ext::{AtomicEth, Deth, Ext, Feth, Reth};
pub use grh::Grh;
pub use lrh::Lrh;
pub use mad::MadHeader;
pub use octets::Octets;
pub use opcode::{Filler, HeaderSet, OpcodeInfo, Operation, PayloadRule, Position, Service};
pub use packet::{Header, Packet, ParseError};
pub use psn::Psn;
pub use stretch::Stretch;

/// UDP destination port of RoCEv2.
pub const ROCE_V2_PORT: u16 = 4791;

/// Bytes of the invariant CRC at the end of every packet.
pub const ICRC_LEN: usize = 4;

/// Bytes of the longest BTH with its extended headers (an XRC atomic request).
pub const MAX_HEADER: usize = bth::LEN + 4 + 28;
/// Most bytes between payload and ICRC: a pad, and what fills a packet.
pub const MAX_TAIL: usize = 3 + 16;
