//! A shared receive queue that has a protection domain of its own, with a receive request for memory of that domain or of the queue
//! pair's; and devices that look in the wrong one.

use crate::channel::must;
use crate::protocol::{Command, RecvQueue, Region, Reply, access};
use crate::rig::TransportRig;
use crate::run::{Outcome, Stop};
use crate::sim::Faults;

/// Makes such a queue with one receive request of `len` bytes, `wr_id` as given, and answers the queue's handle and the memory.
///
/// # Errors
/// The rig failed, or the device refused.
pub fn queue(
    rig: &mut dyn TransportRig,
    of_queue: bool,
    len: u32,
    wr_id: u64,
) -> Outcome<(u32, Region)> {
    let create = Command::CreateSrq {
        max_wr: 8,
        max_sge: 1,
        apart: true,
    };
    let srq = match must(rig, create)? {
        Reply::Srq { srq } => srq,
        other => return Err(Stop::Broken(anyhow::anyhow!("{other:?}"))),
    };
    let register = Command::Register {
        len,
        access: access::ALL,
        srq: of_queue.then_some(srq),
    };
    let region = match must(rig, register)? {
        Reply::Region(region) => region,
        other => return Err(Stop::Broken(anyhow::anyhow!("{other:?}"))),
    };
    let post = Command::PostRecv {
        queue: RecvQueue::Srq(srq),
        wr_id,
        sges: vec![region.sge()],
    };
    must(rig, post)?;
    Ok((srq, region))
}

/// What is registered for the queue is in the queue pair's domain, and the other way round if `both`: so a device sees it that looks in
/// the wrong one.
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
