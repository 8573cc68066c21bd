//! Completion events of what one thread receives: they go out together, when all of it has been
//! handled.
//!
//! A completion is in its queue at once, for whoever polls. The event only wakes a sleeper, who may
//! take the receiving thread's processor at that very moment, and would then find one half of what
//! came and not the other: the answer to its message, say, but not that the message was sent.
//! Programs are written for adapters, where that half comes first.

use std::cell::RefCell;
use std::sync::Arc;

use crate::memory::guard;

/// What has events to send.
pub(crate) trait Notifies {
    /// Sends those that were held back.
    fn deliver(&self);
}

#[derive(Default)]
struct Batch {
    under_way: bool,
    /// Queues that have events to send, each once.
    queues: Vec<Arc<dyn Notifies>>,
}

// A process that exits has lost its threads' storage, and may still receive something: then nothing
// is held back.
thread_local! {
    static BATCH: RefCell<Batch> = {
        // What a thread receives it places into registered memory.
        guard::admit_thread();
        RefCell::default()
    };
}

/// Completion events that this thread raises wait from now on until [`deliver`].
pub(crate) fn begin() {
    let _ = BATCH.try_with(|batch| batch.borrow_mut().under_way = true);
}

/// Whether a batch is under way in this thread.
pub(crate) fn is_under_way() -> bool {
    BATCH
        .try_with(|batch| batch.borrow().under_way)
        .unwrap_or(false)
}

/// Takes a queue that has got its first event of the batch.
pub(crate) fn add(queue: Arc<dyn Notifies>) {
    BATCH.with_borrow_mut(|batch| batch.queues.push(queue));
}

/// The batch has been handled: its events go out, queue by queue.
pub(crate) fn deliver() {
    let end = |batch: &RefCell<Batch>| {
        let mut batch = batch.borrow_mut();
        batch.under_way = false;
        std::mem::take(&mut batch.queues)
    };
    let Ok(mut queues) = BATCH.try_with(end) else {
        return;
    };
    if queues.is_empty() {
        return;
    }
    queues.drain(..).for_each(|cq| cq.deliver());
    // The list keeps its room, so that the next batch allocates nothing.
    let _ = BATCH.try_with(|batch| batch.borrow_mut().queues = queues);
}
