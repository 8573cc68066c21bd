//! Programs' `NETLINK_RDMA` sockets: each is a connection to the daemon, made by the shim. What a
//! program does with it makes nobody wait: while its answers are not read, no more of its requests
//! are.

use std::collections::VecDeque;
use std::os::fd::OwnedFd;
use std::time::Instant;

use ferroce_cabi::rdma_netlink::{CONTROL, Control, HELLO, MAX_REQUEST, VERSION, port_of_name};
use ferroce_control::RuntimeDir;
use ferroce_control::seqpacket::{self, ReceiveError};
use rustix::io::Errno;
use rustix::net::SocketAddrUnix;
use zerocopy::FromBytes;

use super::kernel::Kernel;
use super::message::{Asker, Request};
use super::{View, answers};
use crate::DaemonError;
use crate::poller::{Poller, Token};
use crate::service::Service;
use crate::sessions::{Kind, Session, Sessions};
use crate::users::Users;

/// Options of level `SOL_NETLINK`.
const NETLINK_CAP_ACK: u32 = 10;
const NETLINK_EXT_ACK: u32 = 11;

/// The most sockets that there are at a time.
const MOST: usize = 4096;

/// The server with its sockets.
#[derive(Debug)]
pub(crate) struct Server {
    sessions: Sessions<Netlink>,
    buffer: Vec<u8>,
}

impl Service for Server {
    fn next_timeout(&self) -> Option<Instant> {
        self.sessions.next_timeout()
    }

    fn is_used(&self) -> bool {
        !self.sessions.is_empty()
    }
}

/// One socket of a program's.
#[derive(Debug)]
pub(super) struct Netlink {
    /// The process, 0 if it is in a namespace that is not seen from here.
    pid: u32,
    asker: Asker,
    kernel: Option<Kernel>,
    /// Answers for which there was no room.
    pending: VecDeque<Vec<u8>>,
}

impl Server {
    /// Listens in the runtime directory.
    pub(crate) fn start(
        dir: &RuntimeDir,
        users: Users,
        poller: &Poller,
    ) -> Result<Self, DaemonError> {
        let sessions = Sessions::listen(&dir.netlink(), KIND, users)?;
        sessions.open(poller)?;
        Ok(Server {
            sessions,
            buffer: seqpacket::buffer(),
        })
    }

    /// Does what is due.
    pub(crate) fn handle_timeout(&mut self, now: Instant, poller: &Poller) {
        self.sessions.handle_timeout(now, poller);
    }

    /// Takes connections.
    pub(crate) fn accept(&mut self, poller: &Poller) {
        self.sessions.accept(poller, |_, guest| {
            Session::new(guest.socket, Netlink::new(guest.pid, guest.uid))
        });
    }

    /// A program's socket has something to read, or room.
    pub(crate) fn ready(&mut self, id: u64, view: &impl View, poller: &Poller) {
        let Some(session) = self.sessions.get_mut(id) else {
            return;
        };

        let was_full = session.state.is_full();
        let turned = turn(session, &mut self.buffer, view).and_then(|()| {
            let token = Token::NetlinkSession(id);
            match (was_full, session.state.is_full()) {
                (false, true) => poller.want_write_only(session.socket(), token, true),
                (true, false) => poller.want_write(session.socket(), token, false),
                _ => Ok(()),
            }
        });

        if let Err(errno) = turned {
            tracing::debug!(error = %errno, id, "a netlink socket is closed");
            self.sessions.remove(id, poller);
        }
    }
}

const KIND: Kind = Kind {
    door: Token::NetlinkListener,
    session: Token::NetlinkSession,
    backlog: 128,
    most: MOST,
};

impl Netlink {
    /// A socket of that process, of which nothing is known yet.
    pub(super) fn new(pid: u32, uid: u32) -> Self {
        Netlink {
            pid,
            asker: Asker {
                whose: Users::seen_by(uid),
                ..Asker::default()
            },
            kernel: None,
            pending: VecDeque::new(),
        }
    }

    /// Whether answers wait for room.
    pub(super) fn is_full(&self) -> bool {
        !self.pending.is_empty()
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
                // Others say of themselves what they like.
                self.asker.net_admin = on && self.asker.whose.are_all();
                self.kernel = fds.pop().map(Kernel::new);
            }
            NETLINK_CAP_ACK => self.asker.capped = on,
            NETLINK_EXT_ACK => self.asker.extended = on,
            // Others change nothing about answers.
            _ => {}
        }

        Ok(())
    }
}

/// Sends what waits, or else takes one datagram and answers it. `buffer` holds any. An error means
/// that the socket is at its end.
pub(super) fn turn(
    session: &mut Session<Netlink>,
    buffer: &mut [u8],
    view: &impl View,
) -> Result<(), Errno> {
    if session.state.is_full() {
        return flush(session);
    }

    let datagram = match session.receive(buffer) {
        Ok(datagram) => datagram,
        Err(ReceiveError::WouldBlock) => return Ok(()),
        // As by the kernel, what is too long is not understood.
        Err(ReceiveError::TooLong | ReceiveError::NoDescriptors) => return Ok(()),
        Err(ReceiveError::Closed) => return Err(Errno::PIPE),
        Err(ReceiveError::Os(errno)) => return Err(errno),
    };

    let port = port(session);
    let netlink = &mut session.state;
    let bytes = &buffer[..datagram.len.min(MAX_REQUEST)];
    if let Ok(control) = Control::read_from_bytes(bytes)
        && control.message_type == CONTROL
    {
        return netlink.control(&control, datagram.fds);
    }

    netlink.asker.port = port;
    for request in Request::all(bytes) {
        let answers = answers(view, netlink.asker, netlink.kernel.as_ref(), &request);
        netlink.pending.extend(answers);
    }

    flush(session)
}

/// The socket's port number: what the program has bound it to, or, as if the kernel had, its
/// process.
fn port(session: &Session<Netlink>) -> u32 {
    let name = rustix::net::getpeername(session.socket()).ok().flatten();
    let name = name.and_then(|name| SocketAddrUnix::try_from(name).ok());
    let name = name.as_ref().and_then(SocketAddrUnix::abstract_name);
    name.and_then(port_of_name).unwrap_or(session.state.pid)
}

fn flush(session: &mut Session<Netlink>) -> Result<(), Errno> {
    while let Some(answer) = session.state.pending.front() {
        match session.send(&[answer], &[]) {
            Ok(()) => drop(session.state.pending.pop_front()),
            Err(Errno::AGAIN | Errno::NOBUFS) => break,
            Err(errno) => return Err(errno),
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_who_administers_the_device_is_believed_to_administer() {
        let own = rustix::process::geteuid().as_raw();
        for (uid, believed) in [(own, true), (0, true), (own + 1, false)] {
            let mut netlink = Netlink::new(1, uid);
            netlink
                .control(&Control::new(HELLO, 1), Vec::new())
                .unwrap();
            assert_eq!(netlink.asker.net_admin, believed);
            assert_eq!(netlink.asker.whose.are_all(), believed);
        }
    }
}
