//! Where the event of an operation goes.

use std::sync::Arc;

use super::Queue;
use crate::abi::{self, Event};
use crate::errno::Result;

/// Where an operation's event goes.
pub(crate) struct Target {
    queue: Option<Arc<Queue>>,
    /// The application's handle.
    pub ahandle: usize,
    /// Whether success is worth an event.
    signaled: bool,
}

impl Target {
    /// A target that has begun on its queue, if it names one.
    pub(crate) fn new(queue: Option<Arc<Queue>>, ahandle: usize, signaled: bool) -> Result<Self> {
        if let Some(queue) = &queue {
            queue.begin()?;
        }
        Ok(Self {
            queue,
            ahandle,
            signaled,
        })
    }

    /// No event, whatever happens.
    pub(crate) fn none() -> Self {
        Self {
            queue: None,
            ahandle: 0,
            signaled: false,
        }
    }

    /// The same place for one more event.
    pub(crate) fn again(&self, ahandle: usize) -> Result<Self> {
        Self::new(self.queue.clone(), ahandle, self.signaled)
    }

    /// The operation is over. Without a queue, or when it went well and that is not wanted, nobody
    /// hears of it.
    pub(crate) fn end(
        mut self,
        kind: i32,
        socket: i32,
        result: Result<()>,
        detail: abi::EventDetail,
    ) {
        let code = result.err().map_or(0, |errno| errno.0);
        if let Some(queue) = self.queue.take() {
            let wanted = self.signaled || code != 0;
            let event = wanted.then(|| Event::new(kind, socket, code, self.ahandle, detail));
            queue.end(event);
        }
    }
}

impl Drop for Target {
    fn drop(&mut self) {
        // An operation that never began after all.
        if let Some(queue) = self.queue.take() {
            queue.end(None);
        }
    }
}
