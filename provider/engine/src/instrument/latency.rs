//! How long send requests of a queue pair take, from post to completion, while somebody measures;
//! `measuring` has who says so, and the queue pair's part.
//!
//! Requests complete in the order in which they were posted, those that raise no completion
//! silently: a completion is that of the oldest request which raises one. A request that fails is
//! no latency; with it the queue pair fails, and whatever else was posted.

use std::collections::VecDeque;

use ferroce_control::latency::{BUCKETS, bucket};
use ferroce_transport::{Duration, Time};

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
pub(super) struct Posted {
    /// `None`: before anybody measured.
    pub(super) at: Option<Time>,
    /// It raises a completion when it succeeds.
    pub(super) signaled: bool,
}

/// What is measured of a queue pair.
#[derive(Debug)]
pub(crate) struct Latency {
    pub(super) histogram: Histogram,
    pub(super) posted: VecDeque<Posted>,
}

impl Latency {
    /// Begins with what is in the queue, of which it is not known when it was posted.
    pub(super) fn new(signals: impl Iterator<Item = bool>) -> Latency {
        let earlier = signals.map(|signaled| Posted { at: None, signaled });
        Latency {
            histogram: Histogram::EMPTY,
            posted: earlier.collect(),
        }
    }

    /// A request that raises a completion has succeeded.
    pub(super) fn completed(&mut self, now: Time) {
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
