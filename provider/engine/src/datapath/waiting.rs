//! Which queue pairs have small requests waiting for company that nobody acknowledges (see
//! [`company`](crate::datapath::company)).

use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::Mutex;

/// The queue pairs of a lane that have such requests, or had some since somebody looked.
#[derive(Default)]
pub(crate) struct Waiting {
    list: Mutex<Vec<u16>>,
    any: AtomicBool,
}

impl Waiting {
    pub(super) fn push(&self, index: u16) {
        self.list.lock().push(index);
        self.any.store(true, Ordering::Release);
    }

    #[inline]
    pub(super) fn any(&self) -> bool {
        self.any.load(Ordering::Acquire)
    }

    pub(super) fn take(&self) -> Vec<u16> {
        let mut list = self.list.lock();
        self.any.store(false, Ordering::Relaxed);
        std::mem::take(&mut *list)
    }
}
