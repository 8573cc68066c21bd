//! Listening: requests become connections at once, as far as the backlog goes, and wait for an
//! accept.

use std::collections::VecDeque;
use std::mem::offset_of;
use std::sync::Arc;

use crate::abi::{AcceptAddr, EXS_ACCEPTS_MAX, EXS_EVT_ACCEPT, EventDetail, EvtAccept};
use crate::conn::Conn;
use crate::errno::{Errno, Result};
use crate::library::Library;
use crate::memory::{self, Use};
use crate::proto::message::Hello;
use crate::queue::Target;
use crate::socket::{Phase, Socket};
use crate::verbs::{Address, CmEvent, CmId};

/// A listening socket's own.
pub(crate) struct Listener {
    _id: CmId,
    backlog: usize,
    /// Connections whose handshake is under way.
    arriving: usize,
    ready: VecDeque<Arc<Socket>>,
    accepts: VecDeque<Accept>,
}

/// An accept in progress.
pub(crate) struct Accept {
    /// Where the application's `exs_acceptaddr_t` is.
    element: usize,
    address: usize,
    room: usize,
    target: Target,
}

impl Accept {
    /// The element at an address, as it is now: `EFAULT` unless it and the room for an address of
    /// the family can be written. That is looked at before a connection is taken, which would be
    /// lost otherwise.
    pub(crate) fn new(
        element: usize,
        value: &AcceptAddr,
        family: i32,
        target: Target,
    ) -> Result<Self> {
        memory::check(element, size_of::<AcceptAddr>(), Use::Receive)?;
        let room = match value.exs_addr {
            0 => 0,
            _ => Address::size(family).min(value.exs_addrlen as usize),
        };
        if room > 0 {
            memory::check(value.exs_addr, room, Use::Receive)?;
        }
        Ok(Self {
            element,
            address: value.exs_addr,
            room,
            target,
        })
    }

    /// Tells the application's memory of a connection; answers its descriptor and the length of its
    /// address.
    fn fill(&self, fd: i32, peer: &Address) -> Result<(i32, libc::socklen_t)> {
        let bytes = peer.bytes();
        let length = bytes.len() as libc::socklen_t;
        memory::write_bytes(self.address, &bytes[..bytes.len().min(self.room)])?;
        memory::write_bytes(
            self.element + offset_of!(AcceptAddr, exs_addrlen),
            &length.to_ne_bytes(),
        )?;
        memory::write_bytes(
            self.element + offset_of!(AcceptAddr, exs_newsocket),
            &fd.to_ne_bytes(),
        )?;
        Ok((fd, length))
    }

    fn end(self, listener: i32, result: Result<(i32, libc::socklen_t)>) {
        let mut detail = EvtAccept {
            exs_evt_newsocket: -1,
            exs_evt_addr: self.address,
            exs_evt_addrlen: 0,
        };

        let result = result.map(|(fd, length)| {
            detail.exs_evt_newsocket = fd;
            detail.exs_evt_addrlen = length;
        });

        self.target.end(
            EXS_EVT_ACCEPT,
            listener,
            result,
            EventDetail::Accept(detail),
        );
    }
}

impl Listener {
    /// A listener on an identifier that listens; who comes when `backlog` wait is rejected.
    pub(crate) fn new(id: CmId, backlog: i32) -> Self {
        Self {
            _id: id,
            backlog: backlog.clamp(1, 4096) as usize,
            arriving: 0,
            ready: VecDeque::new(),
            accepts: VecDeque::new(),
        }
    }

    /// Queues accepts: all of them or none.
    pub(crate) fn accept(&mut self, accepts: Vec<Accept>) -> Result<()> {
        if self.accepts.len() + accepts.len() > EXS_ACCEPTS_MAX {
            return Err(Errno(libc::EAGAIN));
        }
        self.accepts.extend(accepts);
        Ok(())
    }

    /// Whether an accept would be served at once.
    pub(crate) fn has_ready(&self) -> bool {
        self.ready.len() > self.accepts.len()
    }

    fn matched(&mut self) -> Option<(Accept, Arc<Socket>)> {
        if self.accepts.is_empty() || self.ready.is_empty() {
            return None;
        }
        Some((self.accepts.pop_front()?, self.ready.pop_front()?))
    }

    /// Cancels accepts and answers the connections that nobody took.
    pub(crate) fn close(mut self, fd: i32) -> Vec<Arc<Socket>> {
        for accept in std::mem::take(&mut self.accepts) {
            accept.end(fd, Err(Errno(libc::ECANCELED)));
        }
        self.ready.into()
    }
}

/// Gives connections that are ready to accepts that wait.
pub(crate) fn serve(library: &Library, listener: &Socket) {
    loop {
        let mut inner = listener.lock();
        let fd = inner.fd;
        let Phase::Listening(listening) = &mut inner.phase else {
            return;
        };
        let Some((accept, child)) = listening.matched() else {
            return;
        };

        drop(inner);
        let new = match library.give_descriptor(&child) {
            Ok(new) => new,
            Err(error) => {
                wait_on(library, listener, child);
                accept.end(fd, Err(error));
                continue;
            }
        };
        let peer = child.lock().connected().map(|conn| conn.peer());
        let result = peer.and_then(|peer| accept.fill(new, &peer));
        if result.is_err() {
            let _ = library.unname(new);
            child.abandon(library);
        }

        accept.end(fd, result);
    }
}

/// The process has no descriptor for a connection now: it is the next accept's, as with any
/// sockets.
fn wait_on(library: &Library, listener: &Socket, child: Arc<Socket>) {
    let mut inner = listener.lock();
    if let Phase::Listening(listening) = &mut inner.phase {
        listening.ready.push_front(child);
        return;
    }
    drop(inner);
    child.abandon(library);
}

/// A connection request has come for a listener.
pub(crate) fn request(library: &Library, event: &CmEvent) {
    let key = library.next_key();

    // SAFETY: the connection manager has just handed it over.
    let Some(mut id) = (unsafe { CmId::adopt(event, key) }) else {
        return;
    };

    let Some(listener) = library.by_key(event.context) else {
        id.reject();
        return;
    };

    let private = &event.private[..(event.private_length as usize).min(event.private.len())];
    let hello = Hello::parse(private).filter(|hello| hello.messages == listener.messages);
    let room = {
        let mut inner = listener.lock();
        match &mut inner.phase {
            Phase::Listening(listening)
                if listening.arriving + listening.ready.len() < listening.backlog =>
            {
                listening.arriving += 1;
                true
            }
            _ => false,
        }
    };

    let (Some(hello), true) = (hello, room) else {
        id.reject();
        if room {
            arrived(&listener, None);
        }
        return;
    };

    if begin(library, &listener, id, key, &hello).is_err() {
        // Without resources for it: the peer is refused by the identifier's end.
        library.forget(key);
        arrived(&listener, None);
    }
}

fn begin(
    library: &Library,
    listener: &Arc<Socket>,
    id: CmId,
    key: u64,
    hello: &Hello,
) -> Result<()> {
    let child = Socket::new(key, listener.family, listener.messages, Phase::Dead);
    library.add(&child);
    let device = library.device(id.verbs())?;
    let mut inner = child.lock();
    let mut conn = Box::new(Conn::new(key, listener.messages, id, device)?);
    conn.accept(hello)?;
    inner.phase = Phase::Accepting(conn, listener.key);
    Ok(())
}

/// A handshake is over; with a connection if it went well.
fn arrived(listener: &Socket, child: Option<Arc<Socket>>) -> Option<Arc<Socket>> {
    let mut inner = listener.lock();
    match &mut inner.phase {
        Phase::Listening(listening) => {
            listening.arriving = listening.arriving.saturating_sub(1);
            listening.ready.extend(child);
            None
        }
        _ => child,
    }
}

/// The connection of an accepted request is there (or, with false, will never be).
pub(crate) fn established(library: &Library, child: &Arc<Socket>, good: bool) {
    let listener = {
        let mut inner = child.lock();
        match std::mem::replace(&mut inner.phase, Phase::Dead) {
            Phase::Accepting(conn, listener) => {
                if good {
                    inner.phase = Phase::Connected(conn);
                } else {
                    drop(conn);
                }
                listener
            }
            other => {
                inner.phase = other;
                return;
            }
        }
    };

    let Some(listener) = library.by_key(listener) else {
        child.abandon(library);
        return;
    };

    if !good {
        arrived(&listener, None);
        child.abandon(library);
        return;
    }

    if let Some(unwanted) = arrived(&listener, Some(Arc::clone(child))) {
        unwanted.abandon(library);
        return;
    }

    serve(library, &listener);
}
