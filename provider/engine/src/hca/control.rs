//! The connection to the daemon.

use std::os::fd::{AsRawFd, RawFd};

use ferroce_control::{Client, ControlError, Event};
use parking_lot::Mutex;

/// Devices whose port is in this program have none.
pub(super) struct Control(Option<Daemon>);

struct Daemon {
    client: Mutex<Client>,
    fd: RawFd,
}

impl Control {
    pub(super) fn new(client: Option<Client>) -> Control {
        Control(client.map(|client| Daemon {
            fd: client.event_fd().as_raw_fd(),
            client: Mutex::new(client),
        }))
    }

    /// Asks for something, and waits for the answer. Events may come before it.
    pub(super) fn ask<R>(
        &self,
        request: impl FnOnce(&mut Client) -> Result<R, ControlError>,
    ) -> Result<R, ControlError> {
        let daemon = self.0.as_ref().ok_or(ControlError::Closed)?;
        request(&mut daemon.client.lock())
    }

    /// The next thing that the daemon has told.
    pub(super) fn event(&self) -> Option<Event> {
        self.0.as_ref()?.client.lock().try_event()
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
