//! Local ACK Timeout, RNR wait, and the two retry counters.

use ferroce_sim::tester::{DUT_PSN, Tester, aeth, usual};
use ferroce_transport::{Access, Duration, QpAttr, QpState, SendOp, WcStatus};
use ferroce_wire::{NakCode, Syndrome, opcode, rnr_timer_nanos};

const READ: SendOp = SendOp::Read {
    va: 0x99_9000,
    rkey: 0x12345,
};
const WRITE: SendOp = SendOp::Write {
    va: 0x99_9000,
    rkey: 0x12345,
};

/// C9-142, C9-143: a READ whose response never comes is sent `retry_cnt` times more, each time
/// after T_tr to 4·T_tr, then completes with RETRY_EXC_ERR, once, and the rest is flushed.
#[test]
fn c9_142_outstanding_request_timeout() {
    for exponent in [1, 8, 18, 31] {
        let mut t = Tester::with(QpAttr {
            timeout: exponent,
            retry_cnt: 2,
            ..usual()
        });

        let t_tr = Duration::from_nanos(4096 << exponent);
        let buffer = t.buffer(1024, Access::LOCAL_WRITE);
        t.post(1, READ, buffer);
        t.post(2, SendOp::Send, buffer);
        let first = t.sent();
        assert_eq!(first.len(), 2);

        for _ in 0..2 {
            let sent_at = t.now;
            t.expire().expect("the timer runs");
            assert!(
                (t_tr..=4 * t_tr).contains(&(t.now - sent_at)),
                "{:?}",
                t.now - sent_at
            );
            let again = t.sent();
            assert_eq!(again.len(), 2);
            assert_eq!(again[0].bth.opcode, opcode::RC_READ_REQUEST);
            assert_eq!((again[0].bth.psn, again[0].ext), (DUT_PSN, first[0].ext));
            assert!(again.iter().all(|p| p.again));
            assert!(t.host.sends.is_empty());
        }

        t.expire().expect("the timer runs");
        t.none();
        assert_eq!(
            t.send_statuses(),
            [(1, WcStatus::RetryExcErr), (2, WcStatus::WrFlushErr)]
        );

        assert_eq!(t.qp.state(), QpState::Err);
        assert_eq!(t.qp.next_timeout(), None);
    }
}

/// A peer that is stopped for longer than all retries together is waited for where the device
/// stretches timeouts. The attributes are as they were set.
#[test]
fn stretched_timeouts_wait_for_a_stopped_peer() {
    let t_tr = Duration::from_nanos(4096 << 14);
    let stopped_for = 100 * t_tr;
    for (stretch, ending) in [(1, WcStatus::RetryExcErr), (50, WcStatus::Success)] {
        let mut t = Tester::stretched(usual(), stretch);
        let buffer = t.buffer(10, Access::LOCAL_WRITE);
        let began = t.now;
        t.post(1, WRITE, buffer);
        assert_eq!(t.sent().len(), 1);

        let due = t.qp.next_timeout().expect("the timer runs") - began;
        assert!(
            (stretch * t_tr..=stretch * 4 * t_tr).contains(&due),
            "{due:?}"
        );

        while t.host.sends.is_empty() && t.qp.next_timeout().expect("runs") < began + stopped_for {
            t.expire();
            t.sent();
        }

        if t.host.sends.is_empty() {
            t.ack(DUT_PSN, 1);
        }

        assert_eq!(t.send_statuses(), [(1, ending)]);
        assert_eq!((t.qp.query().timeout, t.qp.query().retry_cnt), (14, 7));
    }
}

/// A peer that waits for a processor for 22 times T_tr is waited for: after the first timeout each
/// takes T_tr longer (C9-142), until something is heard of the peer.
#[test]
fn a_peer_that_stays_silent_is_given_longer() {
    let t_tr = Duration::from_nanos(4096 << 14);
    let mut t = Tester::new();
    let buffer = t.buffer(10, Access::LOCAL_WRITE);
    let began = t.now;
    t.post(1, WRITE, buffer);
    t.sent();
    while t.qp.next_timeout().expect("runs") < began + 22 * t_tr {
        t.expire();
        t.sent();
    }
    assert!(t.host.sends.is_empty());
    t.ack(DUT_PSN, 1);
    assert_eq!(t.send_statuses(), [(1, WcStatus::Success)]);

    t.post(2, WRITE, buffer);
    t.sent();
    let first = t.qp.next_timeout().expect("runs") - t.now;
    assert!((2 * t_tr..3 * t_tr).contains(&first), "{first:?}");
    t.expire();
    t.sent();
    let second = t.qp.next_timeout().expect("runs") - t.now;
    assert!((3 * t_tr..4 * t_tr).contains(&second), "{second:?}");
}

#[test]
fn a_timeout_of_zero_is_infinite() {
    let mut t = Tester::with(QpAttr {
        timeout: 0,
        ..usual()
    });
    let buffer = t.buffer(10, Access::LOCAL_WRITE);
    t.post(1, WRITE, buffer);
    t.one();
    assert_eq!(t.qp.next_timeout(), None);
}

#[test]
fn the_timer_runs_only_while_something_is_outstanding() {
    let mut t = Tester::new();
    let buffer = t.buffer(10, Access::LOCAL_WRITE);
    assert_eq!(t.qp.next_timeout(), None);
    t.post(1, WRITE, buffer);
    t.post(2, WRITE, buffer);
    t.sent();
    let first = t.qp.next_timeout().expect("runs");
    t.now += Duration::from_micros(1);
    t.ack(DUT_PSN, 1);
    let second = t.qp.next_timeout().expect("still runs");
    assert!(
        second >= t.now + Duration::from_nanos(4096 << 14),
        "restarts on progress ({first:?})"
    );

    t.ack(DUT_PSN + 1, 2);
    assert_eq!(t.qp.next_timeout(), None);
}

#[test]
fn progress_restores_the_retry_count() {
    let mut t = Tester::with(QpAttr {
        retry_cnt: 1,
        ..usual()
    });
    let buffer = t.buffer(3000, Access::LOCAL_WRITE);
    t.post(1, WRITE, buffer);
    t.sent();
    t.expire();
    assert_eq!(t.sent().len(), 3);
    t.ack(DUT_PSN, 0);
    t.expire();
    assert_eq!(t.sent().len(), 2);
    t.ack(DUT_PSN + 1, 0);
    t.expire();
    assert_eq!(t.sent().len(), 1);
    t.ack(DUT_PSN + 2, 1);
    assert_eq!(t.send_statuses(), [(1, WcStatus::Success)]);
    assert_eq!(t.host.timeouts, 3);
}

/// A READ response is progress, and what is asked for again begins with the missing packet.
#[test]
fn a_read_goes_on_where_it_stopped() {
    let mut t = Tester::with(QpAttr {
        retry_cnt: 1,
        ..usual()
    });
    let buffer = t.buffer(3000, Access::LOCAL_WRITE);
    t.post(1, READ, buffer);
    assert_eq!(t.one().ext.reth.map(|r| r.len), Some(3000));
    t.inject(
        opcode::RC_READ_RESPONSE_FIRST,
        DUT_PSN,
        false,
        aeth(1),
        &[1; 1024],
    );

    t.expire();
    let again = t.one();
    let reth = again.ext.reth.expect("RETH");
    assert_eq!(
        (again.bth.psn, reth.va, reth.len),
        (DUT_PSN + 1, 0x99_9400, 1976)
    );

    t.inject(
        opcode::RC_READ_RESPONSE_FIRST,
        DUT_PSN + 1,
        false,
        aeth(1),
        &[2; 1024],
    );

    t.inject(
        opcode::RC_READ_RESPONSE_LAST,
        DUT_PSN + 2,
        false,
        aeth(1),
        &[3; 952],
    );

    assert_eq!(t.send_statuses(), [(1, WcStatus::Success)]);
    let bytes = t.bytes(buffer);
    assert!(
        bytes[..1024] == [1; 1024] && bytes[1024..2048] == [2; 1024] && bytes[2048..] == [3; 952]
    );
}

/// Every RNR timer code: nothing is sent before its time has passed, and then it is sent again.
#[test]
fn rnr_nak_waits_as_long_as_the_responder_says() {
    for timer in 0..32 {
        let mut t = Tester::new();
        let buffer = t.buffer(1500, Access::LOCAL_WRITE);
        t.post(1, SendOp::Send, buffer);
        assert_eq!(t.sent().len(), 2);
        t.answer(Syndrome::RnrNak { timer }, DUT_PSN, 0);
        t.none();
        let due = t.qp.next_timeout().expect("the wait is timed");
        assert_eq!(due, t.now + Duration::from_nanos(rnr_timer_nanos(timer)));
        t.now = due - Duration::from_nanos(1);
        t.qp.handle_timeout(t.now, &mut t.host);
        t.none();
        t.expire();
        let again = t.sent();
        assert_eq!(again.len(), 2);
        assert_eq!((again[0].bth.psn, again[0].again), (DUT_PSN, true));
        t.ack(DUT_PSN + 1, 1);
        assert_eq!(t.send_statuses(), [(1, WcStatus::Success)]);
    }
}

#[test]
fn rnr_retries_are_counted_for_themselves() {
    let mut t = Tester::with(QpAttr {
        rnr_retry: 3,
        retry_cnt: 0,
        ..usual()
    });
    let buffer = t.buffer(10, Access::LOCAL_WRITE);
    t.post(1, SendOp::Send, buffer);
    t.post(2, SendOp::Send, buffer);

    for _ in 0..3 {
        t.sent();
        t.answer(Syndrome::RnrNak { timer: 1 }, DUT_PSN, 0);
        // A duplicate of it while waiting counts for nothing.
        t.answer(Syndrome::RnrNak { timer: 1 }, DUT_PSN, 0);
        assert!(t.host.sends.is_empty());
        t.expire();
    }

    t.sent();
    t.answer(Syndrome::RnrNak { timer: 1 }, DUT_PSN, 0);
    assert_eq!(
        t.send_statuses(),
        [(1, WcStatus::RnrRetryExcErr), (2, WcStatus::WrFlushErr)]
    );
}

#[test]
fn an_rnr_retry_of_7_never_ends() {
    let mut t = Tester::new();
    let buffer = t.buffer(10, Access::LOCAL_WRITE);
    t.post(1, SendOp::Send, buffer);
    for _ in 0..100 {
        t.one();
        t.answer(Syndrome::RnrNak { timer: 1 }, DUT_PSN, 0);
        t.expire();
    }
    t.one();
    t.ack(DUT_PSN, 1);
    assert_eq!(t.send_statuses(), [(1, WcStatus::Success)]);
}

#[test]
fn sequence_naks_count_as_retries_and_resume_at_their_psn() {
    let mut t = Tester::with(QpAttr {
        retry_cnt: 2,
        ..usual()
    });
    let buffer = t.buffer(4096, Access::LOCAL_WRITE);
    t.post(1, WRITE, buffer);
    assert_eq!(t.sent().len(), 4);
    let nak = Syndrome::Nak(NakCode::PsnSequenceError);
    t.answer(nak, DUT_PSN + 2, 0);
    let again = t.sent();
    assert_eq!(
        again.iter().map(|p| p.bth.psn).collect::<Vec<_>>(),
        [DUT_PSN + 2, DUT_PSN + 3]
    );

    t.now += Duration::from_millis(1);
    t.answer(nak, DUT_PSN + 2, 0);
    assert_eq!(t.sent().len(), 2);
    t.now += Duration::from_millis(1);
    t.answer(nak, DUT_PSN + 2, 0);
    assert_eq!(t.send_statuses(), [(1, WcStatus::RetryExcErr)]);
    assert_eq!(t.host.losses, 3);
}

/// A responder that answered, and then had to wait for a processor: each of its old answers shows
/// that the first is missing, and arrives alone. They are not taken for losses of what was sent
/// again, however many come, until they could be.
#[test]
fn old_answers_that_show_a_missing_response_do_not_use_the_retries_up() {
    let mut t = Tester::with(QpAttr {
        retry_cnt: 7,
        ..usual()
    });
    let buffer = t.buffer(8, Access::LOCAL_WRITE);
    let post = |t: &mut Tester, wr_id: u64| t.post(wr_id, READ, buffer);
    let response = |t: &mut Tester, n: u32| {
        let psn = DUT_PSN + n;
        t.inject(
            opcode::RC_READ_RESPONSE_ONLY,
            psn,
            false,
            aeth(n + 1),
            &[3; 8],
        );
    };

    post(&mut t, 0);
    t.sent();
    t.now += Duration::from_micros(50);
    response(&mut t, 0);
    (1..4).for_each(|i| post(&mut t, i));
    assert_eq!(t.sent().len(), 3);

    t.now += Duration::from_micros(50);
    response(&mut t, 3);
    assert_eq!(t.sent().len(), 3, "all from the missing one on");
    let mut again = 0;
    for _ in 0..50 {
        t.now += Duration::from_micros(200);
        response(&mut t, 3);
        again += usize::from(!t.sent().is_empty());
    }
    assert_eq!(t.send_statuses(), [(0, WcStatus::Success)]);
    // Three times at the next answer, as the round trip is short, then after 1.6 and 3.2 ms.
    assert_eq!((again, t.host.losses), (5, 6));

    (1..4).for_each(|n| response(&mut t, n));
    assert_eq!(t.send_statuses().len(), 4);
    assert!(
        t.send_statuses()
            .iter()
            .all(|(_, status)| *status == WcStatus::Success)
    );

    // Where a response is missing for good, retries end it all the same (C9-143).
    post(&mut t, 4);
    post(&mut t, 5);
    t.sent();
    for _ in 0..200 {
        t.now += Duration::from_micros(500);
        response(&mut t, 5);
        t.sent();
    }
    assert_eq!(t.send_statuses()[4], (4, WcStatus::RetryExcErr));
}
