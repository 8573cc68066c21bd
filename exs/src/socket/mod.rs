//! Sockets: what each state allows, the order of operations, and how a socket ends.
//!
//! A socket's state is behind one lock, under which events are posted but no other socket is
//! touched.

mod close;
mod connect;
mod transfer;

use std::collections::VecDeque;
use std::sync::Arc;

use parking_lot::{Mutex, MutexGuard};

use crate::abi::{EXS_EVT_CONNECT, EXS_EVT_SHUTDOWN, EXS_FILE_LIMIT, EventDetail};
use crate::conn::{Conn, Link, Op};
use crate::errno::{Errno, Result};
use crate::listen::Listener;
use crate::memory::Memory;
use crate::queue::Target;
use crate::timers::Deadline;
use crate::verbs::{Address, CmId, Mr};

use close::Linger;
pub(crate) use connect::unreachable_as;

/// A socket.
pub(crate) struct Socket {
    /// Its number in the library; never used again.
    pub key: u64,
    /// `AF_INET` or `AF_INET6`.
    pub family: i32,
    /// Whether it keeps message boundaries.
    pub messages: bool,
    inner: Mutex<Inner>,
}

/// What is behind a socket's lock.
pub(crate) struct Inner {
    /// Its descriptor; -1 before it has one.
    pub fd: i32,
    /// O_NONBLOCK was set.
    pub nonblocking: bool,
    /// Bytes of the largest file to send; 0: no limit.
    pub file_limit: u64,
    pub bound: Option<Address>,
    pub phase: Phase,
    sends: Direction,
    receives: Direction,
    write_shut: bool,
    read_shut: bool,
    shutdowns: Vec<Shutdown>,
    close: Option<Target>,
    closing: bool,
    linger: Linger,
    /// The close did not wait any longer.
    gave_up: bool,
    /// Whether the connection manager has said that the connection ended, or will not say it any
    /// more.
    disconnected: bool,
}

/// What a socket is.
pub(crate) enum Phase {
    /// Neither connected nor listening; with the identifier that it is bound with.
    Idle(Option<CmId>),
    /// Finding the way to a peer.
    Resolving(CmId, Attempt),
    /// The request is out.
    Connecting(Box<Conn>, Attempt),
    /// A request was accepted, and the peer's last word is missing. The listener's number.
    Accepting(Box<Conn>, u64),
    /// Connected, or was.
    Connected(Box<Conn>),
    Listening(Listener),
    /// Closed.
    Dead,
}

/// A connect in progress.
pub(crate) struct Attempt {
    target: Target,
    /// Its timeout.
    timer: Option<Deadline>,
}

/// The operations of one direction that wait for a file transfer before them.
#[derive(Default)]
struct Direction {
    waiting: VecDeque<Waiting>,
    /// A file transfer has its turn.
    busy: bool,
}

enum Waiting {
    Memory(Op),
    /// A file transfer; called when its turn has come.
    File(Box<dyn FnOnce() + Send>),
}

struct Shutdown {
    read: bool,
    write: bool,
    target: Target,
}

/// What an operation on memory is given.
pub(crate) struct Transfer {
    pub address: usize,
    pub length: usize,
    pub memory: Option<Arc<Memory>>,
    /// Memory of the library's own, which is registered.
    pub region: Option<Arc<Mr>>,
    pub mhandle: usize,
    /// Send: a message ends with it. Receive: fill it (stream), take a part (message).
    pub flag: bool,
}

/// Limits on what may be in progress.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Admission {
    /// As many as there may be.
    Queued,
    /// A caller that will wait, however many there are.
    Waiting,
    /// Only if it need not wait.
    Immediate,
    /// A part of the file transfer that has its turn.
    File,
}

impl Socket {
    /// A socket without a descriptor yet.
    pub(crate) fn new(key: u64, family: i32, messages: bool, phase: Phase) -> Arc<Self> {
        Arc::new(Self {
            key,
            family,
            messages,
            inner: Mutex::new(Inner {
                fd: -1,
                nonblocking: false,
                file_limit: EXS_FILE_LIMIT,
                bound: None,
                phase,
                sends: Direction::default(),
                receives: Direction::default(),
                write_shut: false,
                read_shut: false,
                shutdowns: Vec::new(),
                close: None,
                closing: false,
                linger: Linger::default(),
                gave_up: false,
                disconnected: false,
            }),
        })
    }

    /// Its state.
    pub(crate) fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock()
    }
}

impl Attempt {
    /// It is over, and its timeout with it: what the socket does next has nothing to do with that.
    pub(crate) fn end(self, socket: i32, result: Result<()>) {
        drop(self.timer);
        self.target
            .end(EXS_EVT_CONNECT, socket, result, EventDetail::None);
    }
}

impl Direction {
    fn occupied(&self) -> bool {
        self.busy || !self.waiting.is_empty()
    }
}

impl Inner {
    /// The connection, or what is to be one, that completions are of.
    pub(crate) fn conn(&mut self) -> Option<&mut Conn> {
        match &mut self.phase {
            Phase::Connected(conn) | Phase::Connecting(conn, _) | Phase::Accepting(conn, _) => {
                Some(conn)
            }
            _ => None,
        }
    }

    /// The connection.
    pub(crate) fn connected(&self) -> Result<&Conn> {
        match &self.phase {
            Phase::Connected(conn) => Ok(conn),
            _ => Err(Errno(libc::ENOTCONN)),
        }
    }

    /// The connection, if it still takes sends.
    fn writable(&self) -> Result<&Conn> {
        let conn = self.connected()?;
        let stopped = conn.machine().is_some_and(|machine| machine.peer_stopped());
        if self.write_shut {
            return Err(Errno(libc::EPIPE));
        }
        match conn.link() {
            Link::Up if stopped => Err(Errno(libc::EPIPE)),
            Link::Up => Ok(conn),
            // Whether the peer said so before it went is known when all has come back.
            Link::Draining if stopped => Err(Errno(libc::EPIPE)),
            Link::Gone if !conn.reset => Err(Errno(libc::EPIPE)),
            Link::Draining | Link::Gone => Err(Errno(libc::ECONNRESET)),
        }
    }

    /// Starts what waited for its turn, ends the stream when it is time, and reports shutdowns that
    /// are done.
    pub(crate) fn look(&mut self) {
        let Phase::Connected(conn) = &mut self.phase else {
            return;
        };

        while !self.sends.busy {
            match self.sends.waiting.pop_front() {
                Some(Waiting::Memory(op)) => conn.send(op),
                Some(Waiting::File(turn)) => {
                    self.sends.busy = true;
                    turn();
                }
                None => break,
            }
        }

        while !self.receives.busy {
            match self.receives.waiting.pop_front() {
                Some(Waiting::Memory(op)) => conn.receive(op),
                Some(Waiting::File(turn)) => {
                    self.receives.busy = true;
                    turn();
                }
                None => break,
            }
        }

        let finishing = self.write_shut && !self.sends.occupied();
        if finishing {
            conn.finish();
        }

        if self.read_shut {
            conn.quiet_stop = !self.closing;
            conn.stop();
        }

        let machine = conn.machine();
        let written = finishing && machine.is_none_or(|machine| machine.finished());
        let drained = self.read_shut && machine.is_none_or(|machine| machine.drained());
        let fd = self.fd;
        let (done, left): (Vec<_>, Vec<_>) = std::mem::take(&mut self.shutdowns)
            .into_iter()
            .partition(|shutdown| (!shutdown.write || written) && (!shutdown.read || drained));
        self.shutdowns = left;

        for shutdown in done {
            let result = if conn.reset {
                Err(Errno(libc::ECONNRESET))
            } else {
                Ok(())
            };
            shutdown
                .target
                .end(EXS_EVT_SHUTDOWN, fd, result, EventDetail::None);
        }

        let flushed = machine.is_none_or(|machine| machine.flushed());
        if self.closing && finishing && flushed && conn.link() == Link::Up {
            conn.sever();
        }
    }
}
