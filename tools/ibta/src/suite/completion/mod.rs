//! C9-60: a request of a reliable service completes when a response covers all of its packets, and
//! not before.

pub(super) mod mutants;

use super::message::{BEFORE, COMPARE_ADD, Message, Operation, R_KEY, SWAP, VA};
use crate::catalog::{Mutant, Test};
use crate::channel::{Channel, ChannelOptions};
use crate::packet::TxPacket;
use crate::protocol::{Completion, Side};
use crate::rig::TransportRig;
use crate::run::{Outcome, Run};
use crate::sim::Faults;
use mutants::{
    completes_at_first_answer, completes_when_posted, covers_too_much, never_completes,
    wrong_status,
};
use std::time::Duration;

const FAMILY: &str = "C09-060";
const FIRST: u64 = 1;
const SECOND: u64 = 2;
const SUCCESS: u32 = 0;

/// The tests.
pub fn tests() -> Vec<Test> {
    let mut tests = vec![compare_swap()];
    for operation in Operation::ALL {
        for psns in [1, 3] {
            if operation == Operation::CompareSwap || operation.is_atomic() && psns > 1 {
                continue;
            }
            tests.push(in_order(operation, psns));
            if psns > 1 {
                tests.push(partly(operation, psns));
            }
        }
        tests.push(together(operation));
    }
    tests
}

/// The specification's number of a case; those it does not have are named by a word.
fn case(operation: Operation, psns: u32) -> (String, String) {
    match (operation, psns) {
        (Operation::Send, 3) => ("C09_060_01".into(), "v1c09-060#01".into()),
        (Operation::Read, 3) => ("C09_060_05".into(), "v1c09-060#05".into()),
        (Operation::FetchAdd, _) => ("C09_060_07".into(), "v1c09-060#07".into()),
        _ => (
            format!("C09_060_{}_{psns}", operation.word()),
            format!("c09-060:{}", operation.word().to_lowercase()),
        ),
    }
}

/// C09_060_09 as the specification describes it.
fn compare_swap() -> Test {
    const ID: &str = "v1c09-060#07";

    Test::transport(
        "C09_060_09",
        FAMILY,
        "RC COMPARE & SWAP completes when its response has come",
        |run, rig| {
            Operation::CompareSwap.needs(rig)?;
            run.step("init.1", "OpenRcChannel");
            run.step("init.2", "The ACK timeout is 0 (infinite): the device sends nothing again");
            let cc = Channel::open(
                rig,
                ChannelOptions {
                    timeout: 0,
                    ..ChannelOptions::default()
                },
            )?;

            run.step("1", "Register memory for the packets that will come");
            run.step("2", "Post a receive request for each packet: the tester's queue takes them");
            run.step(
                "3",
                format!(
                    "The device posts 2 COMPARE & SWAP requests: R_Key {R_KEY:#x}, VA {VA:#x}, compare {COMPARE_ADD}, swap {SWAP}"
                ),
            );

            let operation = Operation::CompareSwap;
            let first = Message::post(&cc, rig, operation, 1, FIRST, cc.device_psn(0))?;
            let second = Message::post(&cc, rig, operation, 1, SECOND, cc.device_psn(1))?;
            run.step("4", "Receive the packets of both");
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
                "Opcodes are those of the operation, PSNs follow each other",
            );

            run.note("step 6 of the description names Send First, Middle and Last; a COMPARE & SWAP is one packet with an opcode of its own, and that is tested");
            first.verify(run, &cc, ID, 0, &packets[0])?;
            second.verify(run, &cc, ID, 0, &packets[1])?;
            run.step(
                "7",
                format!("Transmit the ATOMIC acknowledge of the first request: MSN 1, original value {BEFORE:#x}"),
            );

            run.note("steps 7, 8 and 11 of the description say Send; the atomic request is meant");
            cc.atomic_ack(rig, first.last_psn(), 1, BEFORE)?;
            run.step("8", "Poll for the completion of the first request");
            let all = cc.poll_all(rig, Side::Send)?;
            run.step("9", "Exactly one completion is there");
            let done = cc.only(run, ID, &all)?;
            run.step("10", "It says success");
            verify_success(run, ID, &done, FIRST)?;
            first.verify_answer(run, rig, ID)?;
            run.step("11", "Poll for the completion of the second request");
            run.step("12", "There is none: nothing has acknowledged it");
            cc.verify_no_completion(run, rig, ID, Side::Send)?;
            run.step("13", "CloseRcChannel");
            cc.close(rig)?;
            Ok(())
        },
    )
    .covers(&["C9-60"])
    .asserts([ID])
    .mutant(completes_when_posted(ID))
    .mutant(never_completes(ID))
    .mutant(wrong_status(ID))
}

fn verify_success(run: &mut Run, assertion: &str, done: &Completion, wr_id: u64) -> Outcome {
    run.check_eq(assertion, "the status", done.status, SUCCESS)?;
    run.check_eq(assertion, "wr_id", done.wr_id, wr_id)
}

/// Two messages of one kind, the second behind the first.
fn two(
    rig: &mut dyn TransportRig,
    cc: &Channel,
    operation: Operation,
    psns: u32,
) -> anyhow::Result<(Message, Message)> {
    let first = Message::post(cc, rig, operation, psns, FIRST, cc.device_psn(0))?;
    let second = Message::post(cc, rig, operation, psns, SECOND, first.next_psn())?;
    Ok((first, second))
}

fn title(operation: Operation, psns: u32, what: &str) -> String {
    let size = match psns {
        1 => "one packet",
        _ => "several packets",
    };
    match operation.is_atomic() {
        true => format!("RC {} {what}", operation.name()),
        false => format!("RC {} of {size} {what}", operation.name()),
    }
}

/// The specification's procedure for every operation: the first of two requests is answered and
/// completes, the second is not.
fn in_order(operation: Operation, psns: u32) -> Test {
    let (id, assertion) = case(operation, psns);
    let a = assertion.clone();
    Test::transport(
        id,
        FAMILY,
        title(operation, psns, "completes when all of it is answered"),
        move |run, rig| {
            operation.needs(rig)?;
            run.step("init", "OpenRcChannel, ACK timeout 0 (infinite)");
            let cc = Channel::open_rc(rig)?;
            run.step("1", "The device posts 2 requests");
            let (first, second) = two(rig, &cc, operation, psns)?;
            run.step(
                "2",
                "Their packets come and are valid, PSNs follow each other",
            );

            first.receive(run, rig, &cc, &a)?;
            second.receive(run, rig, &cc, &a)?;
            run.step("3", "Transmit what answers the first request, MSN 1");
            first.acknowledge(rig, &cc, 1)?;
            run.step(
                "4",
                "Exactly one completion comes, of the first request, with success",
            );

            let done = cc.poll_one(run, rig, &a, Side::Send)?;
            verify_success(run, &a, &done, FIRST)?;
            first.verify_answer(run, rig, &a)?;
            run.step("5", "The second request does not complete");
            cc.verify_no_completion(run, rig, &a, Side::Send)?;
            run.step("6", "Once it is answered, it does");
            second.acknowledge(rig, &cc, 2)?;
            let done = cc.poll_one(run, rig, &a, Side::Send)?;
            verify_success(run, &a, &done, SECOND)?;
            second.verify_answer(run, rig, &a)?;
            run.step("7", "CloseRcChannel");
            cc.close(rig)?;
            Ok(())
        },
    )
    .covers(&["C9-60"])
    .mutant(completes_when_posted(&assertion))
    .mutant(never_completes(&assertion))
    .asserts([assertion])
}

/// What answers some packets of a message does not complete it.
fn partly(operation: Operation, psns: u32) -> Test {
    let assertion = format!("c09-060:{}-partly", operation.word().to_lowercase());
    let a = assertion.clone();
    let is_read = operation == Operation::Read;
    let test = Test::transport(
        format!("C09_060_{}_PARTLY", operation.word()),
        FAMILY,
        title(
            operation,
            psns,
            "does not complete when a part of it is answered",
        ),
        move |run, rig| {
            operation.needs(rig)?;
            run.step("init", "OpenRcChannel, ACK timeout 0 (infinite)");
            let cc = Channel::open_rc(rig)?;
            run.step("1", format!("The device posts a request of {psns} packets"));
            let message = Message::post(&cc, rig, operation, psns, FIRST, cc.device_psn(0))?;
            message.receive(run, rig, &cc, &a)?;
            run.step("2", "Answer all packets but the last");
            let data = message.answer();
            let pmtu = cc.options.pmtu as usize;
            let ends = |packet: &TxPacket| packet.bth.psn == message.last_psn();
            let answers = read_responses(&cc, &message, &data, pmtu);
            if is_read {
                for packet in answers.iter().filter(|packet| !ends(packet)) {
                    rig.transmit(packet)?;
                }
            } else {
                cc.ack(rig, message.psn, 0)?;
            }

            run.step("3", "The request does not complete");
            cc.verify_no_completion(run, rig, &a, Side::Send)?;
            run.step("4", "Answer the last packet: it completes with success");
            if is_read {
                for packet in answers.iter().filter(|packet| ends(packet)) {
                    rig.transmit(packet)?;
                }
            } else {
                cc.ack(rig, message.last_psn(), 1)?;
            }

            let done = cc.poll_one(run, rig, &a, Side::Send)?;
            verify_success(run, &a, &done, FIRST)?;
            message.verify_answer(run, rig, &a)?;
            cc.close(rig)?;
            Ok(())
        },
    )
    .covers(&["C9-60"])
    .asserts([&assertion]);

    match is_read {
        // A READ cannot be taken for answered: the mutant says so by itself.
        true => test.mutant(completes_at_first_answer(&assertion)),
        false => test.mutant(covers_too_much(&assertion, psns)),
    }
}

fn read_responses(cc: &Channel, message: &Message, data: &[u8], pmtu: usize) -> Vec<TxPacket> {
    let count = data.chunks(pmtu).len();
    data.chunks(pmtu)
        .enumerate()
        .map(|(n, part)| cc.read_response(message.psn, 1, n, count, part))
        .collect()
}

/// One answer covers everything before it, and completions come in the order of the requests.
fn together(operation: Operation) -> Test {
    let assertion = format!("c09-060:{}-together", operation.word().to_lowercase());
    let a = assertion.clone();
    Test::transport(
        format!("C09_060_{}_TOGETHER", operation.word()),
        FAMILY,
        format!(
            "a SEND and {} behind it complete together and in order",
            operation.a_name()
        ),
        move |run, rig| {
            operation.needs(rig)?;
            run.step("init", "OpenRcChannel, ACK timeout 0 (infinite)");
            let cc = Channel::open_rc(rig)?;
            run.step(
                "1",
                format!("The device posts a SEND and {}", operation.a_name()),
            );

            let send = Message::post(&cc, rig, Operation::Send, 1, FIRST, cc.device_psn(0))?;
            let second = Message::post(&cc, rig, operation, 1, SECOND, send.next_psn())?;
            send.receive(run, rig, &cc, &a)?;
            second.receive(run, rig, &cc, &a)?;
            run.step("2", "Answer the second only, MSN 2: that covers both");
            second.acknowledge(rig, &cc, 2)?;
            run.step("3", "Both complete with success, the SEND first");
            let patience = rig.patience();
            let done = cc.poll(rig, Side::Send, 2, patience)?;
            run.check_eq(&a, "the number of completions", done.len(), 2)?;
            verify_success(run, &a, &done[0], FIRST)?;
            verify_success(run, &a, &done[1], SECOND)?;
            second.verify_answer(run, rig, &a)?;
            cc.close(rig)?;
            Ok(())
        },
    )
    .covers(&["C9-60"])
    .asserts([&assertion])
    .mutant(Mutant::transport(
        "out-of-order",
        "completions of requests that are acknowledged together come in the wrong order",
        &assertion,
        || {
            let mut held = None;
            Faults::default().completion(move |side, completion| match side {
                Side::Send if held.is_none() => {
                    held = Some(completion);
                    Vec::new()
                }
                _ => [Some(completion), held.take()]
                    .into_iter()
                    .flatten()
                    .collect(),
            })
        },
    ))
    .mutant(Mutant::transport(
        "explicit-only",
        "a request completes only when an answer names its own last packet",
        &assertion,
        || {
            Faults::default().completion(|_, done| match done.wr_id {
                FIRST => Vec::new(),
                _ => vec![done],
            })
        },
    ))
    .takes(Duration::from_millis(200))
}
