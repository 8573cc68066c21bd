//! What is sent again to a peer with selective acknowledgements when there is no sign of a loss:
//! after silence, after the Local ACK Timeout, after all was to be sent again.

use ferroce_sim::tester::{DUT_PSN, Tester};
use ferroce_transport::{Access, Duration, SendOp};
use ferroce_wire::Syndrome;

#[test]
fn silence_is_asked_about() {
    let mut t = Tester::with_sends(4, 100);
    let mut before = t.now;
    // Twice the round trip, and twice as long each time: first the last packet, then the oldest.
    for (waits, psn) in [(200, 3), (400, 1), (800, 1)] {
        t.expire();
        assert_eq!(t.now - before, Duration::from_micros(waits));
        assert_eq!(t.again(), [psn]);
        before = t.now;
    }
    assert!(t.host.timeouts == 0 && t.host.losses == 0);
    t.ack(DUT_PSN + 3, 4);
    assert_eq!(t.send_statuses().len(), 4);
}

/// How long it is waited for the answer to one more SEND.
fn patience(t: &mut Tester) -> Duration {
    let buffer = t.buffer(100, Access::LOCAL_WRITE);
    t.post(9, SendOp::Send, buffer);
    t.one();
    t.qp.next_timeout().expect("a timer") - t.now
}

#[test]
fn a_peer_that_was_late_is_given_time_and_one_that_lost_is_not() {
    // A round trip after the probe: its answer.
    let mut t = Tester::with_sends(4, 100);
    t.expire();
    assert_eq!(t.again(), [3]);
    t.now += Duration::from_micros(100);
    t.ack(DUT_PSN + 3, 4);
    assert_eq!(patience(&mut t), Duration::from_micros(200));

    // Long after: it has been busy for 5.6 ms, and may be again.
    let mut t = Tester::with_sends(4, 100);
    for psn in [3, 1] {
        t.expire();
        assert_eq!(t.again(), [psn]);
    }
    t.now += Duration::from_millis(5);
    t.ack(DUT_PSN + 3, 4);
    assert_eq!(patience(&mut t), Duration::from_micros(7000));
}

/// Nobody answers until the Local ACK Timeout has passed.
fn wait_for_timeout(t: &mut Tester) {
    while t.host.timeouts == 0 {
        t.sent();
        t.expire();
    }
}

#[test]
fn a_peer_that_forgets_is_sent_everything_after_the_timeout() {
    let mut t = Tester::with_sends(4, 100);
    t.selective_ack(0, &[2, 3]);
    wait_for_timeout(&mut t);
    assert_eq!(t.sent_psns(), [1, 2, 3]);
}

#[test]
fn after_the_timeout_it_begins_with_a_packet() {
    let mut t = Tester::with_sends(10, 1000);
    wait_for_timeout(&mut t);
    assert_eq!(t.sent_psns(), [1]);

    // It is asked for again before the next timeout, and by itself.
    t.expire();
    assert_eq!(t.sent_psns(), [1]);
    assert_eq!(t.host.timeouts, 1);

    // As many bytes more as are acknowledged, and none that the peer has.
    t.ack(DUT_PSN + 1, 2);
    assert_eq!(t.sent_psns(), [2, 3]);
    t.ack(DUT_PSN + 2, 3);
    assert_eq!(t.sent_psns(), [4, 5]);
    t.selective_ack(3, &[5, 6, 9]);
    assert_eq!(t.sent_psns(), [7, 8]);
    t.ack(DUT_PSN + 9, 10);
    assert_eq!(t.send_statuses().len(), 10);
    assert_eq!(t.qp.next_timeout(), None);
}

#[test]
fn going_back_ends_with_news_of_what_is_not_needed() {
    let mut t = Tester::with_sends(8, 1000);
    t.answer(Syndrome::RnrNak { timer: 1 }, DUT_PSN + 1, 1);
    t.none();
    t.opts.window = 3000;
    t.expire();
    assert_eq!(t.sent_psns(), [1, 2, 3]);

    t.selective_ack(1, &[3, 6, 7]);
    assert_eq!(t.sent_psns(), [4, 5]);
    let buffer = t.buffer(1000, Access::LOCAL_WRITE);
    t.post(8, SendOp::Send, buffer);
    t.none();
    t.ack(DUT_PSN + 7, 8);
    assert_eq!(t.sent_psns(), [8]);
    t.ack(DUT_PSN + 8, 9);
    assert_eq!(t.send_statuses().len(), 9);
    assert_eq!(t.qp.next_timeout(), None);
}
