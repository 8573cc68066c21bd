//! Listening: requests become connections at once, as far as the backlog goes, and wait for an accept.

use std::collections::VecDeque;
use std::sync::Arc;

use crate::abi::{AcceptAddr, EXS_ACCEPTS_MAX, EXS_EVT_ACCEPT, EventDetail, EvtAccept};
use crate::conn::Conn;
use crate::errno::{Errno, Result};
use crate::library::Library;
use crate::proto::message::Hello;
use crate::queue::Target;
use crate::socket::{Phase, Socket};
use crate::verbs::{CmEvent, CmId};

/// A listening socket's own.
pub struct Listener {
    _id: CmId,
    backlog: usize,
    /// Connections whose handshake is under way.
    arriving: usize,
    ready: VecDeque<Arc<Socket>>,
    accepts: VecDeque<Accept>,
}

/// An accept in progress.
pub struct Accept {
    /// Where the application's `exs_acceptaddr_t` is.
    element: usize,
    address: usize,
    room: usize,
    target: Target,
}

impl Accept {
    /// The element at an address, as it is now.
    pub fn new(element: usize, value: &AcceptAddr, target: Target) -> Self {
        Self {
            element,
            address: value.exs_addr,
            room: value.exs_addrlen as usize,
            target,
        }
    }

    fn end(self, listener: i32, result: Result<(i32, crate::verbs::Address)>) {
        let mut detail = EvtAccept {
            exs_evt_newsocket: -1,
            exs_evt_addr: self.address,
            exs_evt_addrlen: 0,
        };
        let result = result.map(|(fd, peer)| {
            let bytes = peer.bytes();
            detail.exs_evt_newsocket = fd;
            detail.exs_evt_addrlen = bytes.len() as libc::socklen_t;
            let fits = bytes.len().min(self.room);
            // SAFETY: the application keeps element and address until the event, as it was told.
            unsafe {
                if self.address != 0 {
                    std::ptr::copy_nonoverlapping(bytes.as_ptr(), self.address as *mut u8, fits);
                }
                let element = self.element as *mut AcceptAddr;
                (&raw mut (*element).exs_addrlen).write(bytes.len() as libc::socklen_t);
                (&raw mut (*element).exs_newsocket).write(fd);
            }
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
    /// A listener on an identifier that listens.
    pub fn new(id: CmId, backlog: i32) -> Self {
        Self {
            _id: id,
            backlog: backlog.clamp(1, 4096) as usize,
            arriving: 0,
            ready: VecDeque::new(),
            accepts: VecDeque::new(),
        }
    }

    /// Queues accepts: all of them or none.
    pub fn accept(&mut self, accepts: Vec<Accept>) -> Result<()> {
        if self.accepts.len() + accepts.len() > EXS_ACCEPTS_MAX {
            return Err(Errno(libc::EAGAIN));
        }
        self.accepts.extend(accepts);
        Ok(())
    }

    /// Whether an accept would be served at once.
    pub fn has_ready(&self) -> bool {
        self.ready.len() > self.accepts.len()
    }

    fn matched(&mut self) -> Option<(Accept, Arc<Socket>)> {
        if self.accepts.is_empty() || self.ready.is_empty() {
            return None;
        }
        Some((self.accepts.pop_front()?, self.ready.pop_front()?))
    }

    /// Cancels accepts and answers the connections that nobody took.
    pub fn close(mut self, fd: i32) -> Vec<Arc<Socket>> {
        for accept in std::mem::take(&mut self.accepts) {
            accept.end(fd, Err(Errno(libc::ECANCELED)));
        }
        self.ready.into()
    }
}

/// Gives connections that are ready to accepts that wait.
pub fn serve(library: &Library, listener: &Socket) {
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
        let given = library.give_descriptor(&child).map(|new| {
            let peer = child.lock().connected().map(|conn| conn.peer());
            peer.map(|peer| (new, peer))
        });
        let result = given.and_then(|peer| peer);
        if result.is_err() {
            child.abandon(library);
        }
        accept.end(fd, result);
    }
}

/// A connection request has come for a listener.
pub fn request(library: &Library, event: &CmEvent) {
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
pub fn established(library: &Library, child: &Arc<Socket>, good: bool) {
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
