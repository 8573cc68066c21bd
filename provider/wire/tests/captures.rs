//! Packets that others made: a capture of the Linux kernel's rdma_rxe, decoded by tshark, a CNP
//! from a ConnectX-4 Lx and a worked example. Our own encoder has no part in them.

use ferroce_wire::icrc::{Flow, Verdict};
use ferroce_wire::{Aeth, Deth, Ext, Header, NakCode, Packet, Reth, Syndrome, opcode};
use std::collections::{BTreeSet, HashMap};
use std::net::{Ipv4Addr, Ipv6Addr};

const RXE: &str = include_str!("../../../tests/vectors/rxe-6.1.txt");

/// An IP packet taken apart far enough to check what is inside.
struct Captured {
    flow: Flow,
    ip_id: u16,
    udp_payload: Vec<u8>,
}

fn unhex(hex: &str) -> Vec<u8> {
    assert!(hex.len().is_multiple_of(2));
    (0..hex.len())
        .step_by(2)
        .map(|i| u8::from_str_radix(&hex[i..i + 2], 16).unwrap())
        .collect()
}

fn captured(ip: &[u8]) -> Captured {
    let be16 = |at: usize| u16::from_be_bytes([ip[at], ip[at + 1]]);
    if ip[0] == 0x45 {
        assert_eq!(usize::from(be16(2)), ip.len());
        let src: [u8; 4] = ip[12..16].try_into().unwrap();
        let dst: [u8; 4] = ip[16..20].try_into().unwrap();
        let flow = Flow::v4(Ipv4Addr::from(src), Ipv4Addr::from(dst), be16(20), be16(22));
        Captured {
            flow,
            ip_id: be16(4),
            udp_payload: ip[28..].to_vec(),
        }
    } else {
        assert_eq!(ip[0] >> 4, 6);
        assert_eq!(usize::from(be16(4)) + 40, ip.len());
        let src: [u8; 16] = ip[8..24].try_into().unwrap();
        let dst: [u8; 16] = ip[24..40].try_into().unwrap();
        let flow = Flow::v6(Ipv6Addr::from(src), Ipv6Addr::from(dst), be16(40), be16(42));
        Captured {
            flow,
            ip_id: 0,
            udp_payload: ip[48..].to_vec(),
        }
    }
}

/// Everything about the ICRC that one good packet shows, both checking it and making it.
fn check_icrc(packet: &Captured) {
    let Captured {
        flow,
        ip_id,
        udp_payload,
    } = packet;
    assert_eq!(flow.verify(udp_payload, *ip_id), Verdict::Exact);
    let unknown = if *ip_id == 0 {
        Verdict::Exact
    } else {
        Verdict::WithId(*ip_id)
    };
    assert_eq!(flow.verify(udp_payload, 0), unknown);
    if flow.is_v4() {
        assert_eq!(
            flow.verify(udp_payload, ip_id ^ 0x8421),
            Verdict::WithId(*ip_id)
        );
    }

    let parsed = Packet::parse(udp_payload).unwrap();
    let header = usize::from(parsed.info.header_len);
    let (covered, icrc) = udp_payload.split_last_chunk::<4>().unwrap();
    for pieces in [1, 3, 16, 1000] {
        let mut ours = flow.start(udp_payload.len(), *ip_id);
        ours.header(&covered[..header]);
        covered[header..]
            .chunks(pieces)
            .for_each(|piece| ours.payload(piece));
        assert_eq!(ours.finish(), *icrc);
    }

    // The byte of FECN and BECN may change on the way; no other bit may.
    for at in 0..udp_payload.len() {
        let mut changed = udp_payload.clone();
        changed[at] ^= 0x40;
        let verdict = flow.verify(&changed, *ip_id);
        assert_eq!(verdict == Verdict::Exact, at == 4, "byte {at}");
    }
}

fn check_headers(udp_payload: &[u8]) -> Packet<'_> {
    let packet = Packet::parse(udp_payload).unwrap();
    let header = Header {
        bth: packet.bth,
        ext: packet.ext,
    };
    let mut out = [0; ferroce_wire::MAX_HEADER];
    let n = header.emit(&mut out);
    assert_eq!(n, header.len());
    assert_eq!(out[..n], udp_payload[..n], "{}", packet.info.name);
    assert_eq!(
        n + packet.payload.len() + usize::from(packet.bth.pad) + 4,
        udp_payload.len()
    );
    packet
}

#[test]
fn rxe_packets_are_understood_as_tshark_does() {
    let mut seen = BTreeSet::new();
    for line in RXE.lines().filter(|l| !l.starts_with('#')) {
        let fields: HashMap<&str, &str> = line
            .split(' ')
            .map(|f| f.split_once('=').unwrap())
            .collect();

        let number = |name: &str| {
            fields
                .get(name)
                .map(|v| u64::from_str_radix(&v[2..], 16).unwrap())
        };
        let n32 = |name: &str| number(name).map(|v| v as u32);
        let packet = captured(&unhex(fields["ip"]));
        check_icrc(&packet);
        let Packet { bth, ext, info, .. } = check_headers(&packet.udp_payload);
        seen.insert((packet.flow.is_v4(), bth.opcode));

        assert_eq!(Some(u64::from(bth.opcode)), number("opcode"));
        assert_eq!(Some(u64::from(bth.solicited)), number("solicited"));
        assert_eq!(Some(u64::from(bth.migreq)), number("migreq"));
        assert_eq!(Some(u64::from(bth.pad)), number("pad"));
        assert_eq!(Some(u64::from(bth.pkey)), number("pkey"));
        assert_eq!(Some(u64::from(bth.ack_req)), number("ack_req"));
        assert_eq!(Some(bth.dest_qp), n32("dest_qp"));
        assert_eq!(Some(bth.psn), n32("psn"));
        assert!(!bth.fecn && !bth.becn && bth.tver == 0);
        if info.is_atomic() {
            let atomic = ext.atomic.unwrap();
            // tshark files an atomic's address and key under no name of its own: our generator's
            // buffer is page-aligned.
            assert_eq!(atomic.va & 0xfff, 0);
            if info.operation == opcode::Operation::CompareSwap {
                assert_eq!(
                    (atomic.swap_add, atomic.compare),
                    (0x1112_1314_1516_1718, 0x0102_0304_0506_0708)
                );
            } else {
                assert_eq!(atomic.swap_add, 0x0102_0304_0506_0708);
            }
        } else {
            let reth = number("va").map(|va| Reth {
                va,
                rkey: n32("rkey").unwrap(),
                len: n32("len").unwrap(),
            });
            assert_eq!(ext.reth, reth);
        }

        assert_eq!(
            ext.aeth,
            number("syndrome").map(|s| Aeth {
                syndrome: s as u8,
                msn: n32("msn").unwrap()
            }),
            "{}",
            info.name
        );

        assert_eq!(ext.imm, n32("imm").map(u32::to_be_bytes));
        assert_eq!(
            ext.deth,
            n32("qkey").map(|qkey| Deth {
                qkey,
                src_qp: n32("src_qp").unwrap()
            })
        );

        assert_eq!(ext.ieth, n32("ieth"));
        assert_eq!(ext.atomic_ack, number("original"));
        assert_eq!(ext.headers(), info.headers);
    }

    let spoken: Vec<u8> = opcode::all()
        .map(|i| i.opcode)
        .filter(|&o| o < 0x80 && o != opcode::RC_ATOMIC_WRITE && o != opcode::RC_FLUSH) // rdma_rxe has spoken these since Linux 6.2
        .collect();

    for v4 in [true, false] {
        assert!(
            spoken.iter().all(|&o| seen.contains(&(v4, o))),
            "every other RC, UC and UD opcode is among the vectors"
        );
    }
}

#[test]
fn rxe_syndromes() {
    let syndromes: BTreeSet<u8> = RXE
        .lines()
        .filter_map(|l| l.split(' ').find_map(|f| f.strip_prefix("syndrome=0x")))
        .map(|hex| u8::from_str_radix(hex, 16).unwrap())
        .collect();
    let kinds: Vec<Syndrome> = syndromes.into_iter().map(Syndrome::from_byte).collect();
    assert!(matches!(kinds[0], Syndrome::Ack(code) if code.count().is_none()));
    assert_eq!(
        kinds[1..],
        [
            Syndrome::RnrNak { timer: 12 },
            Syndrome::Nak(NakCode::PsnSequenceError),
            Syndrome::Nak(NakCode::RemoteAccessError),
            Syndrome::Nak(NakCode::RemoteOperationalError),
        ]
    );
}

#[test]
fn connectx_cnp() {
    // A congestion notification packet captured on a ConnectX-4 Lx, as kept in scapy's tests of its
    // RoCE layer. Identification 0x718c, source port 0, UDP checksum 0, TOS 0xc2, BECN set.
    let ip = unhex(concat!(
        "45c2003c718c4000401191610a0011010a001201",
        "000012b700280000",
        "8100ffff4000011800000000",
        "0000000000000000000000000000000000000000",
    ))[..56]
        .iter()
        .copied()
        .chain(unhex("82fd002a"))
        .collect::<Vec<u8>>();

    let packet = captured(&ip);
    assert_eq!(packet.ip_id, 0x718c);
    check_icrc(&packet);
    let parsed = check_headers(&packet.udp_payload);
    assert_eq!(parsed.info.opcode, opcode::CNP);
    assert!(parsed.bth.becn && !parsed.bth.fecn);
    assert_eq!((parsed.bth.dest_qp, parsed.bth.psn), (0x118, 0));
    assert_eq!(parsed.payload, [0; 16]);
    assert_eq!(parsed.ext, Ext::default());
}

#[test]
fn uc_send_example() {
    // The example UC packet of scapy's tests of its RoCE layer, whose ICRC is 78 f3 53 f3.
    let ip = unhex(concat!(
        "4501004004784000",
        "4011b4d5c0a80007c0a80007",
        "c00012b7002caca2",
        "2460ffff000000d300cf1710",
        "4630818be28935d90e9a95505401be885e500000",
        "78f353f3",
    ));

    let packet = captured(&ip);
    assert_eq!(packet.ip_id, 1144);
    check_icrc(&packet);
    let parsed = check_headers(&packet.udp_payload);
    assert_eq!(parsed.info.opcode, opcode::UC_SEND_ONLY);
    assert_eq!(
        (parsed.bth.dest_qp, parsed.bth.psn, parsed.bth.pad),
        (211, 13_571_856, 2)
    );

    assert!(parsed.bth.migreq);
    assert_eq!(parsed.payload.len(), 18);
}
