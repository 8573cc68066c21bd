//! Requests that wait for company, and when they go: most of these are such as nobody acknowledges.

use std::sync::Arc;

use ferroce_control::Counter;
use ferroce_transport::{
    Datagram, Dest, Duration, QpAttr, QpAttrMask as M, QpState, SendData, SendFlags, SendOp,
    SendRequest,
};

use super::super::{Faults, Side};
use super::{QKEY, connected, for_datagrams, poll, wait};
use crate::progress::timers;
use crate::progress::virtual_time::VirtualTime;
use crate::tuning::{
    BURST, COMPANY_WAIT, DEEP_REQUESTS, GATHER, GATHER_UNANSWERED, MANY_UNSIGNALED,
};
use crate::verbs::ah::Ah;

/// As many do not wait.
const ALONE: u64 = BURST as u64;

fn handle(from: &Side, to: &Side) -> Arc<Ah> {
    from.pd.create_ah(&to.address(), 0).unwrap()
}

/// Two sides, and the first one's handle of the second.
fn begin() -> (VirtualTime, [Side; 2], Arc<Ah>) {
    let time = VirtualTime::begin();
    let sides = for_datagrams(Faults::default());
    let ah = handle(&sides[0], &sides[1]);
    (time, sides, ah)
}

fn destination(ah: &Ah, to: &Side) -> Dest {
    Dest::Datagram(Datagram {
        ah: ah.handle(),
        cookie: 0,
        qpn: to.qp.qp_num(),
        qkey: QKEY,
    })
}

/// Posts datagrams of a byte, one after the other: the clock goes on by a microsecond for each.
fn post(from: &Side, ah: &Ah, to: &Side, n: u64) {
    for _ in 0..n {
        from.post(SendOp::Send, SendData::Inline(&[7]), destination(ah, to));
    }
}

/// Lets more time pass than between two posts.
fn pause() {
    timers::now();
}

fn sent(side: &Side) -> u64 {
    side.count(Counter::TxPackets)
}

#[test]
fn many_in_a_row_go_together() {
    let (_time, sides, ah) = begin();
    let [a, b] = &sides;
    post(a, &ah, b, ALONE);
    assert_eq!(sent(a), ALONE);
    post(a, &ah, b, u64::from(GATHER_UNANSWERED) - 1);
    assert_eq!(sent(a), ALONE);
    post(a, &ah, b, 1);
    let all = ALONE + u64::from(GATHER_UNANSWERED);
    assert_eq!(sent(a), all);
    let [completions, _] = wait(&sides, [all as usize, 0]);
    assert!(completions.iter().all(|wc| wc.status == 0));
    assert_eq!(completions.len() as u64, all);
}

#[test]
fn a_pause_ends_the_row() {
    let (_time, [a, b], ah) = begin();
    for n in 1..=4 * ALONE {
        post(&a, &ah, &b, 1);
        assert_eq!(sent(&a), n);
        // As while an answer is awaited.
        pause();
    }
}

#[test]
fn a_long_list_is_company_enough() {
    let (_time, [a, b], ah) = begin();
    let list = |requests: u32| {
        let mut queue = a.qp.send_queue();
        for _ in 0..requests {
            let request = SendRequest {
                wr_id: 1,
                op: SendOp::Send,
                flags: SendFlags::SIGNALED,
                data: SendData::Inline(&[7]),
                dest: destination(&ah, &b),
            };
            queue.post(&request).unwrap();
        }
        queue.doorbell();
        sent(&a)
    };
    assert_eq!(list(16), 16);
    assert_eq!(list(DEEP_REQUESTS), 16 + u64::from(DEEP_REQUESTS));
    // A short one behind them waits, and goes with the next long one.
    assert_eq!(list(2), 16 + u64::from(DEEP_REQUESTS));
    assert_eq!(list(16), 34 + u64::from(DEEP_REQUESTS));
}

#[test]
fn what_waits_goes_when_the_program_looks() {
    let (_time, [a, b], ah) = begin();
    post(&a, &ah, &b, ALONE + 3);
    assert_eq!(sent(&a), ALONE);
    // What is there is taken first; who finds nothing more finds the rest.
    assert_eq!(poll(&a.cq).len() as u64, ALONE);
    assert_eq!(sent(&a), ALONE);
    assert_eq!(poll(&a.cq).len(), 3);
    assert_eq!(sent(&a), ALONE + 3);

    // Who asks for an event sleeps next.
    post(&a, &ah, &b, ALONE + 3);
    assert_eq!(sent(&a), 2 * ALONE + 3);
    a.cq.req_notify(false).unwrap();
    assert_eq!(sent(&a), 2 * (ALONE + 3));
}

#[test]
fn what_waits_goes_after_a_while() {
    let (_time, [a, b], ah) = begin();
    let mut all = 0;
    for alone in [ALONE, 2 * ALONE, 4 * ALONE] {
        post(&a, &ah, &b, alone + 1);
        assert_eq!(sent(&a), all + alone);
        let now = timers::now();
        a.hca.run_timers(now, false);
        assert_eq!(sent(&a), all + alone);
        all += alone + 1;
        // Nothing followed: the next time more of them do not wait.
        a.hca.run_timers(now + COMPANY_WAIT, false);
        assert_eq!(sent(&a), all);
        pause();
    }
}

#[test]
fn what_waits_goes_before_what_it_depends_on() {
    let (_time, [a, b], ah) = begin();
    let many = ALONE + 3;
    post(&a, &ah, &b, many);
    assert_eq!(sent(&a), ALONE);
    drop(ah);
    assert_eq!(sent(&a), many);

    let ah = handle(&a, &b);
    post(&a, &ah, &b, many);
    assert_eq!(sent(&a), many + ALONE);
    let attr = QpAttr {
        qkey: QKEY + 1,
        ..QpAttr::default()
    };
    a.qp.modify(&attr, M::QKEY).unwrap();
    assert_eq!(sent(&a), 2 * many);

    pause();
    post(&a, &ah, &b, many);
    let attr = QpAttr {
        qp_state: QpState::Err,
        ..QpAttr::default()
    };
    a.qp.modify(&attr, M::STATE).unwrap();
    assert_eq!(sent(&a), 3 * many);

    post(&b, &handle(&b, &a), &a, many);
    b.qp.close(0).unwrap();
    assert_eq!(sent(&b), many);
}

/// What was longer than a moment on its way to the timer is sent once.
#[test]
fn nothing_is_sent_twice_or_lost() {
    let (_time, sides, ah) = begin();
    let [a, b] = &sides;
    let mut all = 0;
    for n in 1..60 {
        post(a, &ah, b, n);
        all += n;
        if n % 3 == 0 {
            let later = timers::now() + COMPANY_WAIT + Duration::from_nanos(n);
            a.hca.run_timers(later, false);
        }
    }
    wait(&sides, [all as usize, 0]);
    assert_eq!(sent(a), all);
}

/// A program that asks for one completion of many posts no more until it has come.
#[test]
fn a_completion_that_is_waited_for_keeps_nobody_waiting() {
    let _time = VirtualTime::begin();
    let sides = connected(Faults::default());
    let [a, b] = &sides;
    let mut there = [0];
    let (mr, to) = b.register(&mut there);
    let post = |flags| {
        let request = SendRequest {
            wr_id: 1,
            op: SendOp::Write {
                va: to.addr,
                rkey: mr.rkey(),
            },
            flags,
            data: SendData::Inline(&[7]),
            dest: Dest::Connected,
        };
        a.qp.post_send(&request).unwrap();
        sent(a)
    };
    let silent = SendFlags::empty();

    // Until the window has room for more than are used here.
    let many = 8 * GATHER.requests;
    for _ in 0..many {
        post(SendFlags::SIGNALED);
    }
    wait(&sides, [many as usize, 0]);

    // Enough is in flight that more wait.
    let alone = sent(a) + GATHER.in_flight;
    while sent(a) < alone {
        post(silent);
    }
    assert_eq!(post(silent), alone);
    const { assert!(GATHER.in_flight >= MANY_UNSIGNALED as u64) };
    assert_eq!(post(SendFlags::SIGNALED), alone + 2);

    // Behind it requests wait again, and so does a completion after few that have none.
    for _ in 2..MANY_UNSIGNALED.min(GATHER.requests) {
        assert_eq!(post(silent), alone + 2);
    }
    assert_eq!(post(SendFlags::SIGNALED), alone + 2);
    let [completions, _] = wait(&sides, [2, 0]);
    assert!(completions.iter().all(|wc| wc.status == 0));
}
