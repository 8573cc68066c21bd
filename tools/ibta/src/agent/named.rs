//! What a tester has made, by the names that it knows it under. Nothing else is found here, so
//! nothing that a tester says can reach memory or objects that are not its session's.

use std::collections::HashMap;
use std::fs::File;
use std::rc::Rc;

use super::convert;
use super::device::Device;
use super::library::{Verb, VerbsError};
use super::objects::{Ah, Mw, Pd, Qp, Srq};
use super::region::Region;
use super::xrc::Xrcd;

/// The objects of one session.
pub(super) struct Named {
    pub(super) qps: HashMap<u32, Rc<Qp>>,
    pub(super) srqs: HashMap<u32, Rc<Srq>>,
    pub(super) xrcds: HashMap<u32, Rc<Xrcd>>,
    /// With the kind of each.
    pub(super) windows: HashMap<u32, (Rc<Mw>, u8)>,
    pub(super) handles: HashMap<u32, Rc<Ah>>,
    /// Deregistered ones too, whose bytes can still be looked at.
    pub(super) regions: Vec<Rc<Region>>,
    /// Ports behind which a subnet manager works.
    pub(super) managers: HashMap<u8, File>,
    /// Counts handles, from 1.
    last: u32,
    pub(super) pd: Rc<Pd>,
}

/// What is no object of the session.
pub(super) fn unknown(call: &'static str) -> VerbsError {
    VerbsError {
        call,
        errno: libc::EINVAL,
    }
}

impl Named {
    /// None yet, save the protection domain of all.
    pub(super) fn new(device: &Rc<Device>) -> Verb<Named> {
        Ok(Named {
            qps: HashMap::new(),
            srqs: HashMap::new(),
            xrcds: HashMap::new(),
            windows: HashMap::new(),
            handles: HashMap::new(),
            regions: Vec::new(),
            managers: HashMap::new(),
            last: 0,
            pd: Pd::new(device)?,
        })
    }

    /// A name for what has none of its own.
    pub(super) fn handle(&mut self) -> u32 {
        self.last += 1;
        self.last
    }

    /// The queue pair that `call` is about.
    pub(super) fn qp(&self, number: u32, call: &'static str) -> Verb<&Rc<Qp>> {
        self.qps.get(&number).ok_or_else(|| unknown(call))
    }

    pub(super) fn srq(&self, handle: u32, call: &'static str) -> Verb<&Rc<Srq>> {
        self.srqs.get(&handle).ok_or_else(|| unknown(call))
    }

    pub(super) fn xrcd(&self, handle: u32, call: &'static str) -> Verb<&Rc<Xrcd>> {
        self.xrcds.get(&handle).ok_or_else(|| unknown(call))
    }

    /// The region that all of these addresses are in.
    pub(super) fn region(&self, address: u64, len: u64, call: &'static str) -> Verb<&Rc<Region>> {
        let found = self.regions.iter().find(|r| r.holds(address, len));
        found.ok_or_else(|| unknown(call))
    }

    /// The region that has this key now.
    pub(super) fn registered(&self, lkey: u32, call: &'static str) -> Verb<&Rc<Region>> {
        let mut newest = self.regions.iter().rev();
        let found = newest.find(|region| region.is_live() && region.lkey() == lkey);
        found.ok_or_else(|| unknown(call))
    }

    /// The name that the tester knows an event's object by.
    pub(super) fn element(&self, event: u32, element: usize) -> u32 {
        match convert::kind_of_event(event) {
            convert::EventOf::Qp => {
                let mut qps = self.qps.iter();
                let found = qps.find(|(_, qp)| qp.raw.as_ptr().addr() == element);
                found.map_or(0, |(number, _)| *number)
            }
            convert::EventOf::Srq => {
                let mut srqs = self.srqs.iter();
                let found = srqs.find(|(_, srq)| srq.raw.as_ptr().addr() == element);
                found.map_or(0, |(handle, _)| *handle)
            }
            // The union's other member is an int.
            convert::EventOf::Port => element as u32,
            convert::EventOf::Other => 0,
        }
    }
}
