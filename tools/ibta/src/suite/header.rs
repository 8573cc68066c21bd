//! Section 9.6.1, what a packet must be before a queue pair looks at it: whole, of this version,
//! for this queue pair, of its partition and service. What is not is dropped without an answer, and
//! whatever else is wrong with it counts for nothing.

use super::arrival::{Receiver, SERVICES, send_only, word};
use crate::catalog::{Mutant, Test};
use crate::channel::{self, DEFAULT_PKEY};
use crate::packet::{Crc, TxPacket};
use crate::protocol::{Service, access};
use crate::rig::TransportRig;
use crate::sim::Faults;
use anyhow::Result;
use ferroce_wire::{Bth, Ext, Reth, bth, opcode};

const FAMILY: &str = "9.6.1";
/// A bit of the queue pair number that the simulated device's do not have.
const ELSEWHERE: u32 = 0x8000;

/// A way in which a packet is wrong.
struct Wrong {
    /// In the names of tests.
    word: &'static str,
    /// For people, after "a packet ".
    what: &'static str,
    /// A device that does not look, for people.
    blind: &'static str,
    /// The packets that are wrong in this way, made of a right one.
    spoil: fn(Service, &TxPacket) -> Vec<TxPacket>,
    /// Makes a wrong packet right again, and leaves a right one alone: what a device does that does
    /// not look.
    mend: fn(Service, &mut TxPacket),
    services: &'static [Service],
    /// Statements about it whose numbers are known.
    statements: &'static [&'static str],
}

impl Wrong {
    /// Sends a packet of a service in all variants that are wrong in this way.
    fn transmit(
        &self,
        rig: &mut dyn TransportRig,
        service: Service,
        right: &TxPacket,
    ) -> Result<()> {
        let spoilt = (self.spoil)(service, right);
        spoilt.iter().try_for_each(|packet| rig.transmit(packet))
    }
}

/// Variants of a packet, each changed in one place.
fn each<T: Copy>(
    values: impl IntoIterator<Item = T>,
    packet: &TxPacket,
    set: impl Fn(&mut TxPacket, T),
) -> Vec<TxPacket> {
    let change = |value| {
        let mut changed = packet.clone();
        set(&mut changed, value);
        changed
    };
    values.into_iter().map(change).collect()
}

/// SEND Only of the other services.
fn other_services(service: Service) -> impl Iterator<Item = u8> {
    let others = SERVICES.into_iter().filter(move |other| *other != service);
    others.map(send_only)
}

const WRONGS: &[Wrong] = &[
    Wrong {
        word: "ICRC",
        what: "whose ICRC is wrong",
        blind: "the ICRC is not checked",
        spoil: |_, packet| {
            each(
                [Crc::Wrong, Crc::Bytes([0; 4]), Crc::Bytes([0xff; 4])],
                packet,
                |p, crc| p.icrc = crc,
            )
        },
        mend: |_, packet| packet.icrc = Crc::Right,
        services: &SERVICES,
        statements: &["CA17-24"],
    },
    Wrong {
        word: "TVER",
        what: "of another transport version than 0",
        blind: "BTH:TVer is not checked",
        spoil: |_, packet| each(1..16, packet, |p, version| p.bth.tver = version),
        mend: |_, packet| packet.bth.tver = 0,
        services: &SERVICES,
        statements: &[],
    },
    Wrong {
        word: "QPN",
        what: "for a queue pair that does not exist",
        blind: "a part of BTH:DestQP is not looked at",
        spoil: |_, packet| each([ELSEWHERE], packet, |p, bit| p.bth.dest_qp ^= bit),
        mend: |_, packet| packet.bth.dest_qp &= !ELSEWHERE,
        services: &SERVICES,
        statements: &[],
    },
    Wrong {
        word: "PKEY",
        what: "of another partition",
        blind: "BTH:P_Key is not checked",
        spoil: |_, packet| {
            each([0x8001, 0x7ffe, 0xfffe, 0x0001], packet, |p, key| {
                p.bth.pkey = key;
            })
        },
        mend: |_, packet| packet.bth.pkey = DEFAULT_PKEY,
        services: &SERVICES,
        statements: &["C9-43"],
    },
    Wrong {
        word: "NO_PKEY",
        what: "with a P_Key that is none (0x0000, 0x8000)",
        blind: "a P_Key of no partition counts for every partition",
        spoil: |_, packet| each([0x0000, 0x8000], packet, |p, key| p.bth.pkey = key),
        mend: |_, packet| packet.bth.pkey = DEFAULT_PKEY,
        services: &SERVICES,
        statements: &["C10-116"],
    },
    Wrong {
        word: "SERVICE",
        what: "with an opcode of another service",
        blind: "the service in BTH:OpCode is not checked",
        spoil: |service, packet| {
            each(other_services(service), packet, |p, opcode| {
                p.bth.opcode = opcode;
            })
        },
        mend: |service, packet| packet.bth.opcode = send_only(service),
        services: &SERVICES,
        statements: &[],
    },
    Wrong {
        word: "MANUFACTURER",
        what: "with a manufacturer's opcode",
        blind: "manufacturers' opcodes are taken for the usual ones",
        spoil: |_, packet| each([0xc4, 0xe4], packet, |p, opcode| p.bth.opcode = opcode),
        mend: |service, packet| packet.bth.opcode = send_only(service),
        services: &SERVICES,
        statements: &[],
    },
    Wrong {
        word: "RESERVED",
        what: "with a reserved opcode of the service",
        blind: "reserved opcodes are taken for the usual ones",
        spoil: |service, packet| {
            let reserved: &[u8] = match service {
                Service::Uc => &[0x2c, 0x30, 0x3f],
                _ => &[0x60, 0x63, 0x66, 0x7f],
            };
            each(reserved.iter().copied(), packet, |p, opcode| {
                p.bth.opcode = opcode;
            })
        },
        mend: |service, packet| packet.bth.opcode = send_only(service),
        services: &[Service::Uc, Service::Ud],
        statements: &[],
    },
    Wrong {
        word: "SHORT",
        what: "that ends within its headers",
        blind: "what is missing of a packet is made up",
        spoil: |service, packet| {
            let lengths: &[usize] = match service {
                Service::Ud => &[0, 4, bth::LEN - 4, bth::LEN, bth::LEN + 4],
                _ => &[0, 4, bth::LEN - 4],
            };
            each(lengths.iter().copied(), packet, |p, len| {
                p.truncate = Some(len);
            })
        },
        mend: |_, packet| packet.truncate = None,
        services: &SERVICES,
        statements: &[],
    },
];

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
    odd: fn(&mut TxPacket),
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
        odd(&mut packet);
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

/// A limited member of the device's partition may send to it, since the device is a full member.
fn limited_member(service: Service) -> Test {
    let (test, assertion) = taken(
        "LIMITED_MEMBER",
        service,
        "a packet of a limited member of the partition is taken",
        "The tester sends a SEND with the P_Key of a limited member, 0x7fff",
        |packet| packet.bth.pkey = DEFAULT_PKEY & 0x7fff,
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
        |packet| packet.raw = Some(with_reserved_bits(packet.covered())),
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
