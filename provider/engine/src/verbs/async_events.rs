//! The asynchronous events of a context: a queue of records that its consumer reads from a
//! descriptor.
//!
//! Whatever raises events holds it, be it an object of the context or the device; it knows none of
//! them.

use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::sync::Arc;

use parking_lot::Mutex;

use crate::error::Result;
use crate::verbs::events::{self, EventPipe};

/// A context's queue of asynchronous events.
pub(crate) struct AsyncEvents {
    pipe: EventPipe<16>,
    fd: OwnedFd,
    /// Orders taking back against writing of one object's events.
    order: Mutex<()>,
}

impl AsyncEvents {
    pub(crate) fn open() -> Result<Arc<AsyncEvents>> {
        let fd = events::pipe_rdwr()?;
        let pipe = EventPipe::attach(fd.as_raw_fd())?;
        Ok(Arc::new(AsyncEvents {
            pipe,
            fd,
            order: Mutex::new(()),
        }))
    }

    /// The consumer's descriptor.
    pub(crate) fn fd(&self) -> RawFd {
        self.fd.as_raw_fd()
    }

    /// Queues an event.
    pub(crate) fn raise(&self, element: u64, event: u32) {
        let _order = self.order.lock();
        self.pipe.push(&events::async_record(element, event));
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
        written - self.pipe.take_back(|r| r[..8] == cookie.to_ne_bytes())
    }
}
