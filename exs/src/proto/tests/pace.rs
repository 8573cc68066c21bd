//! What the sender sees of a receiver that takes its time.

use rand::SeedableRng;
use rand::rngs::StdRng;

use super::*;

#[test]
fn a_slow_receiver_holds_the_sender_back() {
    let mut rng = StdRng::seed_from_u64(1);
    let mut ends = ends(false, 0);
    for _ in 0..20 {
        ends[0].send(vec![1; 100], false, false);
    }
    settle(&mut ends, &mut rng);
    assert_eq!(ends[0].sent.len(), usize::from(DATA));
    assert_eq!(ends[0].machine.room(), 0);
    assert_eq!(ends[0].machine.parts_done(), u64::from(DATA));
    for taken in 1..=20 {
        ends[1].receive(100, false, false);
        settle(&mut ends, &mut rng);
        assert_eq!(ends[1].received.len(), taken);
    }

    assert_eq!(ends[0].sent.len(), 20);
    assert_eq!(ends[0].machine.parts_done(), 20);
    assert_eq!(ends[0].machine.room(), u64::from(DATA) * PAYLOAD);
}

#[test]
fn who_closes_sees_that_a_large_send_is_taken_in_parts() {
    let mut rng = StdRng::seed_from_u64(1);
    let mut ends = ends(false, 0);
    ends[0].send(vec![1; 100_000], false, true);
    settle(&mut ends, &mut rng);
    ends[1].receive(1000, false, true);
    settle(&mut ends, &mut rng);
    assert_eq!(ends[0].machine.parts_done(), 0);

    ends[0].machine.finish();
    ends[0].machine.stop();
    ends[0].act();
    settle(&mut ends, &mut rng);
    for taken in 1..99 {
        ends[1].receive(1000, false, taken % 2 == 0);
        settle(&mut ends, &mut rng);
        assert_eq!(ends[0].machine.parts_done(), taken);
        assert!(!ends[0].machine.flushed());
    }
    ends[1].receive(1000, false, true);
    settle(&mut ends, &mut rng);
    assert!(ends[0].machine.flushed());
    assert_eq!(ends[0].sent, [(100_000, Outcome::Done)]);
}
