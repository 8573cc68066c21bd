//! C09_060_09 as written: of two COMPARE & SWAP requests the first is acknowledged and completes,
//! the second is not and does not.

use crate::TransportRig;
use crate::catalog::{Mutant, Test};
use crate::channel::{Channel, ChannelOptions};
use crate::protocol::Side;
use crate::run::{Outcome, Run};
use crate::sim::Faults;
use crate::suite::completion::mutants::{completes_when_posted, never_completes, wrong_status};
use crate::suite::message::{BEFORE, COMPARE_ADD, Message, Operation, R_KEY, SWAP, VA};
use crate::suite::timeout::SUCCESS;
use std::time::Duration;

const ID: &str = "v1c09-060#07";
const FIRST: u64 = 1;
const SECOND: u64 = 2;

pub(super) fn test() -> Test {
    Test::transport(
        "C09_060_09",
        "C09-060",
        "as written: of two RC COMPARE & SWAP requests the one that is acknowledged completes",
        body,
    )
    .covers(&["C9-60"])
    .asserts([ID])
    .takes(Duration::from_secs(6))
    .mutant(completes_when_posted(ID))
    .mutant(never_completes(ID))
    .mutant(wrong_status(ID))
    .mutant(Mutant::transport(
        "completes-twice",
        "the first request completes twice",
        ID,
        || Faults::default().completion(|_, done| vec![done; 2]),
    ))
    .mutant(Mutant::transport(
        "asks-again",
        "a request is sent again though its ACK timeout is infinite",
        ID,
        || Faults::default().tx(|packet| vec![(Duration::ZERO, packet); 2]),
    ))
    .mutant(Mutant::transport(
        "leaves-a-gap",
        "the PSN of the second request is not the next one",
        ID,
        || {
            let mut sent = 0;
            Faults::default().tx_edit(move |packet| {
                packet.bth.psn = (packet.bth.psn + sent) & 0xff_ffff;
                sent += 1;
            })
        },
    ))
}

fn body(run: &mut Run, rig: &mut dyn TransportRig) -> Outcome {
    Operation::CompareSwap.needs(rig)?;
    run.step("init.1", "OpenRcChannel");
    run.step(
        "init.2",
        "Set the ACK timeout to 0 (infinite), so that the device does not retransmit",
    );

    let options = ChannelOptions {
        timeout: 0,
        ..ChannelOptions::default()
    };
    let cc = Channel::open(rig, options)?;
    run.step("1", "Register memory: the tester keeps what comes");
    run.step(
        "2",
        "Post a receive request for each of the two packets: the tester's queue takes them",
    );

    run.step(
        "3",
        format!(
            "The device posts 2 COMPARE & SWAP requests: R_Key {R_KEY:#x}, VA {VA:#x}, compare {COMPARE_ADD}, swap {SWAP}"
        ),
    );

    run.note(
        "MsgSize 0 is read as that of the request, which has no payload; the answer goes to 8 bytes of the program's, as verbs want",
    );
    let post = |rig: &mut dyn TransportRig, wr_id, nth| {
        let psn = cc.device_psn(nth);
        Message::post(&cc, rig, Operation::CompareSwap, 1, wr_id, psn)
    };
    let first = post(rig, FIRST, 0)?;
    let second = post(rig, SECOND, 1)?;
    run.step("4", "Receive all expected packets: two");
    let packets = [
        cc.expect_any(run, rig, ID, "the first request")?,
        cc.expect_any(run, rig, ID, "the second request")?,
    ];

    run.step("5", "Both came and are valid");
    for packet in &packets {
        cc.verify(run, ID, packet)?;
    }
    run.step(
        "6",
        "Opcodes and PSNs: the packets of a SEND that the document names are its slip, as an atomic is one packet with an opcode of its own; read as \
         COMPARE & SWAP, with PSNs that follow each other",
    );

    first.verify(run, &cc, ID, 0, &packets[0])?;
    second.verify(run, &cc, ID, 0, &packets[1])?;
    run.step(
        "7",
        format!(
            "Transmit an ATOMIC acknowledge of the first request (in the document: of the first Send): ACK, MSN 1, PSN {:#x}, original value {BEFORE:#x}",
            cc.device_psn(0)
        ),
    );

    cc.atomic_ack(rig, cc.device_psn(0), 1, BEFORE)?;
    let patience = rig.patience();
    run.step(
        "8",
        format!("Poll for the completion of the first request, for {patience:?} at most"),
    );

    let all = cc.poll_all(rig, Side::Send)?;
    run.step("9", "Exactly one completion was dequeued");
    let done = cc.only(run, ID, &all)?;
    run.check_eq(ID, "wr_id", done.wr_id, FIRST)?;
    run.step("10", "Its status is success");
    run.check_eq(ID, "the status", done.status, SUCCESS)?;
    run.step(
        "11",
        format!("Poll for the completion of the second request, for {patience:?}"),
    );

    let more = cc.poll(rig, Side::Send, 1, patience)?;
    run.step(
        "12",
        "The poll timed out: the second request was not acknowledged",
    );

    run.check(ID, more.is_empty(), || {
        format!("the second request completed: {more:?}")
    })?;
    run.step("13", "CloseRcChannel");
    cc.close(rig)?;
    Ok(())
}
