//! Floods and forgeries: what strangers can make the manager keep, send and believe.

mod pair;

use ferroce_fabric::cm::Time;
use ferroce_fabric::cm::*;
use ferroce_wire::cm::{Message, Req, attribute};
use pair::*;
use std::time::Duration;

const SECOND: Duration = Duration::from_secs(1);

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
    let requests = out.events.drain(..);
    requests
        .filter_map(|(id, event)| matches!(event, CmEvent::Request { .. }).then_some(id))
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

/// Of a flood that comes from several addresses and is for the same listener, all but one place go
/// to those who flood.
#[test]
fn one_request_is_not_crowded_out_by_many_of_several_peers() {
    for limits in [
        small(),
        Limits {
            half_open: 60,
            ..small()
        },
    ] {
        let mut p = Pair::with_limits(limits);
        p.cm[1].listen(SERVICE, !0).unwrap();
        let (_, modest, _) = asked(&mut p, 0x10_0000);
        for n in 0..1_000 {
            for peer in 3..9 {
                let flood = Message::Req(request(n)).emit(1);
                p.arrive(1, &av(peer, 2), &flood);
            }
        }
        p.out[1].events.clear();
        assert_eq!(p.cm[1].state(modest), Some(State::RequestReceived));
        let bound = limits.half_open.min(limits.half_open_of_listener);
        assert_eq!(p.cm[1].len(), bound);
    }
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

    // Nobody answers: all of it ends by itself, in minutes though the requests speak of hours, and
    // without a word.
    let begun = p.now;
    while p.pass() {
        assert!(p.out[1].sent.is_empty());
        for (id, event) in std::mem::take(&mut p.out[1].events) {
            if event == CmEvent::ReplyTimedOut {
                p.cm[1].destroy(p.now, id, &mut p.out[1]).unwrap();
            }
        }
    }

    let took = (p.now - begun).as_secs();
    assert!(p.cm[1].is_empty() && took < 400, "{took} s");
    assert!(p.cm[1].counters().withheld > 10 * u64::from(REQUESTS));
}

/// A stranger whose answer is lost asks again, and is answered again, as often as it asks.
#[test]
fn an_honest_stranger_is_answered_as_often_as_it_asks() {
    let mut p = listening();
    let (a, b, _) = asked(&mut p, 7);
    p.cm[1]
        .accept(Time::ZERO, b, &accept(8), &mut p.out[1])
        .unwrap();

    for _ in 0..5 {
        assert_eq!(p.out[1].sent.len(), 1);
        // The REP is lost.
        p.out[1].sent.clear();
        while p.out[0].sent.is_empty() {
            assert!(p.pass() && p.out[1].sent.is_empty());
        }
        p.step(0);
    }

    p.deliver();
    assert!(matches!(p.out[0].next(), (id, CmEvent::Reply(_)) if id == a));
}

/// A stranger that has accepted, whose RTU is lost.
fn unconfirmed() -> (Pair, [CmId; 2]) {
    let mut p = listening();
    let (a, b, _) = asked(&mut p, 7);
    p.cm[1]
        .accept(Time::ZERO, b, &accept(8), &mut p.out[1])
        .unwrap();
    p.deliver();
    p.out[0].events.clear();
    p.cm[0]
        .establish(Time::ZERO, a, b"", &mut p.out[0])
        .unwrap();
    p.out[0].sent.clear();
    (p, [a, b])
}

#[test]
fn a_stranger_says_again_that_it_is_ready() {
    let (mut p, [_, b]) = unconfirmed();
    while p.out[0].sent.is_empty() {
        assert!(p.pass() && p.out[1].sent.is_empty());
    }
    p.deliver();
    assert!(matches!(p.out[1].next(), (id, CmEvent::Established(Some(_))) if id == b));
    // It has no way to know that this has arrived, but it does not go on for ever.
    let rtu = |m: &Message| matches!(m, Message::Rtu(_));
    while p.pass() {}
    let again = p.out[0].drain();
    assert!(again.len() == 2 && again.iter().all(rtu), "{again:?}");
    assert!(p.out[0].events.is_empty() && p.out[1].sent.is_empty());
}

#[test]
fn requests_of_a_stranger_show_that_it_is_ready() {
    let (mut p, [a, b]) = unconfirmed();
    p.heard.extend([7, 8]);
    while p.pass() {
        assert!(p.out[0].sent.is_empty() && p.out[1].sent.is_empty());
    }
    assert_eq!(p.out[1].next(), (b, CmEvent::Established(None)));
    for (side, id) in [(0, a), (1, b)] {
        assert_eq!(p.cm[side].state(id), Some(State::Established));
    }

    // It is no stranger any more.
    let (_, b, _) = asked(&mut p, 9);
    p.cm[1]
        .accept(p.now, b, &accept(10), &mut p.out[1])
        .unwrap();
    p.out[1].sent.clear();
    p.out[0].sent.clear();
    while p.out[1].sent.is_empty() {
        assert!(p.pass());
    }
    assert!(matches!(p.out[1].drain()[..], [Message::Rep(_)]));
}

/// What was given up without a word is told as soon as the stranger shows itself, and until it
/// knows.
#[test]
fn a_stranger_learns_that_it_is_too_late() {
    let (mut p, [a, b]) = unconfirmed();
    let mut rtu = None;
    while p.out[1].events.is_empty() {
        rtu = p.out[0].sent.pop_front().or(rtu);
        assert!(p.pass() && p.out[1].sent.is_empty());
    }

    assert_eq!(p.out[1].next(), (b, CmEvent::ReplyTimedOut));
    p.cm[1].destroy(p.now, b, &mut p.out[1]).unwrap();
    assert!(p.out[1].sent.is_empty());

    // The last of its RTUs.
    let (to, rtu) = rtu.unwrap();
    p.arrive(1, &to, &rtu);
    for _ in 0..3 {
        assert!(matches!(p.out[1].drain()[..], [Message::Dreq(_)]));
        p.pass();
    }

    p.deliver();
    assert!(matches!(p.out[0].next(), (id, CmEvent::DisconnectRequest(_)) if id == a));
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

/// Whoever tries numbers of a QP may find one, and is not believed by the end that asked, either:
/// its peer has it still.
#[test]
fn numbers_of_queue_pairs_cannot_be_tried_out() {
    for found in [50, 0x0007_a123] {
        let mut p = listening();
        let [a, b] = p.connected([0x10, found]);
        for qpn in 0..1 << 19 {
            p.arrive(0, &av(2, 1), &Message::Req(stale(qpn)).emit(9));
            p.deliver();
            // A second of them.
            p.now += SECOND / (1 << 19);
        }

        while p.pass() {
            p.deliver();
        }
        for (side, id) in [(0, a), (1, b)] {
            assert_eq!(p.cm[side].state(id), Some(State::Established));
            assert!(p.out[side].events.is_empty(), "{:?}", p.out[side].events);
        }

        // It was asked, once only and until it could have answered, if the number was among those
        // that are looked at.
        let dreq = usize::from(attribute::DREQ - attribute::REQ);
        let asked = p.cm[0].counters().retried[dreq];
        assert_eq!(asked, if found == 50 { 4 } else { 0 });
    }
}

/// The end that asked for a connection takes it down when its peer says that it has none.
#[test]
fn a_peer_that_has_forgotten_is_believed() {
    let mut p = listening();
    let [a, _] = p.connected([0x10, 0x20]);
    // The peer starts anew.
    p.cm[1] = Pair::new().cm.into_iter().nth(1).unwrap();
    p.arrive(0, &av(2, 1), &Message::Req(stale(0x20)).emit(9));
    assert_eq!(p.cm[0].state(a), Some(State::Established));
    p.deliver();
    assert!(matches!(p.out[0].next(), (id, CmEvent::Disconnected(_)) if id == a));
}

/// A request in the name of side 1, with a QP that it may have in another connection.
fn stale(qpn: u32) -> Req {
    Req {
        ca_guid: 2,
        local_qpn: qpn,
        local_comm_id: qpn + 1,
        service_id: 0x0106_0001,
        ..request(0)
    }
}
