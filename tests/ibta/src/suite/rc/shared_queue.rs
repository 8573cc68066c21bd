//! Receive requests of a shared receive queue name memory of that queue's protection domain, whatever the queue pair's is. With
//! memory of another domain it is the responder that is at fault (section 9.7.5.2).

use super::bench::Bench;
use super::case::Breaks;
use super::mutants::{acknowledges_all, completes_with};
use super::words::status;
use crate::Test;
use crate::channel::{ChannelOptions, must};
use crate::protocol::{Command, RecvQueue, Region, Reply, Side, access};
use crate::rig::TransportRig;
use crate::run::{Outcome, Run, Stop};
use crate::sim::Faults;
use ferroce_wire::{Ext, NakCode, opcode::*};

const SECTION: &str = "9.7.5.2";
const ACCEPTED: &str = "s9.7.5.2#14";
const REFUSED: &str = "s9.7.5.2#15";

pub fn tests() -> Vec<Test> {
    vec![
        test(
            "S09_7_5_2_14",
            ACCEPTED,
            "a shared receive queue takes memory of its own protection domain",
            accepted,
        )
        .breaks(
            "looks-in-the-queue-pairs-domain",
            "Memory of another domain than the queue pair's is refused.",
            || elsewhere(false),
        ),
        test(
            "S09_7_5_2_15",
            REFUSED,
            "a shared receive queue takes no memory of the queue pair's protection domain",
            refused,
        )
        .breaks(
            "looks-in-the-queue-pairs-domain",
            "Memory of the queue pair's domain is taken.",
            || elsewhere(true),
        )
        .breaks("takes-it", "The packet is acknowledged.", acknowledges_all)
        .breaks(
            "completes-well",
            "The receive request completes with success.",
            || completes_with(Side::Recv, status::SUCCESS),
        ),
    ]
}

fn test(
    id: &'static str,
    assertion: &'static str,
    title: &'static str,
    body: fn(&mut Run, &mut dyn TransportRig) -> Outcome,
) -> Test {
    Test::transport(id, SECTION, title, body)
        .covers(&[SECTION])
        .asserts([assertion.to_owned()])
}

/// What is registered for the queue is in the queue pair's domain, and the other way round if `both`: so a device sees it that looks in
/// the wrong one.
fn elsewhere(both: bool) -> Faults {
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

/// A queue pair on a shared queue that has a domain of its own, with one receive request there.
fn open<'a>(
    run: &'a mut Run,
    rig: &'a mut dyn TransportRig,
    of_queue: bool,
    assertion: &str,
) -> Outcome<(Bench<'a>, Region)> {
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
        len: 64,
        access: access::ALL,
        srq: of_queue.then_some(srq),
    };
    let region = match must(rig, register)? {
        Reply::Region(region) => region,
        other => return Err(Stop::Broken(anyhow::anyhow!("{other:?}"))),
    };
    let post = Command::PostRecv {
        queue: RecvQueue::Srq(srq),
        wr_id: 1,
        sges: vec![region.sge()],
    };
    must(rig, post)?;
    let options = ChannelOptions {
        srq: Some(srq),
        ..ChannelOptions::default()
    };
    let bench = Bench::open(run, rig, options, assertion.to_owned())?;
    Ok((bench, region))
}

fn accepted(run: &mut Run, rig: &mut dyn TransportRig) -> Outcome {
    let (mut b, region) = open(run, rig, true, ACCEPTED)?;
    b.step("A SEND is placed in memory of the queue's domain");
    let psn = b.send(RC_SEND_ONLY, Ext::default(), &[7; 8])?;
    b.acked(psn, 1)?;
    b.completed(Side::Recv, 1, status::SUCCESS)?;
    let seen = crate::channel::read_memory(b.rig, region.addr, 8)?;
    b.eq("the memory", seen, vec![7; 8])
}

fn refused(run: &mut Run, rig: &mut dyn TransportRig) -> Outcome {
    let (mut b, region) = open(run, rig, false, REFUSED)?;
    b.step("A SEND for memory of the queue pair's domain is refused: it is the responder that is at fault");
    let psn = b.send(RC_SEND_ONLY, Ext::default(), &[7; 8])?;
    b.nak(NakCode::RemoteOperationalError, psn)?;
    b.step("The receive request completes with a local protection error, and nothing is placed");
    b.completed(Side::Recv, 1, status::LOC_PROT_ERR)?;
    let seen = crate::channel::read_memory(b.rig, region.addr, 8)?;
    b.eq("the memory", seen, vec![0; 8])
}
