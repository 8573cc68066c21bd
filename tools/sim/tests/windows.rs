//! Memory window binds and invalidates: when they are carried out, and in which order they
//! complete.

use ferroce_sim::Buffer;
use ferroce_sim::tester::{DUT_PSN, TT_PSN, Tester, aeth, reth};
use ferroce_transport::{
    Access, QpState, QpType, SendFlags, SendOp, WcData, WcOpcode, WcStatus, WindowBind,
};
use ferroce_wire::opcode::*;
use ferroce_wire::{Ext, NakCode};

const WINDOW: u32 = 0x9001;
const READ: SendOp = SendOp::Read { va: 8, rkey: 8 };

fn bind(region: Buffer, rkey: u32, access: Access) -> SendOp {
    SendOp::BindMw(WindowBind {
        window: 1,
        rkey,
        lkey: region.key,
        addr: region.va + 10,
        len: 20,
        access,
    })
}

fn region(t: &mut Tester) -> Buffer {
    t.buffer(100, Access::LOCAL_WRITE | Access::MW_BIND)
}

/// Is the window bound, and valid?
fn bound(t: &Tester, rkey: u32) -> bool {
    t.memory().borrow().region(rkey).is_some_and(|r| r.valid)
}

fn post(t: &mut Tester, wr_id: u64, op: SendOp, flags: SendFlags) {
    t.post_flags(wr_id, op, Buffer::default(), flags | SendFlags::SIGNALED);
}

#[test]
fn a_window_can_be_reached_as_it_was_bound() {
    for service in [QpType::Rc, QpType::Uc] {
        let mut t = Tester::service(service);
        let r = region(&mut t);
        post(
            &mut t,
            1,
            bind(r, WINDOW, Access::REMOTE_WRITE),
            SendFlags::empty(),
        );

        t.none();
        let c = t.host.sends[0];
        assert_eq!((c.status, c.opcode), (WcStatus::Success, WcOpcode::BindMw));
        let base = if service == QpType::Rc {
            0
        } else {
            UC_SEND_FIRST
        };

        let write = reth(r.va + 29, WINDOW, 1);
        t.inject(RC_WRITE_ONLY | base, TT_PSN, false, write, &[0xaa]);
        assert_eq!(t.bytes(r)[29], 0xaa);
        let write = reth(r.va + 30, WINDOW, 1);
        t.inject(RC_WRITE_ONLY | base, TT_PSN + 1, false, write, &[0xbb]);
        assert_ne!(t.bytes(r)[30], 0xbb, "outside the window");
    }
}

#[test]
fn a_bind_needs_no_answers_and_completes_in_its_turn() {
    let mut t = Tester::new();
    let r = region(&mut t);
    let buffer = t.buffer(2000, Access::LOCAL_WRITE);
    t.post(1, SendOp::Send, buffer);
    post(
        &mut t,
        2,
        bind(r, WINDOW, Access::REMOTE_READ),
        SendFlags::empty(),
    );

    t.post(3, SendOp::Send, buffer);
    let sent = t.sent();

    // The send after it may tell the peer the key: then the window is there.
    assert!(bound(&t, WINDOW));
    assert_eq!(sent.len(), 4);
    assert_eq!(sent[3].bth.psn, DUT_PSN + 3, "a bind takes no PSN");
    assert!(t.host.sends.is_empty());

    // Everything may be sent again without binding again.
    t.expire();
    assert_eq!(t.sent().len(), 4);
    t.ack(DUT_PSN, 0);
    assert!(t.host.sends.is_empty());
    t.ack(DUT_PSN + 1, 1);
    assert_eq!(
        t.send_statuses(),
        [(1, WcStatus::Success), (2, WcStatus::Success)]
    );

    t.ack(DUT_PSN + 3, 2);
    assert_eq!(t.send_statuses()[2..], [(3, WcStatus::Success)]);
    assert_eq!(t.qp.next_timeout(), None);
}

/// The window's accounting is right afterwards: with nothing outstanding a queue of small windows
/// goes on.
#[test]
fn binds_cost_nothing_of_the_window() {
    let mut t = Tester::new();
    t.opts.window = 2048;
    let r = region(&mut t);
    let buffer = t.buffer(1024, Access::LOCAL_WRITE);
    let mut psn = DUT_PSN;
    for round in 0..50u32 {
        t.post_flags(1, SendOp::Send, buffer, SendFlags::empty());
        post(
            &mut t,
            2,
            bind(r, WINDOW + round, Access::REMOTE_READ),
            SendFlags::empty(),
        );

        post(
            &mut t,
            3,
            SendOp::LocalInv(WINDOW + round),
            SendFlags::empty(),
        );

        t.post_flags(4, SendOp::Send, buffer, SendFlags::empty());
        for _ in 0..2 {
            assert_eq!(t.sent().len(), 1, "round {round}");
            t.ack(psn, round);
            psn += 1;
        }

        t.none();
    }

    assert_eq!(t.host.sends.len(), 100);
    assert!(t.host.sends.iter().all(|c| c.status == WcStatus::Success));
}

/// C10-78 goes for binds too.
#[test]
fn a_fenced_bind_waits_for_reads() {
    for (flags, waits) in [(SendFlags::FENCE, true), (SendFlags::empty(), false)] {
        let mut t = Tester::new();
        let r = region(&mut t);
        let buffer = t.buffer(8, Access::LOCAL_WRITE);
        t.post(1, READ, buffer);
        post(&mut t, 2, bind(r, WINDOW, Access::REMOTE_READ), flags);
        t.one();
        assert_eq!(bound(&t, WINDOW), !waits);
        t.inject(RC_READ_RESPONSE_ONLY, DUT_PSN, false, aeth(1), &[1; 8]);
        t.none();
        assert!(bound(&t, WINDOW));
        assert_eq!(
            t.send_statuses(),
            [(1, WcStatus::Success), (2, WcStatus::Success)]
        );
    }
}

#[test]
fn a_refused_bind_fails_after_what_came_before() {
    let mut t = Tester::new();
    let buffer = t.buffer(100, Access::LOCAL_WRITE);
    t.post(1, SendOp::Send, buffer);
    post(
        &mut t,
        2,
        bind(buffer, WINDOW, Access::REMOTE_READ),
        SendFlags::empty(),
    );

    t.post(3, SendOp::Send, buffer);
    t.one();
    t.none();
    assert!(t.host.sends.is_empty());
    t.ack(DUT_PSN, 1);
    assert_eq!(
        t.send_statuses(),
        [
            (1, WcStatus::Success),
            (2, WcStatus::MwBindErr),
            (3, WcStatus::WrFlushErr)
        ]
    );

    assert_eq!(t.qp.state(), QpState::Err);
}

#[test]
fn a_refused_bind_of_an_unreliable_connection_stops_its_send_queue() {
    let mut t = Tester::service(QpType::Uc);
    let buffer = t.buffer(100, Access::LOCAL_WRITE);
    t.post(1, SendOp::Send, buffer);
    post(
        &mut t,
        2,
        bind(buffer, WINDOW, Access::REMOTE_READ),
        SendFlags::empty(),
    );

    t.one();
    assert_eq!(
        t.send_statuses(),
        [(1, WcStatus::Success), (2, WcStatus::MwBindErr)]
    );

    assert_eq!(t.qp.state(), QpState::Sqe);
}

/// A local invalidate waits for everything before it, since that may still be gathered from the
/// region.
#[test]
fn an_invalidate_waits_for_what_may_be_sent_again() {
    let mut t = Tester::new();
    let buffer = t.buffer(100, Access::LOCAL_WRITE);
    t.post(1, SendOp::Send, buffer);
    post(&mut t, 2, SendOp::LocalInv(buffer.key), SendFlags::empty());
    t.one();
    t.expire();
    assert!(t.one().again);
    t.ack(DUT_PSN, 1);
    t.none();
    assert_eq!(
        t.send_statuses(),
        [(1, WcStatus::Success), (2, WcStatus::Success)]
    );

    assert_eq!(t.host.sends[1].opcode, WcOpcode::LocalInv);
    assert!(!bound(&t, buffer.key));
}

#[test]
fn a_send_can_invalidate_a_window_once() {
    let mut t = Tester::new();
    let r = region(&mut t);
    let buffer = t.buffer(10, Access::LOCAL_WRITE);
    post(
        &mut t,
        1,
        bind(r, WINDOW, Access::REMOTE_WRITE),
        SendFlags::empty(),
    );

    t.none();
    t.post_recv(7, buffer);
    t.post_recv(8, buffer);
    let inv = Ext {
        ieth: Some(WINDOW),
        ..Ext::default()
    };
    t.inject(RC_SEND_ONLY_INV, TT_PSN, true, inv, &[1; 10]);
    let c = t.host.receives[0];
    assert_eq!(
        (c.wr_id, c.status, c.data),
        (7, WcStatus::Success, WcData::Invalidated(WINDOW))
    );

    assert!(!bound(&t, WINDOW));
    t.one();
    t.inject(RC_SEND_ONLY_INV, TT_PSN + 1, true, inv, &[1; 10]);
    assert_eq!(
        t.one().nak(),
        Some((NakCode::RemoteAccessError, TT_PSN + 1))
    );

    assert_eq!(t.recv_statuses()[1], (8, WcStatus::LocAccessErr));
}
