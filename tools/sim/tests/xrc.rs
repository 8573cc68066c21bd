//! Extended reliable connections: the shared receive queue that a request names, on both sides.

use ferroce_sim::Buffer;
use ferroce_sim::tester::{DUT_PSN, Sent, TT_PSN, Tester, reth, usual};
use ferroce_transport::{
    Access, Dest, PostError, QpEvent, QpState, QpType, RecvWqe, SendData, SendFlags, SendOp,
    SendRequest, WcOpcode, WcStatus,
};
use ferroce_wire::opcode::*;
use ferroce_wire::{Aeth, AtomicEth, Ext, NakCode, Syndrome};

const ALL: Access = Access::REMOTE_READ
    .union(Access::REMOTE_WRITE)
    .union(Access::REMOTE_ATOMIC)
    .union(Access::LOCAL_WRITE);

/// A target whose domain has queues 5 (protection domain 50) and 6 (60).
fn target() -> Tester {
    with_queues(Tester::service(QpType::XrcRecv))
}

fn with_queues(t: Tester) -> Tester {
    for (srq, pd) in [(5, 50), (6, 60)] {
        t.memory().borrow_mut().srqs.insert(srq, pd);
        t.host.xrc.borrow_mut().insert(srq, Default::default());
    }
    t
}

/// A buffer in the protection domain of a queue.
fn buffer(t: &mut Tester, srq: u32, len: u32) -> Buffer {
    t.memory().borrow_mut().pd = srq * 10;
    t.buffer(len, ALL)
}

/// Posts a receive request of `len` bytes to a queue.
fn receive(t: &mut Tester, srq: u32, wr_id: u64, len: u32) -> Buffer {
    let b = buffer(t, srq, len);
    let sges = [b.sge()].into_iter().collect();
    t.host.xrc.borrow()[&srq].borrow_mut().push_back(RecvWqe {
        wr_id,
        sges,
        skip: 0,
    });
    b
}

fn for_srq(srq: u32, ext: Ext) -> Ext {
    Ext {
        xrceth: Some(srq),
        ..ext
    }
}

/// A packet of a SEND for a queue comes.
fn arrive(t: &mut Tester, opcode: u8, n: u32, srq: u32, payload: &[u8]) {
    t.inject(
        opcode,
        TT_PSN + n,
        true,
        for_srq(srq, Ext::default()),
        payload,
    );
}

#[track_caller]
fn acked(t: &mut Tester, n: u32) -> Sent {
    let ack = t.one();
    assert_eq!((ack.bth.opcode, ack.bth.psn), (XRC_ACKNOWLEDGE, TT_PSN + n));
    assert_eq!(
        ack.syndrome(),
        Some(Syndrome::from_byte(0x1f)),
        "no credits are counted"
    );
    ack
}

fn post(t: &mut Tester, op: SendOp, len: u32, srq: u32) {
    let b = t.buffer(len, Access::LOCAL_WRITE);
    t.post_to(1, op, b, SendFlags::SIGNALED, Dest::XrcSrq(srq));
}

#[test]
fn every_request_packet_names_the_queue() {
    let mut t = Tester::service(QpType::XrcSend);
    post(&mut t, SendOp::Send, 2500, 0x77_0001);
    post(&mut t, SendOp::Write { va: 1, rkey: 2 }, 1025, 0x77_0002);
    post(&mut t, SendOp::Read { va: 1, rkey: 2 }, 5, 0x77_0003);
    let add = SendOp::FetchAdd {
        va: 8,
        rkey: 2,
        add: 1,
    };
    post(&mut t, add, 8, 0x77_0004);
    let sent = t.sent();
    let got: Vec<_> = sent
        .iter()
        .map(|p| (p.bth.opcode, p.ext.xrceth.unwrap() & 0xffff))
        .collect();

    assert_eq!(
        got,
        [
            (XRC_SEND_FIRST, 1),
            (XRC_SEND_MIDDLE, 1),
            (XRC_SEND_LAST, 1),
            (XRC_WRITE_FIRST, 2),
            (XRC_WRITE_LAST, 2),
            (XRC_READ_REQUEST, 3),
            (XRC_FETCH_ADD, 4)
        ]
    );

    // It is acknowledged, and sent again, as with RC.
    let ack = |opcode, n, ext, payload: &[u8]| (opcode, DUT_PSN + n, ext, payload.to_vec());
    let aeth = Ext {
        aeth: Some(Aeth::new(Syndrome::from_byte(0x1f), 2)),
        ..Ext::default()
    };

    let value = Ext {
        atomic_ack: Some(9),
        ..aeth
    };

    t.expire();
    assert!(t.sent().iter().all(|p| p.again && p.ext.xrceth.is_some()));
    for (opcode, psn, ext, payload) in [
        ack(XRC_ACKNOWLEDGE, 4, aeth, &[]),
        ack(XRC_READ_RESPONSE_ONLY, 5, aeth, &[1; 5]),
        ack(XRC_ATOMIC_ACKNOWLEDGE, 6, value, &[]),
    ] {
        t.inject(opcode, psn, false, ext, &payload);
    }

    assert_eq!(t.send_statuses(), [(1, WcStatus::Success); 4]);
}

#[test]
fn an_initiator_takes_no_requests_and_a_target_no_responses() {
    let mut t = Tester::service(QpType::XrcSend);
    let b = t.buffer(10, ALL);
    t.post_to(1, SendOp::Send, b, SendFlags::SIGNALED, Dest::XrcSrq(5));
    t.one();
    arrive(&mut t, XRC_SEND_ONLY, 0, 5, &[1]);
    t.inject(
        RC_ACKNOWLEDGE,
        DUT_PSN,
        false,
        ferroce_sim::tester::aeth(1),
        &[],
    );

    t.none();
    assert!(t.host.sends.is_empty() && t.events().is_empty());
    t.ack(DUT_PSN, 1);
    assert_eq!(t.send_statuses(), [(1, WcStatus::Success)]);
    assert_eq!(t.qp.post_recv(1, &[]), Err(PostError::HasSrq));

    let mut t = target();
    receive(&mut t, 5, 1, 10);
    t.inject(RC_SEND_ONLY, TT_PSN, true, Ext::default(), &[]);
    t.inject(
        XRC_ACKNOWLEDGE,
        DUT_PSN,
        false,
        ferroce_sim::tester::aeth(1),
        &[],
    );

    t.none();
    assert!(t.host.receives.is_empty());
    assert_eq!(t.qp.post_recv(1, &[]), Err(PostError::HasSrq));
    let send = SendRequest {
        wr_id: 1,
        op: SendOp::Send,
        flags: SendFlags::empty(),
        data: SendData::Sges(&[]),
        dest: Dest::XrcSrq(5),
    };
    assert_eq!(t.qp.post_send(&send), Err(PostError::NoSendQueue));
}

#[test]
fn a_request_without_a_queue_is_not_taken() {
    let mut t = Tester::service(QpType::XrcSend);
    let mut post = |op, dest| {
        t.qp.post_send(&SendRequest {
            wr_id: 1,
            op,
            flags: SendFlags::empty(),
            data: SendData::Sges(&[]),
            dest,
        })
    };

    for dest in [Dest::Connected, Dest::Datagram(Default::default())] {
        assert_eq!(post(SendOp::Send, dest), Err(PostError::BadDestination));
    }

    // What stays here goes nowhere.
    assert_eq!(post(SendOp::LocalInv(1), Dest::Connected), Ok(()));

    // And no other service has queues to name.
    let request = SendRequest {
        wr_id: 1,
        op: SendOp::Send,
        flags: SendFlags::empty(),
        data: SendData::Sges(&[]),
        dest: Dest::XrcSrq(1),
    };

    assert_eq!(
        Tester::new().qp.post_send(&request),
        Err(PostError::BadDestination)
    );
}

#[test]
fn messages_go_to_the_queues_that_they_name() {
    let mut t = target();
    let five = receive(&mut t, 5, 1, 2000);
    let six = receive(&mut t, 6, 2, 2000);
    arrive(&mut t, XRC_SEND_ONLY, 0, 6, &[6; 10]);
    acked(&mut t, 0);
    arrive(&mut t, XRC_SEND_FIRST, 1, 5, &[5; 1024]);
    arrive(&mut t, XRC_SEND_LAST, 2, 5, &[5; 6]);
    acked(&mut t, 2);
    let got: Vec<_> = t
        .host
        .receives
        .iter()
        .map(|c| (c.wr_id, c.srq, c.byte_len))
        .collect();
    assert_eq!(got, [(2, 6, 10), (1, 5, 1030)]);
    assert_eq!(t.bytes(six)[..10], [6; 10]);
    assert_eq!(t.bytes(five)[..1030], [5; 1030]);

    // An empty queue holds its own messages up, and says so.
    arrive(&mut t, XRC_SEND_ONLY, 3, 5, &[1]);
    assert!(matches!(t.one().syndrome(), Some(Syndrome::RnrNak { .. })));
    receive(&mut t, 5, 3, 10);
    arrive(&mut t, XRC_SEND_ONLY, 3, 5, &[1]);
    acked(&mut t, 3);
    assert_eq!(t.host.receives[2].srq, 5);
}

#[test]
fn accesses_go_by_the_queues_protection_domain() {
    let mut t = target();
    let five = buffer(&mut t, 5, 3000);
    let write = for_srq(5, reth(five.va, five.key, 4));
    t.inject(XRC_WRITE_ONLY, TT_PSN, true, write, &[1; 4]);
    acked(&mut t, 0);
    assert_eq!(t.bytes(five)[..4], [1; 4]);
    t.inject(
        XRC_READ_REQUEST,
        TT_PSN + 1,
        true,
        for_srq(5, reth(five.va, five.key, 1030)),
        &[],
    );

    let sent = t.sent();
    let opcodes: Vec<_> = sent.iter().map(|p| p.bth.opcode).collect();
    assert_eq!(opcodes, [XRC_READ_RESPONSE_FIRST, XRC_READ_RESPONSE_LAST]);
    assert_eq!(
        [&sent[0].payload[..], &sent[1].payload].concat(),
        t.bytes(five)[..1030]
    );

    // Also when the request is for a duplicate, after others were for another queue.
    receive(&mut t, 6, 1, 10);
    arrive(&mut t, XRC_SEND_ONLY, 3, 6, &[1]);
    acked(&mut t, 3);
    t.inject(
        XRC_READ_REQUEST,
        TT_PSN + 2,
        true,
        for_srq(5, reth(five.va + 1024, five.key, 6)),
        &[],
    );

    assert_eq!(t.one().payload, t.bytes(five)[1024..1030]);
    let add = Ext {
        atomic: Some(AtomicEth {
            va: five.va,
            rkey: five.key,
            swap_add: 1,
            compare: 0,
        }),
        ..Ext::default()
    };

    t.inject(XRC_FETCH_ADD, TT_PSN + 4, true, for_srq(5, add), &[]);
    assert_eq!(t.one().bth.opcode, XRC_ATOMIC_ACKNOWLEDGE);

    let before = t.bytes(five);
    let write = for_srq(6, reth(five.va, five.key, 4));
    t.inject(XRC_WRITE_ONLY, TT_PSN + 5, true, write, &[9; 4]);
    assert_eq!(
        t.one().nak(),
        Some((NakCode::RemoteAccessError, TT_PSN + 5))
    );

    assert_eq!(t.bytes(five), before);
    assert_eq!(t.qp.state(), QpState::Err);
}

#[test]
fn a_queue_that_is_not_of_the_domain_is_an_access_error() {
    for opcode in [XRC_SEND_ONLY, XRC_WRITE_ONLY, XRC_READ_REQUEST] {
        let mut t = target();
        let b = receive(&mut t, 5, 1, 10);
        let ext = match opcode {
            XRC_SEND_ONLY => Ext::default(),
            _ => reth(b.va, b.key, 0),
        };
        t.inject(opcode, TT_PSN, true, for_srq(7, ext), &[]);
        let nak = t.one();
        assert_eq!(nak.bth.opcode, XRC_ACKNOWLEDGE);
        assert_eq!(nak.nak(), Some((NakCode::RemoteAccessError, TT_PSN)));
        assert_eq!(t.qp.state(), QpState::Err);
        assert_eq!(
            t.events(),
            [QpEvent::AccessErr],
            "no queue of its own has a last request"
        );

        assert!(t.host.receives.is_empty());
    }
}

#[test]
fn a_message_keeps_to_its_queue() {
    let mut t = target();
    receive(&mut t, 5, 1, 2000);
    receive(&mut t, 6, 2, 2000);
    arrive(&mut t, XRC_SEND_FIRST, 0, 5, &[5; 1024]);
    acked(&mut t, 0);
    arrive(&mut t, XRC_SEND_LAST, 1, 6, &[5; 6]);
    assert_eq!(t.one().nak(), Some((NakCode::InvalidRequest, TT_PSN + 1)));
    // The request that was taken belongs to its own queue's completions.
    let c = t.host.receives[0];
    assert_eq!((c.wr_id, c.srq, c.status), (1, 5, WcStatus::RemInvReqErr));
    assert_eq!(t.host.receives.len(), 1);
}

#[test]
fn a_request_at_hand_is_flushed_to_its_queue() {
    let mut t = target();
    receive(&mut t, 6, 2, 2000);
    arrive(&mut t, XRC_SEND_FIRST, 0, 6, &[5; 1024]);
    t.go(QpState::Err);
    let c = t.host.receives[0];
    assert_eq!((c.wr_id, c.srq, c.status), (2, 6, WcStatus::WrFlushErr));
}

#[test]
fn immediate_data_of_a_write_reaches_the_queue() {
    let mut t = target();
    receive(&mut t, 6, 4, 0);
    let ext = Ext {
        imm: Some([1, 2, 3, 4]),
        ..reth(0, 0, 0)
    };
    t.inject(XRC_WRITE_ONLY_IMM, TT_PSN, true, for_srq(6, ext), &[]);
    acked(&mut t, 0);
    let c = t.host.receives[0];
    assert_eq!(
        (c.wr_id, c.srq, c.opcode),
        (4, 6, WcOpcode::RecvRdmaWithImm)
    );
}

#[test]
fn a_target_needs_no_requesters_attributes() {
    let t = Tester::of(QpType::XrcRecv, usual(), QpState::Rts, false);
    assert_eq!(t.qp.state(), QpState::Rts);
    let t = Tester::of(QpType::XrcSend, usual(), QpState::Rts, false);
    assert_eq!(t.qp.query().max_dest_rd_atomic, 0);
}

#[test]
fn what_comes_early_for_another_queue_is_kept_and_told_of() {
    let t = Tester::speaking(QpType::XrcRecv, usual(), QpState::Rtr, false);
    let mut t = with_queues(t);
    receive(&mut t, 5, 1, 10);
    receive(&mut t, 6, 2, 10);
    arrive(&mut t, XRC_SEND_ONLY, 1, 6, b"later");
    assert_eq!(t.one().bth.opcode, XRC_SELECTIVE_ACKNOWLEDGE);
    assert!(t.receives().is_empty());
    arrive(&mut t, XRC_SEND_ONLY, 0, 5, b"first");
    acked(&mut t, 1);
    let ids: Vec<u64> = t.receives().iter().map(|c| c.wr_id).collect();
    assert_eq!(ids, [1, 2]);
}
