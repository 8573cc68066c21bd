//! How long send requests of a queue pair take, from post to completion, while somebody measures.
//!
//! Requests complete in the order in which they were posted, those that raise no completion
//! silently: a completion is that of the oldest request which raises one. A request that fails is
//! no latency; with it the queue pair fails, and whatever else was posted.

use std::collections::VecDeque;

use ferroce_control::latency::{BUCKETS, bucket};
use ferroce_transport::{Duration, SendFlags, SendRequest, Time, WcOpcode, WcStatus};

use super::{LATENCY, VERBS};
use crate::error::{Error, Result};
use crate::progress::timers;
use crate::verbs::qp::{Inner, Qp};
use crate::verbs::wc::Wc;

/// Latencies, in nanoseconds.
#[derive(Clone, Debug)]
pub struct Histogram {
    /// How many there are.
    pub count: u64,
    /// Their sum.
    pub sum: u64,
    /// The shortest; 0 if there is none.
    pub min: u64,
    /// The longest.
    pub max: u64,
    /// How many are in each bucket of [`ferroce_control::latency`].
    pub buckets: [u64; BUCKETS],
}

impl Histogram {
    const EMPTY: Histogram = Histogram {
        count: 0,
        sum: 0,
        min: 0,
        max: 0,
        buckets: [0; BUCKETS],
    };

    fn add(&mut self, latency: Duration) {
        let nanos = u64::try_from(latency.as_nanos()).unwrap_or(u64::MAX);
        self.min = match self.count {
            0 => nanos,
            _ => self.min.min(nanos),
        };
        self.max = self.max.max(nanos);
        self.count += 1;
        self.sum = self.sum.saturating_add(nanos);
        self.buckets[bucket(nanos)] += 1;
    }
}

/// A request in the send queue.
#[derive(Clone, Copy, Debug)]
struct Posted {
    /// `None`: before anybody measured.
    at: Option<Time>,
    /// It raises a completion when it succeeds.
    signaled: bool,
}

/// What is measured of a queue pair.
#[derive(Debug)]
pub(crate) struct Latency {
    histogram: Histogram,
    posted: VecDeque<Posted>,
}

impl Latency {
    /// Begins with what is in the queue, of which it is not known when it was posted.
    fn new(signals: impl Iterator<Item = bool>) -> Latency {
        let earlier = signals.map(|signaled| Posted { at: None, signaled });
        Latency {
            histogram: Histogram::EMPTY,
            posted: earlier.collect(),
        }
    }

    fn completed(&mut self, now: Time) {
        while let Some(posted) = self.posted.pop_front() {
            if !posted.signaled {
                continue;
            }
            if let Some(at) = posted.at {
                self.histogram.add(now - at);
            }
            return;
        }
    }
}

impl Qp {
    /// Begins to measure, or begins anew.
    pub fn measure(&self) -> Result<()> {
        let hca = self.hca();
        if hca.is_inherited() {
            return Err(Error::Dead);
        }
        if self.tm.is_some() {
            let why = "latencies of a send queue that is for rendezvous";
            return Err(Error::Unsupported(why));
        }

        let inner = self.inner.lock();
        let begun = Latency::new(inner.transport.signals());
        let before = self.latency.lock().replace(Box::new(begun));
        if before.is_none() {
            hca.taps.measured(true);
        }
        Ok(())
    }

    /// What was measured so far; `None`: nobody measures.
    pub fn measured(&self) -> Option<Histogram> {
        let latency = self.latency.lock();
        latency.as_ref().map(|latency| latency.histogram.clone())
    }

    /// Measures no more; whether somebody did.
    pub fn unmeasure(&self) -> bool {
        let was = self.latency.lock().take().is_some();
        if was {
            self.hca().taps.measured(false);
        }
        was
    }

    /// A request has been posted, and somebody wants to know.
    #[cold]
    pub(crate) fn posted(&self, request: &SendRequest<'_>) {
        let taps = &self.hca().taps;
        if taps.has(VERBS) {
            taps.captures.posted_send(self.number, request);
        }
        if taps.has(LATENCY)
            && let Some(latency) = &mut *self.latency.lock()
        {
            latency.posted.push_back(Posted {
                at: Some(timers::now()),
                signaled: self.sq_sig_all || request.flags.contains(SendFlags::SIGNALED),
            });
        }
    }

    /// A request has completed, likewise.
    #[cold]
    pub(crate) fn told(&self, wc: &Wc) {
        let taps = &self.hca().taps;
        if taps.has(VERBS) {
            taps.captures.completed(wc);
        }

        let received = wc.opcode & WcOpcode::Recv as u32 != 0;
        if received || !taps.has(LATENCY) {
            return;
        }
        if let Some(latency) = &mut *self.latency.lock() {
            match wc.status == WcStatus::Success as u32 {
                true => latency.completed(timers::now()),
                false => latency.posted.clear(),
            }
        }
    }

    /// The send queue has been emptied, and nothing completes. The caller holds its lock.
    pub(crate) fn forget_posted(&self, _: &Inner) {
        if let Some(latency) = &mut *self.latency.lock() {
            latency.posted.clear();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_completion_is_of_the_oldest_request_that_raises_one() {
        let mut latency = Latency::new([false, true].into_iter());
        let at = |nanos| Posted {
            at: Some(Time::from_nanos(nanos)),
            signaled: nanos % 2 == 0,
        };
        latency.posted.extend([at(11), at(20), at(31), at(40)]);

        // The one that was posted before has no time.
        latency.completed(Time::from_nanos(50));
        assert_eq!(latency.histogram.count, 0);
        latency.completed(Time::from_nanos(50));
        latency.completed(Time::from_nanos(55));
        let seen = &latency.histogram;
        assert_eq!((seen.count, seen.sum, seen.min, seen.max), (2, 45, 15, 30));
        assert_eq!((seen.buckets[15], seen.buckets[bucket(30)]), (1, 1));
        latency.completed(Time::from_nanos(60));
        assert_eq!(latency.histogram.count, 2);
    }
}
