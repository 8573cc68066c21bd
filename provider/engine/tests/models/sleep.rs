//! Who sleeps until when.

use std::sync::atomic::Ordering::{Relaxed, SeqCst};

use loom::sync::atomic::AtomicU64;
use loom::thread;
use std::sync::Arc;

use crate::loom_words::{self as model, Event};
use ferroce_transport::Time;

use crate::sleep::*;

/// A thread that sleeps as announced and one that adds a deadline of 5: the first is awake at that
/// time.
fn deadline(outlasts: fn(&Sleep<AtomicU64>, Time) -> bool) {
    model::check(move || {
        let sleep = Arc::new(Sleep::new(AtomicU64::new(0)));
        let next = Arc::new(AtomicU64::new(u64::MAX));
        let event = Arc::new(Event::new());
        let adds = {
            let (sleep, next, event) = (sleep.clone(), next.clone(), event.clone());
            thread::spawn(move || {
                next.store(5, Relaxed);
                if outlasts(&sleep, Time::from_nanos(5)) {
                    event.wake();
                }
            })
        };

        if sleep.announce(|| Time::from_nanos(next.load(Relaxed))) > Time::from_nanos(5) {
            event.wait();
            sleep.over();
        }

        adds.join().unwrap();
    });
}

#[test]
fn a_deadline_is_never_slept_through() {
    deadline(Sleep::outlasts);
}

/// As it was before: the model finds what may go wrong.
#[test]
#[should_panic(expected = "deadlock")]
fn without_a_fence_one_may_be() {
    deadline(|sleep, at| at.as_nanos() < sleep.0.load(SeqCst));
}
