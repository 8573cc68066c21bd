//! Unreliable datagrams: whom they are for, Q_Keys, the GRH, limits, and what is dropped.

use ferroce_sim::Buffer;
use ferroce_sim::tester::{DUT, DUT_PSN, GRH_BYTE, QKEY, TT, TT_PSN, Tester, usual};
use ferroce_transport::{
    Access, Datagram, Dest, Note, PostError, QpAttr, QpAttrMask, QpState, QpType, RecvWqe,
    SendData, SendFlags, SendOp, SendRequest, WcData, WcOpcode, WcStatus,
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

fn deth(qkey: u32) -> Ext {
    Ext {
        deth: Some(Deth { qkey, src_qp: TT }),
        ..Ext::default()
    }
}

/// A datagram comes from the tester, with the right Q_Key.
fn arrive(t: &mut Tester, payload: &[u8]) {
    t.inject(UD_SEND_ONLY, 77, false, deth(QKEY), payload);
}

fn send(t: &mut Tester, wr_id: u64, buffer: Buffer, dest: Dest) {
    t.post_to(wr_id, SendOp::Send, buffer, SendFlags::SIGNALED, dest);
}

#[test]
fn a_datagram_says_whom_it_is_for_and_from() {
    let mut t = Tester::service(QpType::Ud);
    let buffer = t.buffer(301, Access::empty());
    send(&mut t, 1, buffer, to(0x12_3456, 0x55));
    t.post_to(
        2,
        SendOp::SendWithImm([1, 2, 3, 4]),
        buffer,
        SendFlags::SOLICITED,
        to(0xff_ffff, 0x8000_0000),
    );

    let sent = t.sent();
    assert_eq!(sent.len(), 2);
    assert_eq!(
        (sent[0].bth.opcode, sent[1].bth.opcode),
        (UD_SEND_ONLY, UD_SEND_ONLY_IMM)
    );

    assert_eq!(
        (sent[0].bth.dest_qp, sent[1].bth.dest_qp),
        (0x12_3456, 0xff_ffff)
    );

    assert_eq!((sent[0].ah, sent[1].ah), (Some(9), Some(9)));
    assert_eq!((sent[0].bth.psn, sent[1].bth.psn), (DUT_PSN, DUT_PSN + 1));
    assert_eq!(
        (sent[0].bth.solicited, sent[1].bth.solicited),
        (false, true)
    );

    assert!(
        sent.iter()
            .all(|p| !p.bth.ack_req && p.payload == t.bytes(buffer))
    );

    assert_eq!(
        sent[0].ext.deth,
        Some(Deth {
            qkey: 0x55,
            src_qp: DUT
        })
    );

    // Its highest bit set, the request's Q_Key stands for the queue pair's own.
    assert_eq!(
        sent[1].ext.deth,
        Some(Deth {
            qkey: QKEY,
            src_qp: DUT
        })
    );

    assert_eq!(sent[1].ext.imm, Some([1, 2, 3, 4]));

    // Nobody answers: it is done when it is sent, and only what is signaled is reported.
    assert_eq!(t.send_statuses(), [(1, WcStatus::Success)]);
    assert!(!t.qp.has_requests_in_flight() && t.qp.next_timeout().is_none());
}

#[test]
fn the_grh_comes_before_the_payload() {
    let mut t = Tester::service(QpType::Ud);
    let buffer = t.buffer(100, Access::LOCAL_WRITE);
    t.post_recv(5, buffer);
    let payload: Vec<u8> = (0..51).collect();
    let ext = Ext {
        imm: Some([9, 8, 7, 6]),
        ..deth(QKEY)
    };

    let rest = t.bytes(buffer)[91..].to_vec();
    t.inject(UD_SEND_ONLY_IMM, 3, false, ext, &payload);
    let got = t.bytes(buffer);
    assert_eq!(got[..40], [GRH_BYTE; 40]);
    assert_eq!(got[40..91], payload);
    assert_eq!(got[91..], rest);
    let c = t.host.receives[0];
    assert_eq!(
        (c.wr_id, c.status, c.opcode),
        (5, WcStatus::Success, WcOpcode::Recv)
    );

    assert_eq!((c.byte_len, c.grh, c.src_qp), (91, true, TT));
    assert_eq!(c.data, WcData::Imm([9, 8, 7, 6]));
    t.none();
}

#[test]
fn an_empty_datagram_is_a_grh() {
    let mut t = Tester::service(QpType::Ud);
    let buffer = t.buffer(40, Access::LOCAL_WRITE);
    t.post_recv(1, buffer);
    arrive(&mut t, &[]);
    assert_eq!(t.bytes(buffer), [GRH_BYTE; 40]);
    assert_eq!(t.host.receives[0].byte_len, 40);
}

#[test]
fn any_psn_and_any_source_is_taken() {
    let mut t = Tester::service(QpType::Ud);
    let buffer = t.buffer(64, Access::LOCAL_WRITE);
    for (i, psn) in [TT_PSN, TT_PSN, 5, 0xff_ffff].into_iter().enumerate() {
        t.post_recv(i as u64, buffer);
        let ext = Ext {
            deth: Some(Deth {
                qkey: QKEY,
                src_qp: i as u32,
            }),
            ..Ext::default()
        };
        t.inject(UD_SEND_ONLY, psn, false, ext, &[1]);
    }

    let from: Vec<u32> = t.host.receives.iter().map(|c| c.src_qp).collect();
    assert_eq!(from, [0, 1, 2, 3]);
}

#[test]
fn a_wrong_q_key_is_dropped_and_counted() {
    let mut t = Tester::service(QpType::Ud);
    let buffer = t.buffer(64, Access::LOCAL_WRITE);
    let before = t.bytes(buffer);
    t.post_recv(1, buffer);
    for qkey in [0, QKEY ^ 1, QKEY | 0x8000_0000, u32::MAX] {
        t.inject(UD_SEND_ONLY, 0, false, deth(qkey), &[1; 8]);
    }
    assert_eq!(t.notes(), [Note::QkeyViolation; 4]);
    assert_eq!(t.bytes(buffer), before);
    assert!(t.host.receives.is_empty() && t.events().is_empty());

    // The receive request is still there, and the Q_Key can be changed.
    let attr = QpAttr {
        qkey: 77,
        qp_state: QpState::Rts,
        ..usual()
    };
    t.modify(&attr, QpAttrMask::STATE | QpAttrMask::QKEY)
        .unwrap();
    arrive(&mut t, &[1; 8]);
    assert!(t.host.receives.is_empty());
    t.inject(UD_SEND_ONLY, 0, false, deth(77), &[1; 8]);
    assert_eq!(t.recv_statuses(), [(1, WcStatus::Success)]);
}

#[test]
fn without_a_receive_request_or_room_a_datagram_is_lost() {
    for srq in [false, true] {
        let mut t = Tester::of(QpType::Ud, usual(), QpState::Rts, srq);
        arrive(&mut t, &[1; 8]);
        assert_eq!(t.notes(), [Note::NoReceive]);
        let buffer = t.buffer(48, Access::LOCAL_WRITE);
        let before = t.bytes(buffer);
        if srq {
            let sges = [buffer.sge()].into_iter().collect();
            t.host.srq.borrow_mut().push_back(RecvWqe {
                wr_id: 1,
                sges,
                skip: 0,
            });
        } else {
            t.post_recv(1, buffer);
        }

        arrive(&mut t, &[1; 9]);
        assert_eq!(t.notes(), [Note::NoReceive, Note::TooLong]);
        assert!(t.host.receives.is_empty());
        assert_eq!(
            t.bytes(buffer),
            before,
            "nothing is placed of what does not fit"
        );

        assert_eq!(t.qp.state(), QpState::Rts);
        arrive(&mut t, &[2; 8]);
        assert_eq!(
            t.recv_statuses(),
            [(1, WcStatus::Success)],
            "the request is still good"
        );
    }
}

#[test]
fn a_datagram_longer_than_the_mtu_is_refused() {
    let mut t = Tester::service(QpType::Ud);
    let buffer = t.buffer(3000, Access::LOCAL_WRITE);
    t.post_recv(1, buffer);
    arrive(&mut t, &[0; 1025]);
    assert!(t.host.receives.is_empty());
    arrive(&mut t, &[0; 1024]);
    assert_eq!(t.host.receives[0].byte_len, 1064);
}

#[test]
fn a_bad_receive_buffer_is_the_consumers_fault() {
    let mut t = Tester::service(QpType::Ud);
    let buffer = t.buffer(100, Access::empty());
    t.post_recv(1, buffer);
    t.post_recv(2, buffer);
    arrive(&mut t, &[0; 10]);
    assert_eq!(t.qp.state(), QpState::Err);
    assert_eq!(
        t.recv_statuses(),
        [(1, WcStatus::LocProtErr), (2, WcStatus::WrFlushErr)]
    );
}

#[test]
fn other_services_packets_and_responses_do_nothing() {
    let mut t = Tester::service(QpType::Ud);
    let buffer = t.buffer(100, Access::LOCAL_WRITE);
    t.post_recv(1, buffer);
    for opcode in [RC_SEND_ONLY, UC_SEND_ONLY, RC_ACKNOWLEDGE] {
        t.inject(opcode, TT_PSN, true, Ext::default(), &[]);
    }
    t.none();
    assert!(t.host.receives.is_empty() && t.notes().is_empty());
    let mut rc = Tester::new();
    rc.post_recv(1, buffer);
    rc.inject(UD_SEND_ONLY, TT_PSN, true, deth(QKEY), &[]);
    rc.none();
    assert!(rc.host.receives.is_empty());
}

#[test]
fn receiving_begins_in_rtr_and_sending_in_rts() {
    let mut t = Tester::of(QpType::Ud, usual(), QpState::Init, false);
    let buffer = t.buffer(100, Access::LOCAL_WRITE);
    t.post_recv(1, buffer);
    arrive(&mut t, &[0; 4]);
    assert!(t.host.receives.is_empty());
    let mut t = Tester::of(QpType::Ud, usual(), QpState::Rtr, false);
    let buffer = t.buffer(100, Access::LOCAL_WRITE);
    t.post_recv(1, buffer);
    arrive(&mut t, &[0; 4]);
    assert_eq!(t.recv_statuses(), [(1, WcStatus::Success)]);
    let request = SendRequest {
        wr_id: 0,
        op: SendOp::Send,
        flags: SendFlags::empty(),
        data: SendData::Sges(&[]),
        dest: to(1, 1),
    };

    assert_eq!(
        t.qp.post_send(&request),
        Err(PostError::BadState(QpState::Rtr))
    );
}

#[test]
fn only_sends_with_an_address_are_taken() {
    let mut t = Tester::service(QpType::Ud);
    let mut post = |op, dest| {
        t.qp.post_send(&SendRequest {
            wr_id: 0,
            op,
            flags: SendFlags::empty(),
            data: SendData::Sges(&[]),
            dest,
        })
    };

    let good = to(1, 1);
    for op in [
        SendOp::SendWithInv(1),
        SendOp::Write { va: 0, rkey: 0 },
        SendOp::WriteWithImm {
            va: 0,
            rkey: 0,
            imm: [0; 4],
        },
        SendOp::Read { va: 0, rkey: 0 },
        SendOp::FetchAdd {
            va: 0,
            rkey: 0,
            add: 0,
        },
        SendOp::LocalInv(1),
        SendOp::BindMw(Default::default()),
    ] {
        assert_eq!(post(op, good), Err(PostError::BadOpcode), "{op:?}");
    }

    for dest in [Dest::Connected, Dest::XrcSrq(1)] {
        assert_eq!(post(SendOp::Send, dest), Err(PostError::BadDestination));
    }
    assert_eq!(post(SendOp::Send, good), Ok(()));
}
