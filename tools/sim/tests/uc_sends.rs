//! Unreliable connections, sending: what goes out, what is refused, and the send queue's error
//! state.

use ferroce_sim::Buffer;
use ferroce_sim::tester::{DUT_PSN, TT_PSN, Tester, reth, usual};
use ferroce_transport::{
    Access, Dest, PostError, QpAttr, QpAttrMask, QpEvent, QpState, QpType, SendData, SendFlags,
    SendOp, SendRequest, WcStatus,
};
use ferroce_wire::Ext;
use ferroce_wire::opcode::*;

/// A packet of a SEND comes.
fn arrive(t: &mut Tester, opcode: u8, psn: u32, payload: &[u8]) {
    t.inject(opcode, psn, true, Ext::default(), payload);
}

#[test]
fn messages_go_out_once_and_unasked() {
    let mut t = Tester::service(QpType::Uc);
    let buffer = t.buffer(2500, Access::empty());
    let small = t.buffer(3, Access::empty());
    t.post(1, SendOp::Send, buffer);
    t.post_flags(
        2,
        SendOp::SendWithImm([1, 2, 3, 4]),
        small,
        SendFlags::SOLICITED,
    );

    t.post(3, SendOp::Write { va: 50, rkey: 6 }, buffer);
    let imm = SendOp::WriteWithImm {
        va: 51,
        rkey: 7,
        imm: [4; 4],
    };
    t.post(4, imm, small);
    let sent = t.sent();
    let opcodes: Vec<u8> = sent.iter().map(|p| p.bth.opcode).collect();
    assert_eq!(
        opcodes,
        [
            UC_SEND_FIRST,
            UC_SEND_MIDDLE,
            UC_SEND_LAST,
            UC_SEND_ONLY_IMM,
            UC_WRITE_FIRST,
            UC_WRITE_MIDDLE,
            UC_WRITE_LAST,
            UC_WRITE_ONLY_IMM
        ]
    );

    for (i, p) in sent.iter().enumerate() {
        assert_eq!(p.bth.psn, (DUT_PSN + i as u32) & 0xff_ffff);
        assert!(!p.bth.ack_req && !p.again);
    }

    assert_eq!(sent[4].ext.reth, reth(50, 6, 2500).reth);
    assert_eq!(
        (sent[3].ext.imm, sent[7].ext.imm),
        (Some([1, 2, 3, 4]), Some([4; 4]))
    );

    assert!(sent[3].bth.solicited && !sent[7].bth.solicited);
    let statuses: Vec<u64> = t.send_statuses().iter().map(|(id, _)| *id).collect();
    assert_eq!(statuses, [1, 3, 4]);
    assert_eq!(t.qp.next_timeout(), None);
    assert!(!t.qp.has_requests_in_flight());
}

#[test]
fn operations_that_need_an_answer_are_not_taken() {
    let mut t = Tester::service(QpType::Uc);
    let mut post = |op, dest| {
        t.qp.post_send(&SendRequest {
            wr_id: 0,
            op,
            flags: SendFlags::empty(),
            data: SendData::Sges(&[]),
            dest,
        })
    };

    for op in [
        SendOp::SendWithInv(1),
        SendOp::Read { va: 0, rkey: 0 },
        SendOp::FetchAdd {
            va: 0,
            rkey: 0,
            add: 0,
        },
        SendOp::CompareSwap {
            va: 0,
            rkey: 0,
            compare: 0,
            swap: 0,
        },
    ] {
        assert_eq!(
            post(op, Dest::Connected),
            Err(PostError::BadOpcode),
            "{op:?}"
        );
    }

    for dest in [Dest::Datagram(Default::default()), Dest::XrcSrq(1)] {
        assert_eq!(post(SendOp::Send, dest), Err(PostError::BadDestination));
    }
}

/// Nothing of a message goes out whose list does not hold good, and the send queue alone fails.
#[test]
fn a_send_that_fails_stops_the_send_queue_alone() {
    for bad_len in [10, 4000] {
        let mut t = Tester::service(QpType::Uc);
        let good = t.buffer(1500, Access::empty());
        let bad = Buffer {
            key: 3,
            ..t.buffer(bad_len, Access::empty())
        };

        t.post(1, SendOp::Send, good);
        t.post(2, SendOp::Send, bad);
        t.post_flags(3, SendOp::Send, good, SendFlags::empty());
        assert_eq!(t.sent().len(), 2);
        assert_eq!(
            t.send_statuses(),
            [
                (1, WcStatus::Success),
                (2, WcStatus::LocProtErr),
                (3, WcStatus::WrFlushErr)
            ]
        );

        assert_eq!(t.qp.state(), QpState::Sqe);
        let buffer = t.buffer(10, Access::LOCAL_WRITE);
        t.post_recv(1, buffer);
        arrive(&mut t, UC_SEND_ONLY, TT_PSN, &[1]);
        assert_eq!(t.recv_statuses(), [(1, WcStatus::Success)]);
        let attr = QpAttr {
            qp_state: QpState::Rts,
            cur_qp_state: QpState::Sqe,
            ..usual()
        };

        t.modify(
            &attr,
            QpAttrMask::STATE | QpAttrMask::CUR_STATE | QpAttrMask::ACCESS_FLAGS,
        )
        .unwrap();

        t.post(4, SendOp::Send, good);
        let sent = t.sent();
        assert_eq!(
            (sent[0].bth.opcode, sent[0].bth.psn),
            (UC_SEND_FIRST, DUT_PSN + 2)
        );

        assert_eq!(t.send_statuses()[3], (4, WcStatus::Success));
    }
}

/// A region that goes away in the middle of a long message: what went out is an incomplete message,
/// no wrong one.
#[test]
fn a_message_that_breaks_off_is_never_completed() {
    let mut t = Tester::service(QpType::Uc);
    t.opts.budget = 1;
    let buffer = t.buffer(4096, Access::empty());
    t.post(1, SendOp::Send, buffer);
    assert_eq!(t.call().len(), 1);
    assert!(t.send_statuses().is_empty());
    t.memory().borrow_mut().invalidate(buffer.key).unwrap();
    t.none();
    assert_eq!(t.send_statuses(), [(1, WcStatus::LocProtErr)]);
    assert_eq!(t.qp.state(), QpState::Sqe);
}

#[test]
fn draining_finishes_the_message_that_has_begun() {
    let mut t = Tester::service(QpType::Uc);
    t.opts.budget = 1;
    let buffer = t.buffer(3000, Access::empty());
    t.post(1, SendOp::Send, buffer);
    t.post(2, SendOp::Send, buffer);
    assert_eq!(t.call().len(), 1);
    let attr = QpAttr {
        qp_state: QpState::Sqd,
        en_sqd_async_notify: true,
        ..usual()
    };
    t.modify(&attr, QpAttrMask::STATE | QpAttrMask::EN_SQD_ASYNC_NOTIFY)
        .unwrap();
    assert!(t.qp.query().sq_draining);
    assert_eq!(t.sent().len(), 2);
    assert_eq!(t.events(), [QpEvent::SqDrained]);
    assert_eq!(t.send_statuses(), [(1, WcStatus::Success)]);
}
