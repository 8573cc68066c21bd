//! The sink: gathers payloads and makes whole datagrams, ICRC and all, as they would cross the
//! network.

use crate::memory::Memory;
use crate::tester_host::Referring;
use ferroce_transport::{Access, Gather, MemoryError, Sink, TxPacket};
use ferroce_wire::icrc::{Flow, Verdict};
use ferroce_wire::{Header, ICRC_LEN, MAX_HEADER, Packet, ROCE_V2_PORT};
use std::cell::RefCell;
use std::net::Ipv6Addr;
use std::rc::Rc;

/// One direction's sink; datagrams collect in `out`.
pub struct SimSink {
    memory: Rc<RefCell<Memory>>,
    flow: Flow,
    /// Datagrams, oldest first.
    pub out: Vec<Vec<u8>>,
    /// Used datagrams, for reuse.
    pub pool: Vec<Vec<u8>>,
    /// Those that refer to the consumer's memory until the sink is flushed.
    pub referring: Referring,
}

impl SimSink {
    /// The sink of host `side` (0 or 1).
    pub fn new(side: usize, memory: Rc<RefCell<Memory>>) -> SimSink {
        SimSink {
            memory,
            flow: flow(side),
            out: Vec::new(),
            pool: Vec::new(),
            referring: Referring::default(),
        }
    }
}

/// The flow from host `side` to the other one.
pub fn flow(side: usize) -> Flow {
    let ip = |n: usize| Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0, n as u16 + 1);
    Flow::v6(ip(side), ip(1 - side), 0xc000, ROCE_V2_PORT)
}

impl Sink for SimSink {
    fn packet(&mut self, packet: &TxPacket<'_>) -> Result<(), MemoryError> {
        let mut bytes = self.pool.pop().unwrap_or_default();
        bytes.clear();
        bytes.resize(MAX_HEADER, 0);
        let head = Header {
            bth: packet.bth,
            ext: packet.ext,
        };
        let header = head.emit(&mut bytes);
        let before = head.emit_count(packet.filler, &mut bytes[header..]);
        bytes.truncate(header + before);
        let memory = self.memory.borrow();
        match packet.payload {
            Gather::None => {}
            Gather::Bytes(data) => bytes.extend_from_slice(data),
            Gather::Sges { sges, offset, len } => {
                for piece in memory.pieces(sges, offset, len, Access::empty())? {
                    bytes.extend_from_slice(&memory.bytes[piece]);
                }
                self.referring.set(self.referring.get() + 1);
            }
            Gather::Remote { rkey, va, len } => {
                let range = memory.response(packet.srq, rkey, va, len)?;
                bytes.extend_from_slice(&memory.bytes[range]);
            }
        }

        let payload = bytes.len() - header - before;
        assert_eq!(
            (payload + head.around_len(packet.filler)) % 4,
            0,
            "wrong pad count"
        );

        bytes.resize(bytes.len() + head.around_len(packet.filler) - before, 0);
        let mut icrc = self.flow.start(bytes.len() + ICRC_LEN, 0);
        icrc.header(&bytes[..header]);
        icrc.payload(&bytes[header..]);
        bytes.extend_from_slice(&icrc.finish());
        self.out.push(bytes);
        Ok(())
    }

    fn flush(&mut self) {
        self.referring.set(0);
    }
}

/// A datagram that came from `side`, if it is whole.
pub fn open<'a>(flow: &Flow, datagram: &'a [u8]) -> Option<Packet<'a>> {
    if flow.verify(datagram, 0) != Verdict::Exact {
        return None;
    }
    Packet::parse(datagram).ok()
}
