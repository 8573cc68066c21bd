//! Unreliable datagrams, sending: the send queue's error state, budget and drain.

use ferroce_sim::Buffer;
use ferroce_sim::tester::{CAP, DUT_PSN, NO_AH, QKEY, TT, Tester, usual};
use ferroce_transport::{
    Access, Datagram, Dest, QpAttr, QpAttrMask, QpState, QpType, SendFlags, SendOp, WcStatus,
};
use ferroce_wire::opcode::*;
use ferroce_wire::{Deth, Ext};

fn to(qpn: u32, qkey: u32) -> Dest {
    Dest::Datagram(Datagram {
        ah: 9,
        cookie: 0,
        qpn,
        qkey,
    })
}

fn send(t: &mut Tester, wr_id: u64, buffer: Buffer, dest: Dest) {
    t.post_to(wr_id, SendOp::Send, buffer, SendFlags::SIGNALED, dest);
}

/// A datagram comes from the tester, with the right Q_Key.
fn arrive(t: &mut Tester, payload: &[u8]) {
    let deth = Some(Deth {
        qkey: QKEY,
        src_qp: TT,
    });
    let ext = Ext {
        deth,
        ..Ext::default()
    };
    t.inject(UD_SEND_ONLY, 77, false, ext, payload);
}

fn back_to_rts(t: &mut Tester) {
    let attr = QpAttr {
        qp_state: QpState::Rts,
        ..usual()
    };
    t.modify(&attr, QpAttrMask::STATE).expect("SQE to RTS");
}

/// What a send queue in SQE does, and that the receive queue does not mind.
#[test]
fn a_send_that_fails_stops_the_send_queue_alone() {
    let long = |t: &mut Tester| t.buffer(1025, Access::empty());
    let foreign = |t: &mut Tester| Buffer {
        key: 3,
        ..t.buffer(10, Access::empty())
    };

    let short = |t: &mut Tester| t.buffer(10, Access::empty());
    type Bad = fn(&mut Tester) -> Buffer;

    let cases: [(Bad, u32, WcStatus); 3] = [
        (long, 9, WcStatus::LocLenErr),
        (foreign, 9, WcStatus::LocProtErr),
        (short, NO_AH, WcStatus::LocQpOpErr),
    ];

    for (bad, ah, status) in cases {
        let mut t = Tester::service(QpType::Ud);
        let good = t.buffer(1024, Access::empty());
        let bad = bad(&mut t);
        let dest = Dest::Datagram(Datagram {
            ah,
            cookie: 0,
            qpn: TT,
            qkey: 1,
        });

        send(&mut t, 1, good, to(TT, 1));
        send(&mut t, 2, bad, dest);
        t.post_to(3, SendOp::Send, good, SendFlags::empty(), to(TT, 1));
        assert_eq!(
            t.sent().len(),
            1,
            "the one before goes out, those after do not"
        );

        assert_eq!(
            t.send_statuses(),
            [
                (1, WcStatus::Success),
                (2, status),
                (3, WcStatus::WrFlushErr)
            ]
        );

        assert_eq!(t.qp.state(), QpState::Sqe);
        assert!(t.events().is_empty());

        let buffer = t.buffer(100, Access::LOCAL_WRITE);
        t.post_recv(4, buffer);
        arrive(&mut t, &[5; 5]);
        assert_eq!(t.recv_statuses(), [(4, WcStatus::Success)]);
        send(&mut t, 5, good, to(TT, 1));
        t.none();
        assert_eq!(t.send_statuses()[3], (5, WcStatus::WrFlushErr));

        back_to_rts(&mut t);
        send(&mut t, 6, good, to(TT, 1));
        assert_eq!(t.one().bth.psn, DUT_PSN + 1, "PSNs go on");
        assert_eq!(t.send_statuses()[4], (6, WcStatus::Success));
    }
}

#[test]
fn the_budget_bounds_a_call_and_nothing_else_does() {
    let mut t = Tester::service(QpType::Ud);
    t.opts.window = 1;
    t.opts.budget = 1;
    let buffer = t.buffer(500, Access::empty());
    for id in 0..CAP.max_send_wr {
        send(&mut t, id.into(), buffer, to(TT, 1));
    }
    assert_eq!(t.call().len(), 1);
    assert_eq!(t.send_statuses().len(), 1);
    assert_eq!(t.sent().len(), CAP.max_send_wr as usize - 1);
    t.opts.budget = 1 << 20;
    for id in 0..CAP.max_send_wr {
        send(&mut t, id.into(), buffer, to(TT, 1));
    }
    assert_eq!(t.call().len(), CAP.max_send_wr as usize);
}

#[test]
fn draining_waits_for_nothing_that_is_sent() {
    let mut t = Tester::service(QpType::Ud);
    let buffer = t.buffer(500, Access::empty());
    send(&mut t, 1, buffer, to(TT, 1));
    t.go(QpState::Sqd);
    t.none();
    assert!(!t.qp.query().sq_draining, "nothing had begun");
    back_to_rts(&mut t);
    t.one();
    assert_eq!(t.send_statuses(), [(1, WcStatus::Success)]);
}

/// What counts is the port's MTU when a datagram is begun (C10-93.1.1), not when its queue pair was
/// made. One that was begun before goes out whole.
#[test]
fn the_longest_datagram_is_as_long_as_the_port_takes_now() {
    let mut t = Tester::service(QpType::Ud);
    let buffer = t.buffer(500, Access::empty());
    t.opts.budget = 1;
    for id in 1..=3 {
        send(&mut t, id, buffer, to(TT, 1));
    }
    assert_eq!(t.call().len(), 1);
    t.opts.budget = 1 << 20;
    t.qp.limit_datagrams(256);
    assert_eq!(t.one().payload.len(), 500);
    assert_eq!(
        t.send_statuses()[1..],
        [(2, WcStatus::Success), (3, WcStatus::LocLenErr)]
    );
    assert_eq!(t.qp.query().path_mtu, 256);

    back_to_rts(&mut t);
    t.qp.limit_datagrams(4096);
    let long = t.buffer(4096, Access::empty());
    send(&mut t, 4, long, to(TT, 1));
    assert_eq!(t.one().payload.len(), 4096);
    assert_eq!(t.send_statuses()[3], (4, WcStatus::Success));

    t.qp.limit_datagrams(256);
    let buffer = t.buffer(500, Access::LOCAL_WRITE);
    t.post_recv(5, buffer);
    arrive(&mut t, &[5; 257]);
    arrive(&mut t, &[6; 256]);
    assert_eq!(t.recv_statuses(), [(5, WcStatus::Success)]);
}
