//! Whose turn it is to receive (see [`driver`](crate::driver)).

use std::sync::atomic::Ordering;

use crate::words::Word;

/// The helper receives.
const HELPER: u32 = 0;
/// The helper receives, and is to give the turn away when it has handled what it has.
const WANTED: u32 = 1;
/// The application receives; the helper stands by.
pub(crate) const APP: u32 = 2;
/// The application receives no more; the helper is to take the turn.
const RETURNED: u32 = 3;

/// The turn, which the helper gives away and takes back.
pub(crate) struct Turn<W>(W);

impl<W: Word<Value = u32>> Turn<W> {
    /// The helper's; `word` is 0.
    pub(crate) const fn new(word: W) -> Turn<W> {
        Turn(word)
    }

    /// For the application: asks for the turn.
    pub(crate) fn want(&self) {
        self.0.change(HELPER, WANTED);
    }

    /// Whether the application waits for it.
    pub(crate) fn is_wanted(&self) -> bool {
        self.0.load(Ordering::Relaxed) == WANTED
    }

    /// For the helper, with nothing received that is not handled: gives it away, if it is wanted.
    pub(crate) fn give(&self) -> bool {
        self.0.change(WANTED, APP)
    }

    /// Whether the application has it. Under the receive lock it stays so as long as that is held.
    pub(crate) fn is_apps(&self) -> bool {
        self.0.load(Ordering::Acquire) == APP
    }

    /// For the application: does not want it any more, or has it no more. `true`: the helper is to be told.
    pub(crate) fn hand_back(&self) -> bool {
        self.0.change(WANTED, HELPER);
        self.0.change(APP, RETURNED)
    }

    /// Whether the application has handed it back.
    pub(crate) fn is_returned(&self) -> bool {
        self.0.load(Ordering::Acquire) == RETURNED
    }

    /// For the helper, under the receive lock, after it gave it away: takes it again.
    pub(crate) fn take(&self) {
        self.0.store(HELPER, Ordering::Release);
    }
}

impl Turn<std::sync::atomic::AtomicU32> {
    /// The word, to wait on as a futex.
    pub(crate) fn as_ptr(&self) -> *mut u32 {
        self.0.as_ptr()
    }
}

#[cfg(test)]
mod models {
    use loom::sync::atomic::AtomicU32;
    use std::sync::Arc;

    use loom::sync::Mutex;
    use loom::thread;

    use super::*;
    use crate::words::model;

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
}
