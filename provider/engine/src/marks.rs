//! Marks of lanes with something in them, and the sleep of who empties them: between processes.

use std::sync::atomic::Ordering;

use crate::words::{Bits, Word};

/// Marks a lane, after what was put in has been published. `true`: the receiver sleeps, and is to be woken by us.
pub(crate) fn mark(pending: &impl Bits, bit: u64, sleeping: &impl Word<Value = u32>) -> bool {
    // The receiver clears the mark and then looks at the tail; he says that he sleeps and then looks at the mark. Each of these is
    // ordered, so one of us always sees the other.
    pending.fetch_or(bit, Ordering::SeqCst);
    sleeping.load(Ordering::SeqCst) != 0 && sleeping.swap(0, Ordering::SeqCst) != 0
}

/// Takes the marks of a word. Whoever looks into the lanes next sees what was published before they were made.
pub(crate) fn take(pending: &impl Bits) -> u64 {
    match pending.load(Ordering::Relaxed) {
        0 => 0,
        _ => pending.swap(0, Ordering::SeqCst),
    }
}

/// Announces the receiver's sleep. `false`: there is something to take first.
pub(crate) fn announce<W: Word<Value = u32>>(
    sleeping: &W,
    is_marked: impl FnOnce() -> bool,
) -> bool {
    sleeping.store(1, Ordering::SeqCst);
    W::fence();
    !is_marked()
}

/// The receiver is awake.
pub(crate) fn over(sleeping: &impl Word<Value = u32>) {
    sleeping.store(0, Ordering::Relaxed);
}

/// Shows the receiver how far a lane is filled, and from where on its ring was begun again.
pub(crate) fn publish<W: Word<Value = u64>>(tail: (&W, u64), restart: (&W, u64)) {
    // Whoever finds anything in the lane finds this: it changes only while there is nothing.
    restart.0.store(restart.1, Ordering::Relaxed);
    tail.0.store(tail.1, Ordering::Release);
}

/// How far a lane is filled, and where its ring began, unless all has been taken: then neither is to be believed.
pub(crate) fn published<W: Word<Value = u64>>(
    tail: &W,
    restart: &W,
    taken: u64,
) -> Option<(u64, u64)> {
    let tail = tail.load(Ordering::Acquire);
    (tail != taken).then(|| (tail, restart.load(Ordering::Relaxed)))
}

#[cfg(test)]
mod models {
    use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};

    use loom::cell::UnsafeCell;
    use loom::sync::atomic::{AtomicU32, AtomicU64};
    use loom::thread;
    use std::sync::Arc;

    use super::*;
    use crate::words::model::{self, Event};

    /// An inbox with two lanes that share a word of marks.
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

        fn put(&self, lane: usize, tail: u64) {
            self.tails[lane].store(tail, Release);
            if mark(&self.pending, 1 << lane, &self.sleeping) {
                self.event.wake();
            }
        }

        /// Empties lanes and sleeps until so much has come in all.
        fn take_until(&self, all: u64, announce: fn(&Inbox) -> bool) {
            let mut taken = [0; 2];
            while taken.iter().sum::<u64>() < all {
                let marks = take(&self.pending);
                for (lane, taken) in taken.iter_mut().enumerate() {
                    if marks >> lane & 1 != 0 {
                        *taken = self.tails[lane].load(Acquire);
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
            let senders = [0, 1].map(|lane| {
                let inbox = inbox.clone();
                thread::spawn(move || inbox.put(lane, 1))
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

    /// A ring of two places. Its sender begins again at the start when it is empty; records are read where they were written.
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
                        // SAFETY: nobody reads the place: it has been taken, or never been filled. loom sees to it.
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
}
