//! Section 9.6.1, what a packet must be before a queue pair looks at it: whole, of this version,
//! for this queue pair, of its partition and service. What is not is dropped without an answer, and
//! whatever else is wrong with it counts for nothing.

mod wrong;

use super::arrival::{Receiver, SERVICES, word};
use crate::catalog::{Mutant, Test};
use crate::channel::{self, Channel, DEFAULT_PKEY};
use crate::packet::TxPacket;
use crate::protocol::{Service, access};
use crate::run::{Outcome, Stop};
use crate::sim::Faults;
use ferroce_wire::{Bth, Ext, Reth, bth, opcode, pkey};
use wrong::{WRONGS, Wrong};

const FAMILY: &str = "9.6.1";

/// The tests.
pub fn tests() -> Vec<Test> {
    let mut tests = Vec::new();
    for wrong in WRONGS {
        for service in wrong.services {
            tests.push(dropped(wrong, *service));
        }
        if wrong.services.contains(&Service::Rc) {
            tests.push(before_the_psn(wrong));
        }
    }

    for word in ["ICRC", "TVER", "PKEY"] {
        tests.extend(WRONGS.iter().filter(|w| w.word == word).map(before_access));
    }
    for service in SERVICES {
        tests.push(limited_member(service));
        tests.push(reserved_bits(service));
    }

    tests
}

fn names(word: &str, service: Service) -> (String, String) {
    let service = super::arrival::word(service);
    let assertion = format!("s9.6.1:{word}-{service}").to_lowercase();
    (
        format!("S09_6_1_{word}_{service}"),
        assertion.replace('_', "-"),
    )
}

/// A device that does not look at one thing.
fn blind(wrong: &'static Wrong, service: Service, assertion: &str) -> Mutant {
    Mutant::transport("does-not-look", wrong.blind, assertion, move || {
        Faults::default().rx_edit(move |packet| (wrong.mend)(service, packet))
    })
}

/// Packets that are wrong are dropped without an answer, and change nothing for the right one that
/// follows.
fn dropped(wrong: &'static Wrong, service: Service) -> Test {
    let (id, assertion) = names(wrong.word, service);
    let a = assertion.clone();
    Test::transport(
        id,
        FAMILY,
        format!("{}: a packet {} is dropped", word(service), wrong.what),
        move |run, rig| {
            run.step("init", "Open a channel and post receive requests");
            let receiver = Receiver::open(rig, service)?;
            let right = receiver.send(0, &channel::pattern(64));
            run.step("1", format!("The tester sends a SEND {}", wrong.what));
            wrong.transmit(rig, service, &right)?;
            run.step("2", "The device neither answers nor delivers it");
            receiver.verify_dropped(run, rig, &a, 0)?;
            run.step("3", "The same SEND, right in everything, is delivered");
            receiver.verify_message(run, rig, &a, 0, 0)?;
            receiver.cc.close(rig)?;
            Ok(())
        },
    )
    .covers(&["9.6.1"])
    .covers(wrong.statements)
    .asserts([&assertion])
    .mutant(blind(wrong, service, &assertion))
}

/// A packet that is wrong and out of sequence is dropped: it is not looked at far enough for a NAK.
fn before_the_psn(wrong: &'static Wrong) -> Test {
    let service = Service::Rc;
    let (_, assertion) = names(&format!("{}-before-psn", wrong.word), service);
    let a = assertion.clone();
    Test::transport(
        format!("S09_6_1_{}_BEFORE_PSN", wrong.word),
        FAMILY,
        format!("a packet {} is not NAKed for its PSN", wrong.what),
        move |run, rig| {
            run.step("init", "OpenRcChannel and post receive requests");
            let receiver = Receiver::open(rig, service)?;
            let ahead = receiver.send(7, &channel::pattern(64));
            run.step(
                "1",
                format!("The tester sends a SEND {}, 7 PSNs too early", wrong.what),
            );
            wrong.transmit(rig, service, &ahead)?;
            run.step("2", "No NAK comes");
            receiver.verify_dropped(run, rig, &a, 0)?;
            run.step("3", "The SEND that is due is delivered");
            receiver.verify_message(run, rig, &a, 0, 0)?;
            receiver.cc.close(rig)?;
            Ok(())
        },
    )
    .covers(&["9.6.1", "9.6"])
    .covers(wrong.statements)
    .asserts([&assertion])
    .mutant(blind(wrong, service, &assertion))
}

/// A WRITE that is wrong and may not be carried out either is dropped: no NAK, and the connection
/// lives on.
fn before_access(wrong: &'static Wrong) -> Test {
    let service = Service::Rc;
    let (_, assertion) = names(&format!("{}-before-access", wrong.word), service);
    let a = assertion.clone();
    Test::transport(
        format!("S09_6_1_{}_BEFORE_ACCESS", wrong.word),
        FAMILY,
        format!("a WRITE {} is not NAKed for its R_Key", wrong.what),
        move |run, rig| {
            run.step(
                "init",
                "OpenRcChannel; memory that the tester may only read",
            );

            let receiver = Receiver::open(rig, service)?;
            let target = channel::register(rig, 64, access::REMOTE_READ)?;
            let ext = Ext {
                reth: Some(Reth {
                    va: target.addr,
                    rkey: target.rkey,
                    len: 64,
                }),
                ..Ext::default()
            };

            let data = channel::pattern(64);
            let write = receiver.packet(opcode::RC_WRITE_ONLY, 0, ext, &data);
            run.step("1", format!("The tester sends a WRITE {}", wrong.what));
            wrong.transmit(rig, service, &write)?;
            run.step("2", "No NAK comes, and nothing is written");
            receiver.verify_dropped(run, rig, &a, 0)?;
            let memory = channel::read_memory(rig, target.addr, 64)?;
            run.check(&a, memory == [0; 64], || "memory has changed".to_owned())?;
            run.step("3", "The connection lives: a SEND is delivered");
            receiver.verify_message(run, rig, &a, 0, 0)?;
            receiver.cc.close(rig)?;
            Ok(())
        },
    )
    .covers(&["9.6.1", "9.6"])
    .covers(wrong.statements)
    .asserts([&assertion])
    .mutant(blind(wrong, service, &assertion))
}

/// A packet that is odd, but right, is delivered.
fn taken(
    name: &str,
    service: Service,
    title: &str,
    step: &'static str,
    odd: fn(&Channel, &mut TxPacket) -> Outcome,
) -> (Test, String) {
    let (id, assertion) = names(name, service);
    let a = assertion.clone();
    let title = format!("{}: {title}", word(service));
    let test = Test::transport(id, FAMILY, title, move |run, rig| {
        run.step("init", "Open a channel and post receive requests");
        let receiver = Receiver::open(rig, service)?;
        run.step("1", step);
        let data = channel::pattern(64);
        let mut packet = receiver.send(0, &data);
        odd(&receiver.cc, &mut packet)?;
        rig.transmit(&packet)?;
        run.step("2", "It is delivered");
        receiver.verify_acknowledged(run, rig, &a, 0)?;
        receiver.verify_delivered(run, rig, &a, 0, &data)?;
        receiver.cc.close(rig)?;
        Ok(())
    })
    .asserts([&assertion]);

    (test, assertion)
}

/// A limited member of the device's partition may send to it, if the device is a full member.
fn limited_member(service: Service) -> Test {
    let (test, assertion) = taken(
        "LIMITED_MEMBER",
        service,
        "a packet of a limited member of the partition is taken",
        "The tester sends a SEND with the P_Key of a limited member, 0x7fff",
        |channel, packet| {
            if !pkey::is_full_member(channel.pkey) {
                let why = "the device is a limited member itself";
                return Err(Stop::NotApplicable(why.to_owned()));
            }
            packet.bth.pkey = DEFAULT_PKEY & 0x7fff;
            Ok(())
        },
    );
    test.covers(&["9.6.1", "C9-43"]).mutant(Mutant::transport(
        "full-members-only",
        "P_Keys are compared with their membership bit",
        assertion,
        || Faults::default().rx_drop(|packet| packet.bth.pkey & 0x8000 == 0),
    ))
}

/// Reserved bits of the BTH and those of congestion control say nothing about whether a packet is
/// good.
fn reserved_bits(service: Service) -> Test {
    let (test, assertion) = taken(
        "RESERVED_BITS",
        service,
        "reserved bits of the BTH, FECN and BECN are not held against a packet",
        "The tester sends a SEND with these bits set",
        |_, packet| {
            packet.raw = Some(with_reserved_bits(packet.covered()));
            Ok(())
        },
    );

    test.covers(&["9.2", "9.6.1", "C9-6"])
        .mutant(Mutant::transport(
            "reserved-must-be-zero",
            "packets with reserved bits are dropped",
            assertion,
            || {
                Faults::default().rx_drop(|packet| {
                    let bytes = packet.covered();
                    bytes.len() >= bth::LEN && bytes[8] & 0x7f != 0
                })
            },
        ))
}

/// FECN, BECN, the six bits beside them and the seven beside AckReq.
fn with_reserved_bits(mut bytes: Vec<u8>) -> Vec<u8> {
    debug_assert!(Bth::parse(&bytes).is_some());
    bytes[4] = 0xff;
    bytes[8] |= 0x7f;
    bytes
}
