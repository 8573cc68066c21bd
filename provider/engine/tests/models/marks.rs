//! The marks of rings, and the sleep of who empties them.

use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};

use loom::cell::UnsafeCell;
use loom::sync::atomic::{AtomicU32, AtomicU64};
use loom::thread;
use std::sync::Arc;

use crate::loom_words::{self as model, Event};
use crate::marks::*;

/// An inbox with two rings that share a word of marks.
struct Inbox {
    pending: AtomicU64,
    sleeping: AtomicU32,
    event: Event,
    tails: [AtomicU64; 2],
}

impl Inbox {
    fn new() -> Arc<Inbox> {
        Arc::new(Inbox {
            pending: AtomicU64::new(0),
            sleeping: AtomicU32::new(0),
            event: Event::new(),
            tails: [AtomicU64::new(0), AtomicU64::new(0)],
        })
    }

    fn put(&self, ring: usize, tail: u64) {
        self.tails[ring].store(tail, Release);
        if mark(&self.pending, 1 << ring, &self.sleeping) {
            self.event.wake();
        }
    }

    /// Empties rings and sleeps until so much has come in all.
    fn take_until(&self, all: u64, announce: fn(&Inbox) -> bool) {
        let mut taken = [0; 2];
        while taken.iter().sum::<u64>() < all {
            let marks = take(&self.pending);
            for (ring, taken) in taken.iter_mut().enumerate() {
                if marks >> ring & 1 != 0 {
                    *taken = self.tails[ring].load(Acquire);
                }
            }
            if taken.iter().sum::<u64>() < all && announce(self) {
                self.event.wait();
            }
            over(&self.sleeping);
        }
    }

    fn announce(&self) -> bool {
        announce(&self.sleeping, || self.pending.load(Relaxed) != 0)
    }
}

#[test]
fn nobody_sleeps_through_a_record() {
    model::check(|| {
        let inbox = Inbox::new();
        let sender = {
            let inbox = inbox.clone();
            thread::spawn(move || (1..=2).for_each(|tail| inbox.put(0, tail)))
        };
        inbox.take_until(2, Inbox::announce);
        sender.join().unwrap();
    });
}

#[test]
fn nobody_sleeps_through_one_of_two_senders() {
    model::check(|| {
        let inbox = Inbox::new();
        let senders = [0, 1].map(|ring| {
            let inbox = inbox.clone();
            thread::spawn(move || inbox.put(ring, 1))
        });
        inbox.take_until(2, Inbox::announce);
        for sender in senders {
            sender.join().unwrap();
        }
    });
}

#[test]
#[should_panic(expected = "deadlock")]
fn who_looks_before_he_says_that_he_sleeps_may_sleep_for_ever() {
    model::check(|| {
        let inbox = Inbox::new();
        let sender = {
            let inbox = inbox.clone();
            thread::spawn(move || inbox.put(0, 1))
        };
        inbox.take_until(1, |inbox| {
            let marked = inbox.pending.load(Relaxed) != 0;
            announce(&inbox.sleeping, || marked)
        });
        sender.join().unwrap();
    });
}

/// A ring of two places. Its sender begins again at the start when it is empty; records are read
/// where they were written.
#[test]
fn a_ring_that_was_begun_again_is_read_at_its_start() {
    const PLACES: u64 = 2;

    struct Ring {
        tail: AtomicU64,
        head: AtomicU64,
        restart: AtomicU64,
        places: [UnsafeCell<u64>; PLACES as usize],
    }

    model::check(|| {
        let ring = loom::sync::Arc::new(Ring {
            tail: AtomicU64::new(0),
            head: AtomicU64::new(0),
            restart: AtomicU64::new(0),
            places: [UnsafeCell::new(0), UnsafeCell::new(0)],
        });

        let sender = {
            let ring = ring.clone();
            thread::spawn(move || {
                let (mut tail, mut restart) = (0, 0);
                for record in 1..=3 {
                    let head = ring.head.load(Acquire);
                    if tail - head == PLACES {
                        break;
                    }
                    if head == tail {
                        restart = tail;
                    }
                    let place = &ring.places[((tail - restart) % PLACES) as usize];
                    // SAFETY: nobody reads the place: it has been taken, or never been filled. loom
                    // sees to it.
                    place.with_mut(|place| unsafe { *place = record });
                    tail += 1;
                    publish((&ring.tail, tail), (&ring.restart, restart));
                }
            })
        };

        let mut head = 0;
        for _ in 0..3 {
            if let Some((tail, restart)) = published(&ring.tail, &ring.restart, head) {
                assert!(tail > head && tail - head <= PLACES);
                let place = &ring.places[((head - restart) % PLACES) as usize];
                // SAFETY: it has been published, and not been taken. loom sees to it.
                let record = place.with(|place| unsafe { *place });
                head += 1;
                assert_eq!(record, head);
                ring.head.store(head, Release);
            }
        }

        sender.join().unwrap();
    });
}
