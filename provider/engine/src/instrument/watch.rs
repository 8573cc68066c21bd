//! A context's completions as they are made, for a program that has asked to be called.
//!
//! Each gets its number under the lock of its queue, so that the numbers are in the order of every
//! queue, and one after the other across all of them. The program is called by a thread of its own,
//! which holds no lock of the engine: it may do what it likes, and be as slow as it likes. Nobody
//! waits for it; what comes while too much waits is left out, and its number with it.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread::{self, JoinHandle};

use ferroce_control::threads;
use parking_lot::{Condvar, Mutex};

use crate::error::{Error, Result};
use crate::progress::timers;
use crate::tuning::WATCHED;
use crate::verbs::wc::Wc;

const BUSY: Error = Error::Busy("the context's callback for completions");
/// Stack of the thread, in bytes: the program's code runs on it.
const STACK: usize = 1 << 20;
/// Signals that the program's code there raises itself, by what it does.
const TAKES: [libc::c_int; 4] = [libc::SIGSEGV, libc::SIGBUS, libc::SIGFPE, libc::SIGILL];

/// A completion that was made.
#[derive(Clone, Copy, Debug)]
pub struct Made {
    /// Which of the context's it is, from 1 since somebody has asked.
    pub sequence: u64,
    /// When, in nanoseconds of `CLOCK_MONOTONIC`.
    pub time: u64,
    /// What events name the queue by that it was put into.
    pub cq: u64,
    /// The completion.
    pub wc: Wc,
}

/// What is called.
pub type Call = Box<dyn FnMut(&Made) + Send>;

/// Who wants to be called for the completions of a context.
#[derive(Default)]
pub(crate) struct Watch {
    on: AtomicBool,
    state: Mutex<State>,
    more: Condvar,
    /// Held by whoever begins or ends it.
    changing: Mutex<()>,
}

#[derive(Default)]
struct State {
    made: VecDeque<Made>,
    /// Numbers given so far.
    given: u64,
    caller: Option<JoinHandle<()>>,
}

impl Watch {
    /// A completion has been put into a queue, whose lock is held.
    #[inline]
    pub(crate) fn made(&self, cq: u64, wc: &Wc) {
        if self.on.load(Relaxed) {
            self.keep(cq, wc);
        }
    }

    #[cold]
    fn keep(&self, cq: u64, wc: &Wc) {
        let mut state = self.state.lock();
        state.given += 1;
        if state.made.len() >= WATCHED {
            return;
        }
        let made = Made {
            sequence: state.given,
            time: timers::now().as_nanos(),
            cq,
            wc: *wc,
        };
        state.made.push_back(made);
        self.more.notify_one();
    }

    /// From now on `call` is called.
    pub(crate) fn begin(self: &Arc<Self>, call: Call) -> Result<()> {
        if self.state.lock().caller.is_some() {
            return Err(BUSY);
        }
        let _changing = self.changing.try_lock().ok_or(BUSY)?;
        let mut state = self.state.lock();
        if state.caller.is_some() {
            return Err(BUSY);
        }

        // It waits for the lock that is held here.
        let watch = self.clone();
        let caller = threads::spawn("ferroce-dv", STACK, &TAKES, move || watch.call(call))
            .map_err(|error| Error::io("starting a thread for the callback", error))?;
        *state = State {
            caller: Some(caller),
            ..State::default()
        };
        self.on.store(true, Relaxed);
        Ok(())
    }

    /// Waits until it has been called for all that were made, and ends it; whether there was one.
    pub(crate) fn end(&self) -> Result<bool> {
        let own = |caller: &JoinHandle<()>| caller.thread().id() == thread::current().id();
        if self.state.lock().caller.as_ref().is_some_and(own) {
            return Err(Error::Deadlock("the callback cannot wait for itself"));
        }
        let _changing = self.changing.try_lock().ok_or(BUSY)?;

        let mut state = self.state.lock();
        self.on.store(false, Relaxed);
        let caller = state.caller.take();
        drop(state);
        self.more.notify_one();
        let was = caller.is_some();
        if let Some(caller) = caller {
            // The program's code does not unwind across its own boundary.
            let _ = caller.join();
        }
        Ok(was)
    }

    fn call(&self, mut call: Call) {
        let mut batch = VecDeque::new();
        loop {
            let mut state = self.state.lock();
            while state.made.is_empty() && self.on.load(Relaxed) {
                self.more.wait(&mut state);
            }
            std::mem::swap(&mut batch, &mut state.made);
            drop(state);

            if batch.is_empty() {
                return;
            }
            batch.drain(..).for_each(|made| call(&made));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc;

    #[test]
    fn all_come_in_order_and_the_end_waits_for_them() {
        let watch = Arc::new(Watch::default());
        watch.made(1, &Wc::default());
        let (seen, told) = mpsc::channel();
        watch
            .begin(Box::new(move |made| {
                seen.send((made.sequence, made.cq)).unwrap()
            }))
            .unwrap();
        let again = watch.begin(Box::new(|_| {}));
        assert!(matches!(again, Err(Error::Busy(_))));

        for cq in 0..1000 {
            watch.made(cq, &Wc::default());
        }
        assert!(watch.end().unwrap());
        watch.made(1, &Wc::default());
        let seen: Vec<(u64, u64)> = told.iter().collect();
        assert_eq!(seen, (0..1000).map(|cq| (cq + 1, cq)).collect::<Vec<_>>());
        assert!(!watch.end().unwrap());
    }

    #[test]
    fn what_finds_no_room_is_missing_in_the_numbers() {
        let watch = Arc::new(Watch::default());
        let (seen, told) = mpsc::channel();
        let (go, gone) = mpsc::channel();
        let mut first = true;
        let call = move |made: &Made| {
            seen.send(made.sequence).unwrap();
            if std::mem::take(&mut first) {
                gone.recv().unwrap();
            }
        };
        watch.begin(Box::new(call)).unwrap();
        watch.made(0, &Wc::default());
        assert_eq!(told.recv(), Ok(1));

        for _ in 0..WATCHED + 5 {
            watch.made(0, &Wc::default());
        }
        go.send(()).unwrap();
        assert!(watch.end().unwrap());
        let last = told.iter().last();
        assert_eq!(last, Some(1 + WATCHED as u64));
        assert_eq!(watch.state.lock().given, WATCHED as u64 + 6);
    }
}
