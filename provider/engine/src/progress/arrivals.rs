//! Threads of the application that sleep until somebody else has received something.

use std::sync::atomic::{AtomicU32, Ordering};

use ferroce_transport::Duration;

use crate::progress::futex;

/// A futex that counts arrivals while somebody waits for one.
#[derive(Default)]
pub(crate) struct Arrivals {
    count: AtomicU32,
    waiting: AtomicU32,
}

impl Arrivals {
    /// For whoever receives, when what has come has been handled.
    #[inline]
    pub(crate) fn happened(&self) {
        if self.waiting.load(Ordering::SeqCst) != 0 {
            self.count.fetch_add(1, Ordering::SeqCst);
            futex::wake(&self.count);
        }
    }

    /// For a thread that will look, under the lock of a queue pair, whether what it waits for has
    /// come, and then [`wait`](Waiter::wait): what comes in between is not missed.
    pub(crate) fn expect(&self) -> Waiter<'_> {
        self.waiting.fetch_add(1, Ordering::SeqCst);
        Waiter {
            arrivals: self,
            seen: self.count.load(Ordering::SeqCst),
        }
    }
}

/// A thread that waits, or is about to.
pub(crate) struct Waiter<'a> {
    arrivals: &'a Arrivals,
    seen: u32,
}

impl Waiter<'_> {
    /// Sleeps until something is received, but no longer than `most`. Returns whether it ended
    /// before.
    pub(crate) fn wait(&self, most: Duration) -> bool {
        futex::wait(&self.arrivals.count, self.seen, most)
    }
}

impl Drop for Waiter<'_> {
    fn drop(&mut self) {
        self.arrivals.waiting.fetch_sub(1, Ordering::SeqCst);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LONG: Duration = Duration::from_millis(999);
    const SHORT: Duration = Duration::from_micros(10);

    #[test]
    fn what_comes_before_the_sleep_is_not_missed() {
        let arrivals = Arrivals::default();
        // Nobody waits: nothing is counted.
        arrivals.happened();
        let waiter = arrivals.expect();
        assert!(!waiter.wait(SHORT));
        arrivals.happened();
        assert!(waiter.wait(LONG));
        drop(waiter);
        assert!(!arrivals.expect().wait(SHORT));
    }

    #[test]
    fn all_who_sleep_are_woken() {
        let arrivals = Arrivals::default();
        let ended = std::thread::scope(|scope| {
            let waiters: Vec<_> = (0..3).map(|_| arrivals.expect()).collect();
            let threads: Vec<_> = waiters
                .into_iter()
                .map(|waiter| scope.spawn(move || waiter.wait(LONG)))
                .collect();
            std::thread::sleep(Duration::from_millis(1));
            arrivals.happened();
            threads.into_iter().all(|thread| thread.join().unwrap())
        });
        assert!(ended);
    }
}
