//! `modify`: what it refuses, and what transitions do to queues.

use ferroce_sim::tester::{Tester, ladder, usual};
use ferroce_transport::{
    Access, Dest, ModifyError, PostError, Qp, QpAttr, QpAttrMask as M, QpConfig, QpEvent, QpState,
    SendData, SendFlags, SendOp, SendRequest, Sge, WcStatus,
};

/// The same through `modify`: on an error nothing has changed.
#[test]
fn a_refused_modify_changes_nothing() {
    let steps = ladder();
    for (i, (to, mask)) in steps.iter().enumerate() {
        for bit in M::all().iter().filter(|b| *b != M::STATE) {
            let mut t = Tester::in_state(
                usual(),
                [QpState::Reset, QpState::Init, QpState::Rtr][i],
                false,
            );
            let before = t.qp.query();
            let attr = QpAttr {
                qp_state: *to,
                cur_qp_state: QpState::Sqe,
                ..usual()
            };
            let toggled = t.modify(&attr, mask.symmetric_difference(bit));
            if toggled.is_err() {
                assert_eq!(t.qp.query(), before, "{bit:?}");
            } else {
                assert!(!mask.contains(bit), "{to:?} without {bit:?}");
            }
        }
    }
}

#[test]
fn of_the_rnr_timer_five_bits_are_looked_at() {
    let attr = QpAttr {
        qp_state: QpState::Rtr,
        min_rnr_timer: 32 + 7,
        ..usual()
    };
    let (_, mask) = ladder()[1];
    let mut t = Tester::in_state(usual(), QpState::Init, false);
    assert_eq!(t.modify(&attr, mask), Ok(()));
    assert_eq!(t.qp.query().min_rnr_timer, 7);
}

#[test]
fn values_out_of_range_are_refused() {
    type Spoil = fn(&mut QpAttr);

    let good = usual();
    let bad: [(QpState, M, Spoil); 8] = [
        (QpState::Rtr, M::PATH_MTU, |attr| attr.path_mtu = 1500),
        (QpState::Rtr, M::PATH_MTU, |attr| attr.path_mtu = 8192),
        (QpState::Rtr, M::DEST_QPN, |attr| attr.dest_qp_num = 1 << 24),
        (QpState::Rtr, M::MAX_DEST_RD_ATOMIC, |attr| {
            attr.max_dest_rd_atomic = 129;
        }),
        (QpState::Rts, M::TIMEOUT, |attr| attr.timeout = 32),
        (QpState::Rts, M::RETRY_CNT, |attr| attr.retry_cnt = 8),
        (QpState::Rts, M::RNR_RETRY, |attr| attr.rnr_retry = 8),
        (QpState::Rts, M::MAX_QP_RD_ATOMIC, |attr| {
            attr.max_rd_atomic = 129;
        }),
    ];

    for (to, bit, spoil) in bad {
        let mut attr = good;
        spoil(&mut attr);
        let from = if to == QpState::Rtr {
            QpState::Init
        } else {
            QpState::Rtr
        };

        let mask = ladder().iter().find(|(s, _)| *s == to).unwrap().1;
        let mut t = Tester::in_state(good, from, false);
        let before = t.qp.query();
        assert_eq!(
            t.modify(
                &QpAttr {
                    qp_state: to,
                    ..attr
                },
                mask
            ),
            Err(ModifyError::Value(bit))
        );

        assert_eq!(t.qp.query(), before);
        assert_eq!(
            t.modify(
                &QpAttr {
                    qp_state: to,
                    ..good
                },
                mask
            ),
            Ok(())
        );
    }
}

#[test]
fn the_current_state_is_checked_where_it_is_named() {
    let mut t = Tester::new();
    let named = |s| QpAttr {
        qp_state: QpState::Rts,
        cur_qp_state: s,
        ..usual()
    };
    let mask = M::STATE | M::CUR_STATE;
    assert_eq!(
        t.modify(&named(QpState::Rtr), mask),
        Err(ModifyError::CurrentState(QpState::Rts))
    );
    assert_eq!(t.modify(&named(QpState::Rts), mask), Ok(()));
}

#[test]
fn attributes_come_back_as_they_were_set() {
    let mut t = Tester::new();
    let got = t.qp.query();
    let want = usual();
    assert_eq!(
        (
            got.path_mtu,
            got.sq_psn,
            got.rq_psn,
            got.dest_qp_num,
            got.timeout,
            got.retry_cnt
        ),
        (
            want.path_mtu,
            want.sq_psn,
            want.rq_psn,
            want.dest_qp_num,
            want.timeout,
            want.retry_cnt
        )
    );

    assert_eq!(
        (got.qp_state, got.cur_qp_state),
        (QpState::Rts, QpState::Rts)
    );

    // PSNs are cut to 24 bits.
    let mut t2 = Tester::with(QpAttr {
        sq_psn: 0xff00_0001,
        rq_psn: 0x0100_0002,
        ..usual()
    });
    assert_eq!((t2.qp.query().sq_psn, t2.qp.query().rq_psn), (1, 2));
    t.go(QpState::Reset);
    t2.go(QpState::Reset);
    assert_eq!(t.qp.query(), t2.qp.query());
    assert_eq!(
        t.qp.query(),
        Qp::new(QpConfig {
            cap: ferroce_sim::tester::CAP,
            ..QpConfig::default()
        })
        .query()
    );
}

#[test]
fn reset_forgets_silently_and_the_queue_pair_can_be_used_again() {
    let mut t = Tester::new();
    let buffer = t.buffer(5000, Access::LOCAL_WRITE);
    t.post_recv(1, buffer);
    t.post(1, SendOp::Send, buffer);
    t.post(2, SendOp::Read { va: 1, rkey: 1 }, buffer);
    t.sent();
    t.go(QpState::Reset);
    t.none();
    assert_eq!(t.qp.next_timeout(), None);
    assert!(t.host.sends.is_empty() && t.host.receives.is_empty());

    for (to, mask) in ladder() {
        t.modify(
            &QpAttr {
                qp_state: to,
                ..usual()
            },
            mask,
        )
        .unwrap();
    }

    t.post(3, SendOp::Send, buffer);
    let sent = t.sent();
    assert_eq!(
        (sent.len(), sent[0].bth.psn, sent[0].again),
        (5, usual().sq_psn, false)
    );
}

#[test]
fn err_flushes_sends_then_receives() {
    for state in [QpState::Init, QpState::Rtr, QpState::Rts, QpState::Sqd] {
        let mut t = Tester::in_state(
            usual(),
            if state == QpState::Sqd {
                QpState::Rts
            } else {
                state
            },
            false,
        );

        let buffer = t.buffer(100, Access::LOCAL_WRITE);
        t.post_recv(11, buffer);
        t.post_recv(12, buffer);
        let sends = matches!(state, QpState::Rts | QpState::Sqd);
        if sends {
            t.post_flags(1, SendOp::Send, buffer, SendFlags::empty());
            t.post(2, SendOp::Write { va: 0, rkey: 1 }, buffer);
        }

        if state == QpState::Sqd {
            t.go(state);
        }

        t.sent();
        assert_eq!(t.qp.next_timeout().is_some(), state == QpState::Rts);
        t.go(QpState::Err);
        let flush = WcStatus::WrFlushErr;
        assert_eq!(
            t.send_statuses(),
            if sends {
                vec![(1, flush), (2, flush)]
            } else {
                vec![]
            }
        );

        assert_eq!(t.recv_statuses(), [(11, flush), (12, flush)]);
        assert_eq!(t.qp.next_timeout(), None);
        t.none();
        assert!(t.events().is_empty());
    }
}

#[test]
fn the_host_can_fail_a_queue_pair() {
    let mut t = Tester::new();
    let buffer = t.buffer(100, Access::LOCAL_WRITE);
    t.post(1, SendOp::Send, buffer);
    t.qp.fail(&mut t.host, Some(QpEvent::Fatal));
    t.qp.fail(&mut t.host, Some(QpEvent::Fatal));
    assert_eq!(t.events(), [QpEvent::Fatal]);
    assert_eq!(t.send_statuses(), [(1, WcStatus::WrFlushErr)]);
    assert_eq!(t.qp.state(), QpState::Err);
}

fn send(op: SendOp, data: SendData<'_>) -> SendRequest<'_> {
    SendRequest {
        wr_id: 1,
        op,
        flags: SendFlags::empty(),
        data,
        dest: Dest::Connected,
    }
}

fn post(t: &mut Tester, op: SendOp, data: SendData<'_>) -> Result<(), PostError> {
    t.qp.post_send(&send(op, data))
}

#[test]
fn posts_are_checked() {
    let sge = |length| Sge {
        addr: 0,
        length,
        lkey: 1,
    };

    let read = SendOp::Read { va: 0, rkey: 0 };
    let add = SendOp::FetchAdd {
        va: 0,
        rkey: 0,
        add: 1,
    };

    let mut t = Tester::new();
    assert_eq!(
        post(&mut t, SendOp::Send, SendData::Sges(&[sge(1); 4])),
        Err(PostError::TooManySges)
    );

    assert_eq!(
        post(&mut t, SendOp::Send, SendData::Inline(&[0; 65])),
        Err(PostError::InlineTooLong)
    );

    assert_eq!(
        post(
            &mut t,
            SendOp::Send,
            SendData::Sges(&[sge(1 << 30), sge(1)])
        ),
        Err(PostError::BadLength)
    );

    assert_eq!(
        post(&mut t, SendOp::Send, SendData::Sges(&[sge(u32::MAX); 3])),
        Err(PostError::BadLength)
    );

    assert_eq!(
        post(&mut t, read, SendData::Inline(&[0; 8])),
        Err(PostError::BadOpcode)
    );

    assert_eq!(
        post(&mut t, add, SendData::Inline(&[0; 8])),
        Err(PostError::BadOpcode)
    );

    assert_eq!(
        post(&mut t, add, SendData::Sges(&[sge(7)])),
        Err(PostError::BadLength)
    );

    for _ in 0..16 {
        assert_eq!(post(&mut t, SendOp::Send, SendData::Sges(&[])), Ok(()));
    }
    assert_eq!(
        post(&mut t, SendOp::Send, SendData::Sges(&[])),
        Err(PostError::QueueFull)
    );

    for state in [QpState::Reset, QpState::Init, QpState::Rtr] {
        let mut t = Tester::in_state(usual(), state, false);
        let refused = t.qp.post_send(&send(SendOp::Send, SendData::Sges(&[])));
        assert_eq!(refused, Err(PostError::BadState(state)));
        let recv = t.qp.post_recv(1, &[]);
        if state == QpState::Reset {
            assert_eq!(recv, Err(PostError::BadState(state)));
            continue;
        }
        assert_eq!(recv, Ok(()));
        assert_eq!(t.qp.post_recv(1, &[sge(1); 4]), Err(PostError::TooManySges));
        for _ in 0..15 {
            assert_eq!(t.qp.post_recv(1, &[]), Ok(()));
        }
        assert_eq!(t.qp.post_recv(1, &[]), Err(PostError::QueueFull));
    }
}

#[test]
fn an_idle_queue_pair_is_small() {
    assert!(size_of::<Qp>() < 2048, "{}", size_of::<Qp>());
}
