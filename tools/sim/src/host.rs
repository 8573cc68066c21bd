//! A host: carries out what the transport asks for on a [`Memory`], and lets a model look at every
//! completion at the moment it is raised. What is right and wrong only the model knows.

use crate::memory::{BASE, Memory};
use crate::model::Model;
use ferroce_transport::congestion::{Aimd, Controller};
use ferroce_transport::{
    Access, Completion, Duration, Flush, Host, MemoryError, Note, PathSignal, QpEvent, RecvWqe,
    Selectivity, Sge, Time, WindowBind,
};
use ferroce_wire::Octets;
use std::cell::RefCell;
use std::collections::{BTreeMap, VecDeque};
use std::ops::Range;
use std::rc::Rc;

/// Looks on while a host works.
pub trait Onlooker {
    /// Bytes come to an address where there are so many others: those that are placed in their
    /// stead, as many, or `None` to let them be.
    fn placing(&mut self, va: u64, before: &[u8], data: &[u8]) -> Option<Vec<u8>> {
        let _ = (va, before, data);
        None
    }

    /// A send completion was raised.
    fn send_completed(&mut self, completion: &Completion, memory: &Memory) {
        let _ = (completion, memory);
    }

    /// A receive completion was raised.
    fn recv_completed(&mut self, completion: &Completion, memory: &Memory) {
        let _ = (completion, memory);
    }
}

/// A shared receive queue.
pub type SharedQueue = Rc<RefCell<VecDeque<RecvWqe>>>;

/// The shared receive queues of an XRC domain, by number. The protection domain of each is in
/// [`Memory::srqs`].
pub type XrcDomain = Rc<RefCell<BTreeMap<u32, SharedQueue>>>;

/// The host of one queue pair.
#[derive(Debug, Default)]
pub struct SimHost<M = Model> {
    /// Its memory, shared with the sink that gathers from it.
    pub memory: Rc<RefCell<Memory>>,
    /// Requests on the shared receive queue.
    pub srq: SharedQueue,
    /// Its protection domain; the queue pair's is 0.
    pub srq_pd: u32,
    /// The XRC domain.
    pub xrc: XrcDomain,
    /// Which of those the request at hand is for.
    pub selected: Option<u32>,
    /// What must come out, or whoever else looks on.
    pub model: M,
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
    /// CNPs.
    pub notices: u32,
    /// Decides on the window, where it is not fixed; hears of what happens at `now`.
    pub controller: Option<Aimd>,
    /// Virtual time.
    pub now: Time,
    /// Bytes reported as acknowledged.
    pub acked: u64,
    /// Round-trip samples.
    pub rtts: Vec<Duration>,
    /// Atomics carried out.
    pub atomics: u32,
    /// ATOMIC WRITEs carried out.
    pub words: u32,
    /// FLUSHes carried out, in order.
    pub flushes: Vec<Flush>,
    /// What was counted, in order.
    pub notes: Vec<Note>,
}

impl<M: Onlooker> SimHost<M> {
    /// The protection domain that guards the responder's accesses.
    fn pd(&self, memory: &Memory) -> u32 {
        self.selected.map_or(0, |srq| memory.srqs[&srq])
    }

    fn atomic(
        &mut self,
        rkey: u32,
        va: u64,
        update: impl FnOnce(u64) -> u64,
    ) -> Result<u64, MemoryError> {
        assert_eq!(va % 8, 0, "unaligned atomic");
        let mut memory = self.memory.borrow_mut();
        let pd = self.pd(&memory);
        let range = memory.range_in(pd, rkey, va, 8, Access::REMOTE_ATOMIC)?;
        let mut word = [0; 8];
        word.copy_from_slice(&memory.bytes[range.clone()]);
        let before = u64::from_ne_bytes(word);
        let after = update(before).to_ne_bytes();
        place(&mut self.model, &mut memory, range, after[..].into());
        self.atomics += 1;
        Ok(before)
    }

    fn scatter_in(
        &mut self,
        pd: u32,
        sges: &[Sge],
        offset: u32,
        data: Octets<'_>,
    ) -> Result<(), MemoryError> {
        let mut memory = self.memory.borrow_mut();
        let of_domain = |s: &Sge| memory.region(s.lkey).is_some_and(|r| r.pd == pd);
        if !sges.iter().filter(|s| s.length > 0).all(of_domain) {
            return Err(MemoryError::Key);
        }
        let mut data = data;
        let pieces = memory.pieces(sges, offset, data.len() as u32, Access::LOCAL_WRITE)?;
        for piece in pieces {
            let (now, rest) = data.split_at(piece.len());
            place(&mut self.model, &mut memory, piece, now);
            data = rest;
        }
        Ok(())
    }
}

fn place(model: &mut impl Onlooker, memory: &mut Memory, at: Range<usize>, data: Octets<'_>) {
    let data = data.private().expect("packets of the simulator's own");
    let va = BASE + at.start as u64;
    let there = &mut memory.bytes[at];
    match model.placing(va, there, data) {
        Some(others) => there.copy_from_slice(&others),
        None => there.copy_from_slice(data),
    }
}

impl<M: Onlooker> Host for SimHost<M> {
    fn check_remote(
        &mut self,
        rkey: u32,
        va: u64,
        len: u64,
        access: Access,
    ) -> Result<(), MemoryError> {
        let memory = self.memory.borrow();
        memory
            .range_in(self.pd(&memory), rkey, va, len, access)
            .map(|_| ())
    }

    fn write_remote(&mut self, rkey: u32, va: u64, data: Octets<'_>) -> Result<(), MemoryError> {
        let mut memory = self.memory.borrow_mut();
        let pd = self.pd(&memory);
        let range = memory.range_in(pd, rkey, va, data.len() as u64, Access::REMOTE_WRITE)?;
        place(&mut self.model, &mut memory, range, data);
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

    fn write_word(&mut self, rkey: u32, va: u64, value: [u8; 8]) -> Result<(), MemoryError> {
        assert_eq!(va % 8, 0, "unaligned word");
        self.words += 1;
        self.write_remote(rkey, va, value[..].into())
    }

    fn flush_remote(&mut self, flush: &Flush) -> Result<(), MemoryError> {
        let memory = self.memory.borrow();
        let (pd, access) = (self.pd(&memory), flush.placement.access());
        let (va, len) = match flush.selectivity {
            Selectivity::Range => (flush.va, u64::from(flush.len)),
            Selectivity::Region => memory.region(flush.rkey).map_or((0, 0), |r| (r.va, r.len)),
        };
        memory.range_in(pd, flush.rkey, va, len, access)?;
        drop(memory);
        self.flushes.push(*flush);
        Ok(())
    }

    fn invalidate_remote(&mut self, rkey: u32) -> Result<(), MemoryError> {
        self.memory.borrow_mut().invalidate(rkey)
    }

    fn invalidate_local(&mut self, key: u32) -> Result<(), MemoryError> {
        self.memory.borrow_mut().invalidate(key)
    }

    fn bind_window(&mut self, bind: &WindowBind) -> Result<(), MemoryError> {
        self.memory.borrow_mut().bind(bind)
    }

    fn select_srq(&mut self, srqn: u32) -> Result<(), MemoryError> {
        if !self.xrc.borrow().contains_key(&srqn) {
            return Err(MemoryError::Key);
        }
        self.selected = Some(srqn);
        Ok(())
    }

    fn check_local(&mut self, sges: &[Sge], access: Access) -> Result<(), MemoryError> {
        let memory = self.memory.borrow();
        sges.iter().filter(|s| s.length > 0).try_for_each(|s| {
            memory
                .range(s.lkey, s.addr, u64::from(s.length), access)
                .map(|_| ())
        })
    }

    fn scatter(&mut self, sges: &[Sge], offset: u32, data: Octets<'_>) -> Result<(), MemoryError> {
        self.scatter_in(0, sges, offset, data)
    }

    fn scatter_received(
        &mut self,
        sges: &[Sge],
        offset: u32,
        data: Octets<'_>,
    ) -> Result<(), MemoryError> {
        let pd = match self.selected {
            Some(srq) => self.memory.borrow().srqs[&srq],
            None => self.srq_pd,
        };
        self.scatter_in(pd, sges, offset, data)
    }

    fn take_srq(&mut self) -> Option<RecvWqe> {
        match self.selected {
            Some(srq) => self.xrc.borrow().get(&srq)?.borrow_mut().pop_front(),
            None => self.srq.borrow_mut().pop_front(),
        }
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
        if let Some(controller) = &self.controller {
            controller.signal(self.now, signal);
        }
        match signal {
            PathSignal::Acked { bytes, rtt } => {
                self.acked += u64::from(bytes);
                self.rtts.extend(rtt);
            }
            PathSignal::Loss | PathSignal::Lost { .. } => self.losses += 1,
            PathSignal::Timeout => self.timeouts += 1,
            PathSignal::Notified => self.notices += 1,
        }
    }

    fn note(&mut self, note: Note) {
        self.notes.push(note);
    }
}
