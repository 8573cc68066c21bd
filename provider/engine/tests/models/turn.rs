//! Whose turn it is to receive, and how the helper stands by while it is the application's.

use std::sync::atomic::Ordering::Relaxed;

use loom::sync::atomic::AtomicU32;
use std::sync::Arc;

use loom::sync::Mutex;
use loom::thread;

use crate::loom_words::{self as model, Event, Futex};
use crate::turn::*;

fn turn() -> Turn<AtomicU32> {
    Turn::new(AtomicU32::new(0), AtomicU32::new(0))
}

/// A socket with datagrams that are numbered as they came, and the numbers in the order in which
/// they were handled.
struct Device {
    turn: Turn<AtomicU32>,
    socket: Mutex<u32>,
    handled: Mutex<Vec<u32>>,
}

impl Device {
    fn datagram(&self) -> u32 {
        let mut next = self.socket.lock().unwrap();
        *next += 1;
        *next
    }
}

/// A polling thread and a helper, which takes datagrams off the socket before it has the lock.
fn in_order(poll: fn(&Device)) {
    model::check(move || {
        let device = Arc::new(Device {
            turn: turn(),
            socket: Mutex::new(0),
            handled: Mutex::new(Vec::new()),
        });
        device.turn.want();
        let app = {
            let device = device.clone();
            thread::spawn(move || {
                poll(&device);
                device.turn.hand_back();
            })
        };

        for _ in 0..2 {
            let taken = device.datagram();
            device.handled.lock().unwrap().push(taken);
            if device.turn.give() {
                let _rx = device.handled.lock().unwrap();
                device.turn.take();
            }
        }

        app.join().unwrap();
        let handled = device.handled.lock().unwrap();
        assert!(handled.is_sorted(), "in disorder: {handled:?}");
    });
}

#[test]
fn datagrams_are_handled_in_order() {
    in_order(|device| {
        if device.turn.is_apps()
            && let Ok(mut handled) = device.handled.try_lock()
            && device.turn.is_apps()
        {
            handled.push(device.datagram());
        }
    });
}

#[test]
#[should_panic(expected = "in disorder")]
fn who_looked_before_he_had_the_lock_may_have_lost_the_turn() {
    in_order(|device| {
        if device.turn.is_apps() {
            let mut handled = device.handled.lock().unwrap();
            handled.push(device.datagram());
        }
    });
}

/// Whoever hands the turn back has none afterwards, whenever the helper gives it.
#[test]
fn nobody_has_the_turn_unasked() {
    model::check(|| {
        let turn = Arc::new(turn());
        turn.want();
        let helper = {
            let turn = turn.clone();
            thread::spawn(move || {
                if turn.give() && turn.is_returned() {
                    turn.take();
                }
            })
        };
        turn.hand_back();
        assert!(!turn.is_apps() && !turn.is_wanted());
        helper.join().unwrap();
        assert!(!turn.is_apps() && !turn.is_wanted());
    });
}

/// A helper that stands by until the turn is handed back, and never wakes by itself.
fn handed_back(hand_back: fn(&Turn<AtomicU32>, &Futex)) {
    model::check(move || {
        let shared = Arc::new((turn(), Futex::new()));
        shared.0.want();
        let app = {
            let shared = shared.clone();
            thread::spawn(move || hand_back(&shared.0, &shared.1))
        };

        let (turn, futex) = &*shared;
        if turn.give() {
            turn.stand_by(|word| {
                futex.wait(word, APP);
                true
            });
            assert!(turn.is_returned());
            turn.take();
        }

        app.join().unwrap();
        assert!(!turn.is_apps() && !turn.is_wanted());
    });
}

#[test]
fn who_hands_back_ends_the_nap() {
    handed_back(|turn, futex| {
        if turn.hand_back() {
            futex.wake();
        }
    });
}

#[test]
#[should_panic(expected = "deadlock")]
fn who_wakes_the_helper_first_may_leave_it_asleep() {
    handed_back(|turn, futex| {
        futex.wake();
        turn.hand_back();
    });
}

/// What the daemon has told waits for the helper, whom an event wakes; a polling thread, which the
/// same event tells of its inbox, clears it.
struct Noticed {
    turn: Turn<AtomicU32>,
    receive: Mutex<()>,
    event: Event,
    noticed: AtomicU32,
}

/// The helper gives the turn away and takes it back by `take`. It looks what it was told when it is
/// woken, and not before.
fn heard(take: fn(&Noticed) -> bool) {
    model::check(move || {
        let device = Arc::new(Noticed {
            turn: turn(),
            receive: Mutex::new(()),
            event: Event::new(),
            noticed: AtomicU32::new(0),
        });
        device.turn.want();
        let tells = {
            let device = device.clone();
            thread::spawn(move || {
                device.noticed.store(1, Relaxed);
                device.event.wake();
            })
        };

        let polls = {
            let device = device.clone();
            thread::spawn(move || {
                if let Ok(_receive) = device.receive.try_lock()
                    && device.turn.is_apps()
                {
                    device.turn.clears();
                    device.event.clear();
                }
            })
        };

        if device.turn.give() && take(&device) {
            device.event.wake();
        }

        device.event.wait();
        while device.noticed.load(Relaxed) == 0 {
            device.event.wait();
        }
        tells.join().unwrap();
        polls.join().unwrap();
    });
}

#[test]
fn what_the_application_cleared_reaches_the_helper() {
    heard(|device| {
        let _receive = device.receive.lock().unwrap();
        device.turn.take()
    });
}

#[test]
#[should_panic(expected = "deadlock")]
fn who_takes_the_turn_without_the_lock_may_sleep_through_what_was_cleared() {
    heard(|device| device.turn.take());
}
