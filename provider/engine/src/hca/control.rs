//! The connection to the daemon.

use std::mem::ManuallyDrop;
use std::os::fd::{AsRawFd, RawFd};
use std::sync::atomic::{AtomicBool, Ordering};

use ferroce_control::{Client, ControlError, Event};
use parking_lot::Mutex;

use crate::own::Mark;

/// Devices whose port is in this program have none.
pub(super) struct Control(Option<Daemon>);

struct Daemon {
    client: ManuallyDrop<Mutex<Client>>,
    fd: RawFd,
    mark: Mark,
    /// It has been said that it was closed.
    ended: AtomicBool,
}

impl Daemon {
    /// Whether the program has closed the descriptor: what has its number now is the program's.
    fn is_lost(&self) -> bool {
        !self.mark.is_ours()
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        if !self.is_lost() {
            // SAFETY: once, here, and nobody has it any more.
            unsafe { ManuallyDrop::drop(&mut self.client) };
        }
    }
}

impl Control {
    pub(super) fn new(client: Option<Client>) -> Control {
        Control(client.map(|client| {
            let fd = client.event_fd().as_raw_fd();
            Daemon {
                client: ManuallyDrop::new(Mutex::new(client)),
                fd,
                mark: Mark::of(&fd),
                ended: AtomicBool::new(false),
            }
        }))
    }

    /// Asks for something, and waits for the answer. Events may come before it. An answer that is
    /// kept is to be stored by `request` itself, before another thread has a later one.
    pub(super) fn ask<R>(
        &self,
        request: impl FnOnce(&mut Client) -> Result<R, ControlError>,
    ) -> Result<R, ControlError> {
        let daemon = self.0.as_ref().filter(|daemon| !daemon.is_lost());
        let daemon = daemon.ok_or(ControlError::Closed)?;
        request(&mut daemon.client.lock())
    }

    /// Whether there was one, and the program has closed its descriptor.
    pub(super) fn is_lost(&self) -> bool {
        self.0.as_ref().is_some_and(Daemon::is_lost)
    }

    /// The next thing that the daemon has told. `taken` is shown it before another thread gets one:
    /// what is kept must be the last that was told.
    pub(super) fn event(&self, taken: impl FnOnce(&Event)) -> Option<Event> {
        let daemon = self.0.as_ref()?;
        if daemon.is_lost() {
            return (!daemon.ended.swap(true, Ordering::Relaxed)).then_some(Event::Shutdown);
        }
        let mut client = daemon.client.lock();
        let event = client.try_event()?;
        taken(&event);
        Some(event)
    }

    /// Whether it has told something while an answer was waited for.
    pub(super) fn has_event(&self) -> bool {
        let client = self.0.as_ref().and_then(|daemon| daemon.client.try_lock());
        client.is_some_and(|client| client.has_event())
    }

    /// Where events come.
    pub(super) fn fd(&self) -> Option<RawFd> {
        self.0.as_ref().map(|daemon| daemon.fd)
    }
}
