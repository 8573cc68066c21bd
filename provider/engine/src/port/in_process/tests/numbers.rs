//! What others are told of a queue pair is what the process has counted, whatever happens on the
//! way.

use ferroce_control::objects::{QP_COUNTERS, QpMoment, QpNumbers};

use super::*;

fn told(side: &Side) -> QpNumbers {
    side.hca.objects.numbers(side.qp.row.place())
}

/// With one queue pair in the process, its numbers are the process's. Packets that came are but
/// those that were whole.
fn agrees(side: &Side) {
    for counter in QP_COUNTERS {
        let (own, all) = (told(side).counter(counter), side.count(counter));
        match counter {
            Counter::RxPackets | Counter::RxBytes => assert!(own <= all, "{}", counter.name()),
            _ => assert_eq!(own, all, "{}", counter.name()),
        }
    }
}

#[test]
fn rows_and_the_page_say_the_same() {
    let _time = VirtualTime::begin();
    for seed in 0..4 {
        let sides = connected(Faults { seed, ..FAULTS });
        let [a, b] = &sides;
        let len = 100_000;
        let (mut here, mut there) = (pattern(len, seed), vec![0; len]);
        let ((_ma, s), (mb, d)) = (a.register(&mut here), b.register(&mut there));
        let (va, rkey) = (d.addr, mb.rkey());
        for _ in 0..8 {
            b.qp.post_recv(9, &[d]).unwrap();
        }
        assert_eq!(told(b).progress.receives, 8);

        let write = SendOp::Write { va, rkey };
        for op in [SendOp::Send, write, SendOp::Read { va, rkey }] {
            a.post(op, SendData::Sges(&[s]), Dest::Connected);
        }
        wait(&sides, [3, 1]);

        let (from, to) = (told(a), told(b));
        assert_eq!((from.progress.sends_completed, from.progress.sends), (3, 0));
        assert_eq!((to.receives_completed, to.progress.receives), (1, 7));
        assert_eq!(from.progress.next_psn, to.progress.expected_psn);
        assert_eq!(from.progress.next_psn, from.progress.unacknowledged_psn);
        assert!(from.progress.in_flight == 0 && from.progress.window > 0);
        assert!(from.last_sent > 0 && to.last_received > 0);
        assert_eq!(from.send_cq, from.recv_cq);
        assert_eq!(from.attributes.path_mtu, 1024);
        agrees(a);
        agrees(b);

        let again = from.counter(Counter::RetransmittedPackets);
        assert_eq!(again > 0, from.moment(QpMoment::SentAgain) > 0);
    }
}

#[test]
fn a_receiver_that_is_not_ready_is_told_of_at_both_ends() {
    let _time = VirtualTime::begin();
    let sides = connected(Faults::default());
    let [a, b] = &sides;
    let (mut here, mut there) = (pattern(8, 1), vec![0; 8]);
    let ((_ma, s), (_mb, d)) = (a.register(&mut here), b.register(&mut there));
    a.post(SendOp::Send, SendData::Sges(&[s]), Dest::Connected);

    let end = timers::now() + PATIENCE;
    while told(a).counter(Counter::RnrNakRetry) == 0 {
        assert!(poll(&a.cq).is_empty() && poll(&b.cq).is_empty());
        assert!(timers::now() < end, "no RNR NAK");
    }
    assert_eq!(told(a).progress.sends, 1);
    assert!(told(a).moment(QpMoment::RnrReceived) > 0);
    assert!(told(b).moment(QpMoment::RnrSent) > 0);
    assert!(told(b).counter(Counter::OutOfBuffer) > 0);

    b.qp.post_recv(1, &[d]).unwrap();
    wait(&sides, [1, 1]);
    assert!(!told(a).progress.waits_for_receiver);
    agrees(a);
    agrees(b);
}

#[test]
fn a_request_that_failed_is_named_though_others_are_flushed_after_it() {
    let _time = VirtualTime::begin();
    let lost = Faults {
        lost: 1000,
        ..Faults::default()
    };
    let sides = connected(lost);
    let [a, _] = &sides;
    let mut here = pattern(8, 1);
    let (_ma, s) = a.register(&mut here);
    for _ in 0..2 {
        a.post(SendOp::Send, SendData::Sges(&[s]), Dest::Connected);
    }
    wait(&sides, [2, 0]);

    let error = told(a).last_error.unwrap();
    assert_eq!((error.status, error.receive), (12, false));
    assert!(error.at > 0 && told(a).moment(QpMoment::TimedOut) > 0);
    assert_eq!(told(a).counter(Counter::ReqCqeFlushError), 1);
    assert_eq!(told(a).progress.sends_completed, 2);
    agrees(a);
}

#[test]
fn datagrams_are_counted_where_nothing_answers() {
    let _time = VirtualTime::begin();
    let sides = for_datagrams(Faults::default());
    let [a, b] = &sides;
    let mut there = vec![0; 4096];
    let (_mb, d) = b.register(&mut there);
    b.qp.post_recv(1, &[d]).unwrap();
    assert_eq!(told(b).progress.receives, 1);

    let ah = a.pd.create_ah(&b.address(), 0).unwrap();
    let to = Dest::Datagram(Datagram {
        ah: ah.handle(),
        cookie: 0,
        qpn: b.qp.qp_num(),
        qkey: QKEY,
    });
    a.post(SendOp::Send, SendData::Inline(b"12345678"), to);
    wait(&sides, [1, 1]);
    assert_eq!(
        (told(b).progress.receives, told(b).receives_completed),
        (0, 1)
    );
    assert_eq!(told(b).counter(Counter::RxPackets), 1);
    assert_eq!(told(a).counter(Counter::TxPackets), 1);
    agrees(a);
    agrees(b);
}
