//! What is refused: requests and calls that make no sense, and more than there may be.

mod pair;

use ferroce_fabric::cm::Time;
use ferroce_fabric::cm::*;
use ferroce_fabric::reject;
use ferroce_wire::cm::{Message, Req, SidrReq};
use pair::*;

#[test]
fn what_is_asked_for_must_make_sense() {
    let mut p = listening();
    let good = Req {
        mtu: 3,
        service_id: SERVICE,
        local_comm_id: 9,
        ..Req::default()
    };

    let mut expect = |mad: [u8; 256], reason| {
        p.arrive(1, &av(1, 2), &mad);
        match p.out[1].drain()[..] {
            [Message::Rej(rej)] => {
                assert_eq!(
                    (rej.reason, rej.remote_comm_id, rej.local_comm_id),
                    (reason, 9, 0)
                );
            }
            ref other => panic!("{other:?}"),
        }
        assert!(p.cm[1].is_empty() && p.out[1].events.is_empty());
    };

    expect(
        Message::Req(Req { mtu: 0, ..good }).emit(1),
        reject::INVALID_MTU,
    );

    expect(
        Message::Req(Req { mtu: 6, ..good }).emit(1),
        reject::INVALID_MTU,
    );

    let transport = ferroce_fabric::Transport::Rd;
    expect(
        Message::Req(Req { transport, ..good }).emit(1),
        reject::INVALID_TRANSPORT,
    );

    let mut mad = Message::Req(good).emit(1);
    mad[24 + 43] |= 6; // an extended service, of type 0
    expect(mad, reject::INVALID_TRANSPORT);
    let mut mad = Message::Req(good).emit(1);
    mad[2] = 3;
    expect(mad, reject::INVALID_CLASS_VERSION);
}

#[test]
fn listeners_do_not_overlap() {
    let mut cm = Pair::new().cm.into_iter().next().unwrap();
    let exact = cm.listen(0x0106_0001, !0).unwrap();
    assert_eq!(cm.listen(0x0106_0001, !0), Err(CmError::InUse));
    assert_eq!(cm.listen(0x0106_0000, !0xffff), Err(CmError::InUse));
    let masked = cm.listen(0x0111_0000, !0xffff).unwrap();
    assert_eq!(cm.listen(0x0111_0005, !0), Err(CmError::InUse));
    let mut out = Out::default();
    cm.destroy(Time::ZERO, exact, &mut out).unwrap();
    cm.destroy(Time::ZERO, masked, &mut out).unwrap();
    assert_eq!(cm.state(exact), None);
    cm.listen(0x0106_0000, !0xffff).unwrap();
    cm.listen(0x0111_0005, !0).unwrap();
}

#[test]
fn limits_hold() {
    let limits = Limits {
        connections: 20,
        half_open: 5,
        listeners: 1,
        ..Limits::default()
    };
    let mut p = Pair::with_limits(limits);
    p.cm[1].listen(SERVICE, !0).unwrap();
    assert_eq!(p.cm[1].listen(SERVICE + 1, !0), Err(CmError::Limit));

    // A flood of requests and of questions.
    for n in 0..100 {
        let req = Req {
            local_comm_id: n,
            local_qpn: n,
            mtu: 3,
            service_id: SERVICE,
            ..Req::default()
        };
        p.arrive(1, &av(1, 2), &Message::Req(req).emit(1));
        let question = SidrReq {
            request_id: n,
            service_id: SERVICE,
            ..SidrReq::default()
        };
        p.arrive(1, &av(1, 2), &Message::SidrReq(question).emit(1));
    }

    // The newest are there, and nobody was answered.
    assert_eq!(p.cm[1].len(), 5);
    assert_eq!(p.cm[1].counters().evicted, 195);
    assert!(p.out[1].sent.is_empty());
    let requests = p.out[1]
        .events
        .iter()
        .rev()
        .find_map(|(id, event)| matches!(event, CmEvent::Request { .. }).then_some(*id));

    assert_eq!(
        p.cm[1].state(requests.unwrap()),
        Some(State::RequestReceived)
    );

    // What is over makes room; what is not, does not.
    let mut p = Pair::with_limits(limits);
    p.cm[1].listen(SERVICE, !0).unwrap();
    for n in 0..100 {
        let (a, b, _) = asked(&mut p, n);
        p.cm[1].destroy(Time::ZERO, b, &mut p.out[1]).unwrap();
        p.deliver();
        p.cm[0].destroy(Time::ZERO, a, &mut p.out[0]).unwrap();
        p.out[0].events.clear();
    }

    for n in 0..20 {
        p.connected([200 + n, 300 + n]);
    }
    assert_eq!(
        p.cm[0].connect(Time::ZERO, &connect(SERVICE, path(1, 2), 1), &mut p.out[0]),
        Err(CmError::Limit)
    );

    assert_eq!((p.cm[0].len(), p.cm[1].len()), (20, 20));
}

#[test]
fn bad_parameters_change_nothing() {
    let mut p = Pair::new();
    let good = connect(SERVICE, path(1, 2), 1);
    let long = [0; 93];
    let bad = [
        (
            Connect {
                private_data: &long,
                ..good
            },
            CmError::TooLong,
        ),
        (
            Connect {
                qpn: 1 << 24,
                ..good
            },
            CmError::BadParameter,
        ),
        (
            Connect {
                starting_psn: 1 << 24,
                ..good
            },
            CmError::BadParameter,
        ),
        (
            Connect {
                retry_count: 8,
                ..good
            },
            CmError::BadParameter,
        ),
        (
            Connect {
                rnr_retry_count: 8,
                ..good
            },
            CmError::BadParameter,
        ),
        (
            Connect {
                max_cm_retries: 16,
                ..good
            },
            CmError::BadParameter,
        ),
        (
            Connect {
                local_response_timeout: 32,
                ..good
            },
            CmError::BadParameter,
        ),
        (
            Connect {
                path: Path {
                    mtu: 0,
                    ..path(1, 2)
                },
                ..good
            },
            CmError::BadParameter,
        ),
    ];

    for (connect, error) in bad {
        assert_eq!(
            p.cm[0].connect(Time::ZERO, &connect, &mut p.out[0]),
            Err(error)
        );
    }

    assert!(p.cm[0].is_empty() && p.out[0].sent.is_empty());
}

#[test]
fn calls_in_the_wrong_state_change_nothing() {
    let mut p = listening();
    let [a, b] = p.connected([1, 2]);
    for (side, id) in [(0, a), (1, b)] {
        let (cm, out) = (&mut p.cm[side], &mut p.out[side]);
        assert_eq!(
            cm.accept(Time::ZERO, id, &accept(1), out),
            Err(CmError::WrongState)
        );

        assert_eq!(
            cm.establish(Time::ZERO, id, b"", out),
            Err(CmError::WrongState)
        );

        assert_eq!(
            cm.reject(Time::ZERO, id, 28, b"", b"", out),
            Err(CmError::WrongState)
        );

        assert_eq!(
            cm.mra(Time::ZERO, id, 1, false, b"", out),
            Err(CmError::WrongState)
        );

        assert_eq!(
            cm.disconnect_reply(Time::ZERO, id, b"", out),
            Err(CmError::WrongState)
        );

        let reply = ResolveReply::default();
        assert_eq!(
            cm.resolve_reply(Time::ZERO, id, &reply, out),
            Err(CmError::WrongState)
        );

        assert_eq!(
            cm.disconnect(Time::ZERO, id, &[0; 221], out),
            Err(CmError::TooLong)
        );

        assert!(out.sent.is_empty());
        assert_eq!(cm.state(id), Some(State::Established));
    }
}
