//! Whose turn it is to receive.

use loom::sync::atomic::AtomicU32;
use std::sync::Arc;

use loom::sync::Mutex;
use loom::thread;

use crate::loom_words as model;
use crate::turn::*;

/// A socket with datagrams that are numbered as they came, and the numbers in the order in which they were handled.
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
            turn: Turn::new(AtomicU32::new(0)),
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
        let turn = Arc::new(Turn::new(AtomicU32::new(0)));
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
