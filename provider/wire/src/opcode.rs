//! The one opcode table: for each opcode its service, operation, place in the message, extended
//! headers and payload rule. Parsing, emission and the transport's dispatch all go by it.
//!
//! An opcode is 3 bits of service (RC 0x00, UC 0x20, UD 0x60, XRC 0xa0) and 5 bits of operation.
//! Reliable datagram is not in the table, and of the manufacturers' opcodes (0xc0 to 0xff) one is,
//! of our own: the selective acknowledgement. It is 0xc0 plus the ACKNOWLEDGE of its service.

use crate::packet::COUNT_LEN;
use bitflags::bitflags;

bitflags! {
    /// Extended headers, in wire order.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
    pub struct HeaderSet: u16 {
        /// DETH, 8 bytes.
        const DETH = 1 << 0;
        /// XRCETH, 4 bytes.
        const XRCETH = 1 << 1;
        /// FETH, 4 bytes.
        const FETH = 1 << 2;
        /// RETH, 16 bytes.
        const RETH = 1 << 3;
        /// AtomicETH, 28 bytes.
        const ATOMIC = 1 << 4;
        /// AETH, 4 bytes.
        const AETH = 1 << 5;
        /// AtomicAckETH, 8 bytes.
        const ATOMIC_ACK = 1 << 6;
        /// ImmDt, 4 bytes.
        const IMM = 1 << 7;
        /// IETH, 4 bytes.
        const IETH = 1 << 8;
    }
}

impl HeaderSet {
    /// Bytes that these headers take.
    pub const fn bytes(self) -> usize {
        const LENGTHS: [usize; 9] = [8, 4, 4, 16, 28, 4, 8, 4, 4];
        let mut len = 0;
        let mut i = 0;
        while i < LENGTHS.len() {
            if self.bits() & 1 << i != 0 {
                len += LENGTHS[i];
            }
            i += 1;
        }
        len
    }
}

/// Transport service of an opcode.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Service {
    /// Reliable connection.
    Rc,
    /// Unreliable connection.
    Uc,
    /// Unreliable datagram.
    Ud,
    /// Extended reliable connection.
    Xrc,
    /// Congestion notification, outside any service.
    Cnp,
}

/// What an opcode does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Operation {
    /// SEND, with or without immediate data or invalidation.
    Send,
    /// RDMA WRITE, with or without immediate data.
    Write,
    /// RDMA READ request.
    ReadRequest,
    /// RDMA READ response.
    ReadResponse,
    /// Acknowledge: ACK, NAK or RNR NAK.
    Acknowledge,
    /// Selective acknowledge: an ACK that says what else has come; see
    /// [`selective`](crate::selective).
    SelectiveAcknowledge,
    /// ATOMIC acknowledge.
    AtomicAcknowledge,
    /// COMPARE & SWAP request.
    CompareSwap,
    /// FETCH & ADD request.
    FetchAdd,
    /// ATOMIC WRITE request.
    AtomicWrite,
    /// FLUSH request.
    Flush,
    /// Congestion notification packet.
    Cnp,
}

/// A packet's place in its message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Position {
    /// The first of several.
    First,
    /// Neither the first nor the last.
    Middle,
    /// The last of several.
    Last,
    /// The whole message.
    Only,
}

/// Payload that an opcode allows. What depends on the path MTU is for the transport to check.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum PayloadRule {
    /// None.
    None,
    /// Exactly the path MTU.
    Full,
    /// 1 byte to the path MTU.
    Some,
    /// 0 bytes to the path MTU.
    Any,
    /// Exactly 8 bytes (ATOMIC WRITE).
    Word8,
    /// 4 to 256 bytes, a multiple of 4 (selective acknowledge).
    Words,
    /// Exactly 16 bytes, reserved (CNP).
    Reserved16,
}

/// One row of the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OpcodeInfo {
    /// Name, for people.
    pub name: &'static str,
    /// The opcode itself.
    pub opcode: u8,
    /// Transport service.
    pub service: Service,
    /// Operation.
    pub operation: Operation,
    /// Place in the message.
    pub position: Position,
    /// Extended headers.
    pub headers: HeaderSet,
    /// Payload rule.
    pub payload: PayloadRule,
    /// Bytes of BTH and extended headers.
    pub header_len: u8,
    /// Whether the packet can be [filled](crate::bth::Bth::filled), and to what length.
    pub filler: Filler,
}

/// How a packet is brought to the length of its message's first, whose payload is the path MTU.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Filler {
    /// Not at all: it begins a message, or is as long.
    None,
    /// Its payload is the path MTU, too. By so many bytes its headers are shorter.
    Fixed(u8),
    /// Its payload ends the message, so what fills it says its own length. By so many bytes its
    /// headers are shorter than the first packet's; they may be longer.
    Counted(i8),
}

impl Filler {
    /// By how many bytes the packet's headers are shorter than those of its message's first.
    #[inline]
    pub const fn shorter(self) -> i8 {
        match self {
            Filler::None => 0,
            Filler::Fixed(shorter) => shorter as i8,
            Filler::Counted(shorter) => shorter,
        }
    }

    /// How many of the bytes that fill a packet stand before its payload.
    #[inline]
    pub(crate) fn before(self, filler: usize) -> usize {
        match self {
            Filler::Counted(_) if filler > 0 => COUNT_LEN,
            _ => 0,
        }
    }
}

/// See [`OpcodeInfo::filler`].
const fn filler(
    service: Service,
    operation: Operation,
    position: Position,
    headers: HeaderSet,
) -> Filler {
    let first = match operation {
        Operation::Send => NONE,
        Operation::Write => HeaderSet::RETH,
        Operation::ReadResponse => HeaderSet::AETH,
        _ => return Filler::None,
    };
    let own = headers.difference(HeaderSet::XRCETH);
    let shorter = first.bytes() as i8 - own.bytes() as i8;
    match (service, position) {
        (Service::Rc | Service::Xrc, Position::Middle) if shorter > 0 => {
            Filler::Fixed(shorter as u8)
        }
        (Service::Rc | Service::Xrc, Position::Last) => Filler::Counted(shorter),
        _ => Filler::None,
    }
}

impl OpcodeInfo {
    /// Sent by a requester.
    pub const fn is_request(&self) -> bool {
        !self.is_response() && !matches!(self.operation, Operation::Cnp)
    }

    /// Sent by a responder.
    pub const fn is_response(&self) -> bool {
        matches!(
            self.operation,
            Operation::ReadResponse
                | Operation::Acknowledge
                | Operation::SelectiveAcknowledge
                | Operation::AtomicAcknowledge
        )
    }

    /// COMPARE & SWAP or FETCH & ADD request.
    pub const fn is_atomic(&self) -> bool {
        matches!(self.operation, Operation::CompareSwap | Operation::FetchAdd)
    }

    /// First or only packet of its message.
    pub const fn begins(&self) -> bool {
        matches!(self.position, Position::First | Position::Only)
    }

    /// Last or only packet of its message.
    pub const fn ends(&self) -> bool {
        matches!(self.position, Position::Last | Position::Only)
    }

    /// Carries immediate data.
    pub const fn has_imm(&self) -> bool {
        self.headers.contains(HeaderSet::IMM)
    }

    /// Carries a key to invalidate.
    pub const fn has_inv(&self) -> bool {
        self.headers.contains(HeaderSet::IETH)
    }

    /// Consumes a receive request at the responder.
    pub const fn consumes_receive(&self) -> bool {
        matches!(self.operation, Operation::Send) || self.has_imm()
    }
}

/// The table's row for an opcode; `None` for one that is reserved or not spoken.
#[inline]
pub fn info(opcode: u8) -> Option<&'static OpcodeInfo> {
    TABLE[usize::from(opcode)].as_ref()
}

/// All rows, by opcode.
pub fn all() -> impl Iterator<Item = &'static OpcodeInfo> {
    TABLE.iter().flatten()
}

const NONE: HeaderSet = HeaderSet::empty();

macro_rules! opcodes {
    ($($konst:ident = $value:literal $name:literal $service:ident $operation:ident $position:ident $payload:ident [$($header:ident)*];)*) => {
        $(#[doc = $name] pub const $konst: u8 = $value;)*

        static TABLE: [Option<OpcodeInfo>; 256] = {
            let mut table = [None; 256];
            $(
                let headers = NONE$(.union(HeaderSet::$header))*;
                table[$value] = Some(OpcodeInfo {
                    name: $name,
                    opcode: $value,
                    service: Service::$service,
                    operation: Operation::$operation,
                    position: Position::$position,
                    headers,
                    payload: PayloadRule::$payload,
                    header_len: (crate::bth::LEN + headers.bytes()) as u8,
                    filler: filler(Service::$service, Operation::$operation, Position::$position, headers),
                });
            )*
            table
        };
    };
}

#[rustfmt::skip]
opcodes! {
    RC_SEND_FIRST          = 0x00 "RC SEND First"                         Rc Send First Full [];
    RC_SEND_MIDDLE         = 0x01 "RC SEND Middle"                        Rc Send Middle Full [];
    RC_SEND_LAST           = 0x02 "RC SEND Last"                          Rc Send Last Some [];
    RC_SEND_LAST_IMM       = 0x03 "RC SEND Last with Immediate"           Rc Send Last Some [IMM];
    RC_SEND_ONLY           = 0x04 "RC SEND Only"                          Rc Send Only Any [];
    RC_SEND_ONLY_IMM       = 0x05 "RC SEND Only with Immediate"           Rc Send Only Any [IMM];
    RC_WRITE_FIRST         = 0x06 "RC RDMA WRITE First"                   Rc Write First Full [RETH];
    RC_WRITE_MIDDLE        = 0x07 "RC RDMA WRITE Middle"                  Rc Write Middle Full [];
    RC_WRITE_LAST          = 0x08 "RC RDMA WRITE Last"                    Rc Write Last Some [];
    RC_WRITE_LAST_IMM      = 0x09 "RC RDMA WRITE Last with Immediate"     Rc Write Last Some [IMM];
    RC_WRITE_ONLY          = 0x0a "RC RDMA WRITE Only"                    Rc Write Only Any [RETH];
    RC_WRITE_ONLY_IMM      = 0x0b "RC RDMA WRITE Only with Immediate"     Rc Write Only Any [RETH IMM];
    RC_READ_REQUEST        = 0x0c "RC RDMA READ Request"                  Rc ReadRequest Only None [RETH];
    RC_READ_RESPONSE_FIRST = 0x0d "RC RDMA READ Response First"           Rc ReadResponse First Full [AETH];
    RC_READ_RESPONSE_MIDDLE = 0x0e "RC RDMA READ Response Middle"         Rc ReadResponse Middle Full [];
    RC_READ_RESPONSE_LAST  = 0x0f "RC RDMA READ Response Last"            Rc ReadResponse Last Some [AETH];
    RC_READ_RESPONSE_ONLY  = 0x10 "RC RDMA READ Response Only"            Rc ReadResponse Only Any [AETH];
    RC_ACKNOWLEDGE         = 0x11 "RC Acknowledge"                        Rc Acknowledge Only None [AETH];
    RC_ATOMIC_ACKNOWLEDGE  = 0x12 "RC ATOMIC Acknowledge"                 Rc AtomicAcknowledge Only None [AETH ATOMIC_ACK];
    RC_COMPARE_SWAP        = 0x13 "RC COMPARE & SWAP"                     Rc CompareSwap Only None [ATOMIC];
    RC_FETCH_ADD           = 0x14 "RC FETCH & ADD"                        Rc FetchAdd Only None [ATOMIC];
    RC_SEND_LAST_INV       = 0x16 "RC SEND Last with Invalidate"          Rc Send Last Some [IETH];
    RC_SEND_ONLY_INV       = 0x17 "RC SEND Only with Invalidate"          Rc Send Only Any [IETH];
    RC_FLUSH               = 0x1c "RC FLUSH"                              Rc Flush Only None [FETH RETH];
    RC_ATOMIC_WRITE        = 0x1d "RC ATOMIC WRITE"                       Rc AtomicWrite Only Word8 [RETH];
    RC_SELECTIVE_ACKNOWLEDGE = 0xd1 "RC Selective Acknowledge"            Rc SelectiveAcknowledge Only Words [AETH];

    UC_SEND_FIRST          = 0x20 "UC SEND First"                         Uc Send First Full [];
    UC_SEND_MIDDLE         = 0x21 "UC SEND Middle"                        Uc Send Middle Full [];
    UC_SEND_LAST           = 0x22 "UC SEND Last"                          Uc Send Last Some [];
    UC_SEND_LAST_IMM       = 0x23 "UC SEND Last with Immediate"           Uc Send Last Some [IMM];
    UC_SEND_ONLY           = 0x24 "UC SEND Only"                          Uc Send Only Any [];
    UC_SEND_ONLY_IMM       = 0x25 "UC SEND Only with Immediate"           Uc Send Only Any [IMM];
    UC_WRITE_FIRST         = 0x26 "UC RDMA WRITE First"                   Uc Write First Full [RETH];
    UC_WRITE_MIDDLE        = 0x27 "UC RDMA WRITE Middle"                  Uc Write Middle Full [];
    UC_WRITE_LAST          = 0x28 "UC RDMA WRITE Last"                    Uc Write Last Some [];
    UC_WRITE_LAST_IMM      = 0x29 "UC RDMA WRITE Last with Immediate"     Uc Write Last Some [IMM];
    UC_WRITE_ONLY          = 0x2a "UC RDMA WRITE Only"                    Uc Write Only Any [RETH];
    UC_WRITE_ONLY_IMM      = 0x2b "UC RDMA WRITE Only with Immediate"     Uc Write Only Any [RETH IMM];

    UD_SEND_ONLY           = 0x64 "UD SEND Only"                          Ud Send Only Any [DETH];
    UD_SEND_ONLY_IMM       = 0x65 "UD SEND Only with Immediate"           Ud Send Only Any [DETH IMM];

    CNP                    = 0x81 "CNP"                                   Cnp Cnp Only Reserved16 [];

    XRC_SEND_FIRST         = 0xa0 "XRC SEND First"                        Xrc Send First Full [XRCETH];
    XRC_SEND_MIDDLE        = 0xa1 "XRC SEND Middle"                       Xrc Send Middle Full [XRCETH];
    XRC_SEND_LAST          = 0xa2 "XRC SEND Last"                         Xrc Send Last Some [XRCETH];
    XRC_SEND_LAST_IMM      = 0xa3 "XRC SEND Last with Immediate"          Xrc Send Last Some [XRCETH IMM];
    XRC_SEND_ONLY          = 0xa4 "XRC SEND Only"                         Xrc Send Only Any [XRCETH];
    XRC_SEND_ONLY_IMM      = 0xa5 "XRC SEND Only with Immediate"          Xrc Send Only Any [XRCETH IMM];
    XRC_WRITE_FIRST        = 0xa6 "XRC RDMA WRITE First"                  Xrc Write First Full [XRCETH RETH];
    XRC_WRITE_MIDDLE       = 0xa7 "XRC RDMA WRITE Middle"                 Xrc Write Middle Full [XRCETH];
    XRC_WRITE_LAST         = 0xa8 "XRC RDMA WRITE Last"                   Xrc Write Last Some [XRCETH];
    XRC_WRITE_LAST_IMM     = 0xa9 "XRC RDMA WRITE Last with Immediate"    Xrc Write Last Some [XRCETH IMM];
    XRC_WRITE_ONLY         = 0xaa "XRC RDMA WRITE Only"                   Xrc Write Only Any [XRCETH RETH];
    XRC_WRITE_ONLY_IMM     = 0xab "XRC RDMA WRITE Only with Immediate"    Xrc Write Only Any [XRCETH RETH IMM];
    XRC_READ_REQUEST       = 0xac "XRC RDMA READ Request"                 Xrc ReadRequest Only None [XRCETH RETH];
    XRC_READ_RESPONSE_FIRST = 0xad "XRC RDMA READ Response First"         Xrc ReadResponse First Full [AETH];
    XRC_READ_RESPONSE_MIDDLE = 0xae "XRC RDMA READ Response Middle"       Xrc ReadResponse Middle Full [];
    XRC_READ_RESPONSE_LAST = 0xaf "XRC RDMA READ Response Last"           Xrc ReadResponse Last Some [AETH];
    XRC_READ_RESPONSE_ONLY = 0xb0 "XRC RDMA READ Response Only"           Xrc ReadResponse Only Any [AETH];
    XRC_ACKNOWLEDGE        = 0xb1 "XRC Acknowledge"                       Xrc Acknowledge Only None [AETH];
    XRC_ATOMIC_ACKNOWLEDGE = 0xb2 "XRC ATOMIC Acknowledge"                Xrc AtomicAcknowledge Only None [AETH ATOMIC_ACK];
    XRC_COMPARE_SWAP       = 0xb3 "XRC COMPARE & SWAP"                    Xrc CompareSwap Only None [XRCETH ATOMIC];
    XRC_FETCH_ADD          = 0xb4 "XRC FETCH & ADD"                       Xrc FetchAdd Only None [XRCETH ATOMIC];
    XRC_SEND_LAST_INV      = 0xb6 "XRC SEND Last with Invalidate"         Xrc Send Last Some [XRCETH IETH];
    XRC_SEND_ONLY_INV      = 0xb7 "XRC SEND Only with Invalidate"         Xrc Send Only Any [XRCETH IETH];
    XRC_FLUSH              = 0xbc "XRC FLUSH"                             Xrc Flush Only None [XRCETH FETH RETH];
    XRC_SELECTIVE_ACKNOWLEDGE = 0xf1 "XRC Selective Acknowledge"          Xrc SelectiveAcknowledge Only Words [AETH];
}

#[cfg(test)]
#[path = "opcode_tests.rs"]
mod tests;
