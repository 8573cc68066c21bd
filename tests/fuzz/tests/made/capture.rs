//! Rings of captures, as programs fill them.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use ferroce_control::capture::record::{self, Medium, Packet, Record, Verbs, VerbsKind, What};

use super::Seeds;

fn packet(medium: Medium, ip: IpAddr, original: u32) -> Record {
    Record {
        time: 1_700_000_000_123_456_789,
        qpn: 0x03_1a2b,
        what: What::Packet(Packet {
            incoming: original.is_multiple_of(2),
            refused: original.is_multiple_of(3),
            medium,
            original,
            from: ip,
            to: ip,
            traffic_class: 2,
            hop_limit: 64,
            id: 7,
            flow_label: 0,
        }),
    }
}

fn written(record: &Record, len: usize) -> Vec<u8> {
    let mut bytes = record::emit(record, len).to_vec();
    bytes.extend((0..len).map(|n| n as u8));
    bytes.resize(bytes.len().next_multiple_of(8), 0);
    bytes
}

fn ring(records: &[Vec<u8>]) -> Vec<u8> {
    let records = records.concat();
    let mut bytes = (records.len() as u64).to_ne_bytes().to_vec();
    bytes.extend(records);
    bytes
}

pub(crate) fn capture() -> Seeds {
    let mut seeds = Seeds::new();
    let addresses = [
        ("v4", Ipv4Addr::new(192, 0, 2, 1).into()),
        ("v6", Ipv6Addr::LOCALHOST.into()),
    ];
    let media = [
        ("udp", Medium::Udp(49_153)),
        ("memory", Medium::Memory),
        ("cable", Medium::Cable(2)),
    ];
    for (family, ip) in addresses {
        for (medium, kind) in media {
            for len in [16, 61, 300] {
                let record = packet(kind, ip, len);
                let seed = ring(&[written(&record, len as usize)]);
                seeds.insert(format!("{family}-{medium}-{len}"), seed);
            }
        }
    }

    for (name, kind) in [
        ("post-send", VerbsKind::PostSend),
        ("post-recv", VerbsKind::PostRecv),
        ("completion", VerbsKind::Completion),
        ("state", VerbsKind::State),
    ] {
        let what = What::Verbs(Verbs {
            kind,
            wr_id: 9,
            opcode: 2,
            status: 3,
            bytes: 4096,
        });
        let record = Record {
            time: 1,
            qpn: 2,
            what,
        };
        let packet = packet(Medium::Memory, addresses[0].1, 4112);
        let both = [written(&record, 0), written(&packet, 64)];
        seeds.insert(name.to_owned(), ring(&both));
    }
    seeds
}
