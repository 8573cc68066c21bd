//! The times at which sockets have to be looked at.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;

/// A socket's number, and when it is its turn.
type Entry = (Instant, u64);

/// The timers of all sockets.
#[derive(Default)]
pub(crate) struct Timers(Mutex<BTreeSet<Entry>>);

impl Timers {
    /// Adds one; true if it is the next.
    pub(crate) fn add(&self, when: Instant, key: u64) -> bool {
        let mut entries = self.0.lock();
        entries.insert((when, key));
        entries.first() == Some(&(when, key))
    }

    /// What takes one away again when it is dropped.
    pub(crate) fn deadline(self: &Arc<Self>, when: Instant, key: u64) -> Deadline {
        Deadline {
            timers: Arc::clone(self),
            entry: (when, key),
        }
    }

    /// Whether a socket has one by then.
    pub(crate) fn has(&self, when: Instant, key: u64) -> bool {
        let entries = self.0.lock();
        entries
            .iter()
            .any(|(time, owner)| *owner == key && *time <= when)
    }

    /// The sockets whose time has come, and how long until the next.
    pub(crate) fn expired(&self, now: Instant) -> (Vec<u64>, Option<Duration>) {
        let mut entries = self.0.lock();
        let mut keys = Vec::new();
        while let Some((when, key)) = entries.first().copied() {
            if when > now {
                return (keys, Some(when - now));
            }
            entries.pop_first();
            keys.push(key);
        }
        (keys, None)
    }
}

/// A timer that goes with what it is for.
pub(crate) struct Deadline {
    timers: Arc<Timers>,
    entry: Entry,
}

impl Drop for Deadline {
    fn drop(&mut self) {
        self.timers.0.lock().remove(&self.entry);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_deadline_that_is_dropped_is_none() {
        let (timers, start) = (Arc::new(Timers::default()), Instant::now());
        let second = Duration::from_secs(1);
        assert!(timers.add(start + second, 1));
        assert!(!timers.add(start + second * 2, 2));
        let deadline = timers.deadline(start + second, 1);
        assert!(timers.has(start + second, 1) && !timers.has(start, 1));
        drop(deadline);
        assert!(!timers.has(start + second, 1));
        let (keys, next) = timers.expired(start + second);
        assert!(keys.is_empty());
        assert_eq!(next, Some(second));
        assert_eq!(timers.expired(start + second * 2), (vec![2], None));
    }
}
