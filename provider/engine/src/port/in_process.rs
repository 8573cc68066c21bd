//! A port without sockets and without a kernel: two devices of one program, tied to each other in
//! memory. For the engine's own tests and benchmarks (feature `in-process`).
//!
//! What goes through it is RoCEv2 with its ICRC, so that all that the engine does for a packet is
//! done. A seed says what becomes of packets on the way. There is no daemon and no helper thread:
//! packets are handled, and timers run, while completion queues are polled.

mod device;
mod exit;
mod faults;
mod queue;
mod side;
#[cfg(test)]
mod tests;

use std::net::IpAddr;
use std::sync::Arc;

use super::address::PathKey;
use crate::error::Result;
pub use faults::Faults;
use queue::Queue;
pub use side::Side;

pub(crate) use exit::InProcessExit;
pub(crate) use queue::Frame;

/// One end.
pub(crate) struct End {
    address: IpAddr,
    /// What has come.
    inbound: Arc<Queue>,
    /// The other end's.
    outbound: Arc<Queue>,
}

impl End {
    /// Two ends, at these addresses.
    fn pair(addresses: [IpAddr; 2], faults: Faults) -> [End; 2] {
        let queues = [0, 1].map(|way| Arc::new(Queue::new(faults.of_way(way))));
        [0, 1].map(|end| End {
            address: addresses[end],
            inbound: queues[end].clone(),
            outbound: queues[1 - end].clone(),
        })
    }

    /// A path's way out: to the other end, or back to this one.
    pub(crate) fn exit(&self, key: PathKey) -> Result<InProcessExit> {
        let back = key.remote == self.address;
        InProcessExit::open(key, if back { &self.inbound } else { &self.outbound })
    }

    /// Takes a run that has come.
    pub(crate) fn take(&self) -> Option<Frame> {
        self.inbound.take()
    }

    /// Gives back the memory of one that was handled.
    pub(crate) fn give_back(&self, frame: Frame) {
        self.inbound.give_back(frame);
    }
}
