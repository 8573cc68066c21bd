//! When requests complete, and what a lost answer does: the completer's rules.

use ferroce_sim::tester::{DUT_PSN, Tester, aeth, usual};
use ferroce_transport::{
    Access, Dest, Duration, QpAttr, QpState, SendData, SendFlags, SendOp, SendRequest, Sge,
    WcOpcode, WcStatus,
};
use ferroce_wire::{Ext, NakCode, Syndrome, opcode};

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

/// C9-60: a SEND or RDMA WRITE completes with the acknowledgement that covers all of its packets,
/// not before.
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

/// C9-60: a READ completes with the last of its responses; a response acknowledges what came
/// before.
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

    assert_eq!(t.host.losses, 1);
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
            dest: Dest::Connected,
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
        t.now += Duration::from_nanos(1);
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
            dest: Dest::Connected,
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
