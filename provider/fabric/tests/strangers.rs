//! Floods and forgeries: what strangers can make the manager keep, send and believe.

mod pair;

use ferroce_fabric::cm::*;
use ferroce_wire::cm::{Message, Rej, Req, about, reject};
use pair::*;

const SECOND: Time = 1_000_000_000;

/// A request by the peer at 10.0.0.`from`, its `n`th.
fn request(n: u32) -> Req {
    Req {
        local_comm_id: n + 1,
        local_qpn: n & 0x00ff_ffff,
        ca_guid: 77,
        mtu: 3,
        service_id: SERVICE,
        local_response_timeout: 31,
        max_cm_retries: 15,
        ..Req::default()
    }
}

/// The ids of the requests that have come.
fn requests(out: &mut Out) -> Vec<CmId> {
    let came = out.events.drain(..);
    came.filter_map(|(id, event)| matches!(event, CmEvent::Request { .. }).then_some(id))
        .collect()
}

/// Connects to the listener that is flooded.
fn bystander(p: &mut Pair, n: u32) {
    let connect = connect(SERVICE, path(1, 2), 0x10_0000 + n);
    let a = p.cm[0].connect(p.now, &connect, &mut p.out[0]).unwrap();
    p.deliver();
    let b = requests(&mut p.out[1])[0];
    p.cm[1]
        .accept(p.now, b, &accept(0x20_0000 + n), &mut p.out[1])
        .unwrap();
    p.deliver();
    assert!(matches!(p.out[0].next(), (id, CmEvent::Reply(_)) if id == a));
    p.cm[0].establish(p.now, a, b"", &mut p.out[0]).unwrap();
    p.deliver();
    assert_eq!(p.cm[1].state(b), Some(State::Established));
    p.out[1].events.clear();
}

fn small() -> Limits {
    Limits {
        half_open: 100,
        half_open_of_peer: 40,
        half_open_of_listener: 70,
        ..Limits::default()
    }
}

#[test]
fn bystanders_connect_throughout_a_flood() {
    let mut p = Pair::with_limits(small());
    p.cm[1].listen(SERVICE, !0).unwrap();
    p.cm[1].listen(SERVICE + 1, !0).unwrap();
    for n in 0..2_000 {
        // From four peers to one listener, which accepts all; nobody goes on.
        for peer in 3..7 {
            let flood = Message::Req(request(n)).emit(1);
            p.arrive(1, &av(peer, 2), &flood);
        }
        for id in requests(&mut p.out[1]) {
            // The oldest may have gone already.
            let _ = p.cm[1].accept(p.now, id, &accept(n), &mut p.out[1]);
        }
        p.out[1].sent.clear();
        if n % 50 == 0 {
            bystander(&mut p, n);
        }
        p.now += SECOND / 1000;
    }
    assert!(p.cm[1].len() <= 100 + 40, "{}", p.cm[1].len());
    assert!(p.cm[1].counters().evicted > 7_000);
    assert_eq!(p.cm[1].counters().refused, 0);
}

#[test]
fn who_floods_pays() {
    let mut p = Pair::with_limits(small());
    p.cm[1].listen(SERVICE, !0).unwrap();
    let modest: Vec<CmId> = (0..20)
        .map(|n| {
            let (_, b, _) = asked(&mut p, 0x10_0000 + n);
            b
        })
        .collect();
    for n in 0..1_000 {
        let flood = Message::Req(request(n)).emit(1);
        p.arrive(1, &av(9, 2), &flood);
    }
    p.out[1].events.clear();
    for id in modest {
        assert_eq!(p.cm[1].state(id), Some(State::RequestReceived));
    }
    assert_eq!(p.cm[1].len(), 20 + 40);
}

#[test]
fn a_flood_is_not_made_larger() {
    let mut p = listening();
    let mut sent = 0;
    const REQUESTS: u32 = 4_000;
    for n in 0..REQUESTS {
        let flood = Message::Req(request(n)).emit(1);
        p.arrive(1, &av(9, 2), &flood);
        for id in requests(&mut p.out[1]) {
            p.cm[1]
                .accept(p.now, id, &accept(n), &mut p.out[1])
                .unwrap();
        }
        sent += p.out[1].sent.len();
        p.out[1].sent.clear();
    }
    assert_eq!(sent, REQUESTS as usize);
    // Nobody answers: all of it ends by itself, in minutes though the requests speak of hours.
    let begun = p.now;
    let mut later = 0;
    while p.pass() {
        later += p.out[1].sent.len();
        p.out[1].sent.clear();
        for (id, event) in std::mem::take(&mut p.out[1].events) {
            if event == CmEvent::ReplyTimedOut {
                p.cm[1].destroy(p.now, id, &mut p.out[1]).unwrap();
            }
        }
    }
    let took = (p.now - begun) / SECOND;
    assert!(p.cm[1].is_empty() && took < 400, "{took} s");
    // 256 at once, and 100 a second: nothing that grows with the flood.
    assert!((later as u64) < 256 + 100 * took, "{later} in {took} s");
    assert!(p.cm[1].counters().withheld > 10 * u64::from(REQUESTS));
}

#[test]
fn an_honest_stranger_gets_repetitions() {
    let mut p = listening();
    let (a, b, _) = asked(&mut p, 7);
    p.cm[1].accept(0, b, &accept(8), &mut p.out[1]).unwrap();
    // The REP is lost four times.
    while p.cm[1].counters().retried.iter().sum::<u64>() < 4 {
        p.out.iter_mut().for_each(|out| out.sent.clear());
        assert!(p.cm[1].state(b) == Some(State::ReplySent) && p.pass());
    }
    p.out[0].sent.clear();
    p.deliver();
    assert!(matches!(p.out[0].next(), (id, CmEvent::Reply(_)) if id == a));
}

/// Requests that name the QP of a connection, in the name of its peer, which has it still.
#[test]
fn a_forged_request_ends_no_connection() {
    let mut p = listening();
    let [a, b] = p.connected([0x10, 0x20]);
    let forged = Req {
        ca_guid: 1,
        local_qpn: 0x10,
        local_comm_id: 0x7777,
        ..request(0)
    };
    for _ in 0..50 {
        p.arrive(1, &av(1, 2), &Message::Req(forged).emit(9));
        p.deliver();
        p.pass();
    }
    for (side, id) in [(0, a), (1, b)] {
        assert_eq!(p.cm[side].state(id), Some(State::Established));
        assert!(p.out[side].events.is_empty(), "{:?}", p.out[side].events);
    }
    // A peer that says nothing at all has forgotten it.
    p.arrive(1, &av(1, 2), &Message::Req(forged).emit(9));
    while p.out[1].events.is_empty() {
        p.out[1].sent.clear();
        assert!(p.pass());
    }
    assert!(matches!(p.out[1].next(), (id, CmEvent::Disconnected(None)) if id == b));
}

/// Whoever tries all numbers of a QP is not believed by the end that has no question to put, either.
#[test]
fn numbers_of_queue_pairs_cannot_be_tried_out() {
    let mut p = listening();
    let [a, _] = p.connected([0x10, 0x0007_a123]);
    for qpn in 0..1 << 19 {
        let guess = Req {
            ca_guid: 2,
            local_qpn: qpn,
            local_comm_id: qpn,
            service_id: 0x0106_0001,
            ..request(0)
        };
        p.arrive(0, &av(2, 1), &Message::Req(guess).emit(9));
        p.out[0].sent.clear();
        // A second of them.
        p.now += SECOND >> 19;
    }
    assert_eq!(p.cm[0].state(a), Some(State::Established));
    assert!(p.out[0].events.is_empty());
    // Of one that asks seldom, it is believed.
    p.now += 20 * SECOND;
    let stale = Req {
        ca_guid: 2,
        local_qpn: 0x0007_a123,
        ..request(0)
    };
    p.arrive(0, &av(2, 1), &Message::Req(stale).emit(9));
    let stale = |m: &Message| {
        matches!(
            m,
            Message::Rej(Rej {
                message: about::REQ,
                reason: reject::STALE_CONNECTION,
                ..
            })
        )
    };
    assert!(p.out[0].drain().iter().any(stale));
    assert_eq!(p.cm[0].state(a), Some(State::DisconnectSent));
}
