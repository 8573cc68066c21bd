//! Packets: captured ones, and one for each opcode.

use std::net::{Ipv4Addr, Ipv6Addr};

use ferroce_wire::icrc::Flow;
use ferroce_wire::link::Head;
use ferroce_wire::lrh::NextHeader;
use ferroce_wire::{
    Aeth, AtomicEth, Bth, Deth, Ext, Feth, Grh, Header, HeaderSet, ICRC_LEN, Lrh, MAX_HEADER,
    PayloadRule, ROCE_V2_PORT, Reth, bth, opcode,
};

use super::steps::Wanted;
use super::{Seeds, file, hex};

/// Packets of rdma_rxe from the BTH to the ICRC, and whether they came over IPv4.
pub(crate) fn captured() -> Vec<(bool, Vec<u8>)> {
    let text = file("tests/vectors/rxe-6.1.txt");
    let lines = text.lines().filter(|line| !line.starts_with('#'));
    let packets =
        lines.filter_map(|line| line.split(' ').find_map(|word| word.strip_prefix("ip=")));
    let packets = packets.map(|digits| {
        let ip = hex(digits);
        let v4 = ip[0] >> 4 == 4;
        (v4, ip[if v4 { 28 } else { 48 }..].to_vec())
    });
    packets.collect()
}

/// A packet of each opcode, from the BTH to where the ICRC would be.
pub(crate) fn emitted() -> Vec<(u8, Vec<u8>)> {
    let opcodes = (0..=u8::MAX).filter_map(|number| opcode::info(number).map(|row| (number, row)));
    let packets = opcodes.map(|(number, row)| {
        let payload = match row.payload {
            PayloadRule::None => 0,
            PayloadRule::Full => 256,
            PayloadRule::Word8 => 8,
            PayloadRule::Words => 4,
            PayloadRule::Reserved16 => 16,
            PayloadRule::Some | PayloadRule::Any => 13,
        };

        let has = |header| row.headers.contains(header);
        let (va, rkey, psn) = (0x1122_3344_5566_7788, 0x99aa_bbcc, 0x12_3456);
        let header = Header {
            bth: Bth {
                opcode: number,
                pad: Bth::pad_for(payload),
                pkey: 0xffff,
                dest_qp: 0x11,
                ack_req: true,
                psn,
                ..Bth::default()
            },
            ext: Ext {
                feth: has(HeaderSet::FETH).then_some(Feth {
                    placement: 1,
                    selectivity: 0,
                }),
                reth: has(HeaderSet::RETH).then_some(Reth {
                    va,
                    rkey,
                    len: payload as u32,
                }),
                aeth: has(HeaderSet::AETH).then_some(Aeth {
                    syndrome: 0x1f,
                    msn: 1,
                }),
                atomic: has(HeaderSet::ATOMIC).then_some(AtomicEth {
                    va,
                    rkey,
                    swap_add: 1,
                    compare: 2,
                }),
                atomic_ack: has(HeaderSet::ATOMIC_ACK).then_some(3),
                imm: has(HeaderSet::IMM).then_some([1, 2, 3, 4]),
                ieth: has(HeaderSet::IETH).then_some(rkey),
                deth: has(HeaderSet::DETH).then_some(Deth {
                    qkey: 0x8001_0000,
                    src_qp: 1,
                }),
                xrceth: has(HeaderSet::XRCETH).then_some(5),
            },
        };

        let mut bytes = vec![0; MAX_HEADER];
        let n = header.emit(&mut bytes);
        bytes.truncate(n);
        bytes.extend((0..payload).map(|n| n as u8));
        bytes.resize(bytes.len() + usize::from(header.bth.pad), 0);
        (number, bytes)
    });

    packets.collect()
}

pub(crate) fn packet() -> Seeds {
    let captured = captured().into_iter().enumerate();
    let captured = captured.map(|(n, (_, packet))| (format!("rxe-{n:02}"), packet));
    let emitted = emitted().into_iter().map(|(number, mut packet)| {
        packet.extend([0; ICRC_LEN]);
        (format!("opcode-{number:02x}"), packet)
    });
    captured.chain(emitted).collect()
}

/// The flow of the target.
fn flow(v4: bool) -> Flow {
    let (one, two, port) = (
        Ipv4Addr::new(127, 0, 0, 1),
        Ipv4Addr::new(127, 0, 0, 2),
        50_000,
    );
    match v4 {
        true => Flow::v4(one, two, port, ROCE_V2_PORT),
        false => Flow::v6(Ipv6Addr::LOCALHOST, Ipv6Addr::LOCALHOST, port, ROCE_V2_PORT),
    }
}

pub(crate) fn icrc() -> Seeds {
    let mut seeds = Seeds::new();

    // With the Identification that is expected, with another, and one that the target seals itself.
    for (what, id, seal) in [
        ("exact", 7, None),
        ("other", 0x1234, None),
        ("seal", 0, Some(9u16)),
    ] {
        for (n, (v4, packet)) in captured().into_iter().enumerate().step_by(9) {
            let mut packet = packet[..packet.len() - ICRC_LEN].to_vec();
            let mut icrc = flow(v4).start(packet.len() + ICRC_LEN, id);
            icrc.header(&packet[..bth::LEN]);
            icrc.payload(&packet[bth::LEN..]);
            packet.extend(icrc.finish());
            let wanted = Wanted::new().flag(v4).number(7u16.to_le_bytes());
            let wanted = match seal {
                Some(id) => wanted.flag(true).number(id.to_le_bytes()),
                None => wanted.flag(false),
            };
            // To the last byte: these are no steps.
            let bytes = wanted.rest(&packet).done();
            let bytes = bytes[..bytes.len() - 2].to_vec();
            seeds.insert(format!("{what}-{n:02}"), bytes);
        }
    }

    seeds
}

pub(crate) fn link() -> Seeds {
    let mut seeds = Seeds::new();
    let up = [3, 0, 3, 0];
    seeds.insert("up".to_owned(), up.to_vec());

    // Silence, another command, and up again.
    let global = Grh {
        version: 6,
        traffic_class: 0,
        flow_label: 0,
        payload_len: 0,
        next_header: 0,
        hop_limit: 64,
        sgid: [1; 16],
        dgid: [2; 16],
    };

    let again = [&up[..], &[2, 250, 1, 1, 9, 1, 0], &up].concat();
    seeds.insert("again".to_owned(), again);

    for (number, transport) in emitted() {
        for grh in [None, Some(global)] {
            let name = format!(
                "opcode-{number:02x}{}",
                if grh.is_some() { "-grh" } else { "" }
            );

            let head = Head {
                lrh: Lrh {
                    vl: 0,
                    version: 0,
                    sl: 0,
                    next: NextHeader::Local,
                    dlid: 2,
                    words: 0,
                    slid: 1,
                },
                grh,
            };

            let mut packet = vec![0; head.len()];
            let mut icrc = head.emit(transport.len() + ICRC_LEN, &mut packet);
            icrc.header(&transport);
            packet.extend(&transport);
            packet.extend(icrc.finish());

            // A step has one byte of length.
            if let Ok(len) = u8::try_from(packet.len()) {
                let step = [&[0, len], &packet[..]].concat();
                seeds.insert(name, [&up[..], &step].concat());
            }
        }
    }

    seeds
}

pub(crate) fn identification() -> Seeds {
    let mut seeds = Seeds::new();
    let steps = |what: &[[u8; 2]], times: usize| what.concat().repeat(times);
    let orderly = steps(&[[0, 0], [3, 0]], 150);
    let late = steps(&[[0, 1], [0, 2], [0, 0], [3, 2], [3, 0], [3, 0]], 60);
    let twice = steps(&[[0, 0], [6, 0], [1, 0x50], [3, 0], [7, 0x77]], 90);
    let lossy = steps(&[[0, 15], [0, 15], [0, 15], [4, 1]], 200);
    let ways = [
        ("orderly", orderly),
        ("late", late),
        ("twice", twice),
        ("lossy", lossy),
    ];

    for (way, steps) in &ways {
        for sender in 0..3 {
            // Counting ones pass 0 on their way, with and without having shown it.
            for (first, low) in [("late", 0xc0), ("early", 0)] {
                let seed = [&[sender, low, 0xff], &steps[..]].concat();
                seeds.insert(format!("{way}-{sender}-{first}"), seed);
            }
        }
    }

    seeds
}
