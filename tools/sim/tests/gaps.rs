//! Selective acknowledgements, packet by packet: who speaks them with whom, what is kept, what is
//! sent again and when.

use ferroce_sim::tester::{DUT_PSN, Sent, TT_PSN, Tester, aeth, usual};
use ferroce_transport::{Access, Duration, SendOp, WcStatus};
use ferroce_wire::selective::Came;
use ferroce_wire::{Ext, NakCode, Syndrome, opcode};

const ACK: u8 = opcode::RC_ACKNOWLEDGE;
const SEND: u8 = opcode::RC_SEND_ONLY;
const SELECTIVE: u8 = opcode::RC_SELECTIVE_ACKNOWLEDGE;

/// Opcodes and PSNs, from `first` on.
fn positions(sent: &[Sent], first: u32) -> Vec<(u8, u32)> {
    let from = |psn: u32| psn.wrapping_sub(first) & 0xff_ffff;
    sent.iter()
        .map(|p| (p.bth.opcode, from(p.bth.psn)))
        .collect()
}

/// What a selective acknowledgement says has come, from the PSN after its own on.
fn came(sent: &Sent) -> Vec<u32> {
    let came = Came::parse(sent.payload[..].into()).expect("a bitmap");
    came.iter().map(|offset| offset + 1).collect()
}

fn receives(t: &mut Tester, count: u64) {
    for i in 0..count {
        let buffer = t.buffer(10, Access::LOCAL_WRITE);
        t.post_recv(i, buffer);
    }
}

fn send(t: &mut Tester, i: u32) {
    t.inject(
        opcode::RC_SEND_ONLY,
        TT_PSN + i,
        false,
        Ext::default(),
        &[i as u8; 10],
    );
}

#[test]
fn nothing_is_shown_to_a_peer_that_has_shown_nothing() {
    let mut t = Tester::open(usual());
    let buffer = t.buffer(100, Access::LOCAL_WRITE);
    t.post(1, SendOp::Send, buffer);
    assert!(
        t.one().bth.selective,
        "before the first answer nobody knows"
    );
    t.ack(DUT_PSN, 1);
    t.post(2, SendOp::Send, buffer);
    t.post(3, SendOp::Send, buffer);
    assert!(t.sent().iter().all(|p| !p.bth.selective));

    // What it does not speak means nothing.
    t.selective_ack(0, &[2]);
    t.none();
    t.answer(Syndrome::Nak(NakCode::PsnSequenceError), DUT_PSN + 1, 1);
    assert_eq!(t.sent().len(), 2, "all from the gap on");

    // Nor is anything of it kept.
    receives(&mut t, 3);
    send(&mut t, 1);
    let nak = t.one();
    assert_eq!(nak.nak(), Some((NakCode::PsnSequenceError, TT_PSN)));
    assert!(!nak.bth.selective);
    send(&mut t, 0);
    assert_eq!(t.receives().len(), 1);
}

#[test]
fn a_stranger_is_shown_nothing_until_somebody_introduces_it() {
    let mut t = Tester::reserved(usual());
    let buffer = t.buffer(100, Access::LOCAL_WRITE);
    for i in 0..2 {
        t.post(i, SendOp::Send, buffer);
    }
    assert!(t.sent().iter().all(|p| !p.bth.selective));

    t.qp.introduce();
    t.post(2, SendOp::Send, buffer);
    t.post(3, SendOp::Send, buffer);
    assert!(t.sent().iter().all(|p| p.bth.selective));

    // What it has answered to packets that showed nothing says nothing of it.
    t.ack(DUT_PSN + 1, 2);
    t.post(4, SendOp::Send, buffer);
    assert!(t.one().bth.selective);

    t.peer_selective = true;
    t.ack(DUT_PSN + 2, 3);
    t.selective_ack(2, &[4]);
    t.post(5, SendOp::Send, buffer);
    let sent = t.sent();
    assert_eq!(positions(&sent, DUT_PSN), [(SEND, 3), (SEND, 5)]);
    assert!(sent.iter().all(|p| p.bth.selective), "both know");
}

#[test]
fn who_is_introduced_and_has_not_heard_of_this_side_yet_is_shown_on() {
    let mut t = Tester::reserved(usual());
    let buffer = t.buffer(100, Access::LOCAL_WRITE);
    t.qp.introduce();
    for i in 0..3u32 {
        t.post(u64::from(i), SendOp::Send, buffer);
        assert!(t.one().bth.selective);
        t.ack(DUT_PSN + i, i + 1);
    }

    // Now it has.
    t.peer_selective = true;
    for i in 3..6u32 {
        t.post(u64::from(i), SendOp::Send, buffer);
    }
    assert_eq!(t.sent().len(), 3);
    t.selective_ack(2, &[4, 5]);
    t.expire();
    assert_eq!(t.again(), [3]);
}

#[test]
fn a_stranger_is_answered_without_whatever_its_reserved_bits_are() {
    let mut t = Tester::reserved(usual());
    t.peer_selective = true;
    receives(&mut t, 3);
    send(&mut t, 1);
    let nak = t.one();
    assert_eq!(nak.nak(), Some((NakCode::PsnSequenceError, TT_PSN)));
    assert!(!nak.bth.selective);

    t.qp.introduce();
    send(&mut t, 0);
    t.sent();
    send(&mut t, 2);
    let ack = t.one();
    assert_eq!((ack.bth.opcode, ack.bth.selective), (SELECTIVE, true));
    assert_eq!(came(&ack), [1]);
}

#[test]
fn without_it_nothing_is_shown_and_nothing_kept() {
    let mut t = Tester::new();
    t.peer_selective = true;
    let buffer = t.buffer(100, Access::LOCAL_WRITE);
    t.post(1, SendOp::Send, buffer);
    assert!(!t.one().bth.selective);
    receives(&mut t, 2);
    send(&mut t, 1);
    let nak = t.one();
    assert_eq!(nak.nak(), Some((NakCode::PsnSequenceError, TT_PSN)));
    assert!(!nak.bth.selective);
}

#[test]
fn what_comes_early_is_kept_and_carried_out_in_order() {
    let mut t = Tester::selective(usual());
    receives(&mut t, 6);
    send(&mut t, 0);
    t.none();
    for i in [2, 4, 5, 4] {
        send(&mut t, i);
    }

    // One answer for all that came together, whether it was asked for or not.
    let ack = t.one();
    assert_eq!((ack.bth.opcode, ack.bth.psn), (SELECTIVE, TT_PSN));
    assert!(ack.bth.selective);
    assert_eq!(
        (came(&ack), ack.ext.aeth.map(|a| a.msn)),
        (vec![1, 3, 4], Some(1))
    );
    assert_eq!(t.receives().len(), 1, "nothing before its turn");

    send(&mut t, 1);
    assert_eq!(t.receives().len(), 3);
    let ack = t.one();
    assert_eq!((ack.bth.opcode, ack.bth.psn), (SELECTIVE, TT_PSN + 2));
    assert_eq!(
        (came(&ack), ack.ext.aeth.map(|a| a.msn)),
        (vec![1, 2], Some(3))
    );

    send(&mut t, 3);
    assert_eq!(positions(&[t.one()], TT_PSN), [(ACK, 5)]);
    let ids: Vec<u64> = t.receives().iter().map(|c| c.wr_id).collect();
    assert_eq!(ids, [0, 1, 2, 3, 4, 5]);
}

#[test]
fn of_many_beyond_a_gap_the_peer_is_told_together() {
    let mut t = Tester::selective(usual());
    t.opts.flush_acks = false;
    receives(&mut t, 16);
    for i in 1..=3 {
        send(&mut t, i);
        assert_eq!(came(&t.one()).len(), i as usize);
    }
    for i in 4..=10 {
        send(&mut t, i);
        t.none();
    }
    send(&mut t, 11);
    assert_eq!(came(&t.one()), (1..=11).collect::<Vec<_>>());

    // One that asks, one that has waited for long enough, and one after which there is another gap.
    send(&mut t, 12);
    t.none();
    t.inject(SEND, TT_PSN + 13, true, Ext::default(), &[0; 10]);
    assert_eq!(came(&t.one()).len(), 13);
    send(&mut t, 14);
    t.none();
    // What is missing is not to be told later for what a wake-up costs.
    let least = Duration::from_millis(1);
    assert!(t.qp.has_pending_ack() && t.qp.ack_patience(least).is_zero());
    t.opts.flush_acks = true;
    assert_eq!(came(&t.one()).len(), 14);
    t.opts.flush_acks = false;
    send(&mut t, 16);
    t.none();
    send(&mut t, 0);
    assert_eq!(came(&t.one()), [1]);
}

#[test]
fn what_was_kept_and_is_refused_ends_the_connection_in_its_turn() {
    let mut t = Tester::selective(usual());
    receives(&mut t, 3);
    t.inject(
        opcode::RC_SEND_MIDDLE,
        TT_PSN + 1,
        true,
        Ext::default(),
        &[0; 1024],
    );
    send(&mut t, 2);
    assert_eq!(came(&t.one()), [1, 2]);
    send(&mut t, 0);
    let nak = t.one();
    assert_eq!(nak.nak(), Some((NakCode::InvalidRequest, TT_PSN + 1)));
    assert_eq!(
        t.receives().first().map(|c| c.status),
        Some(WcStatus::Success)
    );
    assert!(
        t.receives()[1..]
            .iter()
            .all(|c| c.status == WcStatus::WrFlushErr)
    );
}

#[test]
fn while_a_request_waits_for_its_receiver_nothing_is_kept() {
    let mut t = Tester::selective(usual());
    send(&mut t, 0);
    assert!(matches!(t.one().syndrome(), Some(Syndrome::RnrNak { .. })));
    receives(&mut t, 2);
    send(&mut t, 1);
    t.none();
    send(&mut t, 0);
    assert_eq!(t.receives().len(), 1);
}

#[test]
fn only_what_is_missing_is_sent_again() {
    let mut t = Tester::with_sends(8, 100);
    t.selective_ack(1, &[3, 5, 6, 7]);
    assert_eq!(t.again(), [2, 4]);

    // The same news again is none.
    t.selective_ack(1, &[3, 5, 6, 7]);
    t.none();
    t.ack(DUT_PSN + 7, 8);
    t.none();
    assert_eq!(
        t.send_statuses(),
        (0..8).map(|i| (i, WcStatus::Success)).collect::<Vec<_>>()
    );
    assert_eq!(t.qp.next_timeout(), None);
}

#[test]
fn what_few_have_overtaken_is_waited_for() {
    let mut t = Tester::with_sends(3, 100);
    t.selective_ack(0, &[2]);
    t.none();
    // A quarter of the round trip.
    let waits = t.qp.next_timeout().expect("a timer") - t.now;
    assert_eq!(waits, Duration::from_micros(25));
    t.expire();
    assert_eq!(t.again(), [1]);
}

#[test]
fn malformed_and_absurd_ones_change_nothing() {
    let mut t = Tester::with_sends(6, 100);
    let far = [0xff; 256];
    for bitmap in [
        &[0, 0, 0, 0][..],
        &[0x80, 0, 0, 0, 0, 0, 0, 0],
        &[0xf0, 0, 0],
    ] {
        t.inject(SELECTIVE, DUT_PSN, false, aeth(1), bitmap);
        t.none();
    }

    // Packets that were never sent have not come; what else it says is true.
    t.inject(SELECTIVE, DUT_PSN, false, aeth(1), &far);
    assert_eq!(t.again(), [1]);
    // Beyond what was sent: a ghost.
    t.inject(SELECTIVE, DUT_PSN + 40, false, aeth(1), &far);
    t.none();
    let nak = Ext {
        aeth: Some(ferroce_wire::Aeth::new(
            Syndrome::Nak(NakCode::InvalidRequest),
            1,
        )),
        ..Ext::default()
    };
    t.inject(SELECTIVE, DUT_PSN, false, nak, &[0x80, 0, 0, 0]);
    assert!(
        t.send_statuses()
            .iter()
            .all(|(_, status)| *status == WcStatus::Success)
    );
}
