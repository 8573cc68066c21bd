//! Repetitions, stale connections, messages for nobody, both ends at once.

mod pair;

use ferroce_fabric::cm::Time;
use ferroce_fabric::cm::*;
use ferroce_fabric::reject;
use ferroce_wire::cm::{Apr, Dreq, Lap, Message, Rej, Rtu, about, apr_status, attribute};
use pair::*;

#[test]
fn a_repeated_request_gets_the_same_answer() {
    let mut p = listening();
    let (_, b, req) = asked(&mut p, 1);
    // Nobody has decided yet: nothing to say.
    p.arrive(1, &av(1, 2), &req[..]);
    assert!(p.out[1].sent.is_empty() && p.out[1].events.is_empty());
    // After an MRA: the MRA. After the REP: the REP.
    p.cm[1]
        .mra(Time::ZERO, b, 20, false, b"wait", &mut p.out[1])
        .unwrap();
    let mra = p.out[1].sent.pop_front().unwrap().1;
    p.arrive(1, &av(1, 2), &req[..]);
    assert_eq!(p.out[1].sent.pop_front().unwrap().1, mra);
    p.cm[1]
        .accept(Time::ZERO, b, &accept(2), &mut p.out[1])
        .unwrap();
    let rep = p.out[1].sent.pop_front().unwrap().1;
    p.arrive(1, &av(1, 2), &req[..]);
    assert_eq!(p.out[1].sent.pop_front().unwrap().1, rep);
    assert_eq!(duplicates(&p, 1, attribute::REQ), 3);

    // After a refusal: the refusal, though the ID is long gone.
    let (_, b, req) = asked(&mut p, 3);
    p.cm[1]
        .reject(
            Time::ZERO,
            b,
            reject::CONSUMER_DEFINED,
            b"",
            b"no",
            &mut p.out[1],
        )
        .unwrap();
    let rej = p.out[1].sent.pop_front().unwrap().1;
    p.cm[1].destroy(Time::ZERO, b, &mut p.out[1]).unwrap();
    p.arrive(1, &av(1, 2), &req[..]);
    assert_eq!(p.out[1].sent.pop_front().unwrap().1, rej);
    assert!(p.out[1].sent.is_empty() && p.out[1].events.is_empty());
}

#[test]
fn a_forgotten_request_is_new_when_it_is_repeated() {
    let mut p = listening();
    let (a, b, req) = asked(&mut p, 1);
    assert_eq!(p.cm[0].forget(a), Err(CmError::WrongState));
    p.cm[1].forget(b).unwrap();
    assert_eq!(p.cm[1].forget(b), Err(CmError::NoSuchId));
    assert!(p.cm[1].is_empty() && p.out[1].sent.is_empty());
    p.arrive(1, &av(1, 2), &req[..]);
    let (again, event) = p.out[1].next();
    assert!(again != b && matches!(event, CmEvent::Request { .. }));
    assert_eq!(duplicates(&p, 1, attribute::REQ), 0);
}

#[test]
fn a_repeated_reply_gets_the_same_answer() {
    let mut p = listening();
    let (a, b, _) = asked(&mut p, 1);
    p.cm[1]
        .accept(Time::ZERO, b, &accept(2), &mut p.out[1])
        .unwrap();
    let (to, rep) = p.out[1].sent[0];
    p.deliver();
    assert!(matches!(p.out[0].next(), (_, CmEvent::Reply(_))));
    p.arrive(0, &to, &rep);
    assert!(p.out[0].sent.is_empty() && p.out[0].events.is_empty());
    p.cm[0]
        .establish(Time::ZERO, a, b"ready", &mut p.out[0])
        .unwrap();
    let rtu = p.out[0].sent.pop_front().unwrap().1;
    p.arrive(0, &to, &rep);
    assert_eq!(p.out[0].sent.pop_front().unwrap().1, rtu);
    assert_eq!(duplicates(&p, 0, attribute::REP), 2);
    // A REJ that was lost.
    let (a, b, _) = asked(&mut p, 3);
    p.cm[1]
        .accept(Time::ZERO, b, &accept(4), &mut p.out[1])
        .unwrap();
    let (to, rep) = p.out[1].sent[0];
    p.deliver();
    p.out[0].events.clear();
    p.cm[0].destroy(Time::ZERO, a, &mut p.out[0]).unwrap();
    let rej = p.out[0].sent.pop_front().unwrap().1;
    p.arrive(0, &to, &rep);
    assert_eq!(p.out[0].sent.pop_front().unwrap().1, rej);
}

#[test]
fn a_reply_is_repeated_until_there_is_an_answer() {
    let mut p = listening();
    // A peer that has answered once.
    p.connected([5, 6]);
    let (_, b, _) = asked(&mut p, 1);
    p.cm[1]
        .accept(Time::ZERO, b, &accept(2), &mut p.out[1])
        .unwrap();
    let mut messages = Vec::new();
    while !p.out[1]
        .events
        .iter()
        .any(|(_, e)| *e == CmEvent::ReplyTimedOut)
    {
        p.time_out(1);
        p.now = p.now.max(p.cm[1].next_timeout().unwrap());
        messages.extend(p.out[1].drain());
    }
    let reps = messages
        .iter()
        .filter(|m| matches!(m, Message::Rep(_)))
        .count();
    assert_eq!(reps, 16);
    assert!(matches!(messages.last(), Some(Message::Rej(r)) if r.reason == reject::TIMEOUT));
    // In case that somebody took the REP for good, a DREQ follows, and is answered by whoever is
    // there.
    p.time_out(1);
    assert!(matches!(p.out[1].drain()[..], [Message::Dreq(_)]));
}

#[test]
fn a_peer_that_forgot_its_connection_is_believed() {
    let mut p = listening();
    let [_, old] = p.connected([0x10, 0x20]);
    // The peer starts again, and uses the QP again.
    p.cm[0] = Cm::new(CmConfig {
        ca_guid: 1,
        ack_delay: 15,
        seed: [9; 32],
        limits: Limits::default(),
        stretch: 1,
    });
    p.cm[0]
        .connect(
            Time::ZERO,
            &connect(SERVICE, path(1, 2), 0x10),
            &mut p.out[0],
        )
        .unwrap();
    p.deliver();
    match p.out[0].next() {
        (_, CmEvent::Rejected(rej)) => assert_eq!(rej.reason, reject::STALE_CONNECTION),
        other => panic!("{other:?}"),
    }
    // The old connection was taken down: its DREQ was answered by a manager that does not know it.
    assert!(matches!(p.out[1].next(), (id, CmEvent::Disconnected(Some(_))) if id == old));
    p.connected([0x10, 0x21]);
}

#[test]
fn a_request_that_was_never_accepted_becomes_stale_too() {
    let mut p = listening();
    let (a, b, _) = asked(&mut p, 0x10);
    p.cm[0].destroy(Time::ZERO, a, &mut p.out[0]).unwrap();
    p.out[0].sent.clear(); // the REJ is lost
    p.cm[0]
        .connect(
            Time::ZERO,
            &connect(SERVICE, path(1, 2), 0x10),
            &mut p.out[0],
        )
        .unwrap();
    p.deliver();
    assert!(
        matches!(p.out[0].next(), (_, CmEvent::Rejected(rej)) if rej.reason == reject::STALE_CONNECTION)
    );
    assert!(matches!(p.out[1].next(), (id, CmEvent::Rejected(_)) if id == b));
    asked(&mut p, 0x10);
}

/// A QP of a peer's may be at one end of one connection, whichever end that is.
#[test]
fn a_qp_that_asked_cannot_answer_for_another_connection() {
    let mut p = listening();
    p.cm[0].listen(SERVICE, !0).unwrap();
    p.connected([0x10, 0x20]);
    let ask = connect(SERVICE, path(2, 1), 0x21);
    let active = p.cm[1].connect(Time::ZERO, &ask, &mut p.out[1]).unwrap();
    p.deliver();
    let (passive, _) = p.out[0].next();
    p.cm[0]
        .accept(Time::ZERO, passive, &accept(0x10), &mut p.out[0])
        .unwrap();
    p.deliver();
    assert!(
        matches!(p.out[1].next(), (id, CmEvent::Rejected(rej)) if id == active && rej.reason == reject::STALE_CONNECTION)
    );
}

/// A manager at both ends: what it has sent arrives at itself.
fn deliver_to_itself(cm: &mut Cm, out: &mut Out) {
    while let Some((to, mad)) = out.sent.pop_front() {
        cm.receive(Time::ZERO, &to, &mad, out);
    }
}

fn alone() -> (Cm, Out) {
    let p = listening();
    let [_, cm] = p.cm;
    (cm, Out::default())
}

/// Programs invent such numbers when they measure connection management and nothing else: each end
/// counts from the same one on.
#[test]
fn the_ends_of_one_device_may_have_the_same_qp_numbers() {
    let (mut cm, mut out) = alone();
    for qpn in 1000..1100 {
        let ask = connect(SERVICE, path(2, 2), qpn);
        cm.connect(Time::ZERO, &ask, &mut out).unwrap();
    }
    deliver_to_itself(&mut cm, &mut out);
    let mut established = 0;
    // The last request is answered first, so none is answered with its own number.
    let mut free = (1000..1100).rev();
    while let Some((id, event)) = out.events.pop_front() {
        match event {
            CmEvent::Request { .. } => {
                let qpn = free.next().unwrap();
                cm.accept(Time::ZERO, id, &accept(qpn), &mut out).unwrap();
            }
            CmEvent::Reply(_) => cm.establish(Time::ZERO, id, b"", &mut out).unwrap(),
            CmEvent::Established(_) => established += 1,
            other => panic!("{other:?}"),
        }
        deliver_to_itself(&mut cm, &mut out);
    }
    assert_eq!(established, 100);
}

#[test]
fn a_qp_asks_for_one_connection_on_one_device_too() {
    let (mut cm, mut out) = alone();
    for _ in 0..2 {
        let ask = connect(SERVICE, path(2, 2), 1000);
        cm.connect(Time::ZERO, &ask, &mut out).unwrap();
    }
    deliver_to_itself(&mut cm, &mut out);
    let rejected = |(_, event): &(CmId, CmEvent)| matches!(event, CmEvent::Rejected(rej) if rej.reason == reject::STALE_CONNECTION);
    assert!(out.events.iter().any(rejected), "{:?}", out.events);
}

#[test]
fn messages_for_nobody_are_answered_where_somebody_waits() {
    let mut p = Pair::new();
    let answer = |p: &mut Pair, message: Message| {
        p.arrive(1, &av(1, 2), &message.emit(0x77));
        let answer = p.out[1].drain();
        assert!(p.out[1].events.is_empty() && p.cm[1].is_empty());
        answer
    };

    let dreq = Message::Dreq(Dreq {
        local_comm_id: 5,
        remote_comm_id: 6,
        remote_qpn: 7,
        ..Dreq::default()
    });

    match answer(&mut p, dreq)[..] {
        [Message::Drep(drep)] => assert_eq!((drep.local_comm_id, drep.remote_comm_id), (6, 5)),
        ref other => panic!("{other:?}"),
    }

    let lap = Message::Lap(Lap {
        local_comm_id: 5,
        remote_comm_id: 6,
        ..Lap::default()
    });

    match answer(&mut p, lap)[..] {
        [Message::Apr(apr)] => assert_eq!(apr.status, apr_status::INVALID_COMM_ID),
        ref other => panic!("{other:?}"),
    }

    let pairs = [
        (Message::Rep(Default::default()), about::REP),
        (Message::Rtu(Rtu::default()), about::OTHER),
    ];

    for (message, which) in pairs {
        match answer(&mut p, message)[..] {
            [Message::Rej(rej)] => {
                assert_eq!((rej.reason, rej.message), (reject::INVALID_COMM_ID, which));
            }
            ref other => panic!("{other:?}"),
        }
    }

    // Answers are not answered: two managers could go on for ever.
    for message in [
        Message::Rej(Rej::default()),
        Message::Mra(Default::default()),
        Message::Drep(Default::default()),
        Message::Apr(Apr::default()),
        Message::SidrRep(Default::default()),
    ] {
        assert_eq!(answer(&mut p, message), []);
    }
}

#[test]
fn alternate_paths_are_not_supported() {
    let mut p = listening();
    let [a, b] = p.connected([1, 2]);
    // Both IDs are known only from the wire: ask for them by a DREQ that is not delivered.
    p.cm[0]
        .disconnect(Time::ZERO, a, b"", &mut p.out[0])
        .unwrap();
    let Message::Dreq(dreq) = p.out[0].drain()[0] else {
        panic!()
    };
    let lap = Lap {
        local_comm_id: dreq.local_comm_id,
        remote_comm_id: dreq.remote_comm_id,
        remote_qpn: 2,
        ..Lap::default()
    };
    p.arrive(1, &av(1, 2), &Message::Lap(lap).emit(1));
    match p.out[1].drain()[..] {
        [Message::Apr(apr)] => assert_eq!(apr.status, apr_status::UNSUPPORTED),
        ref other => panic!("{other:?}"),
    }
    assert_eq!(p.cm[1].state(b), Some(State::Established));
}

#[test]
fn both_connect_at_once_and_both_are_refused() {
    let mut p = Pair::new();
    for side in 0..2 {
        let path = path(1 + side as u8, 2 - side as u8);
        p.cm[side]
            .connect(Time::ZERO, &connect(SERVICE, path, 1), &mut p.out[side])
            .unwrap();
    }
    p.deliver();
    for out in &mut p.out {
        assert!(
            matches!(out.next(), (_, CmEvent::Rejected(rej)) if rej.reason == reject::INVALID_SERVICE_ID)
        );
    }
}

#[test]
fn both_disconnect_at_once() {
    let mut p = listening();
    let [a, b] = p.connected([1, 2]);
    p.cm[0]
        .disconnect(Time::ZERO, a, b"", &mut p.out[0])
        .unwrap();
    p.cm[1]
        .disconnect(Time::ZERO, b, b"", &mut p.out[1])
        .unwrap();
    p.deliver();
    for (side, id) in [(0, a), (1, b)] {
        assert!(matches!(
            p.out[side].next(),
            (_, CmEvent::DisconnectRequest(_))
        ));
        assert_eq!(p.cm[side].state(id), Some(State::DisconnectReceived));
        p.cm[side]
            .disconnect_reply(Time::ZERO, id, b"", &mut p.out[side])
            .unwrap();
    }
    p.deliver();
    for (side, id) in [(0, a), (1, b)] {
        assert_eq!(p.cm[side].state(id), Some(State::Timewait));
    }
}

#[test]
fn a_repeated_dreq_is_answered_in_timewait() {
    let mut p = listening();
    let [a, b] = p.connected([1, 2]);
    p.cm[0]
        .disconnect(Time::ZERO, a, b"", &mut p.out[0])
        .unwrap();
    let (to, dreq) = p.out[0].sent[0];
    p.deliver();
    p.cm[1].destroy(Time::ZERO, b, &mut p.out[1]).unwrap();
    assert!(matches!(p.out[1].drain()[..], [Message::Drep(_)]));
    p.arrive(1, &to, &dreq);
    assert!(matches!(p.out[1].drain()[..], [Message::Drep(_)]));
    assert_eq!(duplicates(&p, 1, attribute::DREQ), 1);
}
