//! Programs' `NETLINK_RDMA` sockets: each is a connection to the daemon, made by the shim. What a program does with it makes nobody
//! wait: while its answers are not read, no more of its requests are.

use std::collections::{HashMap, VecDeque};
use std::os::fd::OwnedFd;
use std::time::Instant;

use ferroce_cabi::rdma_netlink::{CONTROL, Control, HELLO, MAX_REQUEST, VERSION, port_of_name};
use ferroce_control::RuntimeDir;
use ferroce_control::seqpacket::{self, ReceiveError, Wait};
use rustix::io::Errno;
use rustix::net::SocketAddrUnix;
use zerocopy::FromBytes;

use super::kernel::Kernel;
use super::message::{Asker, Request};
use super::{View, answers};
use crate::DaemonError;
use crate::door::{self, Door};
use crate::poller::{Poller, Token};
use crate::service::Service;

/// Options of level `SOL_NETLINK`.
const NETLINK_CAP_ACK: u32 = 10;
const NETLINK_EXT_ACK: u32 = 11;

/// The most sockets that there are at a time.
const MOST: usize = 4096;

/// The server with its sockets.
#[derive(Debug)]
pub(crate) struct Server {
    door: Door,
    sessions: HashMap<u64, Session>,
    last: u64,
    buffer: Vec<u8>,
}

impl Service for Server {
    fn next_timeout(&self) -> Option<Instant> {
        self.door.reopens_at()
    }

    fn is_used(&self) -> bool {
        !self.sessions.is_empty()
    }
}

/// One socket of a program's.
#[derive(Debug)]
pub(super) struct Session {
    socket: OwnedFd,
    /// The process, 0 if it is in a namespace that is not seen from here.
    pid: u32,
    asker: Asker,
    kernel: Option<Kernel>,
    /// Answers for which there was no room.
    pending: VecDeque<Vec<u8>>,
}

impl Server {
    /// Listens in the runtime directory.
    pub(crate) fn start(dir: &RuntimeDir, poller: &Poller) -> Result<Self, DaemonError> {
        let door = Door::listen(&dir.netlink(), 128, Token::NetlinkListener)?;
        door.watch(poller)?;
        Ok(Server {
            door,
            sessions: HashMap::new(),
            last: 0,
            buffer: seqpacket::buffer(),
        })
    }

    /// Does what is due.
    pub(crate) fn handle_timeout(&mut self, now: Instant, poller: &Poller) {
        self.door.reopen(now, poller);
    }

    /// Takes connections.
    pub(crate) fn accept(&mut self, poller: &Poller) {
        for _ in 0..door::BATCH {
            let Some(guest) = self.door.accept(poller) else {
                return;
            };
            // Who has no place sees the end of his connection.
            if self.sessions.len() >= MOST {
                continue;
            }
            self.last += 1;
            let session = Session::new(guest.socket, guest.pid);
            let token = Token::NetlinkSession(self.last);
            if poller.add(&session.socket, token).is_ok() {
                self.sessions.insert(self.last, session);
            }
        }
    }

    /// A program's socket has something to read, or room.
    pub(crate) fn ready(&mut self, id: u64, view: &impl View, poller: &Poller) {
        let Some(session) = self.sessions.get_mut(&id) else {
            return;
        };
        let was_full = session.is_full();
        let turned = session.turn(&mut self.buffer, view).and_then(|()| {
            let token = Token::NetlinkSession(id);
            match (was_full, session.is_full()) {
                (false, true) => poller.want_write_only(&session.socket, token, true),
                (true, false) => poller.want_write(&session.socket, token, false),
                _ => Ok(()),
            }
        });
        // A socket at its end is closed here, with which the poller forgets it.
        if let Err(errno) = turned {
            tracing::debug!(error = %errno, id, "a netlink socket is closed");
            self.sessions.remove(&id);
        }
    }
}

impl Session {
    /// A socket of that process, of which nothing is known yet.
    pub(super) fn new(socket: OwnedFd, pid: u32) -> Self {
        Session {
            socket,
            pid,
            asker: Asker::default(),
            kernel: None,
            pending: VecDeque::new(),
        }
    }

    /// Whether answers wait for room.
    pub(super) fn is_full(&self) -> bool {
        !self.pending.is_empty()
    }

    /// Sends what waits, or else takes one datagram and answers it. `buffer` holds any. An error means that the socket is at its
    /// end.
    pub(super) fn turn(&mut self, buffer: &mut [u8], view: &impl View) -> Result<(), Errno> {
        if self.is_full() {
            return self.flush();
        }
        let datagram = match seqpacket::receive(&self.socket, buffer, Wait::Not) {
            Ok(datagram) => datagram,
            Err(ReceiveError::WouldBlock) => return Ok(()),
            // As by the kernel, what is too long is not understood.
            Err(ReceiveError::TooLong) => return Ok(()),
            Err(ReceiveError::Closed) => return Err(Errno::PIPE),
            Err(ReceiveError::Os(errno)) => return Err(errno),
        };
        let bytes = &buffer[..datagram.len.min(MAX_REQUEST)];
        if let Ok(control) = Control::read_from_bytes(bytes)
            && control.message_type == CONTROL
        {
            return self.control(&control, datagram.fds);
        }
        self.asker.port = self.port();
        for request in Request::all(bytes) {
            let answers = answers(view, self.asker, self.kernel.as_ref(), &request);
            self.pending.extend(answers);
        }
        self.flush()
    }

    /// What the shim says of the socket.
    fn control(&mut self, control: &Control, mut fds: Vec<OwnedFd>) -> Result<(), Errno> {
        if control.version != VERSION {
            tracing::warn!(pid = self.pid, "a netlink socket of another version");
            return Err(Errno::PROTO);
        }
        let on = control.value != 0;
        match control.option {
            HELLO => {
                self.asker.net_admin = on;
                self.kernel = fds.pop().map(Kernel::new);
            }
            NETLINK_CAP_ACK => self.asker.capped = on,
            NETLINK_EXT_ACK => self.asker.extended = on,
            // Others change nothing about answers.
            _ => {}
        }
        Ok(())
    }

    /// The socket's port number: what the program has bound it to, or, as if the kernel had, its process.
    fn port(&self) -> u32 {
        let name = rustix::net::getpeername(&self.socket).ok().flatten();
        let name = name.and_then(|name| SocketAddrUnix::try_from(name).ok());
        let name = name.as_ref().and_then(SocketAddrUnix::abstract_name);
        name.and_then(port_of_name).unwrap_or(self.pid)
    }

    fn flush(&mut self) -> Result<(), Errno> {
        while let Some(answer) = self.pending.front() {
            match seqpacket::send(&self.socket, answer, &[], Wait::Not) {
                Ok(()) => drop(self.pending.pop_front()),
                Err(Errno::AGAIN | Errno::NOBUFS) => break,
                Err(errno) => return Err(errno),
            }
        }
        Ok(())
    }
}
