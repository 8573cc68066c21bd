//! Messages of which a packet is lost, that are given up, or for which no receive request is there:
//! nothing of them is delivered, and the next one is.

use super::mutants::{begins, blind_to_gaps};
use super::{
    FAMILY, SEND, WRITE, data, imm, message, open, open_target, plain, to, transmit, verify_nothing,
};
use crate::catalog::{Mutant, Test};
use crate::channel;
use crate::protocol::Service;
use crate::sim::Faults;
use crate::suite::arrival::Receiver;
use ferroce_wire::{Ext, opcode};
use std::time::Duration;

/// Of a SEND of three packets one is lost: it is never delivered, and its receive request takes the
/// next message.
pub(super) fn lost(which: usize, word: &'static str) -> Test {
    let assertion = format!("s9.8.2:lost-{}", word.to_lowercase());
    let a = assertion.clone();
    let mutant = match which {
        0 => Mutant::transport(
            "begins-anywhere",
            "a middle packet may begin a message",
            &assertion,
            || {
                let mut begun = false;
                Faults::default().rx_edit(move |packet| {
                    if packet.bth.opcode == opcode::UC_SEND_MIDDLE && !begun {
                        packet.bth.opcode = opcode::UC_SEND_FIRST;
                    }
                    begun |= begins(packet);
                })
            },
        ),
        1 => blind_to_gaps(&assertion),
        _ => Mutant::transport(
            "ends-anywhere",
            "a middle packet ends a message whose last packet does not come",
            &assertion,
            || {
                Faults::default().rx_edit(|packet| {
                    if packet.bth.opcode == opcode::UC_SEND_MIDDLE {
                        packet.bth.opcode = opcode::UC_SEND_LAST;
                    }
                })
            },
        ),
    };

    Test::transport(
        format!("S09_8_2_LOST_{word}"),
        FAMILY,
        format!(
            "a UC SEND whose {} packet is lost is not delivered, and the next one is",
            word.to_lowercase()
        ),
        move |run, rig| {
            let receiver = open(run, rig)?;
            run.step(
                "1",
                format!("The tester sends a SEND of three packets without its {word}"),
            );

            let mut packets = message(&receiver, 0, SEND, plain());
            packets.remove(which);
            transmit(rig, &packets)?;
            run.step("2", "Nothing is answered and nothing completes");
            verify_nothing(run, rig, &receiver, &a)?;
            run.step("3", "The next SEND takes the receive request");
            transmit(rig, &message(&receiver, 3, SEND, plain()))?;
            receiver.verify_delivered(run, rig, &a, 0, &data(&receiver.cc))?;
            receiver.cc.close(rig)?;
            Ok(())
        },
    )
    .covers(&["9.8.2"])
    .asserts([&assertion])
    .mutant(mutant)
}

/// A WRITE with immediate that lost its middle raises no completion.
pub(super) fn lost_write() -> Test {
    const A: &str = "s9.8.2:lost-write";

    Test::transport(
        "S09_8_2_LOST_WRITE",
        FAMILY,
        "a UC WRITE with immediate that lost a packet raises no completion",
        |run, rig| {
            let (receiver, target) = open_target(run, rig)?;
            run.step(
                "1",
                "The tester sends First and Last with Immediate, not Middle",
            );

            let opcodes = [WRITE[0], WRITE[1], opcode::UC_WRITE_LAST_IMM];
            let exts = [to(&target, target.len), Ext::default(), imm()];
            let mut packets = message(&receiver, 0, opcodes, exts);
            packets.remove(1);
            transmit(rig, &packets)?;
            run.step("2", "Nothing is answered and nothing completes");
            verify_nothing(run, rig, &receiver, A)?;
            run.step("3", "A SEND is delivered");
            receiver.verify_message(run, rig, A, 3, 0)?;
            receiver.cc.close(rig)?;
            Ok(())
        },
    )
    .covers(&["9.8.2"])
    .asserts([A])
    .mutant(Mutant::transport(
        "immediate-data-alone",
        "the packet with immediate data completes, whatever was before it",
        A,
        || {
            Faults::default().rx_edit(|packet| {
                if packet.bth.opcode == opcode::UC_WRITE_LAST_IMM {
                    packet.bth.opcode = opcode::UC_SEND_ONLY_IMM;
                }
            })
        },
    ))
}

/// A message that is given up in the middle is not delivered.
pub(super) fn begins_anew() -> Test {
    const A: &str = "s9.8.2:begins-anew";

    Test::transport(
        "S09_8_2_BEGINS_ANEW",
        FAMILY,
        "a UC SEND that is given up in the middle is never delivered",
        |run, rig| {
            let receiver = open(run, rig)?;
            run.step(
                "1",
                "The tester sends First, and then the Last of no message two PSNs on",
            );

            let packets = message(&receiver, 0, SEND, plain());
            rig.transmit(&packets[0])?;
            let part = channel::pattern(9);
            rig.transmit(&receiver.packet(opcode::UC_SEND_LAST, 3, Ext::default(), &part))?;
            run.step("2", "Nothing is answered and nothing completes");
            verify_nothing(run, rig, &receiver, A)?;
            run.step("3", "A whole SEND is delivered");
            transmit(rig, &message(&receiver, 4, SEND, plain()))?;
            receiver.verify_delivered(run, rig, A, 0, &data(&receiver.cc))?;
            receiver.cc.close(rig)?;
            Ok(())
        },
    )
    .covers(&["9.8.2"])
    .asserts([A])
    .mutant(blind_to_gaps(A))
}

/// What comes while no receive request is posted is lost, and nobody is told.
pub(super) fn no_receive() -> Test {
    const A: &str = "s9.8.2:no-receive";

    Test::transport(
        "S09_8_2_NO_RECEIVE",
        FAMILY,
        "a UC SEND without a receive request is dropped: no RNR NAK, and it is not kept",
        |run, rig| {
            run.step("init", "Open a UC channel without receive requests");
            let receiver = Receiver::empty(rig, Service::Uc)?;
            run.step("1", "The tester sends a SEND: no packet comes");
            rig.transmit(&receiver.send(0, &channel::pattern(64)))?;
            receiver.cc.expect_none(run, rig, A)?;
            run.step("2", "Receive requests are posted: nothing completes");
            receiver.post(rig)?;
            verify_nothing(run, rig, &receiver, A)?;
            run.step("3", "The next SEND is delivered");
            receiver.verify_message(run, rig, A, 1, 0)?;
            receiver.cc.close(rig)?;
            Ok(())
        },
    )
    .covers(&["9.8.2"])
    .asserts([A])
    .mutant(Mutant::transport(
        "keeps-it",
        "what comes too early is delivered later",
        A,
        || {
            let mut kept = false;
            Faults::default().rx(move |packet| {
                let wait = if kept { 0 } else { 150 };
                kept = true;
                vec![(Duration::from_millis(wait), packet)]
            })
        },
    ))
}
