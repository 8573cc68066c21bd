//! Event queues: operations that will post an event, events not yet taken, and waiting for them.
//!
//! Waiting is on a futex word of the queue's own, so that a signal handler ends it with `EINTR`.
//! Who never sleeps holds signals back, and lets them in now and then.

mod patience;
mod target;

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use ferroce_signals::Held;
use parking_lot::Mutex;

use crate::abi::Event;
use crate::attention::Next;
use crate::errno::{Errno, Result};

pub(crate) use self::target::Target;

/// How [`Queue::take`] waits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Wait {
    /// Look for some time, which depends on how long it took before, then sleep.
    #[default]
    Adaptive,
    /// Sleep at once.
    Notify,
    /// Never sleep.
    BusyPoll,
}

/// The signal that announces events.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Signal {
    /// Its number.
    pub number: i32,
    /// The value that comes with it.
    pub value: usize,
}

/// How often a thread that never sleeps looks for signals.
const SIGNALS: Duration = Duration::from_micros(100);

struct State {
    events: VecDeque<Event>,
    depth: usize,
    /// Operations in progress that name the queue.
    pending: usize,
    /// Threads that wait for events.
    waiting: usize,
    signal: Option<Signal>,
    wait: Wait,
    deleted: bool,
    /// How long a wait may look before it sleeps.
    patience: Duration,
}

/// An event queue.
pub(crate) struct Queue {
    state: Mutex<State>,
    /// Changes with every event; the futex word.
    posted: AtomicU32,
    sleepers: AtomicU32,
}

/// What brings completions forward while a thread waits; how the threads share that work is not the
/// queue's business.
pub(crate) trait Progress {
    /// The caller is going to look instead of sleeping.
    fn begin(&self);
    /// Does what there is to do; true if there was something.
    fn advance(&self) -> bool;
    /// The caller looks no more.
    fn end(&self, next: Next);
    /// The sleep that [`Next::Sleep`] announced is over.
    fn awake(&self);
}

impl Queue {
    /// A queue that holds at least `depth` events.
    pub(crate) fn new(depth: usize) -> Arc<Self> {
        Arc::new(Self {
            state: Mutex::new(State {
                events: VecDeque::with_capacity(depth.min(64)),
                depth,
                pending: 0,
                waiting: 0,
                signal: None,
                wait: Wait::default(),
                deleted: false,
                patience: patience::COMMON,
            }),
            posted: AtomicU32::new(0),
            sleepers: AtomicU32::new(0),
        })
    }

    /// An operation that will post an event begins. `EINVAL` when the queue was deleted meanwhile.
    pub(crate) fn begin(&self) -> Result<()> {
        let mut state = self.state.lock();
        if state.deleted {
            return Err(Errno(libc::EINVAL));
        }
        state.pending += 1;
        Ok(())
    }

    /// An operation is over, with an event or (unsignaled) without.
    pub(crate) fn end(&self, event: Option<Event>) {
        let signal = {
            let mut state = self.state.lock();
            state.pending -= 1;
            let Some(event) = event else { return };
            state.events.push_back(event);
            state.signal
        };

        self.posted.fetch_add(1, Ordering::SeqCst);
        if self.sleepers.load(Ordering::SeqCst) > 0 {
            self.wake();
        }

        if let Some(signal) = signal {
            let value = libc::sigval {
                sival_ptr: signal.value as *mut _,
            };
            // SAFETY: a signal to ourselves. That too many are queued is the application's to see
            // to.
            unsafe { libc::sigqueue(libc::getpid(), signal.number, value) };
        }
    }

    /// Deletes it, unless operations are in progress or threads wait: `EBUSY`.
    pub(crate) fn delete(&self) -> Result<()> {
        let mut state = self.state.lock();
        if state.pending > 0 || state.waiting > 0 {
            return Err(Errno(libc::EBUSY));
        }
        state.deleted = true;
        state.events.clear();
        Ok(())
    }

    /// Takes up to `most` events, once there are `least` or the time is over. What `ready_to_wait`
    /// says is the answer where the wait may be long.
    pub(crate) fn take(
        &self,
        least: usize,
        most: usize,
        until: Option<Instant>,
        progress: &impl Progress,
        ready_to_wait: impl Fn() -> Result<()>,
    ) -> Result<Vec<Event>> {
        let started = Instant::now();
        let (wait, patience, signaled) = {
            let mut state = self.state.lock();
            if let Some(events) = ready(&mut state, least, most)? {
                return Ok(events);
            }
            state.waiting += 1;
            (state.wait, state.patience, state.signal.is_some())
        };
        let _waits = Waits(&self.state);
        if wait == Wait::BusyPoll {
            ready_to_wait()?;
        }

        progress.begin();
        let looked = match wait {
            Wait::Notify => Ok(None),
            _ => self.look(least, most, until, started, wait, patience, progress),
        };

        progress.end(match &looked {
            Ok(None) => Next::Sleep,
            // A signal announces the next event: what would bring it forward must not wait for the
            // caller.
            Ok(Some(_)) if !signaled => Next::Back,
            _ => Next::Away,
        });

        if let Some(events) = looked? {
            self.learn(started.elapsed(), patience);
            return Ok(events);
        }

        let slept = ready_to_wait().and_then(|()| self.sleep(least, most, until));
        progress.awake();
        self.learn(started.elapsed(), patience);
        slept
    }

    #[expect(clippy::too_many_arguments, reason = "one caller")]
    fn look(
        &self,
        least: usize,
        most: usize,
        until: Option<Instant>,
        started: Instant,
        wait: Wait,
        patience: Duration,
        progress: &impl Progress,
    ) -> Result<Option<Vec<Event>>> {
        let mut since = started;
        let (mut held, mut let_in) = (None, started);
        loop {
            let advanced = progress.advance();
            if let Some(events) = ready(&mut self.state.lock(), least, most)? {
                return Ok(Some(events));
            }

            let now = Instant::now();
            if until.is_some_and(|until| now >= until) {
                return Ok(Some(self.remaining(most)));
            }
            if advanced {
                since = now;
            }
            if wait == Wait::Adaptive && now - since > patience {
                return Ok(None);
            }
            // No sleep would end with a signal.
            if wait == Wait::BusyPoll && now - let_in > SIGNALS {
                let_in = now;
                if held.get_or_insert_with(Held::all).let_in() {
                    return Err(Errno(libc::EINTR));
                }
            }

            std::hint::spin_loop();
        }
    }

    fn learn(&self, took: Duration, patience: Duration) {
        self.state.lock().patience = patience::learned(patience, took);
    }

    fn sleep(&self, least: usize, most: usize, until: Option<Instant>) -> Result<Vec<Event>> {
        loop {
            self.sleepers.fetch_add(1, Ordering::SeqCst);
            let seen = self.posted.load(Ordering::SeqCst);
            let found = ready(&mut self.state.lock(), least, most);
            let slept = match found {
                Ok(None) => self.futex_wait(seen, until),
                _ => Ok(()),
            };

            self.sleepers.fetch_sub(1, Ordering::SeqCst);
            if let Some(events) = found? {
                return Ok(events);
            }

            match slept {
                Err(Errno(libc::ETIMEDOUT)) => {
                    let ready = ready(&mut self.state.lock(), least, most)?;
                    return Ok(ready.unwrap_or_else(|| self.remaining(most)));
                }
                other => other?,
            }
        }
    }

    /// What there is when the time is over, though it is less than was waited for.
    fn remaining(&self, most: usize) -> Vec<Event> {
        let mut state = self.state.lock();
        let count = state.events.len().min(most);
        state.events.drain(..count).collect()
    }

    fn futex_wait(&self, seen: u32, until: Option<Instant>) -> Result<()> {
        let timeout = until.map(|until| {
            let left = until.saturating_duration_since(Instant::now());
            libc::timespec {
                tv_sec: left.as_secs().min(i32::MAX as u64) as libc::time_t,
                tv_nsec: left.subsec_nanos().into(),
            }
        });
        let timeout = timeout
            .as_ref()
            .map_or(std::ptr::null(), |timeout| timeout as *const _);

        // SAFETY: the word and the timeout outlive the call.
        let answer = unsafe {
            libc::syscall(
                libc::SYS_futex,
                self.posted.as_ptr(),
                libc::FUTEX_WAIT | libc::FUTEX_PRIVATE_FLAG,
                seen,
                timeout,
            )
        };

        match answer {
            0 => Ok(()),
            _ => match Errno::last() {
                Errno(libc::EAGAIN) => Ok(()),
                error => Err(error),
            },
        }
    }

    fn wake(&self) {
        // SAFETY: the word is ours.
        unsafe {
            libc::syscall(
                libc::SYS_futex,
                self.posted.as_ptr(),
                libc::FUTEX_WAKE | libc::FUTEX_PRIVATE_FLAG,
                i32::MAX,
            )
        };
    }

    /// Puts events back in front that could not be handed over.
    pub(crate) fn give_back(&self, events: Vec<Event>) {
        let mut state = self.state.lock();
        for event in events.into_iter().rev() {
            state.events.push_front(event);
        }
    }

    /// Its guaranteed depth, and how many events are in it.
    pub(crate) fn depth(&self) -> (usize, usize) {
        let state = self.state.lock();
        (state.depth, state.events.len())
    }

    /// Changes the guaranteed depth: `EAGAIN` while there is no memory for it.
    pub(crate) fn set_depth(&self, depth: usize) -> Result<()> {
        let mut state = self.state.lock();
        let more = depth.min(1 << 12).saturating_sub(state.events.len());
        let room = state.events.try_reserve(more);
        room.map_err(|_| Errno(libc::EAGAIN))?;
        state.depth = depth;
        Ok(())
    }

    /// The signal that announces events.
    pub(crate) fn signal(&self) -> Option<Signal> {
        self.state.lock().signal
    }

    /// Changes it.
    pub(crate) fn set_signal(&self, signal: Option<Signal>) {
        self.state.lock().signal = signal;
    }

    /// How threads wait.
    pub(crate) fn wait(&self) -> Wait {
        self.state.lock().wait
    }

    /// Changes it.
    pub(crate) fn set_wait(&self, wait: Wait) {
        self.state.lock().wait = wait;
    }
}

/// A thread that waits for events, until it is dropped.
struct Waits<'a>(&'a Mutex<State>);

impl Drop for Waits<'_> {
    fn drop(&mut self) {
        self.0.lock().waiting -= 1;
    }
}

fn ready(state: &mut State, least: usize, most: usize) -> Result<Option<Vec<Event>>> {
    if state.deleted {
        return Err(Errno(libc::EINVAL));
    }
    if state.events.len() < least {
        return Ok(None);
    }
    let count = state.events.len().min(most);
    Ok(Some(state.events.drain(..count).collect()))
}
