//! Sockets: what each state allows, the order of operations, and how a socket ends.
//!
//! A socket's state is behind one lock, under which events are posted but no other socket is touched.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::{Mutex, MutexGuard};

use crate::abi::{
    EXS_EVT_CLOSE, EXS_EVT_CONNECT, EXS_EVT_SHUTDOWN, EXS_FILE_LIMIT, EXS_RECVS_MAX, EXS_SENDS_MAX,
    EventDetail,
};
use crate::conn::{Conn, Link};
use crate::errno::{Errno, Result};
use crate::library::Library;
use crate::listen::Listener;
use crate::memory::{Buffer, Memory, Use};
use crate::queue::Target;
use crate::verbs::{Address, CmId, Mr};

/// How long a close waits for sends in progress, and then for the peer's answer.
const LINGER: Duration = Duration::from_secs(20);
const FAREWELL: Duration = Duration::from_secs(3);

/// A socket.
pub struct Socket {
    /// Its number in the library; never used again.
    pub key: u64,
    /// `AF_INET` or `AF_INET6`.
    pub family: i32,
    /// Whether it keeps message boundaries.
    pub messages: bool,
    inner: Mutex<Inner>,
}

/// What is behind a socket's lock.
pub struct Inner {
    /// Its descriptor; -1 before it has one.
    pub fd: i32,
    /// O_NONBLOCK was set.
    pub nonblocking: bool,
    /// Bytes of the largest file to send; 0: no limit.
    pub file_limit: u64,
    pub bound: Option<Address>,
    pub phase: Phase,
    sends: Lane,
    receives: Lane,
    write_shut: bool,
    read_shut: bool,
    shutdowns: Vec<Shutdown>,
    close: Option<Target>,
    closing: bool,
    /// Whether the connection manager has said that the connection ended, or will not say it any more.
    disconnected: bool,
}

/// What a socket is.
pub enum Phase {
    /// Neither connected nor listening; with the identifier that it is bound with.
    Idle(Option<CmId>),
    /// Finding the way to a peer.
    Resolving(CmId, Target),
    /// The request is out.
    Connecting(Box<Conn>, Target),
    /// A request was accepted, and the peer's last word is missing. The listener's number.
    Accepting(Box<Conn>, u64),
    /// Connected, or was.
    Connected(Box<Conn>),
    Listening(Listener),
    /// Closed.
    Dead,
}

/// The operations of one direction that wait for a file transfer before them.
#[derive(Default)]
struct Lane {
    waiting: VecDeque<Waiting>,
    /// A file transfer has its turn.
    busy: bool,
}

enum Waiting {
    Memory {
        buffer: Buffer,
        /// Send: a message ends with it. Receive: fill it.
        flag: bool,
        mhandle: usize,
        target: Target,
    },
    /// A file transfer; called when its turn has come.
    File(Box<dyn FnOnce() + Send>),
}

struct Shutdown {
    read: bool,
    write: bool,
    target: Target,
}

/// What an operation on memory is given.
pub struct Transfer {
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
pub enum Admission {
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
    pub fn new(key: u64, family: i32, messages: bool, phase: Phase) -> Arc<Self> {
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
                sends: Lane::default(),
                receives: Lane::default(),
                write_shut: false,
                read_shut: false,
                shutdowns: Vec::new(),
                close: None,
                closing: false,
                disconnected: false,
            }),
        })
    }

    /// Its state.
    pub fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock()
    }

    /// Starts a connection; the events of the connection manager do the rest.
    pub fn connect(
        self: &Arc<Self>,
        library: &Library,
        to: &Address,
        timeout: Option<Duration>,
        target: Target,
    ) -> Result<()> {
        let mut inner = self.lock();
        if !matches!(inner.phase, Phase::Idle(_)) {
            return Err(Errno(libc::EINVAL));
        }
        let mut id = self.identifier(library, &mut inner)?;
        let ms = timeout.map_or(5000, |timeout| timeout.as_millis().clamp(1, 60_000) as i32);
        if let Err(error) = id.resolve_address(to, ms) {
            inner.phase = Phase::Idle(Some(id));
            return Err(unreachable_as(error));
        }
        inner.phase = Phase::Resolving(id, target);
        drop(inner);
        if let Some(timeout) = timeout {
            library.timer(Instant::now() + timeout, self.key);
        }
        Ok(())
    }

    /// The identifier of an idle socket, bound again if it was.
    fn identifier(&self, library: &Library, inner: &mut Inner) -> Result<CmId> {
        let Phase::Idle(id) = &mut inner.phase else {
            return Err(Errno(libc::EINVAL));
        };
        if let Some(id) = id.take() {
            return Ok(id);
        }
        let mut id = library.cm.id(self.key)?;
        if let Some(address) = &inner.bound {
            id.bind(address, true)?;
        }
        Ok(id)
    }

    /// Binds to a local address.
    pub fn bind(&self, library: &Library, address: &Address) -> Result<()> {
        let mut inner = self.lock();
        if !matches!(inner.phase, Phase::Idle(_)) || inner.bound.is_some() {
            return Err(Errno(libc::EINVAL));
        }
        let mut id = library.cm.id(self.key)?;
        id.bind(address, false)?;
        inner.phase = Phase::Idle(Some(id));
        inner.bound = Some(*address);
        Ok(())
    }

    /// Listens.
    pub fn listen(&self, library: &Library, backlog: i32) -> Result<()> {
        let mut inner = self.lock();
        if !matches!(inner.phase, Phase::Idle(_)) {
            return Err(Errno(libc::EINVAL));
        }
        let mut id = self.identifier(library, &mut inner)?;
        if let Err(error) = id.listen(backlog) {
            inner.phase = Phase::Idle(Some(id));
            return Err(error);
        }
        inner.phase = Phase::Listening(Listener::new(id, backlog));
        Ok(())
    }

    /// Whether this socket can send: its errno if not.
    pub fn may_send(&self) -> Result<()> {
        let inner = self.lock();
        inner.writable().map(|_| ())
    }

    /// Whether this socket can receive.
    pub fn may_receive(&self) -> Result<()> {
        let inner = self.lock();
        inner.connected().map(|_| ())
    }

    /// Starts a send from memory.
    pub fn send(&self, transfer: Transfer, admission: Admission, target: Target) -> Result<()> {
        let mut inner = self.lock();
        let file = admission == Admission::File;
        let conn = if file {
            inner.connected()?
        } else {
            inner.writable()?
        };
        let sending = conn.machine().map_or(0, |machine| machine.sending());
        let room = conn.machine().map_or(0, |machine| machine.room()) as usize;
        let device = Arc::clone(conn.device());
        match admission {
            Admission::Queued if sending + inner.sends.waiting.len() >= EXS_SENDS_MAX => {
                return Err(Errno(libc::EBUSY));
            }
            // What has credit needs no answer of the peer's: a stream takes that much, a message all or nothing.
            Admission::Immediate
                if room == 0
                    || inner.sends.occupied()
                    || (self.messages && room < transfer.length) =>
            {
                return Err(Errno(libc::EBUSY));
            }
            _ => {}
        }
        let (flag, mhandle) = (transfer.flag, transfer.mhandle);
        let buffer = match admission {
            Admission::Immediate => Buffer::copied(transfer.address, transfer.length.min(room))?,
            _ => transfer.buffer(&device, Use::Send)?,
        };
        if !file && inner.sends.occupied() {
            inner.sends.waiting.push_back(Waiting::Memory {
                buffer,
                flag,
                mhandle,
                target,
            });
            return Ok(());
        }
        if let Phase::Connected(conn) = &mut inner.phase {
            conn.send(buffer, flag, mhandle, target);
        }
        inner.look();
        Ok(())
    }

    /// Starts a receive into memory.
    pub fn receive(&self, transfer: Transfer, admission: Admission, target: Target) -> Result<()> {
        let mut inner = self.lock();
        let file = admission == Admission::File;
        let conn = inner.connected()?;
        let receiving = conn.machine().map_or(0, |machine| machine.receiving());
        let ready = conn.machine().is_some_and(|machine| machine.readable());
        let device = Arc::clone(conn.device());
        match admission {
            Admission::Queued if receiving + inner.receives.waiting.len() >= EXS_RECVS_MAX => {
                return Err(Errno(libc::EAGAIN));
            }
            Admission::Immediate if !ready || receiving > 0 || inner.receives.occupied() => {
                return Err(Errno(libc::EAGAIN));
            }
            _ => {}
        }
        let (flag, mhandle) = (transfer.flag, transfer.mhandle);
        let buffer = transfer.buffer(&device, Use::Receive)?;
        if !file && inner.receives.occupied() {
            inner.receives.waiting.push_back(Waiting::Memory {
                buffer,
                flag,
                mhandle,
                target,
            });
            return Ok(());
        }
        if let Phase::Connected(conn) = &mut inner.phase {
            conn.receive(buffer, flag, mhandle, target);
        }
        inner.look();
        Ok(())
    }

    /// Queues a file transfer, whose `turn` is called once everything before it is on its way. It may be called right
    /// here, under the socket's lock: it must only pass the word on.
    pub fn queue_file(&self, used: Use, turn: Box<dyn FnOnce() + Send>) -> Result<()> {
        let mut inner = self.lock();
        match used {
            Use::Send => {
                inner.writable()?;
                if inner.sends.waiting.len() >= EXS_SENDS_MAX {
                    return Err(Errno(libc::EBUSY));
                }
                inner.sends.waiting.push_back(Waiting::File(turn));
            }
            Use::Receive => {
                inner.connected()?;
                if inner.receives.waiting.len() >= EXS_RECVS_MAX {
                    return Err(Errno(libc::EAGAIN));
                }
                inner.receives.waiting.push_back(Waiting::File(turn));
            }
        }
        inner.look();
        Ok(())
    }

    /// The file transfer that had its turn has queued all it had.
    pub fn file_over(&self, used: Use) {
        let mut inner = self.lock();
        match used {
            Use::Send => inner.sends.busy = false,
            Use::Receive => inner.receives.busy = false,
        }
        inner.look();
    }

    /// The device under a connection.
    pub fn device(&self) -> Result<Arc<crate::verbs::Device>> {
        let inner = self.lock();
        inner.connected().map(|conn| Arc::clone(conn.device()))
    }

    /// Shuts down one direction or both.
    pub fn shutdown(&self, read: bool, write: bool, target: Target) -> Result<()> {
        let mut inner = self.lock();
        inner.connected()?;
        inner.write_shut |= write;
        inner.read_shut |= read;
        inner.shutdowns.push(Shutdown {
            read,
            write,
            target,
        });
        inner.look();
        Ok(())
    }

    /// Closes: nobody can name the socket any more. What is in progress is finished or canceled first.
    pub fn close(self: &Arc<Self>, library: &Library, target: Target) {
        let mut inner = self.lock();
        inner.close = Some(target);
        inner.closing = true;
        let children = match std::mem::replace(&mut inner.phase, Phase::Dead) {
            Phase::Connected(mut conn) => {
                // Receives that a shutdown would end quietly are canceled by a close.
                conn.quiet_stop = false;
                inner.phase = Phase::Connected(conn);
                inner.write_shut = true;
                inner.read_shut = true;
                inner.look();
                Vec::new()
            }
            Phase::Resolving(id, connecting) => {
                drop(id);
                inner.refuse(connecting, Errno(libc::ECANCELED));
                Vec::new()
            }
            Phase::Connecting(conn, connecting) => {
                drop(conn);
                inner.refuse(connecting, Errno(libc::ECANCELED));
                Vec::new()
            }
            Phase::Listening(listener) => listener.close(inner.fd),
            Phase::Idle(_) | Phase::Accepting(..) | Phase::Dead => Vec::new(),
        };
        let waits = matches!(inner.phase, Phase::Connected(_));
        if !waits {
            inner.end_close(library, self.key);
        }
        drop(inner);
        for child in children {
            child.abandon(library);
        }
        if waits {
            library.timer(Instant::now() + LINGER, self.key);
            self.settle(library);
        }
    }

    /// Ends a connection that no one has accepted, or can.
    pub fn abandon(self: &Arc<Self>, library: &Library) {
        let mut inner = self.lock();
        inner.closing = true;
        inner.phase = Phase::Dead;
        inner.end_close(library, self.key);
    }

    /// A timer of this socket's has run out: what is overdue ends.
    pub fn overdue(self: &Arc<Self>, library: &Library) {
        let mut inner = self.lock();
        match std::mem::replace(&mut inner.phase, Phase::Dead) {
            Phase::Resolving(id, target) => {
                drop(id);
                inner.phase = Phase::Idle(None);
                inner.refuse(target, Errno(libc::ETIMEDOUT));
            }
            Phase::Connecting(conn, target) => {
                drop(conn);
                inner.phase = Phase::Idle(None);
                inner.refuse(target, Errno(libc::ETIMEDOUT));
            }
            Phase::Connected(mut conn) => {
                if inner.closing && conn.link() == Link::Up {
                    // Lingered long enough.
                    conn.sever();
                } else if conn.link() == Link::Draining {
                    conn.end();
                }
                if inner.closing && conn.link() == Link::Gone {
                    inner.disconnected = true;
                }
                inner.phase = Phase::Connected(conn);
            }
            other => inner.phase = other,
        }
        drop(inner);
        self.settle(library);
    }

    /// After anything that may have changed the connection: does what follows from it.
    pub fn settle(self: &Arc<Self>, library: &Library) {
        let mut inner = self.lock();
        inner.look();
        let Ok(link) = inner.connected().map(Conn::link) else {
            return;
        };
        if link == Link::Draining || (link == Link::Gone && inner.closing) {
            library.timer_once(Instant::now() + FAREWELL, self.key);
        }
        let over = link == Link::Gone && inner.disconnected;
        if inner.closing && over && !inner.sends.occupied() && !inner.receives.occupied() {
            inner.phase = Phase::Dead;
            inner.end_close(library, self.key);
        }
    }

    /// The connection manager says that the connection has ended.
    pub fn disconnected(&self) {
        let mut inner = self.lock();
        inner.disconnected = true;
        if let Phase::Connected(conn) | Phase::Accepting(conn, _) = &mut inner.phase {
            conn.answer_disconnect();
        }
        inner.look();
    }

    /// Ends a connection attempt.
    pub fn connect_failed(&self, error: Errno) {
        let mut inner = self.lock();
        match std::mem::replace(&mut inner.phase, Phase::Dead) {
            Phase::Resolving(_, target) | Phase::Connecting(_, target) => {
                inner.phase = Phase::Idle(None);
                inner.refuse(target, error);
            }
            other => inner.phase = other,
        }
    }
}

/// The word for "there is no way" that an application expects.
pub fn unreachable_as(error: Errno) -> Errno {
    match error.0 {
        libc::ENODEV | libc::ENXIO | libc::EADDRNOTAVAIL => Errno(libc::EHOSTUNREACH),
        _ => error,
    }
}

impl Transfer {
    fn buffer(self, device: &Arc<crate::verbs::Device>, used: Use) -> Result<Buffer> {
        match &self.region {
            Some(region) => Ok(Buffer::of_region(self.address, self.length, region)),
            None => Buffer::new(device, self.address, self.length, self.memory, used),
        }
    }
}

impl Lane {
    fn occupied(&self) -> bool {
        self.busy || !self.waiting.is_empty()
    }
}

impl Inner {
    /// The connection.
    pub fn connected(&self) -> Result<&Conn> {
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

    /// Ends a connect.
    fn refuse(&self, target: Target, error: Errno) {
        target.end(EXS_EVT_CONNECT, self.fd, Err(error), EventDetail::None);
    }

    /// Starts what waited for its turn, ends the stream when it is time, and reports shutdowns that are done.
    pub fn look(&mut self) {
        let Phase::Connected(conn) = &mut self.phase else {
            return;
        };
        while !self.sends.busy {
            match self.sends.waiting.pop_front() {
                Some(Waiting::Memory {
                    buffer,
                    flag,
                    mhandle,
                    target,
                }) => conn.send(buffer, flag, mhandle, target),
                Some(Waiting::File(turn)) => {
                    self.sends.busy = true;
                    turn();
                }
                None => break,
            }
        }
        while !self.receives.busy {
            match self.receives.waiting.pop_front() {
                Some(Waiting::Memory {
                    buffer,
                    flag,
                    mhandle,
                    target,
                }) => conn.receive(buffer, flag, mhandle, target),
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

    /// The close is done: the descriptor and the number go, and the application is told.
    fn end_close(&mut self, library: &Library, key: u64) {
        library.forget(key);
        let fd = std::mem::replace(&mut self.fd, -1);
        if fd >= 0 {
            // SAFETY: made for this socket, and given to nobody else.
            unsafe { libc::close(fd) };
        }
        if let Some(target) = self.close.take() {
            target.end(EXS_EVT_CLOSE, fd, Ok(()), EventDetail::None);
        }
    }
}
