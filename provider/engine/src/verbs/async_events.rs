//! The asynchronous events of a context: a queue of records that its consumer reads from a
//! descriptor.
//!
//! Whatever raises events holds it, be it an object of the context or the device; it knows none of
//! them.

use std::os::fd::{AsRawFd, RawFd};
use std::sync::Arc;

use ferroce_transport::Duration;
use parking_lot::Mutex;

use crate::error::Result;
use crate::own::Own;
use crate::verbs::events::{self, EventPipe};

/// A context's queue of asynchronous events.
pub(crate) struct AsyncEvents {
    pipe: EventPipe<16>,
    fd: Own,
    /// Orders taking back against writing of one object's events.
    order: Mutex<()>,
}

impl AsyncEvents {
    pub(crate) fn open() -> Result<Arc<AsyncEvents>> {
        // They are rare: each time it is looked whether the pipe still is ours.
        let (fd, pipe) = EventPipe::make(Duration::ZERO)?;
        Ok(Arc::new(AsyncEvents {
            pipe,
            fd: fd.into(),
            order: Mutex::new(()),
        }))
    }

    /// The consumer's descriptor.
    pub(crate) fn fd(&self) -> RawFd {
        self.fd.as_raw_fd()
    }

    /// Queues an event. Returns whether it will come: after the device's end none does.
    pub(crate) fn raise(&self, element: u64, event: u32) -> bool {
        let _order = self.order.lock();
        self.pipe.push(&events::async_record(element, event))
    }

    /// The device has gone: who has read what there is sees the end.
    pub(crate) fn end(&self) {
        let _order = self.order.lock();
        self.pipe.end();
    }

    /// The consumer has read one: see [`EventPipe::was_read`].
    pub(super) fn was_read(&self) {
        self.pipe.was_read();
    }

    /// Takes back the unread ones of the `written` events that name `cookie`; returns how many the
    /// consumer has read, which it must acknowledge before the object may go.
    pub(super) fn take_back(&self, cookie: u64, written: u32) -> u32 {
        if written == 0 {
            return 0;
        }
        let _order = self.order.lock();
        // Port events carry a small port number where others carry an address, so the two never
        // meet.
        written
            - self
                .pipe
                .take_back(written, |r| r[..8] == cookie.to_ne_bytes())
    }
}
