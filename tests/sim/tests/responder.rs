//! What a responder accepts, refuses and answers.

use ferroce_sim::tester::{Sent, TT_PSN, Tester, reth, usual};
use ferroce_transport::{
    Access, QpAttr, QpEvent, QpState, RecvWqe, SendFlags, SendOp, WcData, WcOpcode, WcStatus,
};
use ferroce_wire::{AtomicEth, CreditCode, Ext, NakCode, Syndrome, opcode};
use smallvec::smallvec;

const RW: Access = Access::LOCAL_WRITE
    .union(Access::REMOTE_WRITE)
    .union(Access::REMOTE_READ);

fn imm(value: [u8; 4]) -> Ext {
    Ext {
        imm: Some(value),
        ..Ext::default()
    }
}

fn add(va: u64, rkey: u32, n: u64) -> Ext {
    Ext {
        atomic: Some(AtomicEth {
            va,
            rkey,
            swap_add: n,
            compare: 0,
        }),
        ..Ext::default()
    }
}

/// Asserts that the answer is this NAK, and that the connection is over.
#[track_caller]
fn refused(t: &mut Tester, code: NakCode, psn: u32) {
    let nak = t.one();
    assert_eq!(nak.nak(), Some((code, psn & 0xff_ffff)));
    assert_eq!(t.qp.state(), QpState::Err);
    t.none();
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
fn opcodes_out_of_sequence_are_invalid() {
    use opcode::*;
    let only = [RC_SEND_MIDDLE, RC_SEND_LAST, RC_WRITE_MIDDLE, RC_WRITE_LAST];
    for opcode in only {
        let mut t = Tester::new();
        t.inject(opcode, TT_PSN, false, Ext::default(), &[0; 1024]);
        refused(&mut t, NakCode::InvalidRequest, TT_PSN);
        assert_eq!(t.events(), [QpEvent::ReqErr]);
    }
    // In the middle of a SEND nothing but its middle or last will do.
    for opcode in [
        RC_SEND_FIRST,
        RC_SEND_ONLY,
        RC_WRITE_FIRST,
        RC_WRITE_MIDDLE,
        RC_WRITE_LAST,
        RC_READ_REQUEST,
        RC_FETCH_ADD,
    ] {
        let mut t = Tester::new();
        let buffer = t.buffer(5000, RW);
        t.post_recv(1, buffer);
        t.post_recv(2, buffer);
        t.inject(RC_SEND_FIRST, TT_PSN, false, Ext::default(), &[0; 1024]);
        let ext = match opcode {
            RC_FETCH_ADD => add(buffer.va, buffer.key, 1),
            RC_WRITE_FIRST | RC_READ_REQUEST => reth(buffer.va, buffer.key, 2000),
            _ => Ext::default(),
        };
        t.inject(opcode, TT_PSN + 1, false, ext, &[0; 1024]);
        refused(&mut t, NakCode::InvalidRequest, TT_PSN + 1);
        let want = [(1, WcStatus::RemInvReqErr), (2, WcStatus::WrFlushErr)];
        assert_eq!(t.recv_statuses(), want);
    }
}

#[test]
fn payload_lengths_must_fit_the_place_in_the_message() {
    use opcode::*;
    for (opcode, len) in [
        (RC_SEND_FIRST, 1023),
        (RC_SEND_FIRST, 1025),
        (RC_SEND_ONLY, 1025),
        (RC_WRITE_FIRST, 1000),
        (RC_WRITE_ONLY, 1025),
    ] {
        let mut t = Tester::new();
        let buffer = t.buffer(5000, RW);
        t.post_recv(1, buffer);
        let ext = match opcode {
            RC_WRITE_FIRST | RC_WRITE_ONLY => reth(buffer.va, buffer.key, 1025),
            _ => Ext::default(),
        };
        t.inject(opcode, TT_PSN, false, ext, &vec![0; len]);
        refused(&mut t, NakCode::InvalidRequest, TT_PSN);
    }
    for (opcode, len) in [
        (RC_SEND_MIDDLE, 1000),
        (RC_SEND_LAST, 0),
        (RC_SEND_LAST, 1025),
    ] {
        let mut t = Tester::new();
        let buffer = t.buffer(5000, RW);
        t.post_recv(1, buffer);
        t.inject(RC_SEND_FIRST, TT_PSN, false, Ext::default(), &[0; 1024]);
        t.inject(opcode, TT_PSN + 1, false, Ext::default(), &vec![0; len]);
        refused(&mut t, NakCode::InvalidRequest, TT_PSN + 1);
    }
}

#[test]
fn an_rdma_write_is_as_long_as_its_reth_says() {
    use opcode::*;
    // Length announced, and the packets that come.
    let cases: [(u32, &[(u8, usize)]); 6] = [
        (9, &[(RC_WRITE_ONLY, 10)]),
        (11, &[(RC_WRITE_ONLY, 10)]),
        (1024, &[(RC_WRITE_FIRST, 1024)]),
        (2048, &[(RC_WRITE_FIRST, 1024), (RC_WRITE_MIDDLE, 1024)]),
        (2048, &[(RC_WRITE_FIRST, 1024), (RC_WRITE_LAST, 1000)]),
        ((1 << 30) + 1, &[(RC_WRITE_FIRST, 1024)]),
    ];
    for (len, packets) in cases {
        let mut t = Tester::new();
        let buffer = t.buffer(5000, RW);
        for (i, (opcode, n)) in packets.iter().enumerate() {
            let ext = if i == 0 {
                reth(buffer.va, buffer.key, len)
            } else {
                Ext::default()
            };
            t.inject(*opcode, TT_PSN + i as u32, false, ext, &vec![0; *n]);
        }
        refused(
            &mut t,
            NakCode::InvalidRequest,
            TT_PSN + packets.len() as u32 - 1,
        );
    }
}

#[test]
fn access_is_checked_for_the_whole_range_with_the_first_packet() {
    let rights = Access::REMOTE_READ | Access::REMOTE_WRITE | Access::REMOTE_ATOMIC;
    for (what, mr, qp, opcode) in [
        (
            "rights of the region",
            Access::LOCAL_WRITE,
            rights,
            opcode::RC_WRITE_FIRST,
        ),
        (
            "rights of the queue pair",
            RW,
            rights - Access::REMOTE_WRITE,
            opcode::RC_WRITE_FIRST,
        ),
        (
            "rights of the region",
            Access::LOCAL_WRITE,
            rights,
            opcode::RC_READ_REQUEST,
        ),
        (
            "rights of the queue pair",
            RW,
            rights - Access::REMOTE_READ,
            opcode::RC_READ_REQUEST,
        ),
        ("rights of the region", RW, rights, opcode::RC_FETCH_ADD),
        (
            "rights of the queue pair",
            RW | Access::REMOTE_ATOMIC,
            rights - Access::REMOTE_ATOMIC,
            opcode::RC_FETCH_ADD,
        ),
        ("bounds", RW, rights, opcode::RC_WRITE_FIRST),
        ("bounds", RW, rights, opcode::RC_READ_REQUEST),
        ("key", RW, rights, opcode::RC_WRITE_FIRST),
    ] {
        let mut t = Tester::with(QpAttr {
            qp_access_flags: qp,
            ..usual()
        });
        let buffer = t.buffer(2048, mr);
        let before = t.bytes(buffer);
        let len = if what == "bounds" { 2049 } else { 2048 };
        let key = if what == "key" { 3 } else { buffer.key };
        let (ext, payload) = match opcode {
            opcode::RC_FETCH_ADD => (add(buffer.va, key, 1), 0),
            opcode::RC_READ_REQUEST => (reth(buffer.va, key, len), 0),
            _ => (reth(buffer.va, key, len), 1024),
        };
        t.inject(opcode, TT_PSN, true, ext, &vec![7; payload]);
        refused(&mut t, NakCode::RemoteAccessError, TT_PSN);
        assert_eq!(t.events(), [QpEvent::AccessErr], "{what}");
        assert_eq!(t.bytes(buffer), before);
    }
}

#[test]
fn nothing_is_checked_where_nothing_is_moved() {
    let mut t = Tester::with(QpAttr {
        qp_access_flags: Access::empty(),
        ..usual()
    });
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
fn atomics_must_be_aligned() {
    let mut t = Tester::new();
    let buffer = t.buffer(16, Access::REMOTE_ATOMIC);
    t.inject(
        opcode::RC_FETCH_ADD,
        TT_PSN,
        true,
        add(buffer.va + 4, buffer.key, 1),
        &[],
    );
    refused(&mut t, NakCode::InvalidRequest, TT_PSN);
    assert_eq!(t.sim().atomics, 0);
}

#[test]
fn a_receive_that_is_too_short_is_a_local_length_error() {
    let mut t = Tester::new();
    let short = t.buffer(1500, Access::LOCAL_WRITE);
    t.post_recv(1, short);
    t.post_recv(2, short);
    t.inject(
        opcode::RC_SEND_FIRST,
        TT_PSN,
        false,
        Ext::default(),
        &[1; 1024],
    );
    t.inject(
        opcode::RC_SEND_LAST,
        TT_PSN + 1,
        true,
        Ext::default(),
        &[1; 477],
    );
    refused(&mut t, NakCode::InvalidRequest, TT_PSN + 1);
    assert_eq!(
        t.recv_statuses(),
        [(1, WcStatus::LocLenErr), (2, WcStatus::WrFlushErr)]
    );
    assert!(t.events().is_empty(), "the completion tells");
}

#[test]
fn a_bad_receive_buffer_is_the_responders_fault() {
    let mut t = Tester::new();
    let poor = t.buffer(100, Access::empty());
    t.post_recv(1, poor);
    t.inject(opcode::RC_SEND_ONLY, TT_PSN, true, Ext::default(), &[1; 10]);
    refused(&mut t, NakCode::RemoteOperationalError, TT_PSN);
    assert_eq!(t.recv_statuses(), [(1, WcStatus::LocProtErr)]);
}

#[test]
fn more_reads_than_resources_are_invalid() {
    let mut t = Tester::with(QpAttr {
        max_dest_rd_atomic: 2,
        ..usual()
    });
    let buffer = t.buffer(4096, RW | Access::REMOTE_ATOMIC);
    t.inject(
        opcode::RC_READ_REQUEST,
        TT_PSN,
        true,
        reth(buffer.va, buffer.key, 4096),
        &[],
    );
    t.inject(
        opcode::RC_FETCH_ADD,
        TT_PSN + 4,
        true,
        add(buffer.va, buffer.key, 1),
        &[],
    );
    t.inject(
        opcode::RC_READ_REQUEST,
        TT_PSN + 5,
        true,
        reth(buffer.va, buffer.key, 1),
        &[],
    );
    let sent = t.sent();
    assert_eq!(sent.len(), 6, "what was accepted is answered first");
    assert_eq!(sent[5].nak(), Some((NakCode::InvalidRequest, TT_PSN + 5)));
    assert_eq!(t.qp.state(), QpState::Err);

    // One at a time they are fine.
    let mut t = Tester::with(QpAttr {
        max_dest_rd_atomic: 1,
        ..usual()
    });
    let buffer = t.buffer(64, RW);
    for i in 0..20 {
        t.inject(
            opcode::RC_READ_REQUEST,
            TT_PSN + i,
            true,
            reth(buffer.va, buffer.key, 64),
            &[],
        );
        t.one();
    }
}

fn positions(sent: &[Sent]) -> Vec<(u8, u32)> {
    sent.iter()
        .map(|p| (p.bth.opcode, p.bth.psn - TT_PSN))
        .collect()
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
fn duplicate_sends_and_writes_are_acknowledged_again_and_not_placed() {
    let mut t = Tester::new();
    let buffer = t.buffer(10, RW);
    t.post_recv(1, buffer);
    t.inject(opcode::RC_SEND_ONLY, TT_PSN, true, Ext::default(), &[1; 10]);
    t.inject(
        opcode::RC_WRITE_ONLY,
        TT_PSN + 1,
        true,
        reth(buffer.va, buffer.key, 5),
        &[2; 5],
    );
    t.one();
    t.inject(opcode::RC_SEND_ONLY, TT_PSN, true, Ext::default(), &[1; 10]);
    let ack = t.one();
    assert_eq!(
        (ack.bth.psn, ack.ext.aeth.map(|a| a.msn)),
        (TT_PSN + 1, Some(2))
    );
    assert_eq!(t.host.receives.len(), 1);
    assert_eq!(t.bytes(buffer)[0], 2);
}

#[test]
fn a_duplicate_atomic_is_replayed_and_not_repeated() {
    let mut t = Tester::new();
    let cell = t.buffer(8, Access::REMOTE_ATOMIC);
    t.memory().borrow_mut().put(cell.va, &10u64.to_ne_bytes());
    for i in 0..4 {
        t.inject(
            opcode::RC_FETCH_ADD,
            TT_PSN + i,
            true,
            add(cell.va, cell.key, 5),
            &[],
        );
    }
    let first: Vec<_> = t.sent().iter().map(|p| p.ext.atomic_ack).collect();
    assert_eq!(first, [Some(10), Some(15), Some(20), Some(25)]);
    for i in [1, 3, 3] {
        t.inject(
            opcode::RC_FETCH_ADD,
            TT_PSN + i,
            true,
            add(cell.va, cell.key, 5),
            &[],
        );
        let again = t.one();
        assert_eq!(again.ext.atomic_ack, first[i as usize]);
        assert!(again.again);
    }
    assert_eq!(t.sim().atomics, 4);
    // One more pushes the oldest record out: the requester cannot want it any more.
    t.inject(
        opcode::RC_FETCH_ADD,
        TT_PSN + 4,
        true,
        add(cell.va, cell.key, 5),
        &[],
    );
    t.one();
    t.inject(
        opcode::RC_FETCH_ADD,
        TT_PSN,
        true,
        add(cell.va, cell.key, 5),
        &[],
    );
    t.none();
    assert_eq!(t.sim().atomics, 5);
}

#[test]
fn a_duplicate_read_is_executed_again_from_where_it_asks() {
    use opcode::*;
    let mut t = Tester::new();
    let buffer = t.buffer(4000, RW);
    t.inject(
        RC_READ_REQUEST,
        TT_PSN,
        true,
        reth(buffer.va, buffer.key, 4000),
        &[],
    );
    assert_eq!(t.sent().len(), 4);
    let fresh = vec![0x55; 4000];
    t.memory().borrow_mut().put(buffer.va, &fresh);
    let part = reth(buffer.va + 2048, buffer.key, 1952);
    t.inject(RC_READ_REQUEST, TT_PSN + 2, true, part, &[]);
    let again = t.sent();
    assert_eq!(
        positions(&again),
        [(RC_READ_RESPONSE_FIRST, 2), (RC_READ_RESPONSE_LAST, 3)]
    );
    assert!(
        again
            .iter()
            .all(|p| p.again && p.payload.iter().all(|b| *b == 0x55))
    );
    // Something else under the same PSN is not a duplicate, nor is one whose key is gone.
    t.inject(RC_READ_REQUEST, TT_PSN + 1, true, part, &[]);
    t.none();
    t.memory().borrow_mut().invalidate(buffer.key).unwrap();
    t.inject(RC_READ_REQUEST, TT_PSN + 2, true, part, &[]);
    t.none();
    assert_eq!(t.qp.state(), QpState::Rts);
}

#[test]
fn a_region_that_goes_away_under_a_read_is_an_access_error() {
    let mut t = Tester::new();
    let buffer = t.buffer(4000, RW);
    t.inject(
        opcode::RC_READ_REQUEST,
        TT_PSN,
        true,
        reth(buffer.va, buffer.key, 4000),
        &[],
    );
    t.memory().borrow_mut().invalidate(buffer.key).unwrap();
    refused(&mut t, NakCode::RemoteAccessError, TT_PSN);
    assert_eq!(t.events(), [QpEvent::AccessErr]);
}

#[test]
fn a_region_that_goes_away_under_a_replay_ends_the_replay_only() {
    let mut t = Tester::new();
    let buffer = t.buffer(4000, RW);
    let request = reth(buffer.va, buffer.key, 4000);
    t.inject(opcode::RC_READ_REQUEST, TT_PSN, true, request, &[]);
    assert_eq!(t.sent().len(), 4);
    t.inject(opcode::RC_READ_REQUEST, TT_PSN, true, request, &[]);
    t.memory().borrow_mut().invalidate(buffer.key).unwrap();
    t.none();
    assert_eq!(t.qp.state(), QpState::Rts);
    t.inject(opcode::RC_WRITE_ONLY, TT_PSN + 4, true, reth(0, 0, 0), &[]);
    assert_eq!(t.one().bth.psn, TT_PSN + 4);
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
fn a_shared_receive_queue_gives_no_credits_and_announces_the_last_request() {
    let mut t = Tester::in_state(usual(), QpState::Rts, true);
    let buffer = t.buffer(2000, Access::LOCAL_WRITE);
    assert!(t.qp.post_recv(1, &[]).is_err());
    for wr_id in 0..3 {
        let wqe = RecvWqe {
            wr_id,
            sges: smallvec![buffer.sge()],
        };
        t.sim().srq.push_back(wqe);
    }
    t.inject(opcode::RC_SEND_ONLY, TT_PSN, true, Ext::default(), &[1; 10]);
    assert_eq!(
        t.one().syndrome(),
        Some(Syndrome::Ack(CreditCode::UNLIMITED))
    );
    t.inject(
        opcode::RC_SEND_FIRST,
        TT_PSN + 1,
        true,
        Ext::default(),
        &[1; 1024],
    );
    t.go(QpState::Err);
    assert_eq!(
        t.recv_statuses(),
        [(0, WcStatus::Success), (1, WcStatus::WrFlushErr)]
    );
    assert_eq!(t.events(), [QpEvent::LastWqeReached]);
    assert_eq!(t.sim().srq.len(), 1, "what was not taken stays");
    t.none();
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
        }
        t.post_flags(
            1,
            SendOp::Write { va: 0, rkey: 1 },
            buffer,
            SendFlags::empty(),
        );
        assert_eq!(t.sent().len(), 2 - alone);
        t.ack(ferroce_sim::tester::DUT_PSN + i, 0);
    }
    // Without replies it is over soon; a flush always helps.
    for i in 20..30 {
        t.inject(opcode::RC_WRITE_ONLY, TT_PSN + i, true, ext, &[1]);
    }
    assert!(!t.qp.ack_deferrable());
    t.one();
}

#[test]
fn psns_wrap() {
    let mut t = Tester::with(QpAttr {
        rq_psn: 0xff_fffe,
        ..usual()
    });
    let buffer = t.buffer(4096, RW);
    t.inject(
        opcode::RC_READ_REQUEST,
        0xff_fffe,
        true,
        reth(buffer.va, buffer.key, 4096),
        &[],
    );
    let psns: Vec<_> = t.sent().iter().map(|p| p.bth.psn).collect();
    assert_eq!(psns, [0xff_fffe, 0xff_ffff, 0, 1]);
    t.inject(
        opcode::RC_WRITE_ONLY,
        2,
        true,
        reth(buffer.va, buffer.key, 1),
        &[1],
    );
    assert_eq!(t.one().bth.psn, 2);
    let rest = reth(buffer.va + 3072, buffer.key, 1024);
    t.inject(opcode::RC_READ_REQUEST, 1, true, rest, &[]);
    assert_eq!(t.one().bth.psn, 1);
}
