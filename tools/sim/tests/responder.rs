//! What a responder accepts, and how it answers.

use ferroce_sim::tester::{DUT_PSN, Sent, TT_PSN, Tester, reth, usual};
use ferroce_transport::{Access, Duration, QpEvent, QpState, SendFlags, SendOp, WcData, WcOpcode};
use ferroce_wire::{CreditCode, Ext, NakCode, Syndrome, opcode};

const MTU: u32 = 1024;
const RW: Access = Access::LOCAL_WRITE
    .union(Access::REMOTE_WRITE)
    .union(Access::REMOTE_READ);

fn imm(value: [u8; 4]) -> Ext {
    Ext {
        imm: Some(value),
        ..Ext::default()
    }
}

fn positions(sent: &[Sent]) -> Vec<(u8, u32)> {
    sent.iter()
        .map(|p| (p.bth.opcode, p.bth.psn - TT_PSN))
        .collect()
}

#[test]
fn acknowledges_are_coalesced() {
    let mut t = Tester::new();
    let to = t.buffer(100, RW);
    for i in 0..10 {
        let payload = [i as u8; 10];
        let ext = reth(to.va + i * 10, to.key, 10);
        t.inject(
            opcode::RC_WRITE_ONLY,
            TT_PSN + i as u32,
            true,
            ext,
            &payload,
        );
    }

    assert!(t.qp.has_pending_ack());
    let ack = t.one();
    assert_eq!(ack.bth.psn, TT_PSN + 9);
    assert_eq!(ack.ext.aeth.map(|a| a.msn), Some(10));
    assert_eq!(t.bytes(to)[95], 9);
    assert!(!t.qp.has_pending_ack());
}

#[test]
fn nothing_is_acknowledged_unasked() {
    let mut t = Tester::new();
    let to = t.buffer(100, RW);
    t.inject(
        opcode::RC_WRITE_ONLY,
        TT_PSN,
        false,
        reth(to.va, to.key, 3),
        &[1; 3],
    );
    t.none();
}

#[test]
fn sends_are_received_with_what_they_carry() {
    let mut t = Tester::new();
    let buffer = t.buffer(3000, Access::LOCAL_WRITE);
    let key = t.buffer(1, Access::REMOTE_READ).key;
    for id in 0..4 {
        t.post_recv(id, buffer);
    }
    t.inject(
        opcode::RC_SEND_FIRST,
        TT_PSN,
        false,
        Ext::default(),
        &[1; 1024],
    );

    t.inject(
        opcode::RC_SEND_MIDDLE,
        TT_PSN + 1,
        false,
        Ext::default(),
        &[2; 1024],
    );

    assert!(
        t.host.receives.is_empty(),
        "not before the message is whole"
    );

    t.inject(
        opcode::RC_SEND_LAST_IMM,
        TT_PSN + 2,
        true,
        imm([9, 8, 7, 6]),
        &[3; 1],
    );

    t.inject(opcode::RC_SEND_ONLY, TT_PSN + 3, true, Ext::default(), &[]);
    let inv = Ext {
        ieth: Some(key),
        ..Ext::default()
    };
    t.inject(opcode::RC_SEND_ONLY_INV, TT_PSN + 4, true, inv, &[5; 5]);
    let got: Vec<_> = t
        .host
        .receives
        .iter()
        .map(|c| (c.wr_id, c.byte_len, c.data))
        .collect();

    let want = [
        (0, 2049, WcData::Imm([9, 8, 7, 6])),
        (1, 0, WcData::None),
        (2, 5, WcData::Invalidated(key)),
    ];
    assert_eq!(got, want);
    assert!(!t.memory().borrow().region(key).unwrap().valid);
    let ack = t.one();
    let want = Syndrome::Ack(CreditCode::for_count(1));
    assert_eq!((ack.syndrome(), ack.bth.psn), (Some(want), TT_PSN + 4));
}

#[test]
fn write_with_immediate_consumes_a_receive_when_whole() {
    let mut t = Tester::new();
    let to = t.buffer(2000, RW);
    t.inject(
        opcode::RC_WRITE_FIRST,
        TT_PSN,
        false,
        reth(to.va, to.key, 2000),
        &[1; 1024],
    );

    t.inject(
        opcode::RC_WRITE_LAST_IMM,
        TT_PSN + 1,
        true,
        imm([1; 4]),
        &[2; 976],
    );

    let rnr = t.one();
    assert_eq!(rnr.syndrome(), Some(Syndrome::RnrNak { timer: 12 }));
    assert_eq!(rnr.bth.psn, TT_PSN + 1);
    assert_ne!(
        t.bytes(to)[1024..],
        [2; 976],
        "nothing is placed without a receive request"
    );

    t.qp.post_recv(5, &[]).unwrap();
    t.inject(
        opcode::RC_WRITE_LAST_IMM,
        TT_PSN + 1,
        true,
        imm([1; 4]),
        &[2; 976],
    );

    let c = t.host.receives[0];
    assert_eq!(
        (c.wr_id, c.opcode, c.byte_len),
        (5, WcOpcode::RecvRdmaWithImm, 2000)
    );

    assert_eq!(t.one().ext.aeth.map(|a| a.msn), Some(1));
    assert_eq!(t.bytes(to)[1024..], [2; 976]);
}

#[test]
fn a_gap_is_refused_once() {
    let mut t = Tester::new();
    let to = t.buffer(100, RW);
    for psn in [2, 3, 1, 5] {
        t.inject(
            opcode::RC_WRITE_ONLY,
            TT_PSN + psn,
            true,
            reth(to.va, to.key, 1),
            &[9],
        );
    }

    assert_eq!(t.one().nak(), Some((NakCode::PsnSequenceError, TT_PSN)));
    t.inject(
        opcode::RC_WRITE_ONLY,
        TT_PSN + 6,
        true,
        reth(to.va, to.key, 1),
        &[9],
    );

    t.none();

    for psn in 0..2 {
        t.inject(
            opcode::RC_WRITE_ONLY,
            TT_PSN + psn,
            true,
            reth(to.va, to.key, 1),
            &[9],
        );
    }

    assert_eq!(t.one().bth.psn, TT_PSN + 1);
    t.inject(
        opcode::RC_WRITE_ONLY,
        TT_PSN + 7,
        true,
        reth(to.va, to.key, 1),
        &[9],
    );

    assert_eq!(t.one().nak(), Some((NakCode::PsnSequenceError, TT_PSN + 2)));
}

#[test]
fn a_gap_that_fills_before_the_nak_is_sent_needs_none() {
    let mut t = Tester::new();
    let to = t.buffer(100, RW);
    t.inject(
        opcode::RC_WRITE_ONLY,
        TT_PSN + 1,
        true,
        reth(to.va, to.key, 1),
        &[9],
    );

    t.inject(
        opcode::RC_WRITE_ONLY,
        TT_PSN,
        true,
        reth(to.va, to.key, 1),
        &[9],
    );

    assert_eq!(t.one().nak(), None);
}

#[test]
fn nothing_is_checked_where_nothing_is_moved() {
    let mut t = Tester::new();
    t.inject(opcode::RC_WRITE_ONLY, TT_PSN, true, reth(0, 99, 0), &[]);
    t.inject(
        opcode::RC_READ_REQUEST,
        TT_PSN + 1,
        true,
        reth(0, 99, 0),
        &[],
    );
    let answer = t.one();
    assert_eq!(
        (answer.bth.opcode, answer.bth.psn),
        (opcode::RC_READ_RESPONSE_ONLY, TT_PSN + 1)
    );
}

#[test]
fn responses_come_in_request_order_and_acks_do_not_overtake() {
    use opcode::*;

    let mut t = Tester::new();
    let buffer = t.buffer(4096, RW);
    t.inject(
        RC_READ_REQUEST,
        TT_PSN,
        true,
        reth(buffer.va, buffer.key, 3000),
        &[],
    );

    t.inject(
        RC_WRITE_ONLY,
        TT_PSN + 3,
        true,
        reth(buffer.va, buffer.key, 1),
        &[1],
    );

    t.opts.budget = 1;
    let mut sent = Vec::new();
    for _ in 0..10 {
        sent.extend(t.sent());
    }
    let want = [
        (RC_READ_RESPONSE_FIRST, 0),
        (RC_READ_RESPONSE_MIDDLE, 1),
        (RC_READ_RESPONSE_LAST, 2),
        (RC_ACKNOWLEDGE, 3),
    ];
    assert_eq!(positions(&sent), want);
    assert_eq!(
        sent[0].payload.len() + sent[1].payload.len() + sent[2].payload.len(),
        3000
    );
}

#[test]
fn communication_is_established_by_the_first_packet() {
    let mut t = Tester::in_state(usual(), QpState::Rtr, false);
    let buffer = t.buffer(10, RW);
    for i in 0..2 {
        t.inject(
            opcode::RC_WRITE_ONLY,
            TT_PSN + i,
            true,
            reth(buffer.va, buffer.key, 1),
            &[1],
        );
    }

    assert_eq!(t.events(), [QpEvent::CommEst]);
    assert_eq!(t.one().bth.psn, TT_PSN + 1);

    // Not before RTR, and not once in RTS.
    let mut t = Tester::in_state(usual(), QpState::Init, false);
    t.inject(
        opcode::RC_WRITE_ONLY,
        TT_PSN,
        true,
        reth(buffer.va, buffer.key, 0),
        &[],
    );

    t.none();
    let mut t = Tester::new();
    t.inject(
        opcode::RC_WRITE_ONLY,
        TT_PSN,
        true,
        reth(buffer.va, buffer.key, 0),
        &[],
    );

    assert!(t.events().is_empty());
}

#[test]
fn acks_wait_for_a_reply_in_ping_pong() {
    let mut t = Tester::new();
    let buffer = t.buffer(8, RW);
    t.opts.flush_acks = false;
    let ext = reth(buffer.va, buffer.key, 1);
    for i in 0..20 {
        t.inject(opcode::RC_WRITE_ONLY, TT_PSN + i, true, ext, &[1]);
        let alone = t.sent().len();
        if i > 5 {
            assert!(t.qp.ack_deferrable() && t.qp.has_pending_ack());
            assert_eq!(alone, 0);
            // Answers come at once here; a host may have its reasons to wait for longer.
            let least = Duration::from_micros(200);
            assert!(t.qp.ack_patience(Duration::ZERO) < least);
            assert_eq!(t.qp.ack_patience(least), least);
        }
        t.post_flags(
            1,
            SendOp::Write { va: 0, rkey: 1 },
            buffer,
            SendFlags::empty(),
        );
        assert_eq!(t.sent().len(), 2 - alone);
        t.ack(DUT_PSN + i, 0);
    }

    // Without replies it is over soon; a flush always helps.
    for i in 20..30 {
        t.inject(opcode::RC_WRITE_ONLY, TT_PSN + i, true, ext, &[1]);
    }
    assert!(!t.qp.ack_deferrable());
    t.one();
}

/// `exs_bw` of 1 MiB within a device answers each message with an advert of its next buffer, and
/// its sender waited for acknowledgements that waited for these: half of the bandwidth.
#[test]
fn in_ping_pong_only_the_end_of_a_message_waits_for_a_reply() {
    let mut t = Tester::new();
    let (buffer, own) = (t.buffer(MTU + 1, RW), t.buffer(1, RW));
    t.opts.flush_acks = false;
    let ext = reth(buffer.va, buffer.key, MTU + 1);
    for i in 0..20 {
        let psn = TT_PSN + 2 * i;
        let piece = vec![1; MTU as usize];
        t.inject(opcode::RC_WRITE_FIRST, psn, true, ext, &piece);
        assert_eq!(t.one().bth.opcode, opcode::RC_ACKNOWLEDGE);

        t.inject(opcode::RC_WRITE_LAST, psn + 1, true, Ext::default(), &[1]);
        let alone = t.sent().len();
        assert!(i < 6 || alone == 0, "the ACK of message {i} went alone");
        t.post_flags(1, SendOp::Write { va: 0, rkey: 1 }, own, SendFlags::empty());
        assert_eq!(t.sent().len(), 2 - alone);
        t.ack(DUT_PSN + i, 0);
    }
}
