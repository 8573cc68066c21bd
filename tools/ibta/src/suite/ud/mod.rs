//! Section 9.8.3, unreliable datagrams, the device as receiver: each packet is a message, whoever
//! sent it, if its Q_Key is right.

mod q_keys;
mod shared_queue;

use super::arrival::{GRH, Receiver};
use crate::catalog::{Mutant, Test};
use crate::channel;
use crate::protocol::{Service, qp_state};
use crate::rig::TransportRig;
use crate::run::Run;
use crate::sim::Faults;
use anyhow::Result;
use ferroce_wire::{Ext, opcode};
use q_keys::{q_key, q_key_changed};
use std::time::Duration;

const FAMILY: &str = "9.8.3";
const IMM: [u8; 4] = [0x55, 0x66, 0x77, 0x88];

/// The tests.
pub fn tests() -> Vec<Test> {
    vec![
        delivered(),
        immediate(),
        empty(),
        q_key(),
        q_key_changed(),
        any_psn(),
        senders(),
        no_receive(),
        not_answered(),
        shared_queue::own_domain(),
        shared_queue::other_domain(),
    ]
}

fn open(run: &mut Run, rig: &mut dyn TransportRig) -> Result<Receiver> {
    run.step("init", "Open a UD channel and post receive requests");
    Receiver::open(rig, Service::Ud)
}

fn delivered() -> Test {
    const A: &str = "s9.8.3:delivered";

    Test::transport(
        "S09_8_3_DELIVERED",
        FAMILY,
        "a datagram is delivered behind 40 bytes for a GRH, and says whom it is from",
        |run, rig| {
            let receiver = open(run, rig)?;
            run.step("1", "The tester sends a datagram of 301 bytes");
            let data = channel::pattern(301);
            rig.transmit(&receiver.send(0, &data))?;
            run.step(
                "2",
                "It is delivered: 341 bytes, with a GRH, from the tester's queue pair",
            );

            let done = receiver.verify_delivered(run, rig, A, 0, &data)?;
            run.check_eq(A, "the number of bytes", done.byte_len, GRH + 301)?;
            run.check(A, done.grh, || "the completion tells of no GRH".to_owned())?;
            let due = receiver.cc.options.tester_qp;
            run.check_eq(A, "the sender", done.src_qp, due)?;
            receiver.cc.close(rig)?;
            Ok(())
        },
    )
    .covers(&["9.8.3"])
    .asserts([A])
    .mutant(Mutant::transport(
        "no-grh",
        "completions of datagrams do not say that there is a GRH",
        A,
        || {
            Faults::default().completion(|_, mut done| {
                done.grh = false;
                vec![done]
            })
        },
    ))
    .mutant(Mutant::transport(
        "from-nobody",
        "completions do not say whom a datagram is from",
        A,
        || {
            Faults::default().completion(|_, mut done| {
                done.src_qp = 0;
                vec![done]
            })
        },
    ))
}

fn immediate() -> Test {
    const A: &str = "s9.8.3:immediate";

    Test::transport(
        "S09_8_3_IMMEDIATE",
        FAMILY,
        "the immediate data of a datagram comes with its completion, and only then",
        |run, rig| {
            let receiver = open(run, rig)?;
            let data = channel::pattern(32);
            run.step(
                "1",
                "The tester sends a datagram with immediate data, and one without",
            );

            let ext = Ext {
                imm: Some(IMM),
                ..Ext::default()
            };
            rig.transmit(&receiver.packet(opcode::UD_SEND_ONLY_IMM, 0, ext, &data))?;
            run.step("2", "The first completion has it, the second has none");
            let done = receiver.verify_delivered(run, rig, A, 0, &data)?;
            run.check_eq(A, "the immediate data", done.imm, Some(IMM))?;
            rig.transmit(&receiver.send(1, &data))?;
            let done = receiver.verify_delivered(run, rig, A, 1, &data)?;
            run.check_eq(A, "the immediate data", done.imm, None)?;
            receiver.cc.close(rig)?;
            Ok(())
        },
    )
    .covers(&["9.8.3"])
    .asserts([A])
    .mutant(Mutant::transport(
        "always-immediate",
        "every completion has immediate data",
        A,
        || {
            Faults::default().completion(|_, mut done| {
                done.imm = Some(IMM);
                vec![done]
            })
        },
    ))
}

fn empty() -> Test {
    const A: &str = "s9.8.3:empty";

    Test::transport(
        "S09_8_3_EMPTY",
        FAMILY,
        "a datagram without payload is a message",
        |run, rig| {
            let receiver = open(run, rig)?;
            run.step(
                "1",
                "The tester sends a datagram of no bytes: it is delivered",
            );
            rig.transmit(&receiver.send(0, &[]))?;
            receiver.verify_delivered(run, rig, A, 0, &[])?;
            receiver.cc.close(rig)?;
            Ok(())
        },
    )
    .covers(&["9.8.3"])
    .asserts([A])
    .mutant(Mutant::transport(
        "nothing-is-nothing",
        "datagrams without payload are dropped",
        A,
        || Faults::default().rx_drop(|packet| packet.payload.is_empty()),
    ))
}

fn any_psn() -> Test {
    const A: &str = "s9.8.3:any-psn";

    Test::transport(
        "S09_8_3_ANY_PSN",
        FAMILY,
        "datagrams are taken whatever their PSNs",
        |run, rig| {
            let receiver = open(run, rig)?;
            run.step(
                "1",
                "Datagrams come with PSNs that jump, stand still and go back",
            );
            for (slot, n) in [0x40_0000, 0x40_0000, 3, 0xff_fff0].into_iter().enumerate() {
                let slot = slot as u32;
                let data = channel::pattern(40 + slot);
                rig.transmit(&receiver.send(n, &data))?;
                receiver.verify_delivered(run, rig, A, slot, &data)?;
            }
            receiver.cc.close(rig)?;
            Ok(())
        },
    )
    .covers(&["9.8.3"])
    .asserts([A])
    .mutant(Mutant::transport(
        "in-order-only",
        "datagrams are dropped whose PSN is not above the last one's",
        A,
        || {
            let mut last = None;
            Faults::default().rx_drop(move |packet| {
                let psn = packet.bth.psn;
                let late = last.is_some_and(|last| psn <= last);
                last = Some(psn);
                late
            })
        },
    ))
}

fn senders() -> Test {
    const A: &str = "s9.8.3:senders";

    Test::transport(
        "S09_8_3_SENDERS",
        FAMILY,
        "a queue pair takes datagrams of any sender, and tells them apart",
        |run, rig| {
            let receiver = open(run, rig)?;
            run.step("1", "Datagrams come from queue pairs 2, 0x777 and 0xfffffe");

            for (slot, sender) in [2, 0x777, 0xff_fffe].into_iter().enumerate() {
                let slot = slot as u32;
                let data = channel::pattern(40 + slot);
                let mut packet = receiver.send(slot, &data);
                if let Some(deth) = &mut packet.ext.deth {
                    deth.src_qp = sender;
                }
                rig.transmit(&packet)?;
                let done = receiver.verify_delivered(run, rig, A, slot, &data)?;
                run.check_eq(A, "the sender", done.src_qp, sender)?;
            }

            receiver.cc.close(rig)?;
            Ok(())
        },
    )
    .covers(&["9.8.3"])
    .asserts([A])
    .mutant(Mutant::transport(
        "first-come",
        "completions name the first sender whoever sends",
        A,
        || {
            let mut first = None;
            Faults::default().completion(move |_, mut done| {
                done.src_qp = *first.get_or_insert(done.src_qp);
                vec![done]
            })
        },
    ))
}

fn no_receive() -> Test {
    const A: &str = "s9.8.3:no-receive";

    Test::transport(
        "S09_8_3_NO_RECEIVE",
        FAMILY,
        "a datagram without a receive request is dropped, and not kept",
        |run, rig| {
            run.step("init", "Open a UD channel without receive requests");
            let receiver = Receiver::empty(rig, Service::Ud)?;
            run.step("1", "The tester sends a datagram: nothing is answered");
            rig.transmit(&receiver.send(0, &channel::pattern(64)))?;
            receiver.cc.expect_none(run, rig, A)?;
            run.step("2", "Receive requests are posted: nothing completes");
            receiver.post(rig)?;
            receiver.verify_dropped(run, rig, A, 0)?;
            run.step("3", "The next datagram is delivered");
            receiver.verify_message(run, rig, A, 1, 0)?;
            receiver.cc.close(rig)?;
            Ok(())
        },
    )
    .covers(&["9.8.3"])
    .asserts([A])
    .mutant(Mutant::transport(
        "keeps-it",
        "what comes too early is delivered later",
        A,
        || {
            Faults::default().rx(|packet| {
                vec![
                    (Duration::ZERO, packet.clone()),
                    (Duration::from_millis(150), packet),
                ]
            })
        },
    ))
}

/// Datagrams are not answered, and a queue pair that got many of them that are wrong lives on.
fn not_answered() -> Test {
    const A: &str = "s9.8.3:not-answered";

    Test::transport(
        "S09_8_3_NOT_ANSWERED",
        FAMILY,
        "nothing is answered, whatever comes, and the queue pair stays ready",
        |run, rig| {
            let receiver = open(run, rig)?;
            run.step("1", "Requests of every kind come for it, each with AckReq");
            for info in ferroce_wire::opcode::all() {
                if info.opcode == opcode::UD_SEND_ONLY || info.opcode == opcode::UD_SEND_ONLY_IMM {
                    continue;
                }
                let packet = receiver.packet(info.opcode, 0, Ext::default(), &[7; 32]);
                rig.transmit(&packet)?;
            }

            run.step("2", "Nothing is answered, and nothing completes");
            receiver.verify_dropped(run, rig, A, 0)?;
            run.step("3", "The queue pair is in RTS, and a datagram is delivered");
            let state = receiver.cc.query(rig)?.qp_state;
            run.check_eq(A, "the state", state, Some(qp_state::RTS))?;
            receiver.verify_message(run, rig, A, 0, 0)?;
            receiver.cc.close(rig)?;
            Ok(())
        },
    )
    .covers(&["9.8.3", "9.6.1"])
    .asserts([A])
    .mutant(Mutant::transport(
        "any-send-will-do",
        "SENDs of connections are taken for datagrams",
        A,
        || {
            Faults::default().rx_edit(|packet| {
                if packet.bth.opcode == opcode::RC_SEND_ONLY {
                    packet.bth.opcode = opcode::UD_SEND_ONLY;
                }
            })
        },
    ))
}
