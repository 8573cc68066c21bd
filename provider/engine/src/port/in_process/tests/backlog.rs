//! How much a poll takes of what has come.

use super::*;

/// Each a packet, and a run by itself.
fn send(a: &Side, messages: usize) {
    for _ in 0..messages {
        a.post(SendOp::Send, SendData::Inline(&[]), Dest::Connected);
        // What was held back for the next to share its send.
        poll(&a.cq);
    }
}

#[test]
fn short_packets_are_taken_several_at_a_time_once_polls_have_found_one_after_another() {
    let _time = VirtualTime::begin();
    let [a, b] = connected(Faults::default());
    for _ in 0..64 {
        b.qp.post_recv(1, &[]).unwrap();
    }

    // Nobody knows yet that there are more, and who waits for the first shall have it at once.
    send(&a, 14);
    let polls: Vec<usize> = (0..8).map(|_| poll(&b.cq).len()).collect();
    assert_eq!(polls, [1, 1, 1, 1, 4, 4, 2, 0]);

    // After a poll in vain it is as before.
    send(&a, 3);
    assert_eq!([(); 4].map(|()| poll(&b.cq).len()), [1, 1, 1, 0]);
}
