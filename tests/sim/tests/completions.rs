//! When requests complete, and what a lost answer does: the completer's rules.

use ferroce_sim::tester::{DUT_PSN, Tester, aeth, usual};
use ferroce_transport::{
    Access, QpAttr, QpEvent, QpState, SendData, SendFlags, SendOp, SendRequest, Sge, WcOpcode,
    WcStatus,
};
use ferroce_wire::{Aeth, CreditCode, Ext, NakCode, Syndrome, opcode};

const VA: u64 = 0x99_9000;
const RKEY: u32 = 0x12345;
const WRITE: SendOp = SendOp::Write { va: VA, rkey: RKEY };
const READ: SendOp = SendOp::Read { va: VA, rkey: RKEY };
const ADD: SendOp = SendOp::FetchAdd {
    va: VA,
    rkey: RKEY,
    add: 1,
};
const OK: WcStatus = WcStatus::Success;

/// C9-60: a SEND or RDMA WRITE completes with the acknowledgement that covers all of its packets, not before.
#[test]
fn c9_060_send_and_write() {
    for op in [
        SendOp::Send,
        SendOp::SendWithImm([1, 2, 3, 4]),
        SendOp::SendWithInv(7),
        WRITE,
        SendOp::WriteWithImm {
            va: VA,
            rkey: RKEY,
            imm: [5; 4],
        },
    ] {
        let mut t = Tester::with(QpAttr {
            timeout: 0,
            ..usual()
        });
        let buffer = t.buffer(3 * 1024, Access::empty());
        t.post(1, op, buffer);
        t.post(2, op, buffer);
        let sent = t.sent();
        assert_eq!(sent.len(), 6);
        assert!(
            sent[2].bth.ack_req && sent[5].bth.ack_req,
            "the last packet asks for an ACK"
        );
        for psn in 0..2 {
            t.ack(DUT_PSN + psn, 0);
            assert!(t.host.sends.is_empty());
        }
        t.ack(DUT_PSN + 2, 1);
        assert_eq!(t.send_statuses(), [(1, OK)]);
        t.ack(DUT_PSN + 4, 1);
        assert_eq!(t.send_statuses().len(), 1);
        t.ack(DUT_PSN + 5, 2);
        assert_eq!(t.send_statuses(), [(1, OK), (2, OK)]);
    }
}

/// C9-60: one acknowledgement completes everything before it.
#[test]
fn c9_060_coalesced_acknowledge() {
    let mut t = Tester::new();
    let buffer = t.buffer(100, Access::empty());
    for id in 0..5 {
        t.post(id, WRITE, buffer);
    }
    t.sent();
    t.ack(DUT_PSN + 3, 4);
    assert_eq!(t.send_statuses(), [(0, OK), (1, OK), (2, OK), (3, OK)]);
}

/// C9-60: an ATOMIC completes with its own response only.
#[test]
fn c9_060_atomic() {
    let swap = SendOp::CompareSwap {
        va: VA,
        rkey: RKEY,
        compare: 1,
        swap: 0,
    };
    for (op, code) in [(swap, WcOpcode::CompSwap), (ADD, WcOpcode::FetchAdd)] {
        let mut t = Tester::with(QpAttr {
            timeout: 0,
            ..usual()
        });
        let buffer = t.buffer(8, Access::LOCAL_WRITE);
        t.post(1, op, buffer);
        t.post(2, op, buffer);
        assert_eq!(t.sent().len(), 2);
        let value = 0xff2d_b500_1e58_b3e7;
        let ext = Ext {
            atomic_ack: Some(value),
            ..aeth(1)
        };
        t.inject(opcode::RC_ATOMIC_ACKNOWLEDGE, DUT_PSN, false, ext, &[]);
        assert_eq!(t.send_statuses(), [(1, OK)]);
        assert_eq!(
            (t.host.sends[0].opcode, t.host.sends[0].byte_len),
            (code, 8)
        );
        assert_eq!(t.bytes(buffer), value.to_ne_bytes());
        // A duplicate changes nothing.
        t.inject(opcode::RC_ATOMIC_ACKNOWLEDGE, DUT_PSN, false, ext, &[]);
        assert_eq!(t.send_statuses().len(), 1);
    }
}

/// C9-60: a READ completes with the last of its responses; a response acknowledges what came before.
#[test]
fn c9_060_read() {
    let mut t = Tester::new();
    let buffer = t.buffer(2048, Access::LOCAL_WRITE);
    t.post(1, WRITE, buffer);
    t.post(2, READ, buffer);
    assert_eq!(t.sent().len(), 3);
    t.inject(
        opcode::RC_READ_RESPONSE_FIRST,
        DUT_PSN + 2,
        false,
        aeth(2),
        &[1; 1024],
    );
    assert_eq!(t.send_statuses(), [(1, OK)]);
    t.inject(
        opcode::RC_READ_RESPONSE_LAST,
        DUT_PSN + 3,
        false,
        aeth(2),
        &[2; 1024],
    );
    assert_eq!(t.send_statuses(), [(1, OK), (2, OK)]);
    assert_eq!(t.host.sends[1].byte_len, 2048);
}

#[test]
fn an_acknowledge_past_a_read_means_that_its_response_was_lost() {
    let mut t = Tester::new();
    let buffer = t.buffer(1000, Access::LOCAL_WRITE);
    t.post(1, WRITE, buffer);
    t.post(2, READ, buffer);
    t.post(3, WRITE, buffer);
    assert_eq!(t.sent().len(), 3);
    t.ack(DUT_PSN + 2, 3);
    assert_eq!(
        t.send_statuses(),
        [(1, OK)],
        "what lies before the READ is acknowledged"
    );
    let again = t.sent();
    assert_eq!(
        again.iter().map(|p| p.bth.psn).collect::<Vec<_>>(),
        [DUT_PSN + 1, DUT_PSN + 2]
    );
    assert_eq!(t.sim().losses, 1);
    t.ack(DUT_PSN + 2, 3);
    t.none(); // the same loss, once
    t.inject(
        opcode::RC_READ_RESPONSE_ONLY,
        DUT_PSN + 1,
        false,
        aeth(2),
        &[7; 1000],
    );
    t.ack(DUT_PSN + 2, 3);
    assert_eq!(t.send_statuses(), [(1, OK), (2, OK), (3, OK)]);
}

#[test]
fn a_fence_waits_for_reads_and_atomics() {
    let mut t = Tester::new();
    let buffer = t.buffer(8, Access::LOCAL_WRITE);
    t.post(1, ADD, buffer);
    t.post(2, WRITE, buffer);
    t.post_flags(3, SendOp::Send, buffer, SendFlags::FENCE);
    assert_eq!(t.sent().len(), 2);
    let ext = Ext {
        atomic_ack: Some(1),
        ..aeth(1)
    };
    t.inject(opcode::RC_ATOMIC_ACKNOWLEDGE, DUT_PSN, false, ext, &[]);
    assert_eq!(t.one().bth.opcode, opcode::RC_SEND_ONLY);
}

#[test]
fn unsignaled_requests_complete_silently_and_free_their_slot() {
    let mut t = Tester::new();
    let buffer = t.buffer(8, Access::empty());
    for round in 0..100u32 {
        for _ in 0..16 {
            t.post_flags(9, WRITE, buffer, SendFlags::empty());
        }
        let request = SendRequest {
            wr_id: 0,
            op: WRITE,
            flags: SendFlags::SIGNALED,
            data: SendData::Sges(&[]),
        };
        assert!(t.qp.post_send(&request).is_err(), "the queue is full");
        t.sent();
        t.ack(DUT_PSN + round * 16 + 15, 0);
    }
    assert!(t.host.sends.is_empty());
}

#[test]
fn naks_end_the_connection_after_what_came_before() {
    for (nak, status) in [
        (NakCode::InvalidRequest, WcStatus::RemInvReqErr),
        (NakCode::RemoteAccessError, WcStatus::RemAccessErr),
        (NakCode::RemoteOperationalError, WcStatus::RemOpErr),
    ] {
        let mut t = Tester::new();
        let buffer = t.buffer(1025, Access::LOCAL_WRITE);
        t.post_recv(70, buffer);
        t.post_recv(71, buffer);
        t.post(1, WRITE, buffer);
        t.post_flags(2, WRITE, buffer, SendFlags::empty());
        t.post_flags(3, SendOp::Send, buffer, SendFlags::empty());
        t.sent();
        t.answer(Syndrome::Nak(nak), DUT_PSN + 2, 1);
        let flush = WcStatus::WrFlushErr;
        assert_eq!(t.send_statuses(), [(1, OK), (2, status), (3, flush)]);
        assert_eq!(t.recv_statuses(), [(70, flush), (71, flush)]);
        assert_eq!(t.qp.state(), QpState::Err);
        // Later requests are taken and flushed.
        t.post(4, READ, buffer);
        t.post_recv(72, buffer);
        t.none();
        assert_eq!(t.send_statuses().last(), Some(&(4, flush)));
        assert_eq!(t.recv_statuses().last(), Some(&(72, flush)));
    }
}

#[test]
fn ghosts_are_dropped() {
    let mut t = Tester::new();
    let buffer = t.buffer(2000, Access::LOCAL_WRITE);
    t.post(1, WRITE, buffer);
    t.sent();
    let before = t.qp.next_timeout();
    for psn in [
        DUT_PSN + 2,
        DUT_PSN + 1000,
        DUT_PSN - 1,
        DUT_PSN - 5,
        DUT_PSN ^ 0x80_0000,
    ] {
        t.now += 1;
        t.ack(psn, 1);
        t.answer(Syndrome::Nak(NakCode::RemoteAccessError), psn, 1);
        t.answer(Syndrome::RnrNak { timer: 1 }, psn, 1);
        t.answer(Syndrome::Reserved(0x9f), DUT_PSN, 1);
        t.inject(opcode::RC_READ_RESPONSE_ONLY, psn, false, aeth(1), &[0; 8]);
        t.inject(
            opcode::RC_READ_RESPONSE_ONLY,
            DUT_PSN,
            false,
            aeth(1),
            &[0; 8],
        );
    }
    assert!(t.host.sends.is_empty());
    assert_eq!((t.qp.next_timeout(), t.qp.state()), (before, QpState::Rts));
    t.ack(DUT_PSN + 1, 1);
    assert_eq!(t.send_statuses(), [(1, OK)]);
}

#[test]
fn a_read_response_of_the_wrong_length_is_a_bad_response() {
    let cases: [(u8, usize); 4] = [
        (opcode::RC_READ_RESPONSE_FIRST, 1023),
        (opcode::RC_READ_RESPONSE_LAST, 1024),
        (opcode::RC_READ_RESPONSE_ONLY, 1500),
        (opcode::RC_READ_RESPONSE_MIDDLE, 0),
    ];
    for (opcode, len) in cases {
        let mut t = Tester::new();
        let buffer = t.buffer(1500, Access::LOCAL_WRITE);
        t.post(1, READ, buffer);
        t.sent();
        let ext = if opcode == opcode::RC_READ_RESPONSE_MIDDLE {
            Ext::default()
        } else {
            aeth(1)
        };
        t.inject(opcode, DUT_PSN, false, ext, &vec![1; len]);
        assert_eq!(
            t.send_statuses(),
            [(1, WcStatus::BadRespErr)],
            "{opcode:#x} {len}"
        );
    }
}

#[test]
fn local_errors_wait_for_what_came_before() {
    let mut t = Tester::new();
    let good = t.buffer(10, Access::LOCAL_WRITE);
    let poor = t.buffer(3000, Access::empty());
    t.post(1, WRITE, good);
    t.post(2, READ, poor); // may not be written
    t.post(3, WRITE, good);
    assert_eq!(t.sent().len(), 1);
    assert!(t.host.sends.is_empty());
    t.ack(DUT_PSN, 1);
    let flush = WcStatus::WrFlushErr;
    assert_eq!(
        t.send_statuses(),
        [(1, OK), (2, WcStatus::LocProtErr), (3, flush)]
    );

    // A bad key, in one packet and in several.
    for len in [10, 5000] {
        let mut t = Tester::new();
        let sge = Sge {
            addr: 0,
            length: len,
            lkey: 1,
        };
        let data = SendData::Sges(&[sge]);
        let request = SendRequest {
            wr_id: 1,
            op: SendOp::Send,
            flags: SendFlags::empty(),
            data,
        };
        t.qp.post_send(&request).unwrap();
        t.none();
        assert_eq!(t.send_statuses(), [(1, WcStatus::LocProtErr)]);
    }
}

#[test]
fn reads_without_resources_are_a_local_operation_error() {
    let mut t = Tester::with(QpAttr {
        max_rd_atomic: 0,
        ..usual()
    });
    let buffer = t.buffer(8, Access::LOCAL_WRITE);
    t.post(1, READ, buffer);
    t.none();
    assert_eq!(t.send_statuses(), [(1, WcStatus::LocQpOpErr)]);
}

#[test]
fn outstanding_reads_and_atomics_are_limited() {
    let mut t = Tester::with(QpAttr {
        max_rd_atomic: 2,
        ..usual()
    });
    let buffer = t.buffer(8, Access::LOCAL_WRITE);
    for id in 0..4 {
        t.post(id, if id % 2 == 0 { READ } else { ADD }, buffer);
    }
    assert_eq!(t.sent().len(), 2);
    t.inject(
        opcode::RC_READ_RESPONSE_ONLY,
        DUT_PSN,
        false,
        aeth(1),
        &[0; 8],
    );
    assert_eq!(t.one().bth.psn, DUT_PSN + 2);
}

/// READ responses outstanding never exceed the window, and chunks are whole packets.
#[test]
fn long_reads_are_asked_for_in_chunks() {
    let mut t = Tester::new();
    t.opts.window = 40_000;
    let len = 300_000;
    let buffer = t.buffer(len, Access::LOCAL_WRITE);
    t.post(1, READ, buffer);
    let (mut asked, mut got, mut psn) = (0u32, 0u32, DUT_PSN);
    while got < len {
        for p in t.sent() {
            let reth = p.ext.reth.expect("a READ request");
            assert_eq!(
                (reth.va, p.bth.psn),
                (VA + u64::from(asked), (DUT_PSN + asked / 1024) & 0xff_ffff)
            );
            asked += reth.len;
            assert!(reth.len % 1024 == 0 || asked == len);
        }
        assert!(asked - got <= 40_000 && asked > got);
        let n = 1024.min(asked - got);
        let op = if got + n == asked {
            opcode::RC_READ_RESPONSE_LAST
        } else {
            opcode::RC_READ_RESPONSE_FIRST
        };
        // The end of each chunk is a last (or only) packet; where that is, the requester knows.
        let end = got + n == asked || (got + n) / 1024 % (40_000 / 4 / 1024) == 0;
        let op = if end {
            opcode::RC_READ_RESPONSE_LAST
        } else {
            op
        };
        t.inject(op, psn, false, aeth(0), &vec![9; n as usize]);
        psn += 1;
        got += n;
    }
    assert_eq!(t.send_statuses(), [(1, OK)]);
    assert!(t.bytes(buffer).iter().all(|b| *b == 9));
}

#[test]
fn requests_in_flight_stay_within_the_window() {
    let mut t = Tester::new();
    t.opts.window = 10_000;
    let buffer = t.buffer(100_000, Access::LOCAL_WRITE);
    t.post(1, WRITE, buffer);
    let (mut sent, mut acked) = (0, 0);
    while acked < 98 {
        let packets = t.sent();
        sent += packets.len();
        assert!(sent - acked <= 9, "{sent} {acked}");
        assert!(
            packets.last().is_none_or(|p| p.bth.ack_req),
            "the one that fills the window asks"
        );
        if packets.is_empty() {
            panic!("stuck at {sent}");
        }
        acked = sent;
        t.ack(DUT_PSN + acked as u32 - 1, 0);
    }
    assert_eq!(t.send_statuses(), [(1, OK)]);
}

fn credits(t: &mut Tester, psn: u32, msn: u32, count: u32) {
    let aeth = Aeth::new(Syndrome::Ack(CreditCode::for_count(count)), msn);
    let ext = Ext {
        aeth: Some(aeth),
        ..Ext::default()
    };
    t.inject(opcode::RC_ACKNOWLEDGE, psn, false, ext, &[]);
}

#[test]
fn end_to_end_credits_let_one_message_too_many_go() {
    let mut t = Tester::new();
    let buffer = t.buffer(8, Access::empty());
    for id in 0..10 {
        t.post(id, SendOp::Send, buffer);
    }
    // Nothing is known yet, then the first answer says 2 more.
    let first = t.sent().len() as u32;
    assert_eq!(first, 10);

    let mut t = Tester::new();
    let buffer = t.buffer(8, Access::empty());
    t.post(0, SendOp::Send, buffer);
    t.one();
    credits(&mut t, DUT_PSN, 1, 2);
    for id in 1..10 {
        t.post(id, SendOp::Send, buffer);
    }
    assert_eq!(t.sent().len(), 3, "2 credits and one limited");
    credits(&mut t, DUT_PSN + 1, 2, 1); // no news
    t.none();
    credits(&mut t, DUT_PSN + 3, 4, 0);
    assert_eq!(t.sent().len(), 1, "one limited");
    // RDMA WRITEs need no credits, but what comes after them in the queue waits.
    credits(&mut t, DUT_PSN + 4, 5, 31);
    assert_eq!(t.sent().len(), 5);
}

#[test]
fn draining_stops_between_messages() {
    let mut t = Tester::new();
    t.opts.window = 2048;
    let buffer = t.buffer(4096, Access::empty());
    t.post(1, WRITE, buffer);
    t.post(2, WRITE, buffer);
    assert_eq!(t.sent().len(), 2);
    use ferroce_transport::QpAttrMask as M;
    let sqd = QpAttr {
        qp_state: QpState::Sqd,
        en_sqd_async_notify: true,
        ..usual()
    };
    t.modify(&sqd, M::STATE | M::EN_SQD_ASYNC_NOTIFY).unwrap();
    assert!(t.qp.query().sq_draining);
    t.ack(DUT_PSN + 1, 0);
    assert_eq!(
        t.sent().len(),
        2,
        "the message that had begun is sent whole"
    );
    assert!(t.events().is_empty());
    t.ack(DUT_PSN + 3, 1);
    assert_eq!(t.events(), [QpEvent::SqDrained]);
    assert!(!t.qp.query().sq_draining);
    t.none();
    // Attributes may change now.
    t.modify(
        &QpAttr {
            timeout: 20,
            ..usual()
        },
        M::TIMEOUT,
    )
    .unwrap();
    t.go(QpState::Rts);
    assert_eq!(t.sent().len(), 2);
    assert_eq!(t.send_statuses(), [(1, OK)]);
}

#[test]
fn draining_an_idle_queue_is_done_at_once() {
    use ferroce_transport::QpAttrMask as M;
    let mut t = Tester::new();
    let sqd = QpAttr {
        qp_state: QpState::Sqd,
        en_sqd_async_notify: true,
        ..usual()
    };
    t.modify(&sqd, M::STATE | M::EN_SQD_ASYNC_NOTIFY).unwrap();
    assert_eq!(t.events(), [QpEvent::SqDrained]);
    let mut t = Tester::new();
    t.go(QpState::Sqd);
    assert!(t.events().is_empty(), "only if asked for");
}

#[test]
fn local_invalidate_waits_for_earlier_requests() {
    let mut t = Tester::new();
    let buffer = t.buffer(8, Access::LOCAL_WRITE);
    t.post(1, WRITE, buffer);
    t.post(
        2,
        SendOp::LocalInv(buffer.key),
        ferroce_sim::Buffer::default(),
    );
    t.one();
    assert!(t.memory().borrow().region(buffer.key).unwrap().valid);
    t.ack(DUT_PSN, 1);
    t.none();
    assert!(!t.memory().borrow().region(buffer.key).unwrap().valid);
    assert_eq!(t.send_statuses(), [(1, OK), (2, OK)]);
    t.post(
        3,
        SendOp::LocalInv(buffer.key),
        ferroce_sim::Buffer::default(),
    );
    t.none();
    assert_eq!(t.send_statuses().last(), Some(&(3, WcStatus::LocQpOpErr)));
}

#[test]
fn round_trips_are_measured_once_a_packet_and_not_on_retransmissions() {
    let mut t = Tester::new();
    let buffer = t.buffer(8, Access::empty());
    t.post(1, WRITE, buffer);
    t.one();
    t.now += 7_000;
    t.ack(DUT_PSN, 1);
    assert_eq!(t.sim().rtts, [7_000]);
    t.post(2, WRITE, buffer);
    t.one();
    t.expire();
    t.one();
    t.ack(DUT_PSN + 1, 2);
    assert_eq!(t.sim().rtts, [7_000]);
    assert_eq!(t.sim().timeouts, 1);
}
