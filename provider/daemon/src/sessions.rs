//! Programs' connections to a service, the same for all of the daemon's sockets: how they are let
//! in and numbered, what is sent and received over them, with descriptors, how it is noticed that a
//! process has died, and how they end. What is said over them is nothing to this module.

use std::collections::HashMap;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::path::Path;
use std::time::Instant;

use ferroce_control::seqpacket::{self, Datagram, ReceiveError, Wait};
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags};

use crate::DaemonError;
use crate::door::{self, Door, Guest};
use crate::poller::{Poller, Token};
use crate::users::Users;

/// What the sessions of a service have in common.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Kind {
    /// The token of the socket in the runtime directory.
    pub(crate) door: Token,
    /// That of a session.
    pub(crate) session: fn(u64) -> Token,
    /// How many may wait to be let in.
    pub(crate) backlog: i32,
    /// The most that there may be.
    pub(crate) most: usize,
}

/// A program's connection, and what its service knows of it.
#[derive(Debug)]
pub(crate) struct Session<S> {
    socket: OwnedFd,
    /// Becomes readable when the process dies, if that is watched.
    process: Option<OwnedFd>,
    pub(crate) state: S,
}

/// The sessions of a service, by number.
#[derive(Debug)]
pub(crate) struct Sessions<S> {
    kind: Kind,
    door: Door,
    all: HashMap<u64, Session<S>>,
    last: u64,
}

impl<S> Session<S> {
    /// A connection that was not let in by a door.
    pub(crate) fn new(socket: OwnedFd, state: S) -> Self {
        Self {
            socket,
            process: None,
            state,
        }
    }

    /// The socket.
    pub(crate) fn socket(&self) -> &OwnedFd {
        &self.socket
    }

    /// Takes what the program has sent, of which the buffer holds all that makes sense. Never
    /// waits.
    pub(crate) fn receive(&self, buffer: &mut [u8]) -> Result<Datagram, ReceiveError> {
        seqpacket::receive(&self.socket, buffer, Wait::Not)
    }

    /// Sends the program something in parts, with descriptors. Never waits.
    pub(crate) fn send(&self, parts: &[&[u8]], fds: &[BorrowedFd<'_>]) -> Result<(), Errno> {
        seqpacket::send_parts(&self.socket, parts, fds, Wait::Not)
    }

    /// Has it told by `token` when the process dies. Without pidfds (Linux before 5.3), and for
    /// processes of a namespace that is not seen from here (`pid` 0), the closing of the connection
    /// has to do.
    pub(crate) fn watch_process(&mut self, pid: u32, token: Token, poller: &Poller) {
        let pid = i32::try_from(pid).ok().and_then(Pid::from_raw);
        let process =
            pid.and_then(|pid| rustix::process::pidfd_open(pid, PidfdFlags::empty()).ok());
        let Some(process) = process else { return };
        match poller.add(&process, token) {
            Ok(()) => self.process = Some(process),
            Err(errno) => tracing::warn!(error = %errno, "cannot watch a program's process"),
        }
    }

    /// Whether it is told when the process dies.
    pub(crate) fn watches_process(&self) -> bool {
        self.process.is_some()
    }
}

impl<S> Sessions<S> {
    /// Listens at a path, for the device's users. Nobody is let in before [`open`](Self::open).
    pub(crate) fn listen(path: &Path, kind: Kind, users: Users) -> Result<Self, DaemonError> {
        let door = Door::listen(path, kind.backlog, kind.door, users)?;
        Ok(Self::behind(door, kind))
    }

    /// Sessions to which nobody comes, but whoever is put in.
    #[cfg(feature = "fuzzing")]
    pub(crate) fn nowhere(kind: Kind) -> Result<Self, Errno> {
        Ok(Self::behind(Door::nowhere(kind.door)?, kind))
    }

    fn behind(door: Door, kind: Kind) -> Self {
        Self {
            kind,
            door,
            all: HashMap::new(),
            last: 0,
        }
    }

    /// Whoever knocks is let in from now on.
    pub(crate) fn open(&self, poller: &Poller) -> Result<(), DaemonError> {
        self.door.watch(poller)
    }

    /// The listening socket.
    pub(crate) fn listener(&self) -> &OwnedFd {
        self.door.listener()
    }

    /// When [`handle_timeout`](Self::handle_timeout) has something to do.
    pub(crate) fn next_timeout(&self) -> Option<Instant> {
        self.door.reopens_at()
    }

    /// Does what is due.
    pub(crate) fn handle_timeout(&mut self, now: Instant, poller: &Poller) {
        self.door.reopen(now, poller);
    }

    /// Takes in who knocks. `begin` says what is known of a session at first, and may have its
    /// process watched.
    pub(crate) fn accept(&mut self, poller: &Poller, begin: impl Fn(u64, Guest) -> Session<S>) {
        for _ in 0..door::BATCH {
            let Some(guest) = self.door.accept(poller) else {
                return;
            };
            // Who has no place sees the end of his connection.
            if self.all.len() >= self.kind.most {
                continue;
            }
            self.last += 1;
            let session = begin(self.last, guest);
            match poller.add(&session.socket, (self.kind.session)(self.last)) {
                Ok(()) => drop(self.all.insert(self.last, session)),
                Err(errno) => tracing::error!(error = %errno, "cannot watch a connection"),
            }
        }
    }

    /// Puts somebody in.
    #[cfg(feature = "fuzzing")]
    pub(crate) fn insert(&mut self, id: u64, session: Session<S>) {
        self.all.insert(id, session);
    }

    /// Whether there are none.
    pub(crate) fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    /// How many there are.
    pub(crate) fn len(&self) -> usize {
        self.all.len()
    }

    /// All of them.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (u64, &Session<S>)> {
        self.all.iter().map(|(id, session)| (*id, session))
    }

    /// All of them, to be changed.
    pub(crate) fn iter_mut(&mut self) -> impl Iterator<Item = (u64, &mut Session<S>)> {
        self.all.iter_mut().map(|(id, session)| (*id, session))
    }

    /// One of them.
    pub(crate) fn get(&self, id: u64) -> Option<&Session<S>> {
        self.all.get(&id)
    }

    /// One of them, to be changed.
    pub(crate) fn get_mut(&mut self, id: u64) -> Option<&mut Session<S>> {
        self.all.get_mut(&id)
    }

    /// Sends a program something (see [`Session::send`]).
    pub(crate) fn send(
        &self,
        id: u64,
        parts: &[&[u8]],
        fds: &[BorrowedFd<'_>],
    ) -> Result<(), Errno> {
        self.get(id).ok_or(Errno::INVAL)?.send(parts, fds)
    }

    /// Nothing that a program sends is of interest any more.
    pub(crate) fn ignore(&self, id: u64, poller: &Poller) {
        if let Some(session) = self.get(id) {
            let _ = poller.remove(&session.socket);
        }
    }

    /// Ends a session. Returns what was known of it.
    pub(crate) fn remove(&mut self, id: u64, poller: &Poller) -> Option<S> {
        let session = self.all.remove(&id)?;
        let _ = poller.remove(&session.socket);
        if let Some(process) = &session.process {
            let _ = poller.remove(process);
        }
        // Closing is not enough: a child of the program's may have the same connection.
        let _ = rustix::net::shutdown(&session.socket, rustix::net::Shutdown::Both);
        Some(session.state)
    }
}
