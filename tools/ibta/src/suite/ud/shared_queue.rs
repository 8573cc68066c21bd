//! Datagrams for a shared receive queue: its requests name memory of that queue's protection
//! domain, whatever the queue pair's is.

use super::FAMILY;
use crate::catalog::{Mutant, Test};
use crate::channel::{self, Channel, ChannelOptions};
use crate::protocol::{Service, Side, qp_state};
use crate::rig::TransportRig;
use crate::run::Outcome;
use crate::sim::Faults;
use crate::suite::arrival::{EACH, Receiver, SUCCESS};
use crate::suite::domains::{elsewhere, queue};

/// `IBV_WC_LOC_PROT_ERR`.
const LOC_PROT_ERR: u32 = 4;

/// A UD channel on a shared queue that has a domain of its own, with one receive request for memory
/// of that domain, or of the queue pair's.
fn open(rig: &mut dyn TransportRig, of_queue: bool) -> Outcome<Receiver> {
    let (srq, region) = queue(rig, of_queue, EACH, 0)?;
    let options = ChannelOptions {
        service: Service::Ud,
        srq: Some(srq),
        ..ChannelOptions::default()
    };
    let cc = Channel::open(rig, options)?;
    Ok(Receiver { cc, region })
}

pub(super) fn own_domain() -> Test {
    const A: &str = "s9.8.3:shared-queue-domain";

    Test::transport(
        "S09_8_3_SRQ_DOMAIN",
        FAMILY,
        "a shared receive queue takes datagrams into memory of its own protection domain",
        |run, rig| {
            run.step(
                "init",
                "Open a UD channel on a shared receive queue of another domain, with a receive request for memory of that domain",
            );
            let receiver = open(rig, true)?;
            run.step("1", "The tester sends a datagram: it is delivered");
            receiver.verify_message(run, rig, A, 0, 0)?;
            receiver.cc.close(rig)?;
            Ok(())
        },
    )
    .covers(&["9.8.3"])
    .asserts([A])
    .mutant(Mutant::transport(
        "looks-in-the-queue-pairs-domain",
        "memory of another domain than the queue pair's is refused",
        A,
        || elsewhere(false),
    ))
}

pub(super) fn other_domain() -> Test {
    const A: &str = "s9.8.3:shared-queue-other-domain";

    Test::transport(
        "S09_8_3_SRQ_OTHER_DOMAIN",
        FAMILY,
        "a shared receive queue takes no datagram into memory of the queue pair's protection domain",
        |run, rig| {
            run.step(
                "init",
                "Open a UD channel on a shared receive queue of another domain, with a receive request for memory of the queue pair's",
            );

            let receiver = open(rig, false)?;
            run.step(
                "1",
                "The tester sends a datagram: the receive request completes with a local protection error",
            );

            rig.transmit(&receiver.send(0, &channel::pattern(64)))?;
            let done = receiver.cc.poll_one(run, rig, A, Side::Recv)?;
            let seen = (done.wr_id, done.status);
            run.check_eq(A, "wr_id and status", seen, (0, LOC_PROT_ERR))?;
            run.step("2", "Nothing is placed or answered, and the queue pair is in error");
            receiver.verify_placed(run, rig, A, 0, &[0; 64])?;
            receiver.cc.expect_none(run, rig, A)?;
            let state = receiver.cc.query(rig)?.qp_state;
            run.check_eq(A, "the state", state, Some(qp_state::ERR))?;
            receiver.cc.close(rig)?;
            Ok(())
        },
    )
    .covers(&["9.8.3"])
    .asserts([A])
    .mutant(Mutant::transport(
        "looks-in-the-queue-pairs-domain",
        "memory of the queue pair's domain is taken",
        A,
        || elsewhere(true),
    ))
    .mutant(Mutant::transport(
        "completes-well",
        "the receive request completes with success",
        A,
        || {
            Faults::default().completion(|_, mut done| {
                done.status = SUCCESS;
                vec![done]
            })
        },
    ))
    .mutant(Mutant::transport(
        "says-nothing",
        "the receive request does not complete",
        A,
        || Faults::default().completion(|_, _| Vec::new()),
    ))
}
