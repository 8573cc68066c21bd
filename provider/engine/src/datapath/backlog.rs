//! What one thread leaves for another to do.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::Mutex;

/// What is left to do, in the order in which it was left, by threads that hold the lock of a queue
/// pair: with a look that takes no lock.
pub(crate) struct Backlog<T> {
    list: Mutex<VecDeque<T>>,
    any: AtomicBool,
}

impl<T> Default for Backlog<T> {
    fn default() -> Backlog<T> {
        Backlog {
            list: Mutex::default(),
            any: AtomicBool::new(false),
        }
    }
}

impl<T> Backlog<T> {
    pub(super) fn push(&self, what: T) {
        self.list.lock().push_back(what);
        self.any.store(true, Ordering::Release);
    }

    /// Whether there is anything.
    #[inline]
    pub(super) fn any(&self) -> bool {
        self.any.load(Ordering::Acquire)
    }

    pub(crate) fn len(&self) -> usize {
        self.list.lock().len()
    }

    pub(super) fn pop(&self) -> Option<T> {
        let mut list = self.list.lock();
        let first = list.pop_front();
        self.any.store(!list.is_empty(), Ordering::Relaxed);
        first
    }
}
