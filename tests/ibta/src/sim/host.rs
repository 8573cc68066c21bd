//! What a queue pair of the simulated device runs on: its memory, its completions, and the hook for what is placed.

use super::faults::PlaceHook;
use ferroce_sim::SimHost;
use ferroce_sim::memory::Memory;
use ferroce_transport::{
    Access, Completion, Host, MemoryError, Note, PathSignal, QpEvent, RecvWqe, Sge, WindowBind,
};
use std::cell::RefCell;
use std::collections::VecDeque;
use std::rc::Rc;

/// A shared receive queue.
pub(super) type SharedQueue = Rc<RefCell<VecDeque<RecvWqe>>>;

/// The host of one queue pair. Completions and events are collected for the device to take.
#[derive(Default)]
pub(super) struct DeviceHost {
    inner: SimHost,
    place: Rc<RefCell<Option<PlaceHook>>>,
    pub srq: Option<SharedQueue>,
    pub sends: Vec<Completion>,
    pub receives: Vec<Completion>,
    pub events: Vec<QpEvent>,
}

impl DeviceHost {
    pub fn new(
        memory: Rc<RefCell<Memory>>,
        place: Rc<RefCell<Option<PlaceHook>>>,
        srq: Option<SharedQueue>,
    ) -> DeviceHost {
        let inner = SimHost {
            memory,
            ..SimHost::default()
        };
        DeviceHost {
            inner,
            place,
            srq,
            ..DeviceHost::default()
        }
    }

    /// What a mutant would have in memory in place of `data` at `va`.
    fn placed(&self, va: u64, data: &[u8]) -> Option<Vec<u8>> {
        let mut hook = self.place.borrow_mut();
        let hook = hook.as_mut()?;
        let before = self.inner.memory.borrow().at(va, data.len()).to_vec();
        Some(hook(va, &before, data))
    }

    /// Carries an atomic out, then lets a mutant have its way with the word.
    fn atomic(
        &mut self,
        va: u64,
        operation: impl FnOnce(&mut SimHost) -> Result<u64, MemoryError>,
    ) -> Result<u64, MemoryError> {
        let before = operation(&mut self.inner)?;
        if let Some(hook) = self.place.borrow_mut().as_mut() {
            let after = self.inner.memory.borrow().at(va, 8).to_vec();
            let bytes = hook(va, &before.to_ne_bytes(), &after);
            self.inner.memory.borrow_mut().put(va, &bytes);
        }
        Ok(before)
    }
}

impl Host for DeviceHost {
    fn check_remote(&mut self, k: u32, v: u64, l: u64, a: Access) -> Result<(), MemoryError> {
        self.inner.check_remote(k, v, l, a)
    }
    fn write_remote(&mut self, rkey: u32, va: u64, data: &[u8]) -> Result<(), MemoryError> {
        self.inner
            .check_remote(rkey, va, data.len() as u64, Access::REMOTE_WRITE)?;
        match self.placed(va, data) {
            Some(bytes) => self.inner.write_remote(rkey, va, &bytes),
            None => self.inner.write_remote(rkey, va, data),
        }
    }
    fn compare_swap(&mut self, k: u32, v: u64, c: u64, s: u64) -> Result<u64, MemoryError> {
        self.atomic(v, |host| host.compare_swap(k, v, c, s))
    }
    fn fetch_add(&mut self, k: u32, v: u64, a: u64) -> Result<u64, MemoryError> {
        self.atomic(v, |host| host.fetch_add(k, v, a))
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
    fn scatter(&mut self, sges: &[Sge], offset: u32, data: &[u8]) -> Result<(), MemoryError> {
        // A mutant sees what lands in one element; lists of several are placed as they are.
        let bytes = match sges {
            [sge] if u64::from(offset) + data.len() as u64 <= u64::from(sge.length) => {
                self.inner.check_local(sges, Access::LOCAL_WRITE)?;
                self.placed(sge.addr + u64::from(offset), data)
            }
            _ => None,
        };
        self.inner
            .scatter(sges, offset, bytes.as_deref().unwrap_or(data))
    }
    fn take_srq(&mut self) -> Option<RecvWqe> {
        self.srq.as_ref()?.borrow_mut().pop_front()
    }
    fn complete_send(&mut self, completion: Completion) {
        self.sends.push(completion);
    }
    fn complete_recv(&mut self, completion: Completion) {
        self.receives.push(completion);
    }
    fn event(&mut self, event: QpEvent) {
        self.events.push(event);
    }
    fn path_signal(&mut self, _: PathSignal) {}
    fn note(&mut self, _: Note) {}
}
