//! Answers that are lost towards a peer that understands selective acknowledgements, packet by
//! packet: what comes early is placed, and only what is missing is asked for again.

use ferroce_sim::memory::Buffer;
use ferroce_sim::tester::{DUT_PSN, Sent, TT_PSN, Tester, aeth, reth, usual};
use ferroce_transport::{Access, Duration, QpAttr, QpState, SendOp, WcStatus};
use ferroce_wire::{Ext, opcode::*};

const MTU: u32 = 1024;
const VA: u64 = 0x10_0000;
const RW: Access = Access::LOCAL_WRITE
    .union(Access::REMOTE_WRITE)
    .union(Access::REMOTE_READ);

/// PSN from the first on, offset and length of each READ request.
fn asked(sent: &[Sent]) -> Vec<(u32, u64, u32)> {
    let of = |p: &Sent| {
        assert_eq!(p.bth.opcode, RC_READ_REQUEST, "{p:?}");
        let reth = p.ext.reth.expect("a RETH");
        (p.bth.psn - DUT_PSN, reth.va - VA, reth.len)
    };
    sent.iter().map(of).collect()
}

/// The response `i` of a connection whose first request is a READ of `count` packets.
fn respond(t: &mut Tester, i: u32, opcode: u8) {
    let ext = match opcode {
        RC_READ_RESPONSE_MIDDLE => Ext::default(),
        _ => aeth(1),
    };
    t.inject(
        opcode,
        DUT_PSN + i,
        false,
        ext,
        &[i as u8 + 1; MTU as usize],
    );
}

/// A tester that has asked for `count` packets, and got the first from a peer that understands
/// after 100 us.
fn reader(attr: QpAttr, count: u32) -> (Tester, Buffer) {
    let mut t = Tester::selective(attr);
    let buffer = t.buffer(count * MTU, RW);
    t.post(1, SendOp::Read { va: VA, rkey: 7 }, buffer);
    assert_eq!(asked(&t.sent()), [(0, 0, count * MTU)]);
    t.now += Duration::from_micros(100);
    respond(&mut t, 0, RC_READ_RESPONSE_FIRST);
    t.none();
    (t, buffer)
}

/// Which packets of a buffer hold what their response had.
fn placed(t: &Tester, buffer: Buffer) -> Vec<u32> {
    let bytes = t.bytes(buffer);
    let all = (0..).zip(bytes.chunks(MTU as usize));
    all.filter(|(i, chunk)| chunk.iter().all(|b| *b == *i as u8 + 1))
        .map(|(i, _)| i)
        .collect()
}

/// What is sent first when nothing comes any more.
fn after_silence(t: &mut Tester) -> Vec<Sent> {
    loop {
        t.expire().expect("a timer");
        let sent = t.sent();
        if !sent.is_empty() {
            return sent;
        }
    }
}

#[test]
fn only_the_responses_that_are_missing_are_asked_for_again() {
    let (mut t, buffer) = reader(usual(), 12);
    for i in [3, 4, 5, 7, 8, 9] {
        respond(&mut t, i, RC_READ_RESPONSE_MIDDLE);
    }
    assert_eq!(placed(&t, buffer), [0, 3, 4, 5, 7, 8, 9]);
    let sent = t.sent();
    assert_eq!(asked(&sent), [(1, 1024, 2048), (6, 6 * 1024, 1024)]);
    assert!(sent.iter().all(|p| p.again && p.bth.ack_req));
    assert!(t.host.losses > 0 && t.host.timeouts == 0);

    // The parts have first and last packets of their own.
    t.now += Duration::from_micros(100);
    respond(&mut t, 10, RC_READ_RESPONSE_MIDDLE);
    respond(&mut t, 11, RC_READ_RESPONSE_LAST);
    respond(&mut t, 1, RC_READ_RESPONSE_FIRST);
    respond(&mut t, 2, RC_READ_RESPONSE_LAST);
    assert!(t.send_statuses().is_empty());
    respond(&mut t, 6, RC_READ_RESPONSE_ONLY);
    t.none();
    assert_eq!(t.send_statuses(), [(1, WcStatus::Success)]);
    assert_eq!(placed(&t, buffer), (0..12).collect::<Vec<_>>());
    assert_eq!(t.qp.next_timeout(), None);
}

#[test]
fn what_comes_twice_or_late_is_not_placed_again() {
    let (mut t, buffer) = reader(usual(), 6);
    for i in [2, 3, 4] {
        respond(&mut t, i, RC_READ_RESPONSE_MIDDLE);
    }
    assert_eq!(asked(&t.sent()), [(1, 1024, 1024)]);
    let zero = |t: &mut Tester, i: u32| {
        let at = buffer.va + u64::from(i * MTU);
        t.memory().borrow_mut().put(at, &[0; MTU as usize]);
    };
    zero(&mut t, 3);
    respond(&mut t, 3, RC_READ_RESPONSE_MIDDLE);
    assert_eq!(placed(&t, buffer), [0, 2, 4]);

    // The first answer was late, not lost.
    respond(&mut t, 1, RC_READ_RESPONSE_MIDDLE);
    respond(&mut t, 5, RC_READ_RESPONSE_LAST);
    assert_eq!(t.send_statuses(), [(1, WcStatus::Success)]);
    zero(&mut t, 1);
    for (i, opcode) in [(1, RC_READ_RESPONSE_ONLY), (4, RC_READ_RESPONSE_MIDDLE)] {
        respond(&mut t, i, opcode);
    }
    t.none();
    assert_eq!(placed(&t, buffer), [0, 2, 4, 5]);
    assert_eq!(t.qp.state(), QpState::Rts);
}

#[test]
fn a_part_is_asked_for_only_of_what_the_peer_has_taken() {
    let (mut t, _) = reader(usual(), 2);
    let second = t.buffer(4 * MTU, RW);
    t.post(2, SendOp::Read { va: VA, rkey: 7 }, second);
    assert_eq!(asked(&t.sent()), [(2, 0, 4 * MTU)]);

    // Nothing shows that the second READ has come: it is asked for as it was.
    assert_eq!(asked(&after_silence(&mut t)), [(2, 0, 4 * MTU)]);
    assert_eq!(asked(&after_silence(&mut t)), [(1, 1024, 1024)]);

    // Of one that has been answered in part the last response says the most.
    let (mut t, _) = reader(usual(), 6);
    assert_eq!(asked(&after_silence(&mut t)), [(5, 5 * 1024, 1024)]);
    assert_eq!(asked(&after_silence(&mut t)), [(1, 1024, 4 * 1024)]);
}

#[test]
fn a_peer_that_does_not_understand_is_asked_from_the_gap_on() {
    let mut t = Tester::selective(usual());
    t.peer_selective = false;
    let buffer = t.buffer(6 * MTU, RW);
    t.post(1, SendOp::Read { va: VA, rkey: 7 }, buffer);
    t.sent();
    respond(&mut t, 0, RC_READ_RESPONSE_FIRST);
    respond(&mut t, 2, RC_READ_RESPONSE_MIDDLE);
    assert_eq!(asked(&t.sent()), [(1, 1024, 5 * 1024)]);
    assert_eq!(placed(&t, buffer), [0]);
}

#[test]
fn other_answers_are_taken_early_too() {
    let (mut t, buffer) = reader(usual(), 3);
    let word = t.buffer(8, RW);
    let nothing = t.buffer(0, RW);
    let add = SendOp::FetchAdd {
        va: VA,
        rkey: 7,
        add: 1,
    };
    t.post(2, add, word);
    t.post(3, SendOp::Send, nothing);
    assert_eq!(t.sent().len(), 2);
    let value = Ext {
        atomic_ack: Some(99),
        ..aeth(2)
    };
    t.inject(RC_ATOMIC_ACKNOWLEDGE, DUT_PSN + 3, false, value, &[]);
    assert_eq!(t.bytes(word), 99u64.to_ne_bytes());

    // An acknowledgement of what comes after says as much.
    t.ack(DUT_PSN + 4, 3);
    t.none();
    t.expire();
    assert_eq!(asked(&t.sent()), [(1, 1024, 2048)]);
    respond(&mut t, 1, RC_READ_RESPONSE_FIRST);
    assert!(t.send_statuses().is_empty());
    respond(&mut t, 2, RC_READ_RESPONSE_LAST);
    t.none();
    let all = [1, 2, 3].map(|id| (id, WcStatus::Success));
    assert_eq!(t.send_statuses(), all);
    assert_eq!(placed(&t, buffer), [0, 1, 2]);
    assert_eq!(t.qp.next_timeout(), None);
}

#[test]
fn what_is_wrong_beyond_a_gap_is_refused_in_its_turn() {
    let (mut t, buffer) = reader(usual(), 6);
    // Of no length that a response has here, and the last where none ends.
    t.inject(
        RC_READ_RESPONSE_MIDDLE,
        DUT_PSN + 2,
        false,
        Ext::default(),
        &[9; 40],
    );
    t.inject(
        RC_READ_RESPONSE_LAST,
        DUT_PSN + 3,
        false,
        aeth(1),
        &[9; MTU as usize],
    );
    t.inject(
        RC_READ_RESPONSE_MIDDLE,
        DUT_PSN + 5,
        false,
        Ext::default(),
        &[9; MTU as usize],
    );
    t.none();
    assert_eq!(placed(&t, buffer), [0]);
    assert_eq!(t.qp.state(), QpState::Rts);

    respond(&mut t, 1, RC_READ_RESPONSE_MIDDLE);
    t.inject(
        RC_READ_RESPONSE_MIDDLE,
        DUT_PSN + 2,
        false,
        Ext::default(),
        &[9; 40],
    );
    assert_eq!(t.send_statuses(), [(1, WcStatus::BadRespErr)]);
}

#[test]
fn a_buffer_that_goes_away_is_noticed_in_its_turn() {
    let (mut t, buffer) = reader(usual(), 4);
    t.memory().borrow_mut().invalidate(buffer.key).unwrap();
    for i in [2, 3] {
        respond(&mut t, i, RC_READ_RESPONSE_MIDDLE);
    }
    assert_eq!((t.qp.state(), t.send_statuses().len()), (QpState::Rts, 0));
    respond(&mut t, 1, RC_READ_RESPONSE_MIDDLE);
    assert_eq!(t.send_statuses(), [(1, WcStatus::LocProtErr)]);
}

#[test]
fn a_part_that_is_never_answered_spends_the_retries() {
    let attr = QpAttr {
        retry_cnt: 2,
        ..usual()
    };
    let (mut t, _) = reader(attr, 6);
    for i in [2, 3, 4] {
        respond(&mut t, i, RC_READ_RESPONSE_MIDDLE);
    }
    while t.send_statuses().is_empty() && t.expire().is_some() {
        t.sent();
    }
    assert_eq!(t.send_statuses(), [(1, WcStatus::RetryExcErr)]);
    assert_eq!(t.host.timeouts, 3);
}

/// Opcodes and PSNs from the first on.
fn positions(sent: &[Sent]) -> Vec<(u8, u32)> {
    let of = |p: &Sent| (p.bth.opcode, p.bth.psn - TT_PSN);
    sent.iter().map(of).collect()
}

#[test]
fn a_peer_that_understands_is_answered_again_in_turn() {
    let mut t = Tester::selective(usual());
    t.opts.budget = 1;
    let buffer = t.buffer(6000, RW);
    let ask = |t: &mut Tester, psn: u32, from: u64, len: u32| {
        let range = reth(buffer.va + from, buffer.key, len);
        t.inject(RC_READ_REQUEST, TT_PSN + psn, true, range, &[]);
    };
    ask(&mut t, 0, 0, 4000);
    for (opcode, psn) in [(RC_READ_RESPONSE_FIRST, 0), (RC_READ_RESPONSE_MIDDLE, 1)] {
        assert_eq!(positions(&t.call()), [(opcode, psn)]);
    }
    // Twice the same, another one, what is yet to come, and a new request.
    ask(&mut t, 0, 0, 1024);
    ask(&mut t, 0, 0, 1024);
    ask(&mut t, 1, 1024, 2048);
    ask(&mut t, 3, 3072, 928);
    ask(&mut t, 4, 4000, 2000);
    let want = [
        (RC_READ_RESPONSE_MIDDLE, 2),
        (RC_READ_RESPONSE_LAST, 3),
        (RC_READ_RESPONSE_ONLY, 0),
        (RC_READ_RESPONSE_FIRST, 1),
        (RC_READ_RESPONSE_LAST, 2),
        (RC_READ_RESPONSE_FIRST, 4),
        (RC_READ_RESPONSE_LAST, 5),
    ];
    let sent = t.sent();
    assert_eq!(positions(&sent), want);
    let again: Vec<bool> = sent.iter().map(|p| p.again).collect();
    assert_eq!(again, [false, false, true, true, true, false, false]);
    let bytes = t.bytes(buffer);
    assert_eq!(sent[3].payload, bytes[1024..2048]);
    assert_eq!(sent[4].payload, bytes[2048..3072]);
    t.none();
}

#[test]
fn what_waits_to_be_answered_again_is_bounded_and_goes_with_its_record() {
    let attr = QpAttr {
        max_dest_rd_atomic: 1,
        ..usual()
    };
    let mut t = Tester::selective(attr);
    t.opts.budget = 1;
    let buffer = t.buffer(3000 * MTU, RW);
    let ask = |t: &mut Tester, psn: u32, from: u32, len: u32| {
        let range = reth(buffer.va + u64::from(from), buffer.key, len);
        t.inject(RC_READ_REQUEST, TT_PSN + psn, true, range, &[]);
    };
    ask(&mut t, 0, 0, 2000 * MTU);
    assert_eq!(t.sent().len(), 2000);
    for i in 0..2000 {
        ask(&mut t, i, i * MTU, MTU);
    }
    assert_eq!(t.sent().len(), 1024);

    ask(&mut t, 0, 0, MTU);
    ask(&mut t, 5, 5 * MTU, MTU);
    ask(&mut t, 2000, 2000 * MTU, 2 * MTU);
    let want = [
        (RC_READ_RESPONSE_FIRST, 2000),
        (RC_READ_RESPONSE_LAST, 2001),
    ];
    assert_eq!(positions(&t.sent()), want);
    assert_eq!(t.qp.state(), QpState::Rts);
}
