//! C9-60 the other way round: the tester requests, the device responds. Each message is answered
//! when it has been carried out, with its message number, and only then does a receive request
//! complete.

use super::message::{IMM, Operation};
use crate::catalog::{Mutant, Test};
use crate::channel::{self, Channel};
use crate::packet::RxPacket;
use crate::protocol::{Region, Side, access};
use crate::rig::TransportRig;
use crate::run::{Outcome, Run};
use crate::sim::Faults;
use anyhow::Result;
use ferroce_wire::{Aeth, AtomicEth, Ext, Reth, Syndrome, opcode};

const FAMILY: &str = "C09-060";
/// Packets of a message, or of its response.
const PACKETS: u32 = 3;
/// Messages of a test.
const MESSAGES: u32 = 2;
const SUCCESS: u32 = 0;
/// What the word of atomics holds at first.
const START: u64 = 0x1122_3344_5566_7788;
const ADD: u64 = 0x0101;

/// The tests.
pub fn tests() -> Vec<Test> {
    Operation::ALL.map(answered).into()
}

fn is_received(operation: Operation) -> bool {
    matches!(
        operation,
        Operation::Send | Operation::SendImm | Operation::WriteImm
    )
}

fn answered(operation: Operation) -> Test {
    // C09_060_01_01 is the specification's own, of the SEND.
    let (id, assertion) = match operation {
        Operation::Send => ("C09_060_01_01".to_owned(), "v1c09-060#01".to_owned()),
        _ => (
            format!("C09_060_{}_INVERTED", operation.word()),
            format!("c09-060:{}-inverted", operation.word().to_lowercase()),
        ),
    };
    let a = assertion.clone();
    Test::transport(
        id,
        FAMILY,
        format!(
            "the device answers {} with its message number",
            operation.a_name()
        ),
        move |run, rig| body(run, rig, operation, &a),
    )
    .covers(&["C9-60", "C9-148"])
    .asserts([&assertion])
    .mutant(Mutant::transport(
        "wrong-msn",
        "answers carry the message number of the message after",
        &assertion,
        || {
            Faults::default().tx_edit(|packet| {
                if let Some(aeth) = &mut packet.ext.aeth {
                    aeth.msn += 1;
                }
            })
        },
    ))
    .mutant(Mutant::transport(
        "no-answer",
        "the second message is carried out and not answered",
        &assertion,
        || Faults::default().tx_drop(|packet| packet.ext.aeth.is_some_and(|aeth| aeth.msn == 2)),
    ))
}

fn body(
    run: &mut Run,
    rig: &mut dyn TransportRig,
    operation: Operation,
    assertion: &str,
) -> Outcome {
    operation.needs(rig)?;
    run.step("init.1", "OpenRcChannel");
    let mut cc = Channel::open_rc(rig)?;
    run.step("1", "Register memory for the packets that will come");
    let len = match operation.is_atomic() {
        true => 8,
        false => PACKETS * cc.options.pmtu,
    };
    let region = channel::register(rig, len, access::ALL)?;
    run.step(
        "2",
        "Post a receive request for each packet: the tester's queue takes them",
    );

    run.step(
        "3",
        format!("The device posts {MESSAGES} receive requests, if it needs them"),
    );

    if operation.is_atomic() {
        channel::write_memory(rig, region.addr, &START.to_ne_bytes())?;
    } else if operation == Operation::Read {
        channel::write_memory(rig, region.addr, &channel::pattern(len))?;
    }

    if is_received(operation) {
        for wr_id in 1..=MESSAGES {
            cc.post_recv(rig, wr_id.into(), region.sge())?;
        }
    }

    for msn in 1..=MESSAGES {
        run.step("4", format!("Transmit {}", operation.a_name()));
        let data: Vec<u8> = channel::pattern(len)
            .iter()
            .map(|b| b ^ msn as u8)
            .collect();

        let first = cc.next_psn;
        request(rig, &mut cc, operation, region, &data)?;
        run.step("5", "Receive the answer");
        run.step("6", "It came and is valid");
        let count = match operation {
            Operation::Read => PACKETS,
            _ => 1,
        };

        let mut packets = Vec::new();
        for _ in 0..count {
            packets.push(cc.expect(run, rig, assertion, "an answer")?);
        }
        run.step(
            "7",
            format!("It has an AETH with the message number, {msn}"),
        );

        verify(run, &cc, operation, assertion, &packets, first, msn)?;
        effect(run, rig, operation, assertion, region, &packets, &data, msn)?;
        run.step(
            "8",
            "Dequeue the completion of the receive request, if it needed one",
        );

        if is_received(operation) {
            let done = cc.poll_one(run, rig, assertion, Side::Recv)?;
            run.check_eq(assertion, "the status", done.status, SUCCESS)?;
            run.check_eq(assertion, "wr_id", done.wr_id, msn.into())?;
            let imm = (operation != Operation::Send).then_some(IMM);
            run.check_eq(assertion, "the immediate data", done.imm, imm)?;
        }
    }

    cc.expect_none(run, rig, assertion)?;
    run.step("9", "CloseRcChannel");
    cc.close(rig)?;
    Ok(())
}

/// Transmits the packets of one message.
fn request(
    rig: &mut dyn TransportRig,
    cc: &mut Channel,
    operation: Operation,
    region: Region,
    data: &[u8],
) -> Result<()> {
    let reth = Reth {
        va: region.addr,
        rkey: region.rkey,
        len: region.len,
    };

    let atomic = AtomicEth {
        va: region.addr,
        rkey: region.rkey,
        // Each COMPARE & SWAP finds what the one before has stored: START, then START + ADD.
        compare: START,
        swap_add: match operation {
            Operation::CompareSwap => START.wrapping_add(ADD),
            _ => ADD,
        },
    };

    let ext = Ext {
        reth: Some(reth),
        atomic: Some(atomic),
        imm: Some(IMM),
        ..Ext::default()
    };

    if operation.is_answered() {
        cc.request(rig, operation.opcode(0, 1), ext, &[])?;
        if operation == Operation::Read {
            cc.next_psn = (cc.next_psn + PACKETS - 1) & 0xff_ffff;
        }
        return Ok(());
    }

    let parts: Vec<&[u8]> = data.chunks(cc.options.pmtu as usize).collect();
    for (n, part) in parts.iter().enumerate() {
        let opcode = operation.opcode(n as u32, parts.len() as u32);
        if n + 1 == parts.len() {
            cc.request(rig, opcode, ext, part)?; // asks for an acknowledgement
        } else {
            rig.transmit(&cc.packet(opcode, cc.next_psn, ext, part))?;
            cc.next_psn = (cc.next_psn + 1) & 0xff_ffff;
        }
    }

    Ok(())
}

/// Opcode, PSN, syndrome and message number of the packets of an answer.
fn verify(
    run: &mut Run,
    cc: &Channel,
    operation: Operation,
    assertion: &str,
    packets: &[RxPacket],
    first: u32,
    msn: u32,
) -> Outcome {
    let middle = packets.len() / 2;
    for (n, packet) in packets.iter().enumerate() {
        let (opcode, psn) = match operation {
            Operation::Read => {
                let due = cc.read_response(first, msn, n, packets.len(), &[]).bth;
                (due.opcode, due.psn)
            }
            Operation::FetchAdd | Operation::CompareSwap => (opcode::RC_ATOMIC_ACKNOWLEDGE, first),
            // An acknowledgement names the last packet.
            _ => (
                opcode::RC_ACKNOWLEDGE,
                cc.next_psn.wrapping_sub(1) & 0xff_ffff,
            ),
        };

        run.check_eq(assertion, "the opcode", packet.bth.opcode, opcode)?;
        run.check_eq(assertion, "the PSN", packet.bth.psn, psn)?;
        if packets.len() > 1 && n == middle {
            continue; // the middle of a READ's response has no AETH
        }

        let aeth = packet.ext.aeth.map(|aeth: Aeth| {
            let ack = matches!(aeth.kind(), Syndrome::Ack(_));
            (ack, aeth.msn)
        });
        run.check_eq(assertion, "the AETH (ACK, MSN)", aeth, Some((true, msn)))?;
    }

    Ok(())
}

/// What the message was to do has been done by the time that its answer comes.
#[allow(clippy::too_many_arguments)]
fn effect(
    run: &mut Run,
    rig: &mut dyn TransportRig,
    operation: Operation,
    assertion: &str,
    region: Region,
    packets: &[RxPacket],
    data: &[u8],
    msn: u32,
) -> Outcome {
    if operation == Operation::Read {
        let read: Vec<u8> = packets.iter().flat_map(|p| p.payload.clone()).collect();
        return run.check(assertion, read == channel::pattern(region.len), || {
            "the bytes that were read are not those of the region".to_owned()
        });
    }

    let memory = channel::read_memory(rig, region.addr, region.len)?;
    if !operation.is_atomic() {
        return run.check(assertion, memory == data, || {
            "the bytes that were sent are not in memory".to_owned()
        });
    }

    let before = packets[0].ext.atomic_ack;
    let (due_before, due_after) = match (operation, msn) {
        (Operation::FetchAdd, _) => {
            let n = u64::from(msn);
            (START + (n - 1) * ADD, START + n * ADD)
        }
        // The second compares with what is not there any more, and changes nothing.
        (_, 1) => (START, START + ADD),
        _ => (START + ADD, START + ADD),
    };

    run.check_eq(assertion, "the value before", before, Some(due_before))?;
    let after = memory == due_after.to_ne_bytes();
    run.check(assertion, after, || {
        format!("the word is {memory:x?}, must be {due_after:#x}")
    })
}
