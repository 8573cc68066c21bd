//! Connections that come and go on a wire that loses nothing, also those whose ends take their
//! time.

mod pair;

use ferroce_fabric::cm::Time;
use ferroce_fabric::cm::*;
use ferroce_fabric::{Transport, reject};
use ferroce_wire::cm::{Message, attribute};
use pair::*;

#[test]
fn a_connection_comes_and_goes() {
    let mut p = Pair::new();
    let listener = p.cm[1].listen(SERVICE, !0).unwrap();
    assert_eq!(p.cm[1].state(listener), Some(State::Listening));
    let [a, b] = p.connected([0x10, 0x20]);
    assert_eq!(p.cm[0].state(a), Some(State::Established));
    assert_eq!(p.cm[1].state(b), Some(State::Established));

    // The RTU may have been lost: only the passive end has nothing more to do.
    assert_eq!(p.cm[1].next_timeout(), None);

    let rtr = p.cm[0].qp_rtr(a).unwrap();
    assert_eq!((rtr.dest_qpn, rtr.rq_psn), (0x20, 0x11_1111));
    assert_eq!((rtr.path_mtu, rtr.max_dest_rd_atomic), (3, 3));
    assert_eq!(rtr.av, av(1, 2));
    let rts = p.cm[0].qp_rts(a).unwrap();
    assert_eq!((rts.sq_psn, rts.max_rd_atomic), (0x22_2222, 5));
    assert_eq!((rts.retry_count, rts.rnr_retry, rts.timeout), (7, 4, 17));
    let rtr = p.cm[1].qp_rtr(b).unwrap();
    assert_eq!((rtr.dest_qpn, rtr.rq_psn), (0x10, 0x22_2222));
    assert_eq!(rtr.av.remote_gid, gid(1));
    let rts = p.cm[1].qp_rts(b).unwrap();
    assert_eq!((rts.sq_psn, rts.max_rd_atomic), (0x11_1111, 3));
    assert_eq!((rts.retry_count, rts.rnr_retry, rts.timeout), (7, 6, 17));

    p.cm[0].disconnect(p.now, a, b"bye", &mut p.out[0]).unwrap();
    p.deliver();
    match p.out[1].next() {
        (id, CmEvent::DisconnectRequest(dreq)) => {
            assert_eq!(id, b);
            assert_eq!(&dreq.private_data[..3], b"bye");
        }
        other => panic!("{other:?}"),
    }

    p.cm[1]
        .disconnect_reply(p.now, b, b"", &mut p.out[1])
        .unwrap();
    p.deliver();
    assert!(matches!(p.out[0].next(), (id, CmEvent::Disconnected(Some(_))) if id == a));
    while p.pass() {}
    assert!(matches!(p.out[0].next(), (id, CmEvent::TimewaitExit) if id == a));
    assert!(matches!(p.out[1].next(), (id, CmEvent::TimewaitExit) if id == b));
    p.cm[0].destroy(p.now, a, &mut p.out[0]).unwrap();
    p.cm[1].destroy(p.now, b, &mut p.out[1]).unwrap();
    assert!(p.cm[0].is_empty() && p.cm[1].is_empty());
    assert_eq!(
        p.cm[0].destroy(p.now, a, &mut p.out[0]),
        Err(CmError::NoSuchId)
    );

    assert!(p.out[0].sent.is_empty() && p.out[1].sent.is_empty());
}

#[test]
fn nobody_listens() {
    let mut p = Pair::new();
    let a = p.cm[0]
        .connect(Time::ZERO, &connect(SERVICE, path(1, 2), 1), &mut p.out[0])
        .unwrap();
    p.deliver();
    match p.out[0].next() {
        (id, CmEvent::Rejected(rej)) => {
            assert_eq!(id, a);
            assert_eq!(rej.reason, reject::INVALID_SERVICE_ID);
        }
        other => panic!("{other:?}"),
    }

    assert_eq!(p.cm[0].state(a), Some(State::Idle));
    assert!(p.cm[1].is_empty());
    p.cm[0].destroy(Time::ZERO, a, &mut p.out[0]).unwrap();
    assert!(p.cm[0].is_empty());
}

/// On a device that stretches timeouts the request is the same, byte for byte, and its answer may
/// take longer.
#[test]
fn a_stretched_answer_may_take_longer() {
    let [usual, stretched] = [1, 30].map(|stretch| {
        let mut p = Pair::stretched(stretch);
        let request = connect(SERVICE, path(1, 2), 1);
        p.cm[0]
            .connect(Time::ZERO, &request, &mut p.out[0])
            .unwrap();
        let (_, request) = p.out[0].sent.pop_front().unwrap();
        (request, p.cm[0].next_timeout().unwrap())
    });
    assert_eq!(stretched.0, usual.0);
    assert_eq!(stretched.1 - Time::ZERO, 30 * (usual.1 - Time::ZERO));
}

/// The same of a reply, whose sender waits as long as the peer says of itself.
#[test]
fn a_stretched_confirmation_may_take_longer() {
    let [usual, stretched] = [1, 30].map(|stretch| {
        let mut p = Pair::stretched(stretch);
        p.cm[1].listen(SERVICE, !0).unwrap();
        let (_, passive, _) = asked(&mut p, 1);
        p.cm[1]
            .accept(Time::ZERO, passive, &accept(2), &mut p.out[1])
            .unwrap();
        p.cm[1].next_timeout().unwrap()
    });
    assert_eq!(stretched - Time::ZERO, 30 * (usual - Time::ZERO));
}

#[test]
fn traffic_establishes_before_the_rtu() {
    let mut p = listening();
    let (a, b, _) = asked(&mut p, 1);
    assert_eq!(
        p.cm[1].communication_established(Time::ZERO, b, &mut p.out[1]),
        Err(CmError::WrongState)
    );

    p.cm[1]
        .accept(Time::ZERO, b, &accept(2), &mut p.out[1])
        .unwrap();
    p.deliver();
    p.out[0].events.clear();
    p.cm[1]
        .communication_established(Time::ZERO, b, &mut p.out[1])
        .unwrap();
    assert_eq!(p.out[1].next(), (b, CmEvent::Established(None)));
    p.cm[1]
        .communication_established(Time::ZERO, b, &mut p.out[1])
        .unwrap();
    p.cm[0]
        .establish(Time::ZERO, a, b"", &mut p.out[0])
        .unwrap();
    p.deliver();
    assert!(p.out[1].events.is_empty());
    assert_eq!(duplicates(&p, 1, attribute::RTU), 1);
}

#[test]
fn an_mra_gives_time() {
    let mut p = listening();
    let (a, b, _) = asked(&mut p, 1);
    let without = p.cm[0].next_timeout().unwrap();
    p.cm[1]
        .mra(Time::ZERO, b, 24, false, b"", &mut p.out[1])
        .unwrap();
    p.deliver();
    assert!(matches!(p.out[0].next(), (id, CmEvent::Acknowledged(_)) if id == a));
    assert_eq!(p.cm[0].state(a), Some(State::RequestAcknowledged));
    let with = p.cm[0].next_timeout().unwrap();
    assert!(
        with > without && with >= Time::from_nanos(4096 << 24),
        "{with:?} {without:?}"
    );

    // It is still accepted, and the other way around the same holds.
    p.cm[1]
        .accept(Time::ZERO, b, &accept(2), &mut p.out[1])
        .unwrap();
    p.deliver();
    p.out[0].events.clear();
    p.cm[0]
        .mra(Time::ZERO, a, 24, false, b"", &mut p.out[0])
        .unwrap();
    p.deliver();
    assert!(matches!(p.out[1].next(), (id, CmEvent::Acknowledged(_)) if id == b));
    assert!(p.cm[1].next_timeout().unwrap() >= Time::from_nanos(4096 << 24));
    p.cm[0]
        .establish(Time::ZERO, a, b"", &mut p.out[0])
        .unwrap();
    p.deliver();
    assert!(matches!(
        p.out[1].next(),
        (_, CmEvent::Established(Some(_)))
    ));
}

#[test]
fn nobody_answers() {
    let mut p = Pair::new();
    let a = p.cm[0]
        .connect(Time::ZERO, &connect(SERVICE, path(1, 2), 1), &mut p.out[0])
        .unwrap();
    let mut rounds = 0;
    while p.out[0].events.is_empty() {
        p.pass();
        rounds += 1;
    }

    assert_eq!(p.out[0].next(), (a, CmEvent::RequestTimedOut));
    assert_eq!(rounds, 16, "15 repetitions and the end");
    let sent = p.out[0].drain();
    assert_eq!(
        sent.iter().filter(|m| matches!(m, Message::Req(_))).count(),
        16
    );

    assert!(matches!(sent.last(), Some(Message::Rej(rej)) if rej.reason == reject::TIMEOUT));

    // (2 · 2^16 + 2^20) · 4.096 µs, sixteen times.
    assert_eq!(
        p.now,
        Time::from_nanos(16 * (2 * (4096 << 16) + (4096 << 20)))
    );

    assert_eq!(p.cm[0].counters().retried[0], 15);
}

#[test]
fn xrc_tells_its_qp_where_others_have_a_context() {
    let mut p = Pair::new();
    p.cm[1].listen(SERVICE, !0).unwrap();
    let request = Connect {
        transport: Transport::Xrc,
        ..connect(SERVICE, path(1, 2), 7)
    };
    let a = p.cm[0]
        .connect(Time::ZERO, &request, &mut p.out[0])
        .unwrap();
    p.deliver();
    let (b, event) = p.out[1].next();
    match event {
        CmEvent::Request { request, .. } => {
            assert_eq!(request.transport, Transport::Xrc);
            assert_eq!((request.responder_resources, request.retry_count), (0, 0));
        }
        other => panic!("{other:?}"),
    }

    p.cm[1]
        .accept(Time::ZERO, b, &accept(0x99), &mut p.out[1])
        .unwrap();
    p.deliver();
    match p.out[0].next() {
        (_, CmEvent::Reply(rep)) => {
            assert_eq!((rep.local_qpn, rep.local_eecn, rep.srq), (0, 0x99, true))
        }
        other => panic!("{other:?}"),
    }

    assert_eq!(p.cm[0].qp_rtr(a).unwrap().dest_qpn, 0x99);
}
