//! What a queue pair of the simulated device runs on: the simulator's host, and the hook for what
//! is placed.

use super::faults::PlaceHook;
use ferroce_sim::SimHost;
use ferroce_sim::host::{Onlooker, SharedQueue, XrcDomain};
use ferroce_sim::memory::Memory;
use std::cell::RefCell;
use std::rc::Rc;

/// Lets a mutant say what is in memory in place of what came: of messages, atomics and responses.
#[derive(Default)]
pub(super) struct Meddler(Rc<RefCell<Option<PlaceHook>>>);

impl Onlooker for Meddler {
    fn placing(&mut self, va: u64, before: &[u8], data: &[u8]) -> Option<Vec<u8>> {
        let mut hook = self.0.borrow_mut();
        Some(hook.as_mut()?(va, before, data))
    }
}

/// The host of one queue pair. Completions and events are collected for the device to take.
pub(super) type DeviceHost = SimHost<Meddler>;

pub(super) fn new(
    memory: Rc<RefCell<Memory>>,
    place: Rc<RefCell<Option<PlaceHook>>>,
    srq: Option<(SharedQueue, u32)>,
    xrc: Option<XrcDomain>,
) -> DeviceHost {
    let (srq, srq_pd) = srq.unwrap_or_default();
    SimHost {
        memory,
        srq,
        srq_pd,
        xrc: xrc.unwrap_or_default(),
        model: Meddler(place),
        ..SimHost::default()
    }
}
