//! Turns of queue pairs to send: nobody waits for a turn that nobody has.

use std::sync::Arc;

use loom::sync::Mutex;
use loom::sync::atomic::AtomicU64;
use loom::thread;

use crate::loom_words as model;
use crate::turn_count::TurnCount;

/// There is one turn.
const LIMIT: u32 = 1;

/// The count, and how many wait, as the engine has them beside each other.
struct Turns {
    count: TurnCount<AtomicU64>,
    waiting: Mutex<u32>,
    served: Mutex<u32>,
}

impl Turns {
    fn new() -> Turns {
        Turns {
            count: TurnCount::new(AtomicU64::new(0)),
            waiting: Mutex::new(0),
            served: Mutex::new(0),
        }
    }

    /// `None`: it waits.
    fn begin(&self) -> Option<u32> {
        if let Some(round) = self.count.take(LIMIT) {
            return Some(round);
        }
        let mut waiting = self.waiting.lock().unwrap();
        match self.count.want(LIMIT) {
            Err(round) => Some(round),
            Ok(()) => {
                *waiting += 1;
                None
            }
        }
    }

    /// Ends a turn. Returns that of who waits, if it is passed on.
    fn end(&self, round: u32) -> Option<u32> {
        if !self.count.give_back(round) {
            let _waiting = self.waiting.lock().unwrap();
            self.count.give_back_locked(round);
        }
        if !self.count.are_wanted() {
            return None;
        }
        let mut waiting = self.waiting.lock().unwrap();
        if *waiting == 0 {
            return None;
        }
        let passed = self.count.pass_on(LIMIT, *waiting == 1)?;
        *waiting -= 1;
        Some(passed)
    }

    /// Takes a turn, if there is one, and ends it, and those that it passes on.
    fn send(&self) {
        let mut turn = self.begin();
        while let Some(round) = turn {
            assert_eq!(self.count.taken(), LIMIT);
            *self.served.lock().unwrap() += 1;
            turn = self.end(round);
        }
    }
}

fn all_are_served(threads: u32) {
    model::check(move || {
        let turns = Arc::new(Turns::new());
        let others: Vec<_> = (1..threads)
            .map(|_| {
                let turns = turns.clone();
                thread::spawn(move || turns.send())
            })
            .collect();
        turns.send();
        for other in others {
            other.join().unwrap();
        }
        assert_eq!(*turns.served.lock().unwrap(), threads);
        assert_eq!(*turns.waiting.lock().unwrap(), 0);
        assert_eq!((turns.count.taken(), turns.count.are_wanted()), (0, false));
    });
}

#[test]
fn of_two_both_are_served() {
    all_are_served(2);
}

#[test]
fn of_three_all_are_served() {
    all_are_served(3);
}
