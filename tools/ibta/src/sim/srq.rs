//! The shared receive queues of the simulated device, and its XRC domains.

use super::attributes::{EINVAL, ENOMEM};
use super::device::refuse;
use crate::protocol::Reply;
use ferroce_sim::host::{SharedQueue, XrcDomain};
use ferroce_sim::memory::Memory;
use ferroce_transport::RecvWqe;

/// Number of the first shared receive queue.
const FIRST: u32 = 0x00_0551;

/// A shared receive queue.
pub(super) struct Srq {
    pub requests: SharedQueue,
    /// Requests that it holds.
    room: usize,
    /// Its protection domain; the queue pairs' is 0.
    pub pd: u32,
    xrc: Option<XrcDomain>,
}

/// All of them. A handle is an index, also of those that were destroyed.
#[derive(Default)]
pub(super) struct Srqs {
    queues: Vec<Srq>,
    domains: Vec<XrcDomain>,
}

impl Srqs {
    pub(super) fn open_xrcd(&mut self) -> Reply {
        let xrcd = self.domains.len() as u32;
        self.domains.push(XrcDomain::default());
        Reply::Xrcd { xrcd }
    }

    pub(super) fn xrcd(&self, xrcd: u32) -> Option<&XrcDomain> {
        self.domains.get(xrcd as usize)
    }

    pub(super) fn get(&self, srq: u32) -> Option<&Srq> {
        self.queues.get(srq as usize)
    }

    /// Makes a queue, `apart` in a protection domain of its own.
    pub(super) fn create(
        &mut self,
        max_wr: u32,
        apart: bool,
        xrcd: Option<u32>,
        memory: &mut Memory,
    ) -> Reply {
        let srq = self.queues.len() as u32;
        let (number, pd) = (FIRST + srq, if apart { srq + 1 } else { 0 });
        let requests = SharedQueue::default();
        let xrc = match xrcd.map(|xrcd| self.xrcd(xrcd)) {
            Some(None) => return refuse(EINVAL, "ibv_create_srq_ex"),
            Some(Some(xrc)) => {
                xrc.borrow_mut().insert(number, requests.clone());
                memory.srqs.insert(number, pd);
                Some(xrc.clone())
            }
            None => None,
        };

        self.queues.push(Srq {
            requests,
            room: max_wr as usize,
            pd,
            xrc,
        });

        Reply::Srq { srq, number }
    }

    /// No request can name it any more.
    pub(super) fn destroy(&mut self, srq: u32) -> Reply {
        if let Some(xrc) = self.get(srq).and_then(|srq| srq.xrc.as_ref()) {
            xrc.borrow_mut().remove(&(FIRST + srq));
        }
        Reply::Done
    }

    pub(super) fn post(&self, srq: u32, wqe: RecvWqe) -> Reply {
        let Some(srq) = self.get(srq) else {
            return refuse(EINVAL, "ibv_post_srq_recv");
        };
        let mut queue = srq.requests.borrow_mut();
        if queue.len() >= srq.room {
            return refuse(ENOMEM, "ibv_post_srq_recv");
        }
        queue.push_back(wqe);
        Reply::Done
    }
}
