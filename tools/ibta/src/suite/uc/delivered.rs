//! Messages that come whole and in order, SENDs and WRITEs with and without immediate data: they
//! are delivered, and never answered.

use super::mutants::loses_middles;
use super::{
    FAMILY, IMM, RECV, RECV_WRITE, SEND, WRITE, data, imm, message, open, open_target, plain, to,
    transmit, verify_nothing,
};
use crate::catalog::{Mutant, Test};
use crate::channel;
use crate::protocol::{Region, Side};
use crate::rig::TransportRig;
use crate::run::{Outcome, Run};
use crate::sim::Faults;
use crate::suite::arrival::{Receiver, SUCCESS};
use ferroce_wire::{Ext, opcode};

pub(super) fn send() -> Test {
    const A: &str = "s9.8.2:send";

    Test::transport(
        "S09_8_2_RECEIVES_SEND",
        FAMILY,
        "a UC SEND of three packets is delivered, and nothing is answered",
        |run, rig| {
            let receiver = open(run, rig)?;
            run.step(
                "1",
                "The tester sends First, Middle and Last, each with AckReq",
            );
            transmit(rig, &message(&receiver, 0, SEND, plain()))?;
            run.step("2", "One receive request completes with all of it");
            let done = receiver.verify_delivered(run, rig, A, 0, &data(&receiver.cc))?;
            run.check_eq(A, "the opcode", done.opcode, RECV)?;
            run.step("3", "No packet comes");
            receiver.cc.expect_none(run, rig, A)?;
            receiver.cc.close(rig)?;
            Ok(())
        },
    )
    .covers(&["9.8.2"])
    .asserts([A])
    .mutant(loses_middles(A))
}

pub(super) fn send_imm() -> Test {
    const A: &str = "s9.8.2:send-imm";

    Test::transport(
        "S09_8_2_RECEIVES_SEND_IMM",
        FAMILY,
        "the immediate data of a UC SEND comes with its completion",
        |run, rig| {
            let receiver = open(run, rig)?;
            run.step(
                "1",
                "The tester sends First, Middle and Last with Immediate",
            );

            let opcodes = [SEND[0], SEND[1], opcode::UC_SEND_LAST_IMM];
            let exts = [Ext::default(), Ext::default(), imm()];
            transmit(rig, &message(&receiver, 0, opcodes, exts))?;
            run.step("2", "The completion has the data and the immediate data");
            let done = receiver.verify_delivered(run, rig, A, 0, &data(&receiver.cc))?;
            run.check_eq(A, "the immediate data", done.imm, Some(IMM))?;
            run.step(
                "3",
                "A Send Only with Immediate and without payload is a message, too",
            );

            rig.transmit(&receiver.packet(opcode::UC_SEND_ONLY_IMM, 3, imm(), &[]))?;
            let done = receiver.verify_delivered(run, rig, A, 1, &[])?;
            run.check_eq(A, "the immediate data", done.imm, Some(IMM))?;
            receiver.cc.close(rig)?;
            Ok(())
        },
    )
    .covers(&["9.8.2"])
    .asserts([A])
    .mutant(Mutant::transport(
        "forgets-immediate-data",
        "completions have no immediate data",
        A,
        || {
            Faults::default().completion(|_, mut done| {
                done.imm = None;
                vec![done]
            })
        },
    ))
}

/// All of a message of three packets is in memory.
fn verify_written(
    run: &mut Run,
    rig: &mut dyn TransportRig,
    assertion: &str,
    receiver: &Receiver,
    target: &Region,
) -> Outcome {
    let memory = channel::read_memory(rig, target.addr, target.len)?;
    run.check(assertion, memory == data(&receiver.cc), || {
        "memory is not what was written".to_owned()
    })
}

pub(super) fn write() -> Test {
    const A: &str = "s9.8.2:write";

    Test::transport(
        "S09_8_2_RECEIVES_WRITE",
        FAMILY,
        "a UC WRITE is placed, takes no receive request and is not answered",
        |run, rig| {
            let (receiver, target) = open_target(run, rig)?;
            run.step(
                "1",
                "The tester sends First, Middle and Last, each with AckReq",
            );
            let exts = [to(&target, target.len), Ext::default(), Ext::default()];
            transmit(rig, &message(&receiver, 0, WRITE, exts))?;
            run.step("2", "No packet comes, and no receive request completes");
            verify_nothing(run, rig, &receiver, A)?;
            run.step("3", "The data is in memory");
            verify_written(run, rig, A, &receiver, &target)?;
            receiver.cc.close(rig)?;
            Ok(())
        },
    )
    .covers(&["9.8.2", "C10-87"])
    .asserts([A])
    .mutant(loses_middles(A))
}

pub(super) fn write_imm() -> Test {
    const A: &str = "s9.8.2:write-imm";

    Test::transport(
        "S09_8_2_RECEIVES_WRITE_IMM",
        FAMILY,
        "a UC WRITE with immediate is placed and takes a receive request",
        |run, rig| {
            let (receiver, target) = open_target(run, rig)?;
            run.step(
                "1",
                "The tester sends First, Middle and Last with Immediate",
            );

            let opcodes = [WRITE[0], WRITE[1], opcode::UC_WRITE_LAST_IMM];
            let exts = [to(&target, target.len), Ext::default(), imm()];
            transmit(rig, &message(&receiver, 0, opcodes, exts))?;
            run.step(
                "2",
                "One receive request completes, with the immediate data",
            );

            let done = receiver.cc.poll_one(run, rig, A, Side::Recv)?;
            let seen = (done.wr_id, done.status, done.opcode, done.imm);
            run.check_eq(
                A,
                "the completion",
                seen,
                (0, SUCCESS, RECV_WRITE, Some(IMM)),
            )?;

            run.step(
                "3",
                "The data is where the WRITE says, and nothing in the receive request",
            );

            verify_written(run, rig, A, &receiver, &target)?;
            receiver.verify_placed(run, rig, A, 0, &[0; 64])?;
            receiver.cc.close(rig)?;
            Ok(())
        },
    )
    .covers(&["9.8.2"])
    .asserts([A])
    .mutant(Mutant::transport(
        "without-a-receive-request",
        "a WRITE with immediate raises no completion",
        A,
        || Faults::default().completion(|_, _| Vec::new()),
    ))
}
