//! What holds for all headers and for all bytes.

use ferroce_wire::icrc::{Flow, Verdict};
use ferroce_wire::*;
use proptest::prelude::*;
use proptest::test_runner::FileFailurePersistence::WithSource;
use std::net::{Ipv4Addr, Ipv6Addr};

const U24: std::ops::RangeInclusive<u32> = 0..=0xff_ffff;

fn bth(opcode: u8, pad: u8) -> impl Strategy<Value = Bth> {
    let flags = any::<[bool; 7]>();
    (flags, any::<u16>(), U24, U24).prop_map(
        move |([solicited, migreq, fecn, becn, ack_req, selective, filled], pkey, dest_qp, psn)| {
            Bth {
                opcode,
                solicited,
                migreq,
                pad,
                tver: 0,
                pkey,
                fecn,
                becn,
                dest_qp,
                ack_req,
                selective,
                filled,
                psn,
            }
        },
    )
}

prop_compose! {
    fn ext(set: HeaderSet)(
        (va, rkey, len) in any::<(u64, u32, u32)>(),
        (syndrome, msn) in (any::<u8>(), U24),
        (swap_add, compare, atomic_ack) in any::<(u64, u64, u64)>(),
        (imm, ieth) in any::<([u8; 4], u32)>(),
        (qkey, src_qp, xrc) in (any::<u32>(), U24, U24),
        (placement, selectivity) in (0u8..16, 0u8..4),
    ) -> Ext {
        Ext {
            feth: set.contains(HeaderSet::FETH).then_some(Feth { placement, selectivity }),
            reth: set.contains(HeaderSet::RETH).then_some(Reth { va, rkey, len }),
            aeth: set.contains(HeaderSet::AETH).then_some(Aeth { syndrome, msn }),
            atomic: set.contains(HeaderSet::ATOMIC).then_some(AtomicEth { va, rkey, swap_add, compare }),
            atomic_ack: set.contains(HeaderSet::ATOMIC_ACK).then_some(atomic_ack),
            imm: set.contains(HeaderSet::IMM).then_some(imm),
            ieth: set.contains(HeaderSet::IETH).then_some(ieth),
            deth: set.contains(HeaderSet::DETH).then_some(Deth { qkey, src_qp }),
            xrceth: set.contains(HeaderSet::XRCETH).then_some(xrc),
        }
    }
}

/// Any opcode of the table with headers and a payload that go with it.
fn packet() -> impl Strategy<Value = (Header, Vec<u8>)> {
    let rows: Vec<_> = opcode::all().collect();
    proptest::sample::select(rows).prop_flat_map(|info| {
        let len = match info.payload {
            PayloadRule::None => (0..=0usize).boxed(),
            PayloadRule::Full => proptest::sample::select(vec![256, 512, 1024, 2048, 4096]).boxed(),
            PayloadRule::Some => (1..=600usize).boxed(),
            PayloadRule::Any => (0..=600usize).boxed(),
            PayloadRule::Word8 => Just(8usize).boxed(),
            PayloadRule::Words => (1..=64usize).prop_map(|words| 4 * words).boxed(),
            PayloadRule::Reserved16 => Just(16usize).boxed(),
        };

        len.prop_flat_map(move |len| {
            let header = (bth(info.opcode, Bth::pad_for(len)), ext(info.headers));
            (
                header.prop_map(|(bth, ext)| Header { bth, ext }),
                proptest::collection::vec(any::<u8>(), len),
            )
        })
    })
}

/// The header of a packet that can be filled, its payload, and the path MTU.
fn fillable() -> impl Strategy<Value = (Header, Vec<u8>, usize)> {
    let rows: Vec<_> = opcode::all()
        .filter(|row| row.filler != Filler::None)
        .collect();
    let mtu = proptest::sample::select(vec![256usize, 512, 1024, 2048, 4096]);
    (proptest::sample::select(rows), mtu).prop_flat_map(|(info, mtu)| {
        let header = (bth(info.opcode, 0), ext(info.headers)).prop_map(|(mut bth, ext)| {
            bth.filled = true;
            Header { bth, ext }
        });
        let len = match info.filler {
            Filler::Counted(_) => 1..=mtu,
            _ => mtu..=mtu,
        };
        let payload = len.prop_flat_map(|len| proptest::collection::vec(any::<u8>(), len));
        (header, payload, Just(mtu))
    })
}

fn flow() -> impl Strategy<Value = Flow> {
    let v4 = any::<(u32, u32, u16, u16)>().prop_map(|(src, dst, sport, dport)| {
        Flow::v4(Ipv4Addr::from(src), Ipv4Addr::from(dst), sport, dport)
    });
    let v6 = any::<(u128, u128, u16, u16)>().prop_map(|(src, dst, sport, dport)| {
        Flow::v6(Ipv6Addr::from(src), Ipv6Addr::from(dst), sport, dport)
    });
    prop_oneof![v4, v6]
}

fn datagram(header: &Header, payload: &[u8], flow: &Flow, ip_id: u16) -> Vec<u8> {
    let mut out = vec![0; header.len()];
    assert_eq!(header.emit(&mut out), out.len());
    let pad = &[0; 3][..usize::from(header.bth.pad)];
    let mut icrc = flow.start(out.len() + payload.len() + pad.len() + ICRC_LEN, ip_id);
    icrc.header(&out);
    icrc.payload(payload);
    icrc.payload(pad);
    out.extend_from_slice(payload);
    out.extend_from_slice(pad);
    out.extend_from_slice(&icrc.finish());
    out
}

proptest! {
    #![proptest_config(ProptestConfig::with_failure_persistence(WithSource("regressions")))]

    #[test]
    fn what_has_come_has_one_form(set in proptest::collection::btree_set(0..selective::REACH, 1..200)) {
        let mut came = selective::Came::default();
        set.iter().for_each(|offset| came.set(*offset));
        let bytes = came.as_bytes();
        let (len, last) = (bytes.len(), *set.last().expect("not empty"));
        prop_assert_eq!(len, (last as usize / 32 + 1) * 4);
        prop_assert_eq!(came.iter().collect::<std::collections::BTreeSet<_>>(), set);
        prop_assert_eq!(selective::Came::parse(bytes.into()), Some(came));
    }

    #[test]
    fn other_forms_of_what_has_come_are_refused(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
        match selective::Came::parse(bytes[..].into()) {
            Some(came) => prop_assert_eq!(came.as_bytes(), &bytes[..]),
            None => prop_assert!(
                bytes.is_empty() || bytes.len() > 256 || bytes.len() % 4 != 0
                    || bytes[bytes.len() - 4..] == [0; 4]
            ),
        }
    }

    #[test]
    fn what_is_emitted_parses_to_itself((header, payload) in packet(), flow in flow(), id: u16) {
        let bytes = datagram(&header, &payload, &flow, id);
        let parsed = Packet::parse(&bytes).unwrap();
        prop_assert_eq!(parsed.bth, header.bth);
        prop_assert_eq!(parsed.ext, header.ext);
        prop_assert_eq!(parsed.payload, &payload[..]);
        prop_assert_eq!(flow.verify(&bytes, id), Verdict::Exact);
    }

    #[test]
    fn what_fills_a_packet_is_not_its_content((header, payload, mtu) in fillable(), flow in flow(), id: u16) {
        let info = opcode::info(header.bth.opcode).unwrap();
        let payload = &payload[..];
        let len = mtu as i64 + i64::from(info.filler.shorter()) - payload.len() as i64;
        prop_assume!(len >= 4);
        let len = len as usize;
        prop_assert_eq!(header.around_len(len as u16), len);
        let mut count = [0xff; 4];
        let before = header.emit_count(len as u16, &mut count);
        let behind = vec![0; len - before];

        let bytes = datagram(&header, &[&count[..before], payload, &behind].concat(), &flow, id);
        let mut parsed = Packet::parse(&bytes).unwrap();
        prop_assert_eq!(parsed.filler(), len);
        prop_assert_eq!(parsed.content(), payload);
        let without = parsed.without_filler();
        prop_assert_eq!(without.payload, payload);
        prop_assert_eq!(without.bth.pad, Bth::pad_for(payload.len()));
        parsed.bth.filled = false;
        prop_assert_eq!(parsed.filler(), 0);
    }

    #[test]
    fn any_bytes_parse_or_are_refused(mut bytes in proptest::collection::vec(any::<u8>(), 0..200), known in 0usize..64, hint: u16) {
        let flow = Flow::v4(Ipv4Addr::LOCALHOST, Ipv4Addr::LOCALHOST, 50_000, ROCE_V2_PORT);
        if bytes.len() > 1 && known > 0 {
            // Mostly opcodes that get past the table.
            bytes[0] = opcode::all().nth(known).unwrap().opcode;
            bytes[1] &= 0xf0;
        }
        if let Ok(packet) = Packet::parse(&bytes) {
            prop_assert_eq!(packet.ext.headers(), packet.info.headers);
            prop_assert!(packet.payload.len() + bth::LEN + ICRC_LEN <= bytes.len());
        }
        let _ = flow.verify(&bytes, hint);
        let _ = Lrh::parse(&bytes);
        let _ = Grh::parse(&bytes);
    }

    #[test]
    fn the_identification_is_found((header, payload) in packet(), src: u32, dst: u32, id: u16, hint: u16) {
        let flow = Flow::v4(Ipv4Addr::from(src), Ipv4Addr::from(dst), 49_152, ROCE_V2_PORT);
        let bytes = datagram(&header, &payload, &flow, id);
        let expected = if id == hint { Verdict::Exact } else { Verdict::WithId(id) };
        prop_assert_eq!(flow.verify(&bytes, hint), expected);
    }

    /// A verdict names an Identification exactly when that one, put into the pseudo header, gives
    /// the ICRC received.
    #[test]
    fn the_verdict_is_what_trying_all_would_say((header, payload) in packet(), flow in flow(), id: u16, hint: u16, noise in prop_oneof![1 => Just(0u32), 2 => any::<u32>()]) {
        let mut bytes = datagram(&header, &payload, &flow, id);
        let end = bytes.len();
        for (byte, n) in bytes[end - 4..].iter_mut().zip(noise.to_le_bytes()) {
            *byte ^= n;
        }
        let explains = |id: u16| {
            let mut icrc = flow.start(end, id);
            let n = header.len();
            icrc.header(&bytes[..n]);
            icrc.payload(&bytes[n..end - 4]);
            icrc.finish() == bytes[end - 4..]
        };
        match flow.verify(&bytes, hint) {
            Verdict::Exact => prop_assert!(explains(hint)),
            Verdict::WithId(found) => prop_assert!(flow.is_v4() && found != hint && explains(found)),
            // One ICRC in 65,536 is explained by some Identification; these are not. A few hundred
            // samples stand for all.
            Verdict::Bad => prop_assert!((0..=u16::MAX).step_by(251).chain([id, hint, 0]).all(|id| !explains(id))),
        }
    }

    #[test]
    fn the_variant_byte_is_not_covered((header, payload) in packet(), flow in flow(), id: u16, byte: u8) {
        let mut bytes = datagram(&header, &payload, &flow, id);
        bytes[4] = byte;
        prop_assert_eq!(flow.verify(&bytes, id), Verdict::Exact);
    }

    #[test]
    fn lrh_and_grh(vl in 0u8..16, sl in 0u8..16, dlid: u16, slid: u16, words in 0u16..2048, class: u8, label in 0u32..1 << 20, len: u16, hop: u8, gids: [[u8; 16]; 2]) {
        for next in [lrh::NextHeader::Raw, lrh::NextHeader::Ipv6, lrh::NextHeader::Local, lrh::NextHeader::Global] {
            let header = Lrh { vl, version: 0, sl, next, dlid, words, slid };
            let mut out = [0xee; 9];
            prop_assert_eq!(header.emit(&mut out), lrh::LEN);
            prop_assert_eq!(Lrh::parse(&out), Some((header, &[0xee][..])));
        }
        let header = Grh { version: 6, traffic_class: class, flow_label: label, payload_len: len, next_header: grh::NEXT_BTH, hop_limit: hop, sgid: gids[0], dgid: gids[1] };
        let mut out = [0xee; 41];
        prop_assert_eq!(header.emit(&mut out), grh::LEN);
        prop_assert_eq!(Grh::parse(&out), Some((header, &[0xee][..])));
    }
}

#[test]
fn exactly_the_identifications_explain() {
    // Of a packet's 2^32 possible ICRCs those of the 65,536 Identifications are accepted, each
    // under its own name.
    let flow = Flow::v4(
        Ipv4Addr::new(10, 0, 0, 1),
        Ipv4Addr::new(10, 0, 0, 2),
        50_000,
        ROCE_V2_PORT,
    );

    let header = Header {
        bth: Bth {
            opcode: opcode::RC_SEND_ONLY,
            dest_qp: 9,
            ..Bth::default()
        },
        ext: Ext::default(),
    };

    let mut seen = std::collections::HashSet::new();
    for id in 0..=u16::MAX {
        let bytes = datagram(&header, b"sixteen letters.", &flow, id);
        let verdict = flow.verify(&bytes, 0);
        assert_eq!(
            verdict,
            if id == 0 {
                Verdict::Exact
            } else {
                Verdict::WithId(id)
            }
        );
        assert!(seen.insert(bytes[bytes.len() - 4..].to_vec()));
    }
}

#[test]
fn what_is_malformed_is_refused() {
    let header = |opcode: u8, pad: u8| {
        let mut out = vec![0; 64];
        let set = opcode::info(opcode).map_or(HeaderSet::empty(), |i| i.headers);
        let ext = Ext {
            aeth: set.contains(HeaderSet::AETH).then(Aeth::default),
            reth: set.contains(HeaderSet::RETH).then(Reth::default),
            ..Ext::default()
        };

        let n = Header {
            bth: Bth {
                opcode,
                pad,
                ..Bth::default()
            },
            ext,
        }
        .emit(&mut out);

        out.truncate(n);
        out
    };

    let with = |opcode: u8, pad: u8, rest: usize| {
        let mut bytes = header(opcode, pad);
        bytes.resize(bytes.len() + rest + ICRC_LEN, 0);
        Packet::parse(&bytes).map(|p| p.payload.len())
    };

    let payload = |opcode: u8| Err(ParseError::Payload(opcode::info(opcode).unwrap()));
    use opcode::*;

    assert_eq!(with(RC_SEND_ONLY, 0, 0), Ok(0));
    assert_eq!(with(RC_SEND_ONLY, 3, 8), Ok(5));
    assert_eq!(with(RC_SEND_ONLY, 3, 0), Err(ParseError::Truncated(16)));
    assert_eq!(with(RC_SEND_ONLY, 0, 7), payload(RC_SEND_ONLY));
    assert_eq!(with(RC_SEND_LAST, 3, 4), Ok(1));
    assert_eq!(with(RC_SEND_FIRST, 0, 256), Ok(256));

    // Lengths that do not fit their place are for the responder to refuse.
    assert_eq!(with(RC_SEND_LAST, 0, 0), Ok(0));
    assert_eq!(with(RC_SEND_FIRST, 1, 256), Ok(255));
    assert_eq!(with(RC_ATOMIC_WRITE, 0, 4), Ok(4));
    assert_eq!(with(RC_READ_REQUEST, 0, 4), payload(RC_READ_REQUEST));
    assert_eq!(with(RC_ACKNOWLEDGE, 0, 0), Ok(0));
    assert_eq!(with(RC_ACKNOWLEDGE, 0, 4), payload(RC_ACKNOWLEDGE));
    assert_eq!(with(CNP, 0, 12), payload(CNP));
    assert_eq!(
        with(0x15, 0, 0),
        Err(ParseError::Opcode(Bth {
            opcode: 0x15,
            ..Bth::default()
        }))
    );

    let mut version = header(RC_SEND_ONLY, 0);
    version[1] = 1;
    version.extend([0; 4]);
    assert_eq!(Packet::parse(&version).err(), Some(ParseError::Version(1)));
    for n in 0..16 {
        assert_eq!(
            Packet::parse(&version[..n]).err(),
            Some(ParseError::Truncated(n))
        );
    }
}

#[test]
fn a_single_wrong_bit_is_never_taken_for_an_identification() {
    let flow = Flow::v4(
        Ipv4Addr::new(10, 0, 0, 1),
        Ipv4Addr::new(10, 0, 0, 2),
        50_000,
        ROCE_V2_PORT,
    );

    let header = Header {
        bth: Bth {
            opcode: opcode::RC_SEND_MIDDLE,
            ..Bth::default()
        },
        ext: Ext::default(),
    };
    let mut bytes = datagram(&header, &[0x5a; 4096], &flow, 0);
    for bit in (0..bytes.len() * 8).filter(|bit| bit / 8 != 4) {
        bytes[bit / 8] ^= 1 << (bit % 8);
        assert_eq!(flow.verify(&bytes, 0), Verdict::Bad, "bit {bit}");
        bytes[bit / 8] ^= 1 << (bit % 8);
    }
}
