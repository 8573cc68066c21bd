//! C9-142: when a requester sends again what nobody answers. How often is in `retries`.
//!
//! T_tr is 4.096 µs · 2^(Local ACK Timeout). A device may wait between T_tr and 4·T_tr before it
//! sends again; 0 is for ever.

mod described;

use super::message::{Message, Operation};
use crate::catalog::{Mutant, Test};
use crate::channel::{Channel, ChannelOptions};
use crate::packet::RxPacket;
use crate::protocol::{Command, Completion, Side};
use crate::rig::TransportRig;
use crate::run::{Outcome, Run};
use crate::sim::Faults;
use anyhow::Context;
use std::time::Duration;

pub(super) const SUCCESS: u32 = 0;
/// `IBV_WC_WR_FLUSH_ERR`.
pub(super) const FLUSHED: u32 = 5;
/// `IBV_WC_RETRY_EXC_ERR`.
pub(super) const RETRY_EXCEEDED: u32 = 12;
/// The timeout of tests that do not care: T_tr is 67 ms.
pub(super) const USUAL: u8 = 14;

/// The tests.
pub fn tests() -> Vec<Test> {
    let mut tests = vec![described::as_described(), infinite()];
    tests.extend(Operation::ALL.map(sent_again));
    tests.extend([15, 16, 17].map(exponent));
    tests
}

/// T_tr of an exponent.
pub(super) fn t_tr(exponent: u8) -> Duration {
    Duration::from_nanos(4096 << exponent)
}

/// Waits for a packet to be sent again, not before T_tr and not after 4·T_tr from the time at which
/// it came before.
pub(super) fn again(
    run: &mut Run,
    rig: &mut dyn TransportRig,
    cc: &Channel,
    assertion: &str,
    before: &RxPacket,
    exponent: u8,
) -> Outcome<RxPacket> {
    let t = t_tr(exponent);
    let late = before.at + 4 * t;
    let now = rig.now();
    let lost = rig.stalled(before.at, now);
    let packet = rig.receive((late + t + lost).saturating_sub(now))?;
    run.check(assertion, packet.is_some(), || {
        format!("nothing was sent again within 5 T_tr, {:?}", 5 * t)
    })?;
    let packet = packet.context("no packet")?;
    is_again(run, rig, cc, assertion, before, &packet, exponent)?;
    Ok(packet)
}

/// A packet is one that came before, sent again in time.
fn is_again(
    run: &mut Run,
    rig: &mut dyn TransportRig,
    cc: &Channel,
    assertion: &str,
    before: &RxPacket,
    packet: &RxPacket,
    exponent: u8,
) -> Outcome {
    let t = t_tr(exponent);
    let late = before.at + 4 * t;
    cc.verify(run, assertion, packet)?;
    let waited = packet.at.saturating_sub(before.at);
    let seen = || format!("sent again after {waited:?}, must be {t:?} to {:?}", 4 * t);
    run.check(assertion, waited >= t, seen)?;
    let stalled = rig.stalled(before.at, packet.at);
    run.check_bound(assertion, packet.at.saturating_sub(late), stalled, seen)?;
    let same = packet.bth.psn == before.bth.psn
        && packet.bth.opcode == before.bth.opcode
        && packet.ext == before.ext
        && packet.payload == before.payload;
    run.check(assertion, same, || {
        format!("{} is not {} again", packet.describe(), before.describe())
    })
}

fn clock(name: &'static str, what: &'static str, assertion: &str, speed: f64) -> Mutant {
    Mutant::transport(name, what, assertion, move || {
        Faults::default().clock(speed)
    })
}

fn too_early(assertion: &str) -> Mutant {
    clock(
        "too-early",
        "sends again before T_tr has passed",
        assertion,
        3.0,
    )
}

fn too_late(assertion: &str) -> Mutant {
    clock("too-late", "sends again after 4 T_tr only", assertion, 0.24)
}

pub(super) fn other_status(assertion: &str) -> Mutant {
    Mutant::transport(
        "other-status",
        "the request that was given up completes with a flush error",
        assertion,
        || {
            Faults::default().completion(|_, completion| {
                vec![Completion {
                    status: FLUSHED,
                    ..completion
                }]
            })
        },
    )
}

pub(super) fn never_again(assertion: &str) -> Mutant {
    Mutant::transport("never-again", "sends nothing again", assertion, || {
        let mut sent = false;
        Faults::default().tx_drop(move |_| std::mem::replace(&mut sent, true))
    })
}

/// Whatever the operation, it is sent again in time, twice, and completes once it is answered.
fn sent_again(operation: Operation) -> Test {
    let assertion = format!("c09-142:{}", operation.word().to_lowercase());
    let a = assertion.clone();
    Test::transport(
        format!("C09_142_{}", operation.word()),
        "C09-142",
        format!("{} that nobody answers is sent again", operation.a_name()),
        move |run, rig| {
            operation.needs(rig)?;
            let cc = open(rig, USUAL, 7)?;
            run.step("1", format!("The device posts {}", operation.a_name()));
            let message = Message::post(&cc, rig, operation, 1, 1, cc.device_psn(0))?;
            let mut packet = message.receive(run, rig, &cc, &a)?.remove(0);
            for n in 1..=2 {
                run.step(
                    1 + n,
                    "Drop it: it comes again between T_tr and 4 T_tr later",
                );
                packet = again(run, rig, &cc, &a, &packet, USUAL)?;
            }

            run.step("4", "Answer it: it completes with success");
            message.acknowledge(rig, &cc, 1)?;
            let done = cc.poll_one(run, rig, &a, Side::Send)?;
            run.check_eq(&a, "the status", done.status, SUCCESS)?;
            message.verify_answer(run, rig, &a)?;
            cc.close(rig)?;
            Ok(())
        },
    )
    .covers(&["C9-139", "C9-142"])
    .takes(5 * t_tr(USUAL))
    .mutant(too_early(&assertion))
    .mutant(too_late(&assertion))
    .asserts([assertion])
}

/// The timeout that was set is the one that is kept.
fn exponent(exponent: u8) -> Test {
    let assertion = format!("c09-142:timeout-{exponent}");
    let a = assertion.clone();
    Test::transport(
        format!("C09_142_TIMEOUT_{exponent}"),
        "C09-142",
        format!("an ACK timeout of {exponent} is {:?}", t_tr(exponent)),
        move |run, rig| {
            let cc = open(rig, exponent, 7)?;
            run.step("1", "The device posts a SEND");
            let message = Message::post(&cc, rig, Operation::Send, 1, 1, cc.device_psn(0))?;
            let packet = message.receive(run, rig, &cc, &a)?.remove(0);
            run.step("2", "Drop it: it comes again between T_tr and 4 T_tr later");
            again(run, rig, &cc, &a, &packet, exponent)?;
            cc.close(rig)?;
            Ok(())
        },
    )
    .covers(&["C9-139", "C9-140", "C9-142"])
    .takes(5 * t_tr(exponent) / 2)
    .mutant(too_early(&assertion))
    .mutant(too_late(&assertion))
    .asserts([assertion])
}

/// A timeout of 0 is for ever.
fn infinite() -> Test {
    const ID: &str = "c09-142:infinite";

    Test::transport(
        "C09_142_INFINITE",
        "C09-142",
        "with an ACK timeout of 0 nothing is sent again",
        |run, rig| {
            let cc = open(rig, 0, 7)?;
            run.step("1", "The device posts a SEND");
            let message = Message::post(&cc, rig, Operation::Send, 1, 1, cc.device_psn(0))?;
            message.receive(run, rig, &cc, ID)?;
            run.step("2", "Drop it: nothing comes again, and nothing completes");
            let patience = rig.patience();
            let packet = rig.receive(patience)?;
            run.check(ID, packet.is_none(), || "it was sent again".to_owned())?;
            cc.verify_no_completion(run, rig, ID, Side::Send)?;
            run.step("3", "Answer it late: it completes with success");
            message.acknowledge(rig, &cc, 1)?;
            let done = cc.poll_one(run, rig, ID, Side::Send)?;
            run.check_eq(ID, "the status", done.status, SUCCESS)?;
            cc.close(rig)?;
            Ok(())
        },
    )
    .covers(&["C9-140", "C9-142"])
    .takes(Duration::from_millis(2500))
    .asserts([ID])
    .mutant(Mutant::transport(
        "finite",
        "takes a timeout of 0 for some time",
        ID,
        || {
            Faults::default().command(|mut command| {
                if let Command::ModifyQp { attributes, .. } = &mut command
                    && attributes.timeout == Some(0)
                {
                    attributes.timeout = Some(USUAL);
                }
                command
            })
        },
    ))
}

pub(super) fn open(
    rig: &mut dyn TransportRig,
    timeout: u8,
    retry_cnt: u8,
) -> anyhow::Result<Channel> {
    Channel::open(
        rig,
        ChannelOptions {
            timeout,
            retry_cnt,
            ..ChannelOptions::default()
        },
    )
}
