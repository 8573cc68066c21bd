//! What a tester's queue pair runs on: a host without a model, and a sink that keeps packets to
//! look at.

use crate::host::{Onlooker, SimHost};
use crate::memory::Memory;
use crate::tester_setup::TT;
use ferroce_transport::{Access, Completion, Gather, MemoryError, Sink, TxPacket};
use ferroce_wire::{Aeth, Bth, Ext, NakCode, OpcodeInfo, Syndrome, opcode};
use std::cell::{Cell, RefCell};
use std::rc::Rc;

/// A packet that the queue pair under test sent.
#[derive(Clone, Debug)]
pub struct Sent {
    /// Its opcode's row.
    pub info: &'static OpcodeInfo,
    /// Base transport header.
    pub bth: Bth,
    /// Extended headers.
    pub ext: Ext,
    /// Payload.
    pub payload: Vec<u8>,
    /// Bytes that fill it.
    pub filler: u16,
    /// Marked as sent before.
    pub again: bool,
    /// Address handle.
    pub ah: Option<u32>,
}

impl Sent {
    /// What its AETH says, for a response.
    pub fn syndrome(&self) -> Option<Syndrome> {
        self.ext.aeth.map(Aeth::kind)
    }

    /// The NAK code and PSN, if it is a NAK.
    pub fn nak(&self) -> Option<(NakCode, u32)> {
        match self.syndrome() {
            Some(Syndrome::Nak(code)) => Some((code, self.bth.psn)),
            _ => None,
        }
    }
}

/// Packets that were handed to a sink and still refer to the consumer's memory.
pub type Referring = Rc<Cell<u32>>;

/// An address handle that the collector does not know.
pub const NO_AH: u32 = 0xdead;

/// Collects packets.
pub(crate) struct Collector {
    pub(crate) memory: Rc<RefCell<Memory>>,
    pub(crate) sent: Vec<Sent>,
    pub(crate) referring: Referring,
}

impl Sink for Collector {
    fn packet(&mut self, p: &TxPacket<'_>) -> Result<(), MemoryError> {
        if p.ah == Some(NO_AH) {
            return Err(MemoryError::Address);
        }

        let memory = self.memory.borrow();
        let mut payload = Vec::new();
        match p.payload {
            Gather::None => {}
            Gather::Bytes(b) => payload.extend_from_slice(b),
            Gather::Sges { sges, offset, len } => {
                for piece in memory.pieces(sges, offset, len, Access::empty())? {
                    payload.extend_from_slice(&memory.bytes[piece]);
                }
                self.referring.set(self.referring.get() + 1);
            }
            Gather::Remote { rkey, va, len } => {
                let range = memory.response(p.srq, rkey, va, len)?;
                payload.extend_from_slice(&memory.bytes[range]);
            }
        }

        let info = opcode::info(p.bth.opcode).expect("an opcode of the table");
        assert_eq!(p.ext.headers(), info.headers, "{}", info.name);
        assert!(p.bth.dest_qp == TT || p.ah.is_some());
        self.sent.push(Sent {
            info,
            bth: p.bth,
            ext: p.ext,
            payload,
            filler: p.filler,
            again: p.again,
            ah: p.ah,
        });

        Ok(())
    }

    fn flush(&mut self) {
        self.referring.set(0);
    }
}

/// Of an unreliable service: when a send completes, nothing may refer to the consumer's memory any
/// more.
#[derive(Debug, Default)]
pub struct Flushed(pub(crate) Option<Referring>);

impl Onlooker for Flushed {
    fn send_completed(&mut self, c: &Completion, _: &Memory) {
        if let Some(referring) = &self.0 {
            assert_eq!(referring.get(), 0, "{c:?} before the sink was flushed");
        }
    }
}

/// The host of the queue pair under test, without a model.
pub type TesterHost = SimHost<Flushed>;
