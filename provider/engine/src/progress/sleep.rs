//! How long a thread sleeps, for those who have something earlier for it.

use std::sync::atomic::Ordering;

use ferroce_transport::Time;

use super::words::Word;

/// Until when a thread sleeps, in nanoseconds; 0 while it does not.
pub(crate) struct Sleep<W>(pub(crate) W);

impl<W: Word<Value = u64>> Sleep<W> {
    /// Of a thread that is awake; `word` is 0.
    pub(crate) const fn new(word: W) -> Sleep<W> {
        Sleep(word)
    }

    /// Announces a sleep, then returns until when it may last: `next` says when something is to be
    /// done.
    pub(crate) fn announce(&self, next: impl Fn() -> Time) -> Time {
        // First "for ever", then look: who adds a deadline in between sees it and wakes us.
        self.0.store(u64::MAX, Ordering::Relaxed);
        W::fence();
        let until = next();
        self.0.store(until.as_nanos(), Ordering::Relaxed);
        until
    }

    /// The thread is awake.
    pub(crate) fn over(&self) {
        self.0.store(0, Ordering::Relaxed);
    }

    /// Whether the thread must be woken for a deadline, which has been added already.
    pub(super) fn outlasts(&self, at: Time) -> bool {
        // The deadline was made known by whatever means, the other side looks at it after its
        // fence: of the two fences one comes first, so either he finds the deadline or we that he
        // sleeps. Without them a processor may look before it has told.
        W::fence();
        at.as_nanos() < self.0.load(Ordering::Relaxed)
    }
}
