//! Receive requests of a shared receive queue name memory of that queue's protection domain,
//! whatever the queue pair's is. With memory of another domain it is the responder that is at fault
//! (section 9.7.5.2).

use super::bench::Bench;
use super::case::Breaks;
use super::mutants::{acknowledges_all, completes_with};
use super::words::status;
use crate::Test;
use crate::channel::ChannelOptions;
use crate::protocol::{Region, Side};
use crate::rig::TransportRig;
use crate::run::{Outcome, Run};
use crate::suite::domains::{elsewhere, queue};
use ferroce_wire::{Ext, NakCode, opcode::*};

const SECTION: &str = "9.7.5.2";
const ACCEPTED: &str = "s9.7.5.2#14";
const REFUSED: &str = "s9.7.5.2#15";

pub(super) fn tests() -> Vec<Test> {
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
        .covers(&["C9-220"])
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

/// A queue pair on a shared queue that has a domain of its own, with one receive request there.
fn open<'a>(
    run: &'a mut Run,
    rig: &'a mut dyn TransportRig,
    of_queue: bool,
    assertion: &str,
) -> Outcome<(Bench<'a>, Region)> {
    let (srq, region) = queue(rig, of_queue, 64, 1)?;
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
