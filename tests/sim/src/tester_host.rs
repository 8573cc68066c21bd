//! What a tester's queue pair runs on: a host without a model, and a sink that keeps packets to look at.

use crate::host::SimHost;
use crate::memory::Memory;
use crate::tester::TT;
use ferroce_transport::{
    Access, Completion, Gather, Host, MemoryError, Note, PathSignal, QpEvent, RecvWqe, Sge, Sink,
    TxPacket, WindowBind,
};
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
            again: p.again,
            ah: p.ah,
        });
        Ok(())
    }

    fn flush(&mut self) {
        self.referring.set(0);
    }
}

/// The host of the queue pair under test, without a model.
#[derive(Debug, Default)]
pub struct TesterHost {
    pub(crate) inner: SimHost,
    /// Nothing may refer to the consumer's memory when a send completes with success: the service is unreliable.
    pub(crate) referring: Option<Referring>,
    /// Send completions.
    pub sends: Vec<Completion>,
    /// Receive completions.
    pub receives: Vec<Completion>,
}

impl Host for TesterHost {
    fn check_remote(&mut self, k: u32, v: u64, l: u64, a: Access) -> Result<(), MemoryError> {
        self.inner.check_remote(k, v, l, a)
    }
    fn write_remote(&mut self, k: u32, v: u64, d: &[u8]) -> Result<(), MemoryError> {
        self.inner.write_remote(k, v, d)
    }
    fn compare_swap(&mut self, k: u32, v: u64, c: u64, s: u64) -> Result<u64, MemoryError> {
        self.inner.compare_swap(k, v, c, s)
    }
    fn fetch_add(&mut self, k: u32, v: u64, a: u64) -> Result<u64, MemoryError> {
        self.inner.fetch_add(k, v, a)
    }
    fn write_word(&mut self, k: u32, v: u64, w: [u8; 8]) -> Result<(), MemoryError> {
        self.inner.write_word(k, v, w)
    }
    fn invalidate_remote(&mut self, k: u32) -> Result<(), MemoryError> {
        self.inner.invalidate_remote(k)
    }
    fn invalidate_local(&mut self, k: u32) -> Result<(), MemoryError> {
        self.inner.invalidate_local(k)
    }
    fn bind_window(&mut self, b: &WindowBind) -> Result<(), MemoryError> {
        self.inner.bind_window(b)
    }
    fn select_srq(&mut self, n: u32) -> Result<(), MemoryError> {
        self.inner.select_srq(n)
    }
    fn check_local(&mut self, s: &[Sge], a: Access) -> Result<(), MemoryError> {
        self.inner.check_local(s, a)
    }
    fn scatter(&mut self, s: &[Sge], o: u32, d: &[u8]) -> Result<(), MemoryError> {
        self.inner.scatter(s, o, d)
    }
    fn take_srq(&mut self) -> Option<RecvWqe> {
        self.inner.take_srq()
    }
    fn complete_send(&mut self, c: Completion) {
        if let Some(referring) = &self.referring {
            assert_eq!(referring.get(), 0, "{c:?} before the sink was flushed");
        }
        self.sends.push(c);
    }
    fn complete_recv(&mut self, c: Completion) {
        self.receives.push(c);
    }
    fn event(&mut self, e: QpEvent) {
        self.inner.event(e);
    }
    fn path_signal(&mut self, s: PathSignal) {
        self.inner.path_signal(s);
    }
    fn note(&mut self, n: Note) {
        self.inner.note(n);
    }
}
