//! Which threads of the application wait awake for an event of a completion channel, and receive
//! meanwhile (see `verbs::channel`).

use std::sync::atomic::{AtomicBool, Ordering};

/// What is known of the threads that wait awake.
#[derive(Default)]
pub(crate) struct Awake {
    /// One does. Others sleep, and are woken by what it receives for them.
    has_one: AtomicBool,
    /// The last such wait brought an event, and its thread is likely to be back.
    is_back_soon: AtomicBool,
}

impl Awake {
    /// A thread is going to wait, unless another does.
    pub(super) fn begin(&self) -> bool {
        !self.has_one.swap(true, Ordering::Acquire)
    }

    /// It waits no more; whether it has its event.
    pub(super) fn end(&self, paid: bool) {
        self.is_back_soon.store(paid, Ordering::Relaxed);
        self.has_one.store(false, Ordering::Release);
    }

    /// Whether a thread that asks for an event is likely to wait for it awake.
    pub(super) fn is_back_soon(&self) -> bool {
        self.is_back_soon.load(Ordering::Relaxed)
    }

    /// A thread is going to sleep. Whether it is the one that was likely to wait awake instead.
    pub(super) fn goes(&self) -> bool {
        !self.has_one.load(Ordering::Relaxed) && self.is_back_soon.swap(false, Ordering::Relaxed)
    }

    /// The helper receives again: nobody has been back.
    pub(super) fn has_gone(&self) {
        self.is_back_soon.store(false, Ordering::Relaxed);
    }
}
