//! One client's connection, as the daemon sees it.

use std::collections::{HashMap, HashSet};
use std::os::fd::{BorrowedFd, OwnedFd};
use std::time::Instant;

use ferroce_control::objects::ObjectTable;
use ferroce_control::protocol::{MAX_NAME, ServerMessage};
use ferroce_control::seqpacket::{self, Wait};
use ferroce_control::{ClientStatus, CounterPage, Event, InboxFds};
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags};

use crate::door::Guest;

/// What a client has claimed.
#[derive(Debug)]
pub struct Claimed {
    /// Its slot.
    pub slot: u8,
    /// Its counters.
    pub counters: CounterPage,
    /// Its objects, as it says.
    pub objects: ObjectTable,
    /// Where other clients put packets for it.
    pub inbox: InboxFds,
    /// Becomes readable when the process dies. A child that it leaves behind may keep the connection
    /// open, but has no use of the slot.
    pub process: Option<OwnedFd>,
    /// The groups of which it has the slot's socket, by index.
    pub groups: HashSet<usize>,
}

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
    /// What it has claimed, if anything.
    pub claimed: Option<Claimed>,
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
            claimed: None,
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
            slot: self.claimed.as_ref().map(|claimed| claimed.slot),
            seconds: now.saturating_duration_since(self.since).as_secs(),
        }
    }
}

/// What the client of a slot has claimed.
pub(crate) fn claimed_as(connections: &HashMap<u64, Connection>, slot: u8) -> Option<&Claimed> {
    let mut claimed = connections.values().filter_map(|c| c.claimed.as_ref());
    claimed.find(|claimed| claimed.slot == slot)
}
