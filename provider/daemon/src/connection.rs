//! One client's connection, as the daemon sees it.

use std::collections::VecDeque;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::time::Instant;

use ferroce_control::capture::CaptureSource;
use ferroce_control::protocol::{MAX_NAME, Request, ServerMessage};
use ferroce_control::{ClientStatus, Event};
use rustix::io::Errno;

use crate::sessions::Session;

/// What a connection is for, as far as what it has asked for tells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Purpose {
    /// It has asked for nothing yet.
    Unknown,
    /// To look at what others do, as `status`, `top` and `metrics` do.
    Looks,
    /// Anything else. A program looks, too, before it asks for what it needs.
    Uses,
}

/// A connection.
#[derive(Debug)]
pub(crate) struct Connection {
    /// The process, 0 if it is in a namespace that this one does not see.
    pub pid: u32,
    /// Its user.
    pub uid: u32,
    /// The program's name; empty before it attaches.
    pub name: String,
    /// When it connected.
    pub since: Instant,
    /// The slot that it has claimed, if any.
    pub slot: Option<u8>,
    /// Whether it captures.
    pub reads: bool,
    /// Whether the daemon is to stay for it.
    pub purpose: Purpose,
    /// Its ends of rings of captures that it has not got yet.
    pub rings: VecDeque<(CaptureSource, OwnedFd)>,
    /// Events that it had no room for.
    pending: VecDeque<Event>,
}

impl Connection {
    /// The connection of a process that was let in.
    pub(crate) fn new(pid: u32, uid: u32, now: Instant) -> Self {
        Self {
            pid,
            uid,
            name: String::new(),
            since: now,
            slot: None,
            reads: false,
            purpose: Purpose::Unknown,
            rings: VecDeque::new(),
            pending: VecDeque::new(),
        }
    }

    /// Whether it is a program's or a capture's, which cannot be changed any more; what it has, in
    /// words.
    pub(crate) fn is_taken(&self) -> Option<String> {
        match (self.slot, self.reads) {
            (Some(slot), _) => Some(format!("this connection has slot {slot} already")),
            (None, true) => Some("this connection has a capture already".to_owned()),
            (None, false) => None,
        }
    }

    /// Takes note of what it asks for.
    pub(crate) fn asks(&mut self, request: &Request) {
        let looks = matches!(request, Request::Status | Request::Objects { .. });
        self.purpose = match (self.purpose, looks) {
            (Purpose::Unknown | Purpose::Looks, true) => Purpose::Looks,
            _ => Purpose::Uses,
        };
    }

    /// Queues an event.
    pub(crate) fn push_event(&mut self, event: Event) {
        event.join(&mut self.pending);
    }

    /// Takes the name that the client gives itself, shortened and made printable.
    pub(crate) fn rename(&mut self, name: &str) {
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
    pub(crate) fn status(&self, now: Instant) -> ClientStatus {
        ClientStatus {
            pid: self.pid,
            name: self.name.clone(),
            slot: self.slot,
            seconds: now.saturating_duration_since(self.since).as_secs(),
        }
    }
}

/// Sends a reply or an event. An error means that the connection is of no more use, unless there is
/// no room.
pub(crate) fn send(
    session: &Session<Connection>,
    message: &ServerMessage,
    fds: &[BorrowedFd<'_>],
) -> Result<(), Errno> {
    let bytes = message.encode().map_err(|_| Errno::MSGSIZE)?;
    session.send(&[&bytes], fds)
}

/// Sends what is queued as far as there is room. Returns whether all went.
pub(crate) fn flush(session: &mut Session<Connection>) -> Result<bool, Errno> {
    while let Some(&event) = session.state.pending.front() {
        match send(session, &ServerMessage::event(event), &[]) {
            Ok(()) => drop(session.state.pending.pop_front()),
            Err(Errno::AGAIN | Errno::NOBUFS) => return Ok(false),
            Err(errno) => return Err(errno),
        }
    }
    Ok(true)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_has_asked_for_more_than_a_look_is_there_to_stay() {
        let mut connection = Connection::new(1, 0, Instant::now());
        assert_eq!(connection.purpose, Purpose::Unknown);
        for (request, purpose) in [
            (Request::Status, Purpose::Looks),
            (Request::Objects { slot: 1 }, Purpose::Looks),
            (Request::Gids, Purpose::Uses),
            (Request::Status, Purpose::Uses),
        ] {
            connection.asks(&request);
            assert_eq!(connection.purpose, purpose, "{request:?}");
        }
    }
}
