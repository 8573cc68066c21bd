//! Requests that wait for company, and when they go: such as nobody acknowledges, and those of
//! several queue pairs of a path.

use std::sync::Arc;

use ferroce_control::Counter;
use ferroce_transport::{
    Datagram, Dest, Duration, QpAttr, QpAttrMask as M, QpState, SendData, SendFlags, SendOp,
    SendRequest, Sge,
};

use super::super::{Faults, Side};
use super::many::pairs;
use super::{QKEY, connected, for_datagrams, poll, wait};
use crate::progress::timers;
use crate::progress::virtual_time::VirtualTime;
use crate::tuning::{
    BURST, COMPANY, COMPANY_WAIT, DEEP_REQUESTS, GATHER, GATHER_UNANSWERED, MANY_UNSIGNALED,
    SHARED_PACKETS, SMALL_REQUEST,
};
use crate::verbs::ah::Ah;
use crate::verbs::mr::Mr;

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

/// Queue pairs of one path, and memory that they write to.
struct Several {
    pairs: Vec<[Side; 2]>,
    memory: (Vec<u8>, Vec<u8>),
    regions: [(Arc<Mr>, Sge); 2],
}

impl Several {
    /// Peers of our kind; as many queue pairs as have others wait have something on its way.
    fn begin() -> Several {
        let pairs = pairs(20);
        for [from, _] in &pairs {
            from.qp.inner.lock().transport.expect_filled(true);
        }
        let mut memory = (vec![7; 2 * SMALL_REQUEST], vec![0; 2 * SMALL_REQUEST]);
        let [a, b] = &pairs[0];
        let regions = [a.register(&mut memory.0), b.register(&mut memory.1)];
        let several = Several {
            pairs,
            memory,
            regions,
        };
        for n in 0..COMPANY as usize {
            several.post(n, 64);
            assert_eq!(several.sent(), n as u64 + 1);
        }
        several
    }

    fn post(&self, n: usize, bytes: usize) {
        let [(_, from), (target, to)] = &self.regions;
        let (va, rkey) = (to.addr, target.rkey());
        let length = bytes as u32;
        let data = [Sge { length, ..*from }];
        let op = SendOp::Write { va, rkey };
        self.pairs[n][0].post(op, SendData::Sges(&data), Dest::Connected);
    }

    fn poll(&self) -> usize {
        poll(&self.pairs[0][0].cq).len()
    }

    fn sent(&self) -> u64 {
        sent(&self.pairs[0][0])
    }

    /// Everything that was posted ends well.
    fn end(self, posted: u64) {
        let completions = wait(&self.pairs[0], [posted as usize, 0]);
        assert!(completions[0].iter().all(|wc| wc.status == 0));
        assert_eq!((completions[0].len() as u64, self.sent()), (posted, posted));
        assert_eq!(self.memory.1[..64], self.memory.0[..64]);
    }
}

const SOME: u64 = COMPANY as u64;

#[test]
fn those_of_several_queue_pairs_go_when_the_program_finds_nothing() {
    let _time = VirtualTime::begin();
    let several = Several::begin();
    for n in 4..10 {
        several.post(n, 64);
        assert_eq!(several.sent(), SOME);
    }
    assert_eq!(several.poll(), 0);
    assert_eq!(several.sent(), SOME + 6);
    several.end(SOME + 6);
}

#[test]
fn neither_long_ones_nor_second_ones_wait_for_other_queue_pairs() {
    let _time = VirtualTime::begin();
    let several = Several::begin();
    several.post(4, SMALL_REQUEST + 1);
    let sent = several.sent();
    assert!(sent > SOME, "{sent}");
    several.post(0, 64);
    assert_eq!(several.sent(), sent + 1);
    wait(&several.pairs[0], [SOME as usize + 2, 0]);
}

#[test]
fn those_of_several_queue_pairs_go_when_a_send_is_full() {
    let _time = VirtualTime::begin();
    let several = Several::begin();
    for n in 0..SHARED_PACKETS - 1 {
        several.post(4 + n, 64);
        assert_eq!(several.sent(), SOME);
    }
    several.post(60, 64);
    let all = SOME + SHARED_PACKETS as u64;
    assert_eq!(several.sent(), all);
    several.end(all);
}

#[test]
fn those_of_several_queue_pairs_go_after_a_while() {
    let _time = VirtualTime::begin();
    let several = Several::begin();
    several.post(4, 64);
    assert_eq!(several.sent(), SOME);
    let now = timers::now();
    let hca = &several.pairs[0][0].hca;
    hca.run_timers(now, false);
    assert_eq!(several.sent(), SOME);
    hca.run_timers(now + COMPANY_WAIT, false);
    assert_eq!(several.sent(), SOME + 1);

    // The program did not look, so that the next do not wait.
    for n in 1..=u64::from(BURST) {
        several.post(4 + n as usize, 64);
        assert_eq!(several.sent(), SOME + 1 + n);
    }
    let all = SOME + 2 + u64::from(BURST);
    several.post(5 + BURST as usize, 64);
    assert_eq!(several.sent(), all - 1);
    several.end(all);
}

#[test]
fn who_sleeps_keeps_no_queue_pair_waiting() {
    let _time = VirtualTime::begin();
    let several = Several::begin();
    several.post(4, 64);
    several.pairs[0][0].cq.req_notify(false).unwrap();
    assert_eq!(several.sent(), SOME + 1);
    several.end(SOME + 1);
}

#[test]
fn one_that_waits_for_others_ends_with_what_it_has() {
    let _time = VirtualTime::begin();
    let several = Several::begin();
    several.post(4, 64);
    let attr = QpAttr {
        qp_state: QpState::Err,
        ..QpAttr::default()
    };
    several.pairs[4][0].qp.modify(&attr, M::STATE).unwrap();
    let [completions, _] = wait(&several.pairs[0], [SOME as usize + 1, 0]);
    let ended = completions
        .iter()
        .filter(|wc| wc.qp_num == several.pairs[4][0].qp.qp_num());
    assert_eq!(ended.count(), 1);
}
