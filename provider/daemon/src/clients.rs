//! Clients as they come and go: accepting, telling them things, and taking back what they held.

use std::os::fd::OwnedFd;
use std::time::Instant;

use ferroce_control::Event;
use rustix::io::Errno;
use rustix::pipe::PipeFlags;

use crate::connection::Connection;
use crate::daemon::Daemon;
use crate::door::{self, Guest};
use crate::group;
use crate::poller::Token;

impl Daemon {
    /// Takes in who knocks.
    pub(crate) fn accept(&mut self) {
        for _ in 0..door::BATCH {
            match self.door.accept(&self.poller) {
                Some(guest) => self.welcome(guest),
                None => return,
            }
        }
    }

    fn welcome(&mut self, guest: Guest) {
        let connection = Connection::new(guest, Instant::now());
        self.last_id += 1;
        let id = self.last_id;
        match self.poller.add(&connection.socket, Token::Connection(id)) {
            Ok(()) => drop(self.connections.insert(id, connection)),
            Err(errno) => tracing::error!(error = %errno, "cannot watch a connection"),
        }
    }

    /// Reads and answers what a client has sent.
    pub(crate) fn serve(&mut self, id: u64) {
        let mut buffer = std::mem::take(&mut self.buffer);
        self.serve_with(id, &mut buffer);
        self.buffer = buffer;
    }

    /// Sends a client what it has been told, as far as there is room.
    pub(crate) fn flush(&mut self, id: u64) {
        let Some(connection) = self.connections.get_mut(&id) else {
            return;
        };
        match connection.flush_events() {
            Ok(all) => {
                let socket = &connection.socket;
                let _ = self.poller.want_write(socket, Token::Connection(id), !all);
            }
            Err(_) => self.disconnect(id),
        }
    }

    /// Tells every client.
    pub(crate) fn broadcast(&mut self, event: Event) {
        let ids: Vec<u64> = self.connections.keys().copied().collect();
        for id in ids {
            if let Some(connection) = self.connections.get_mut(&id) {
                connection.push_event(event);
            }
            self.flush(id);
        }
    }

    /// A pipe whose closing says that nobody needs the daemon any longer. Returns the end that is given away.
    ///
    /// Its holder may be anybody, as programs inherit it and drop privileges. What he writes is never read and wakes nobody.
    pub(crate) fn new_hold(&mut self) -> Result<OwnedFd, Errno> {
        let (ours, theirs) = rustix::pipe::pipe_with(PipeFlags::CLOEXEC | PipeFlags::NONBLOCK)?;
        self.last_id += 1;
        self.poller.add_hangup(&ours, Token::Hold(self.last_id))?;
        self.holds.insert(self.last_id, ours);
        Ok(theirs)
    }

    /// The last process that held this has gone.
    pub(crate) fn let_go(&mut self, id: u64) {
        if let Some(pipe) = self.holds.remove(&id) {
            let _ = self.poller.remove(&pipe);
        }
    }

    /// Has the memory given back through which a slot's last owner sent to the other clients.
    pub(crate) fn reclaim_rings(&self, slot: u8) {
        let claimed = self.connections.values().filter_map(|c| c.claimed.as_ref());
        for claimed in claimed {
            if let Err(error) = claimed.inbox.reclaim(slot) {
                tracing::warn!(%error, slot, "a ring keeps its memory");
            }
        }
    }

    /// Forgets a connection and takes back what it had claimed.
    pub(crate) fn disconnect(&mut self, id: u64) {
        self.take_reports();
        let Some(connection) = self.connections.remove(&id) else {
            return;
        };
        let _ = self.poller.remove(&connection.socket);
        // Closing is not enough: a child of the client's may have the same connection.
        let _ = rustix::net::shutdown(&connection.socket, rustix::net::Shutdown::Both);
        let Some(claimed) = connection.claimed else {
            return;
        };
        if let Some(fabric) = &mut self.ib.fabric {
            fabric.leave_group(id, None);
        }
        tracing::debug!(
            slot = claimed.slot,
            name = connection.name,
            pid = connection.pid,
            "released"
        );
        if let Some(process) = &claimed.process {
            let _ = self.poller.remove(process);
        }
        if let Err(error) = claimed.inbox.close() {
            tracing::error!(%error, slot = claimed.slot, "senders are not told that a client has gone");
        }
        self.counting.departed.add(&claimed.counters);
        self.counting.dirty = true;
        self.slots.release(Instant::now(), claimed.slot);
        self.reclaim_rings(claimed.slot);
        for group in claimed.groups {
            if let Some(socket) = self.groups[group].existing(claimed.slot) {
                group::take_back(socket);
                let token = Token::Slot {
                    group,
                    slot: claimed.slot,
                };
                if let Err(errno) = self.poller.add(socket, token) {
                    tracing::error!(error = %errno, slot = claimed.slot, "cannot drain a socket");
                }
            }
        }
    }
}
