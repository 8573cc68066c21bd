//! Exchanges of agents in time that the tests make.

use std::time::{Duration, Instant};

use ferroce_cabi::umad::{ib_user_mad_hdr, ib_user_mad_hdr_old};
use ferroce_wire::mad;

use super::agents::{Agents, Registration};
use super::exchange::{Exchanges, Output};
use crate::mads::{Address, Incoming, Outgoing};

fn agents() -> (Agents, u32, u32) {
    let mut agents = Agents::default();
    let mut wants = Registration {
        port: 1,
        qpn: 1,
        class: 3,
        version: 2,
        oui: [0; 3],
        methods: 0,
        rmpp: 1,
        user_rmpp: false,
    };

    let client = agents.register(1, 0, wants.clone()).unwrap();
    wants.methods = 1 << 1 | 1 << 0x12;
    let server = agents.register(2, 5, wants).unwrap();
    (agents, client, server)
}

fn header(timeout_ms: u32, retries: u32) -> ib_user_mad_hdr {
    ib_user_mad_hdr {
        old: ib_user_mad_hdr_old {
            timeout_ms,
            retries,
            qpn: 1.into(),
            ..ib_user_mad_hdr_old::default()
        },
        ..ib_user_mad_hdr::default()
    }
}

fn request(method: u8, tid: u64) -> Vec<u8> {
    let mut mad = vec![0; mad::LEN];
    mad[..4].copy_from_slice(&[1, 3, 2, method]);
    mad[8..16].copy_from_slice(&tid.to_be_bytes());
    mad
}

/// As it comes at the other end, which is the same port.
fn arrives(out: Outgoing) -> Incoming {
    Incoming {
        port: 1,
        qpn: out.qpn,
        from: Address { qpn: 1, ..out.to },
        mad: out.mad,
    }
}

#[test]
fn a_request_is_repeated_and_given_up_with_its_header() {
    let (agents, client, _) = agents();
    let (mut exchanges, mut out) = (Exchanges::default(), Output::default());
    let mut now = Instant::now();
    let message = request(1, 7);
    // All of it comes back, also what no request needs.
    let written = ib_user_mad_hdr {
        old: ib_user_mad_hdr_old {
            id: 9,
            status: 8,
            length: 320,
            qkey: 0x8001_0000.into(),
            lid: 5.into(),
            gid: [7; 16],
            ..header(100, 2).old
        },
        pkey_index: 3,
        reserved: [6; 6],
    };
    exchanges
        .send(&agents, client, &written, &message, now, &mut out)
        .unwrap();

    for _ in 0..2 {
        assert_eq!(out.mads.len(), 1);
        // The upper half of the transaction ID is the agent's.
        let tid = u64::from(client) << 32 | 7;
        assert_eq!(out.mads[0].mad[8..16], tid.to_be_bytes());
        out.mads.clear();
        assert_eq!(
            exchanges.next_timeout(),
            Some(now + Duration::from_millis(100))
        );
        now += Duration::from_millis(100);
        exchanges.handle_timeout(&agents, now, &mut out);
    }

    out.mads.clear();
    assert!(out.deliveries.is_empty());
    exchanges.handle_timeout(&agents, now + Duration::from_millis(100), &mut out);
    assert!(out.mads.is_empty());
    assert_eq!(out.deliveries.len(), 1);
    let delivery = &out.deliveries[0];
    let mut given_back = written;
    (given_back.old.id, given_back.old.status) = (0, 110);
    assert_eq!((delivery.file, delivery.header), (1, given_back));
    assert_eq!(delivery.bytes.len(), mad::HEADER_LEN);
    assert_eq!(exchanges.next_timeout(), None);
}

#[test]
fn a_response_ends_its_request_and_others_go_nowhere() {
    let (agents, client, _) = agents();
    let (mut exchanges, mut out) = (Exchanges::default(), Output::default());
    let now = Instant::now();
    let message = request(1, 7);
    let send = |exchanges: &mut Exchanges, out: &mut Output| {
        exchanges.send(&agents, client, &header(100, 2), &message, now, out)
    };
    send(&mut exchanges, &mut out).unwrap();

    // The same again while the first is under way is a mistake.
    send(&mut exchanges, &mut out).unwrap_err();
    let mut incoming = arrives(out.mads.pop().unwrap());
    incoming.mad[3] = 0x81;
    incoming.mad[15] = 8;
    exchanges.receive(&agents, client, &incoming, now, &mut out);
    assert!(
        out.deliveries.is_empty(),
        "the response of another transaction"
    );

    incoming.mad[15] = 7;
    exchanges.receive(&agents, client, &incoming, now, &mut out);
    exchanges.receive(&agents, client, &incoming, now, &mut out);
    assert_eq!(out.deliveries.len(), 1);
    assert_eq!(out.deliveries[0].bytes, incoming.mad);
    assert_eq!(exchanges.next_timeout(), None);
}

#[test]
fn a_long_response_goes_in_segments_and_comes_whole() {
    let (agents, client, server) = agents();
    let (mut exchanges, mut out) = (Exchanges::default(), Output::default());
    let now = Instant::now();
    let message = request(0x12, 9);
    exchanges
        .send(&agents, client, &header(100, 2), &message, now, &mut out)
        .unwrap();
    let asked = arrives(out.mads.pop().unwrap());
    let mut response = asked.mad.to_vec();
    response[3] = 0x92;
    response[24..27].copy_from_slice(&[1, 1, 1]);
    response.truncate(56);
    response.extend((0..3000).map(|i| i as u8));
    exchanges
        .send(&agents, server, &header(0, 0), &response, now, &mut out)
        .unwrap();

    // Segments and acknowledgements go back and forth until all is over.
    let mut mads = 0;
    while let Some(mad) = out.mads.pop() {
        mads += 1;
        let incoming = arrives(mad);
        let owner = agents
            .owner(
                1,
                &mad::MadHeader::parse(&incoming.mad).unwrap(),
                &incoming.mad,
            )
            .unwrap();
        exchanges.receive(&agents, owner, &incoming, now, &mut out);
        // In order.
        out.mads.sort_by_key(|mad| std::cmp::Reverse(mad.mad[31]));
    }

    assert!(mads >= 16);
    assert_eq!(out.deliveries.len(), 1);
    let got = &out.deliveries[0];
    assert_eq!((got.file, got.bytes.len()), (1, response.len()));
    assert_eq!(got.bytes[56..], response[56..]);

    // Only the memory of the transfer is left, for repetitions.
    exchanges.handle_timeout(&agents, now + Duration::from_secs(60), &mut out);
    assert_eq!(exchanges.next_timeout(), None);
    assert_eq!(out.deliveries.len(), 1);
}

#[test]
fn responses_with_the_same_number_go_to_their_requesters() {
    let (agents, _, server) = agents();
    let (mut exchanges, mut out) = (Exchanges::default(), Output::default());
    let now = Instant::now();
    let mut response = request(0x92, 9);
    response[24..27].copy_from_slice(&[1, 1, 1]);
    response.resize(3000, 0);
    let to = |lid: u16, gid: Option<u8>| {
        let mut header = header(0, 0);
        header.old.lid = lid.into();
        header.old.grh_present = gid.is_some().into();
        header.old.gid[15] = gid.unwrap_or_default();
        header
    };

    // A LID, another, and two GIDs behind the first.
    let ends = [to(1, None), to(2, None), to(1, Some(1)), to(1, Some(2))];
    for header in &ends {
        exchanges
            .send(&agents, server, header, &response, now, &mut out)
            .unwrap();
        exchanges
            .send(&agents, server, header, &response, now, &mut out)
            .unwrap_err();
    }

    // One of them stops its own, and the others go on.
    let begun = std::mem::take(&mut out.mads);
    let mut stop = arrives(begun.into_iter().find(|mad| mad.to.lid == 2).unwrap());
    stop.mad[3] = 0x12;
    stop.mad[25] = 3;
    exchanges.receive(&agents, server, &stop, now, &mut out);
    for header in ends {
        let sent = exchanges.send(&agents, server, &header, &response, now, &mut out);
        assert_eq!(sent.is_ok(), header.old.lid.get() == 2);
    }
}

#[test]
fn messages_that_have_come_make_room_for_others() {
    let (agents, client, _) = agents();
    let (mut exchanges, mut out) = (Exchanges::default(), Output::default());
    let now = Instant::now();
    let (whole, begun) = (7, 3);
    let mut exchange = |tid: u32, flags| {
        let asked = request(0x12, tid.into());
        exchanges
            .send(&agents, client, &header(100, 0), &asked, now, &mut out)
            .unwrap();
        // A response of one segment, whole or the first of some.
        let mut incoming = arrives(out.mads.pop().unwrap());
        incoming.mad[3] = 0x92;
        incoming.mad[24..27].copy_from_slice(&[1, 1, flags]);
        (incoming.mad[31], incoming.mad[35]) = (1, 220);
        exchanges.receive(&agents, client, &incoming, now, &mut out);
        let got = (out.deliveries.len(), out.mads.len());
        out.deliveries.clear();
        out.mads.clear();
        got
    };

    // Many more in no time than are remembered: each is delivered and acknowledged.
    for tid in 0..1000 {
        assert_eq!(exchange(tid, whole), (1, 1), "{tid}");
    }

    // Messages on their way are never forgotten for others; there is an end to them.
    for tid in 1000..1256 {
        assert_eq!(exchange(tid, begun).0, 0);
    }
    assert_eq!(exchange(1256, whole), (0, 0));
}

#[test]
fn what_is_not_a_message_is_refused() {
    let (agents, client, _) = agents();
    let (mut exchanges, mut out) = (Exchanges::default(), Output::default());
    let now = Instant::now();
    let mut send =
        |message: &[u8]| exchanges.send(&agents, client, &header(0, 0), message, now, &mut out);
    send(&[0; 10]).unwrap_err();
    // Longer than a MAD, but not RMPP.
    send(&[1; 300]).unwrap_err();
    let mut long = request(0x92, 1);
    long.resize(300, 0);
    send(&long).unwrap_err();
    assert!(out.mads.is_empty());
}

/// A message in segments from a requester that awaits a response.
fn long_request(length: usize) -> Vec<u8> {
    let mut message = request(0x12, 9);
    message[24..27].copy_from_slice(&[1, 1, 1]);
    message.resize(length, 7);
    message
}

#[test]
fn retries_begin_anew_when_segments_are_acknowledged() {
    let (agents, client, server) = agents();
    let (mut exchanges, mut out) = (Exchanges::default(), Output::default());
    let mut now = Instant::now();
    let message = long_request(300_000);
    exchanges
        .send(&agents, client, &header(300, 3), &message, now, &mut out)
        .unwrap();

    // Each hundredth MAD is lost: more often than there are retries.
    let mut passed = 0;
    for _ in 0..100 {
        while !out.mads.is_empty() {
            for mad in std::mem::take(&mut out.mads) {
                passed += 1;
                if passed % 100 == 0 {
                    continue;
                }
                let incoming = arrives(mad);
                let answers = incoming.mad[25] == 2;
                let owner = if answers { client } else { server };
                exchanges.receive(&agents, owner, &incoming, now, &mut out);
            }
        }
        if out.deliveries.iter().any(|delivery| delivery.file == 2) {
            break;
        }
        assert!(out.deliveries.is_empty(), "given up");
        now += Duration::from_millis(300);
        exchanges.handle_timeout(&agents, now, &mut out);
    }

    assert!(passed > 400);
    assert_eq!(out.deliveries[0].bytes[56..], message[56..]);

    // Where nobody acknowledges anything there are three.
    let (mut exchanges, mut out) = (Exchanges::default(), Output::default());
    exchanges
        .send(&agents, client, &header(300, 3), &message, now, &mut out)
        .unwrap();
    for _ in 0..4 {
        assert_eq!((out.mads.len(), out.deliveries.len()), (1, 0));
        out.mads.clear();
        now += Duration::from_millis(300);
        exchanges.handle_timeout(&agents, now, &mut out);
    }
    assert_eq!((out.mads.len(), out.deliveries.len()), (0, 1));
}

#[test]
fn a_request_in_segments_without_response_comes_back_with_its_header() {
    let (agents, client, _) = agents();
    let mut now = Instant::now();
    let message = long_request(300);
    let mut written = message[..mad::HEADER_LEN].to_vec();
    written[8..12].copy_from_slice(&client.to_be_bytes());

    for acknowledged in [false, true] {
        let (mut exchanges, mut out) = (Exchanges::default(), Output::default());
        exchanges
            .send(&agents, client, &header(100, 0), &message, now, &mut out)
            .unwrap();
        if acknowledged {
            while let Some(segment) = out.mads.pop() {
                let mut ack = arrives(segment);
                ack.mad[3] ^= 0x80;
                ack.mad[25..27].copy_from_slice(&[2, 1]);
                ack.mad[32..36].copy_from_slice(&64u32.to_be_bytes());
                exchanges.receive(&agents, client, &ack, now, &mut out);
            }
        }
        now += Duration::from_millis(100);
        exchanges.handle_timeout(&agents, now, &mut out);
        assert_eq!(out.deliveries.len(), 1);
        assert_eq!(out.deliveries[0].bytes, written);
    }
}
