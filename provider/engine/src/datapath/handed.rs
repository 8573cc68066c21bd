//! Turns to send on their way to queue pairs (see [`turns`](crate::datapath::turns)).

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::Mutex;

use crate::datapath::path::Path;
use crate::datapath::turns::Turn;

/// Turns that were given to queue pairs which do not know of it yet: who gives one away holds the
/// lock of another queue pair.
#[derive(Default)]
pub(crate) struct Handed {
    list: Mutex<VecDeque<(Arc<Path>, u16, Turn)>>,
    any: AtomicBool,
}

impl Handed {
    pub(super) fn push(&self, path: &Arc<Path>, index: u16, turn: Turn) {
        self.list.lock().push_back((path.clone(), index, turn));
        self.any.store(true, Ordering::Release);
    }

    /// Whether there are any.
    #[inline]
    pub(super) fn any(&self) -> bool {
        self.any.load(Ordering::Acquire)
    }

    pub(super) fn pop(&self) -> Option<(Arc<Path>, u16, Turn)> {
        let mut list = self.list.lock();
        let first = list.pop_front();
        self.any.store(!list.is_empty(), Ordering::Relaxed);
        first
    }
}
