//! Clients as they come and go: accepting, telling them things, and taking back what they held.
//! What they ask is in `requests`.

use std::collections::HashMap;
use std::os::fd::OwnedFd;
use std::time::Instant;

use ferroce_control::{Event, RuntimeDir, seqpacket};
use rustix::io::Errno;
use rustix::pipe::PipeFlags;

use crate::DaemonError;
use crate::adapter::Adapter;
use crate::connection::{self, Connection, Purpose};
use crate::poller::{Poller, Ready, Token};
use crate::service::Service;
use crate::sessions::{Kind, Session, Sessions};
use crate::slots::Slots;
use crate::ucma;
use crate::udp_sockets::can_be_silenced;
use crate::users::Users;

/// How many packets are drained of one socket before others have their turn.
const DRAIN_BATCH: usize = 256;

const KIND: Kind = Kind {
    door: Token::Listener,
    session: Token::Connection,
    backlog: 512,
    most: usize::MAX,
};

/// The service of the control socket.
#[derive(Debug)]
pub(crate) struct Clients {
    pub(crate) connections: Sessions<Connection>,
    /// Pipes whose other ends programs hold, so that the daemon stays.
    holds: HashMap<u64, OwnedFd>,
    pub(crate) slots: Slots,
    last_hold: u64,
    buffer: Vec<u8>,
    /// Whether one asks that the daemon leave.
    pub(crate) stop: bool,
    /// Whether one asks that it stay, though nobody uses it.
    pub(crate) remain: bool,
    /// Whether one has changed the faults.
    pub(crate) faults_changed: bool,
}

impl Service for Clients {
    fn next_timeout(&self) -> Option<Instant> {
        self.connections.next_timeout()
    }

    fn is_used(&self) -> bool {
        self.any(Purpose::Uses) || !self.holds.is_empty()
    }

    fn is_about_to_be(&self) -> bool {
        self.any(Purpose::Unknown)
    }
}

impl Clients {
    /// Listens in the runtime directory. Nobody is let in before [`open`](Self::open).
    pub(crate) fn start(dir: &RuntimeDir, users: Users) -> Result<Self, DaemonError> {
        Ok(Self {
            connections: Sessions::listen(&dir.socket(), KIND, users)?,
            holds: HashMap::new(),
            slots: Slots::new(!users.are_several() || can_be_silenced()),
            last_hold: 0,
            buffer: seqpacket::buffer(),
            stop: false,
            remain: false,
            faults_changed: false,
        })
    }

    fn any(&self, purpose: Purpose) -> bool {
        let mut all = self.connections.iter();
        all.any(|(_, session)| session.state.purpose == purpose)
    }

    /// The device is there: whoever knocks is let in.
    pub(crate) fn open(&self, poller: &Poller) -> Result<(), DaemonError> {
        self.connections.open(poller)
    }

    /// The control socket.
    pub(crate) fn listener(&self) -> &OwnedFd {
        self.connections.listener()
    }

    /// Does what is due.
    pub(crate) fn handle_timeout(&mut self, now: Instant, poller: &Poller) {
        self.connections.handle_timeout(now, poller);
    }

    /// A client's connection has something to read, or room.
    pub(crate) fn ready(
        &mut self,
        id: u64,
        ready: Ready,
        adapter: &mut Adapter,
        rdma_cm: &ucma::Server,
    ) {
        if ready.writable {
            self.flush(id, adapter);
        }
        if ready.readable {
            let mut buffer = std::mem::take(&mut self.buffer);
            self.serve(id, &mut buffer, adapter, rdma_cm);
            self.buffer = buffer;
        }
    }

    /// A client's process has died.
    pub(crate) fn died(&mut self, id: u64, adapter: &mut Adapter) {
        tracing::debug!(id, "a client's process has died");
        self.disconnect(id, adapter);
    }

    /// Packets came to a socket that nobody holds.
    pub(crate) fn drain(&mut self, group: usize, slot: u8, adapter: &mut Adapter) {
        if adapter.drain(group, slot, DRAIN_BATCH) {
            self.slots.disturb(Instant::now(), slot);
        }
    }

    /// Takes in who knocks.
    pub(crate) fn accept(&mut self, poller: &Poller) {
        self.connections.accept(poller, |_, guest| {
            let connection = Connection::new(guest.pid, guest.uid, Instant::now());
            Session::new(guest.socket, connection)
        });
    }

    /// Sends a client what it has been told, as far as there is room.
    fn flush(&mut self, id: u64, adapter: &mut Adapter) {
        let Some(session) = self.connections.get_mut(id) else {
            return;
        };
        match connection::flush(session) {
            Ok(all) => {
                let token = Token::Connection(id);
                let _ = adapter.poller.want_write(session.socket(), token, !all);
            }
            Err(_) => self.disconnect(id, adapter),
        }
    }

    /// Tells every client.
    pub(crate) fn broadcast(&mut self, event: Event, adapter: &mut Adapter) {
        let ids: Vec<u64> = self.connections.iter().map(|(id, _)| id).collect();
        for id in ids {
            self.tell(id, event, adapter);
        }
    }

    /// Tells one client.
    pub(crate) fn tell(&mut self, id: u64, event: Event, adapter: &mut Adapter) {
        if let Some(session) = self.connections.get_mut(id) {
            session.state.push_event(event);
        }
        self.flush(id, adapter);
    }

    /// The last word to every client, as far as there is room for it.
    pub(crate) fn farewell(&mut self) {
        for (_, session) in self.connections.iter_mut() {
            session.state.push_event(Event::Shutdown);
            let _ = connection::flush(session);
        }
    }

    /// A pipe whose closing says that nobody needs the daemon any longer. Returns the end that is
    /// given away.
    ///
    /// Its holder may be anybody, as programs inherit it and drop privileges. What he writes is
    /// never read and wakes nobody.
    pub(crate) fn new_hold(&mut self, poller: &Poller) -> Result<OwnedFd, Errno> {
        let (ours, theirs) = rustix::pipe::pipe_with(PipeFlags::CLOEXEC | PipeFlags::NONBLOCK)?;
        self.last_hold += 1;
        poller.add_hangup(&ours, Token::Hold(self.last_hold))?;
        self.holds.insert(self.last_hold, ours);
        Ok(theirs)
    }

    /// The last process that held this has gone.
    pub(crate) fn let_go(&mut self, id: u64, poller: &Poller) {
        if let Some(pipe) = self.holds.remove(&id) {
            let _ = poller.remove(&pipe);
        }
    }

    /// Forgets a connection and takes back what it had claimed.
    pub(crate) fn disconnect(&mut self, id: u64, adapter: &mut Adapter) {
        adapter.take_reports();
        let Some(connection) = self.connections.remove(id, &adapter.poller) else {
            return;
        };

        adapter.hosts.forget(id);
        if connection.reads {
            self.end_capture(id, adapter);
        }
        let Some(slot) = connection.slot else { return };
        self.left_captures(slot, adapter);
        let Some(claimed) = adapter.claims.remove(slot) else {
            return;
        };
        if let Some(fabric) = &mut adapter.ib.fabric {
            fabric.leave_group(id, None);
        }

        tracing::debug!(
            slot,
            name = connection.name,
            pid = connection.pid,
            "released"
        );

        if let Err(error) = claimed.inbox.close() {
            tracing::error!(%error, slot, "senders are not told that a client has gone");
        }

        adapter.counting.departed.add(&claimed.counters);
        adapter.faults.departed(&claimed.counters);
        adapter.counting.dirty = true;
        self.slots.release(Instant::now(), slot);
        adapter.claims.reclaim_rings(slot);

        for group in claimed.groups {
            adapter.take_socket_back(group, slot);
        }
        adapter.close_unused_groups();
    }
}
