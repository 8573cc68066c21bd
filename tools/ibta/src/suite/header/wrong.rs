//! The ways in which a packet is wrong before a queue pair looks at it, and devices that do not
//! look.

use crate::channel::DEFAULT_PKEY;
use crate::packet::{Crc, TxPacket};
use crate::protocol::Service;
use crate::rig::TransportRig;
use crate::suite::arrival::{SERVICES, send_only};
use anyhow::Result;
use ferroce_wire::bth;

/// A bit of the queue pair number that the simulated device's do not have.
const ELSEWHERE: u32 = 0x8000;

/// A way in which a packet is wrong.
pub(super) struct Wrong {
    /// In the names of tests.
    pub word: &'static str,
    /// For people, after "a packet ".
    pub what: &'static str,
    /// A device that does not look, for people.
    pub blind: &'static str,
    /// The packets that are wrong in this way, made of a right one.
    spoil: fn(Service, &TxPacket) -> Vec<TxPacket>,
    /// Makes a wrong packet right again, and leaves a right one alone: what a device does that does
    /// not look.
    pub mend: fn(Service, &mut TxPacket),
    pub services: &'static [Service],
    /// Statements about it whose numbers are known.
    pub statements: &'static [&'static str],
}

impl Wrong {
    /// Sends a packet of a service in all variants that are wrong in this way.
    pub(super) fn transmit(
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

/// All of them.
pub(super) const WRONGS: &[Wrong] = &[
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
