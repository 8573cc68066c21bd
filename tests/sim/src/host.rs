//! A host: carries out what the transport asks for on a [`Memory`], and lets the model look at every completion
//! at the moment it is raised.

use crate::memory::Memory;
use crate::model::Model;
use ferroce_transport::{
    Access, Completion, Host, MemoryError, PathSignal, QpEvent, RecvWqe, Sge, WindowBind,
};
use std::cell::RefCell;
use std::collections::VecDeque;
use std::rc::Rc;

/// The host of one queue pair.
#[derive(Debug, Default)]
pub struct SimHost {
    /// Its memory, shared with the sink that gathers from it.
    pub memory: Rc<RefCell<Memory>>,
    /// Requests on the shared receive queue.
    pub srq: VecDeque<RecvWqe>,
    /// What must come out.
    pub model: Model,
    /// Send completions, in order.
    pub sends: Vec<Completion>,
    /// Receive completions, in order.
    pub receives: Vec<Completion>,
    /// Events, in order.
    pub events: Vec<QpEvent>,
    /// Losses that the requester saw.
    pub losses: u32,
    /// Timeouts of the requester.
    pub timeouts: u32,
    /// Bytes reported as acknowledged.
    pub acked: u64,
    /// Round-trip samples.
    pub rtts: Vec<u64>,
    /// Atomics carried out.
    pub atomics: u32,
}

impl SimHost {
    fn atomic(
        &mut self,
        rkey: u32,
        va: u64,
        update: impl FnOnce(u64) -> u64,
    ) -> Result<u64, MemoryError> {
        assert_eq!(va % 8, 0, "unaligned atomic");
        let mut memory = self.memory.borrow_mut();
        let range = memory.range(rkey, va, 8, Access::REMOTE_ATOMIC)?;
        let cell = &mut memory.bytes[range];
        let mut word = [0; 8];
        word.copy_from_slice(cell);
        let before = u64::from_ne_bytes(word);
        cell.copy_from_slice(&update(before).to_ne_bytes());
        self.atomics += 1;
        Ok(before)
    }
}

impl Host for SimHost {
    fn check_remote(
        &mut self,
        rkey: u32,
        va: u64,
        len: u64,
        access: Access,
    ) -> Result<(), MemoryError> {
        self.memory
            .borrow()
            .range(rkey, va, len, access)
            .map(|_| ())
    }

    fn write_remote(&mut self, rkey: u32, va: u64, data: &[u8]) -> Result<(), MemoryError> {
        let mut memory = self.memory.borrow_mut();
        let range = memory.range(rkey, va, data.len() as u64, Access::REMOTE_WRITE)?;
        memory.bytes[range].copy_from_slice(data);
        Ok(())
    }

    fn compare_swap(
        &mut self,
        rkey: u32,
        va: u64,
        compare: u64,
        swap: u64,
    ) -> Result<u64, MemoryError> {
        self.atomic(rkey, va, |old| if old == compare { swap } else { old })
    }

    fn fetch_add(&mut self, rkey: u32, va: u64, add: u64) -> Result<u64, MemoryError> {
        self.atomic(rkey, va, |old| old.wrapping_add(add))
    }

    fn invalidate_remote(&mut self, rkey: u32) -> Result<(), MemoryError> {
        self.memory.borrow_mut().invalidate(rkey)
    }

    fn invalidate_local(&mut self, key: u32) -> Result<(), MemoryError> {
        self.memory.borrow_mut().invalidate(key)
    }

    fn bind_window(&mut self, _: &WindowBind) -> Result<(), MemoryError> {
        Err(MemoryError::Key)
    }

    fn select_srq(&mut self, _: u32) -> Result<(), MemoryError> {
        Err(MemoryError::Key)
    }

    fn check_local(&mut self, sges: &[Sge], access: Access) -> Result<(), MemoryError> {
        let memory = self.memory.borrow();
        sges.iter().filter(|s| s.length > 0).try_for_each(|s| {
            memory
                .range(s.lkey, s.addr, u64::from(s.length), access)
                .map(|_| ())
        })
    }

    fn scatter(&mut self, sges: &[Sge], offset: u32, data: &[u8]) -> Result<(), MemoryError> {
        let mut memory = self.memory.borrow_mut();
        let mut data = data;
        let pieces = memory.pieces(sges, offset, data.len() as u32, Access::LOCAL_WRITE)?;
        for piece in pieces {
            let (now, rest) = data.split_at(piece.len());
            memory.bytes[piece].copy_from_slice(now);
            data = rest;
        }
        Ok(())
    }

    fn take_srq(&mut self) -> Option<RecvWqe> {
        self.srq.pop_front()
    }

    fn complete_send(&mut self, completion: Completion) {
        self.model
            .send_completed(&completion, &self.memory.borrow());
        self.sends.push(completion);
    }

    fn complete_recv(&mut self, completion: Completion) {
        self.model
            .recv_completed(&completion, &self.memory.borrow());
        self.receives.push(completion);
    }

    fn event(&mut self, event: QpEvent) {
        self.events.push(event);
    }

    fn path_signal(&mut self, signal: PathSignal) {
        match signal {
            PathSignal::Acked { bytes, rtt } => {
                self.acked += u64::from(bytes);
                self.rtts.extend(rtt);
            }
            PathSignal::Loss => self.losses += 1,
            PathSignal::Timeout => self.timeouts += 1,
        }
    }
}
