//! Duplicate requests: acknowledged, replayed or executed again, and PSNs that wrap.

use ferroce_sim::tester::{Sent, TT_PSN, Tester, reth, usual};
use ferroce_transport::{Access, QpAttr, QpState};
use ferroce_wire::{AtomicEth, Ext, opcode};

const RW: Access = Access::LOCAL_WRITE
    .union(Access::REMOTE_WRITE)
    .union(Access::REMOTE_READ);

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

fn positions(sent: &[Sent]) -> Vec<(u8, u32)> {
    sent.iter()
        .map(|p| (p.bth.opcode, p.bth.psn - TT_PSN))
        .collect()
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

    assert_eq!(t.host.atomics, 4);

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
    assert_eq!(t.host.atomics, 5);
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

#[test]
fn a_duplicate_read_does_not_skip_what_is_still_to_be_sent() {
    use opcode::*;

    let mut t = Tester::new();
    t.opts.budget = 1;
    let buffer = t.buffer(4000, RW);
    let whole = reth(buffer.va, buffer.key, 4000);
    t.inject(RC_READ_REQUEST, TT_PSN, true, whole, &[]);
    assert_eq!(positions(&t.call()), [(RC_READ_RESPONSE_FIRST, 0)]);

    // Ahead of what was sent: it will come anyhow.
    let ahead = reth(buffer.va + 2048, buffer.key, 1952);
    t.inject(RC_READ_REQUEST, TT_PSN + 2, true, ahead, &[]);
    assert_eq!(positions(&t.call()), [(RC_READ_RESPONSE_MIDDLE, 1)]);

    // Behind it: begun over.
    t.inject(RC_READ_REQUEST, TT_PSN, true, whole, &[]);
    let want = [
        (RC_READ_RESPONSE_FIRST, 0),
        (RC_READ_RESPONSE_MIDDLE, 1),
        (RC_READ_RESPONSE_MIDDLE, 2),
        (RC_READ_RESPONSE_LAST, 3),
    ];

    let sent = t.sent();
    assert_eq!(positions(&sent), want);
    let again: Vec<_> = sent.iter().map(|p| p.again).collect();
    assert_eq!(again, [true, true, false, false]);
}

#[test]
fn a_new_request_ends_the_replay_of_the_oldest() {
    let mut t = Tester::with(QpAttr {
        max_dest_rd_atomic: 1,
        ..usual()
    });
    let buffer = t.buffer(4000, RW | Access::REMOTE_ATOMIC);
    let request = reth(buffer.va, buffer.key, 2000);
    t.inject(opcode::RC_READ_REQUEST, TT_PSN, true, request, &[]);
    assert_eq!(t.sent().len(), 2);
    t.inject(opcode::RC_READ_REQUEST, TT_PSN, true, request, &[]);
    t.inject(
        opcode::RC_FETCH_ADD,
        TT_PSN + 2,
        true,
        add(buffer.va, buffer.key, 1),
        &[],
    );

    assert_eq!(t.one().bth.psn, TT_PSN + 2);
    assert_eq!(t.qp.state(), QpState::Rts);
}
