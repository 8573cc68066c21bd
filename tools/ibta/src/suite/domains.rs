//! Shared receive queues that have a protection domain of their own, with receive requests for
//! memory of that domain or of the queue pair's; and devices that look in the wrong one.

use crate::channel::must;
use crate::protocol::{Command, RecvQueue, Region, Reply, access};
use crate::rig::TransportRig;
use crate::run::{Outcome, Stop};
use crate::sim::Faults;

/// A shared receive queue.
#[derive(Clone, Copy, Debug)]
pub struct Queue {
    /// Its handle.
    pub srq: u32,
    /// What requests call it, if it is of an XRC domain.
    pub number: u32,
}

impl Queue {
    /// Makes one in a protection domain of its own, and in an XRC domain if one is given.
    ///
    /// # Errors
    /// The rig failed, or the device refused.
    pub fn new(rig: &mut dyn TransportRig, xrcd: Option<u32>) -> Outcome<Queue> {
        let create = Command::CreateSrq {
            max_wr: 8,
            max_sge: 1,
            apart: true,
            xrcd,
        };
        match must(rig, create)? {
            Reply::Srq { srq, number } => Ok(Queue { srq, number }),
            other => Err(Stop::Broken(anyhow::anyhow!("{other:?}"))),
        }
    }

    /// Registers memory in its protection domain, or in the queue pairs'.
    ///
    /// # Errors
    /// The rig failed, or the device refused.
    pub fn region(self, rig: &mut dyn TransportRig, of_queue: bool, len: u32) -> Outcome<Region> {
        let register = Command::Register {
            len,
            access: access::ALL,
            srq: of_queue.then_some(self.srq),
        };
        match must(rig, register)? {
            Reply::Region(region) => Ok(region),
            other => Err(Stop::Broken(anyhow::anyhow!("{other:?}"))),
        }
    }

    /// Posts a receive request for all of a region.
    ///
    /// # Errors
    /// The rig failed, or the device refused.
    pub fn post(self, rig: &mut dyn TransportRig, wr_id: u64, region: Region) -> Outcome {
        let post = Command::PostRecv {
            queue: RecvQueue::Srq(self.srq),
            wr_id,
            sges: vec![region.sge()],
        };
        must(rig, post)?;
        Ok(())
    }
}

/// Makes such a queue with one receive request of `len` bytes, `wr_id` as given, and answers the
/// queue's handle and the memory.
///
/// # Errors
/// The rig failed, or the device refused.
pub fn queue(
    rig: &mut dyn TransportRig,
    of_queue: bool,
    len: u32,
    wr_id: u64,
) -> Outcome<(u32, Region)> {
    let queue = Queue::new(rig, None)?;
    let region = queue.region(rig, of_queue, len)?;
    queue.post(rig, wr_id, region)?;
    Ok((queue.srq, region))
}

/// What is registered for the queue is in the queue pair's domain, and the other way round if
/// `both`: so a device sees it that looks in the wrong one.
pub fn elsewhere(both: bool) -> Faults {
    let mut made = None;
    Faults::default().command(move |command| match command {
        Command::CreateSrq { .. } => {
            made = Some(0);
            command
        }
        Command::Register { len, access, srq } => Command::Register {
            len,
            access,
            srq: match srq {
                Some(_) => None,
                None => made.filter(|_| both),
            },
        },
        other => other,
    })
}
