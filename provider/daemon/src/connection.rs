//! One client's connection, as the daemon sees it.

use std::os::fd::{BorrowedFd, OwnedFd};
use std::time::Instant;

use ferroce_control::protocol::{MAX_NAME, ServerMessage};
use ferroce_control::seqpacket::{self, Wait};
use ferroce_control::{ClientStatus, Event};
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags};

use crate::door::Guest;

/// A connection.
#[derive(Debug)]
pub struct Connection {
    /// The socket.
    pub socket: OwnedFd,
    /// The process, 0 if it is in a namespace that this one does not see.
    pub pid: u32,
    /// The program's name; empty before it attaches.
    pub name: String,
    /// When it connected.
    pub since: Instant,
    /// The slot that it has claimed, if any.
    pub slot: Option<u8>,
    /// Events that it had no room for.
    pending: Vec<Event>,
}

impl Connection {
    /// The connection of who was let in.
    pub fn new(guest: Guest, now: Instant) -> Self {
        Self {
            socket: guest.socket,
            pid: guest.pid,
            name: String::new(),
            since: now,
            slot: None,
            pending: Vec::new(),
        }
    }

    /// Something that becomes readable when the process dies. Without pidfds (Linux before 5.3), and for
    /// processes of a namespace that is not seen from here, the closing of the connection has to do.
    pub fn watch_process(&self) -> Option<OwnedFd> {
        let pid = Pid::from_raw(i32::try_from(self.pid).ok()?)?;
        rustix::process::pidfd_open(pid, PidfdFlags::empty()).ok()
    }

    /// Sends a reply. An error means that the connection is of no more use.
    pub fn reply(&self, message: &ServerMessage, fds: &[BorrowedFd<'_>]) -> Result<(), Errno> {
        let bytes = message.encode().map_err(|_| Errno::MSGSIZE)?;
        seqpacket::send(&self.socket, &bytes, fds, Wait::Not)
    }

    /// Queues an event. Of a kind only the newest is kept.
    pub fn push_event(&mut self, event: Event) {
        self.pending
            .retain(|e| std::mem::discriminant(e) != std::mem::discriminant(&event));
        self.pending.push(event);
    }

    /// Sends what is queued as far as there is room. Returns whether all went.
    pub fn flush_events(&mut self) -> Result<bool, Errno> {
        while let Some(&event) = self.pending.first() {
            match self.reply(&ServerMessage::event(event), &[]) {
                Ok(()) => drop(self.pending.remove(0)),
                Err(Errno::AGAIN | Errno::NOBUFS) => return Ok(false),
                Err(errno) => return Err(errno),
            }
        }
        Ok(true)
    }

    /// Takes the name that the client gives itself, shortened and made printable.
    pub fn rename(&mut self, name: &str) {
        let mut kept = String::new();
        for c in name.chars().filter(|c| !c.is_control()) {
            if kept.len() + c.len_utf8() > MAX_NAME {
                break;
            }
            kept.push(c);
        }
        self.name = kept;
    }

    /// For `ferroce status`.
    pub fn status(&self, now: Instant) -> ClientStatus {
        ClientStatus {
            pid: self.pid,
            name: self.name.clone(),
            slot: self.slot,
            seconds: now.saturating_duration_since(self.since).as_secs(),
        }
    }
}
