//! A channel's queue of events, and the bytes in its descriptor that make it readable while there are some.

use std::collections::VecDeque;
use std::os::fd::OwnedFd;

use ferroce_cabi::ucma::{rdma_ucm_event_resp, rdma_ucm_ud_param};
use rustix::io::Errno;
use rustix::net::SendFlags;
use zerocopy::IntoBytes;

use super::Ucma;
use super::id::Params;

/// `enum rdma_cm_event_type`, but for what never happens here: routes and groups are had at once, and QPs are the
/// program's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum Kind {
    AddrResolved = 0,
    AddrError = 1,
    RouteResolved = 2,
    ConnectRequest = 4,
    ConnectResponse = 5,
    Unreachable = 7,
    Rejected = 8,
    Established = 9,
    Disconnected = 10,
    DeviceRemoval = 11,
    MulticastJoin = 12,
    AddrChange = 14,
    TimewaitExit = 15,
}

/// What comes with an event.
pub enum Detail {
    /// Nothing.
    None,
    /// A connection's parameters.
    Connection(Box<Params>),
    /// A datagram service's, or a multicast group's.
    Datagram(Box<rdma_ucm_ud_param>),
}

/// One event in a queue.
#[derive(Debug)]
struct Event {
    /// The id whose event it is: of a request, the listener.
    owner: u32,
    /// The multicast group whose event it is.
    group: Option<u32>,
    /// Of a request: the new id.
    request: Option<u32>,
    answer: Box<rdma_ucm_event_resp>,
}

/// A descriptor holds at most this many bytes: more events than that are told of as others are fetched.
const MAX_BYTES: usize = 64;

/// One descriptor of a program's.
#[derive(Debug)]
pub struct Channel {
    /// The end that is not the program's.
    pub socket: OwnedFd,
    /// The session that opened it.
    pub session: u64,
    /// The process that did, 0 if unknown.
    pub pid: u32,
    events: VecDeque<Event>,
    /// How many bytes are in the descriptor.
    bytes: usize,
}

impl Channel {
    /// A channel without events.
    pub fn new(socket: OwnedFd, session: u64, pid: u32) -> Self {
        Self {
            socket,
            session,
            pid,
            events: VecDeque::new(),
            bytes: 0,
        }
    }

    fn push(&mut self, event: Event) {
        self.events.push_back(event);
        self.announce();
    }

    /// Makes the descriptor hold a byte for each event.
    fn announce(&mut self) {
        let missing = self.events.len().min(MAX_BYTES).saturating_sub(self.bytes);
        let flags = SendFlags::NOSIGNAL | SendFlags::DONTWAIT;
        // One send for each, as a waiting thread is woken by each.
        for _ in 0..missing {
            match rustix::net::send(&self.socket, &[0], flags) {
                Ok(_) => self.bytes += 1,
                Err(errno) => {
                    tracing::debug!(error = %errno, "a channel takes no more bytes");
                    break;
                }
            }
        }
    }

    /// The program has taken a byte.
    pub fn byte_taken(&mut self) {
        self.bytes = self.bytes.saturating_sub(1);
    }

    /// How many bytes the program must take back since their events are gone; from now on they count as taken.
    pub fn surplus(&mut self) -> u32 {
        self.announce();
        let surplus = self.bytes.saturating_sub(self.events.len());
        self.bytes -= surplus;
        surplus as u32
    }

    /// Drops the events of an id. Returns the requests among them, which nobody knows.
    pub fn forget(&mut self, owner: u32) -> Vec<u32> {
        let mut requests = Vec::new();
        self.events.retain(|event| {
            if event.owner == owner {
                requests.extend(event.request);
            }
            event.owner != owner
        });
        requests
    }

    /// Drops the events of a multicast group.
    pub fn forget_group(&mut self, group: u32) {
        self.events.retain(|event| event.group != Some(group));
    }

    fn take_of(&mut self, owner: u32) -> VecDeque<Event> {
        let (theirs, rest) = self
            .events
            .drain(..)
            .partition(|event| event.owner == owner);
        self.events = rest;
        theirs
    }
}

impl Ucma {
    /// Queues an event of an id. Those of ids whose program has not said what to call them are dropped, as it could not
    /// tell whose they are.
    pub(super) fn raise(&mut self, handle: u32, kind: Kind, status: i32, detail: Detail) {
        let Some(id) = self.ids.get(handle).filter(|id| id.uid != 0) else {
            return;
        };
        let answer = answer(id.uid, handle, kind, status, detail);
        let channel = id.channel;
        self.push(
            channel,
            Event {
                owner: handle,
                group: None,
                request: None,
                answer,
            },
        );
    }

    /// Queues a connection request of a listener's.
    pub(super) fn raise_request(&mut self, listener: u32, request: u32, detail: Detail) {
        let Some(id) = self.ids.get_mut(listener) else {
            return;
        };
        id.backlog = id.backlog.saturating_sub(1);
        let answer = answer(id.uid, request, Kind::ConnectRequest, 0, detail);
        let channel = id.channel;
        self.push(
            channel,
            Event {
                owner: listener,
                group: None,
                request: Some(request),
                answer,
            },
        );
    }

    /// Queues an event of a multicast group.
    pub(super) fn raise_group(&mut self, handle: u32, kind: Kind, status: i32, detail: Detail) {
        let Some(group) = self.groups.get(handle) else {
            return;
        };
        let (owner, answer) = (group.id, answer(group.uid, handle, kind, status, detail));
        if let Some(channel) = self.ids.get(owner).map(|id| id.channel) {
            self.push(
                channel,
                Event {
                    owner,
                    group: Some(handle),
                    request: None,
                    answer,
                },
            );
        }
    }

    fn push(&mut self, channel: u64, event: Event) {
        if let Some(channel) = self.channels.get_mut(&channel) {
            channel.push(event);
        }
    }

    /// `GET_EVENT`. `EAGAIN`: there is none.
    pub(super) fn next_event(&mut self, channel: u64) -> Result<Box<rdma_ucm_event_resp>, Errno> {
        let events = self
            .channels
            .get_mut(&channel)
            .map(|channel| &mut channel.events);
        let event = events.and_then(VecDeque::pop_front).ok_or(Errno::AGAIN)?;
        if let Some(owner) = self.ids.get_mut(event.owner) {
            owner.reported += 1;
            if event.request.is_some() {
                owner.backlog += 1;
            }
        }
        if let Some(group) = event.group.and_then(|group| self.groups.get_mut(group)) {
            group.reported += 1;
        }
        if let Some(request) = event.request.and_then(|id| self.ids.get_mut(id)) {
            request.known = true;
        }
        Ok(event.answer)
    }

    /// `MIGRATE_ID`: moves an id with its events, in order. Returns how many were fetched before.
    pub(super) fn migrate(&mut self, to: u64, from: u64, handle: u32) -> Result<u32, Errno> {
        if from == 0 {
            return Err(Errno::NOENT);
        }
        if !self.channels.contains_key(&from) {
            return Err(Errno::INVAL);
        }
        let id = self.id(from, handle)?;
        id.channel = to;
        let reported = id.reported;
        if from == to {
            return Ok(reported);
        }
        let moved = self
            .channels
            .get_mut(&from)
            .map(|channel| channel.take_of(handle));
        for event in moved.unwrap_or_default() {
            // A request that was not fetched yet moves with its listener.
            if let Some(request) = event.request.and_then(|id| self.ids.get_mut(id)) {
                request.channel = to;
            }
            self.push(to, event);
        }
        Ok(reported)
    }
}

fn answer(uid: u64, id: u32, kind: Kind, status: i32, detail: Detail) -> Box<rdma_ucm_event_resp> {
    let mut answer = Box::new(rdma_ucm_event_resp {
        uid,
        id,
        event: kind as u32,
        status,
        ..Default::default()
    });
    match detail {
        Detail::None => {}
        Detail::Connection(params) => {
            let conn = params.conn.as_bytes();
            answer.param[..conn.len()].copy_from_slice(conn);
            answer.ece = params.ece;
        }
        Detail::Datagram(param) => answer.param.copy_from_slice(param.as_bytes()),
    }
    answer
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::net::{AddressFamily, RecvFlags, SocketFlags, SocketType, socketpair};

    fn event(owner: u32, request: Option<u32>) -> Event {
        Event {
            owner,
            group: None,
            request,
            answer: answer(1, owner, Kind::AddrResolved, 0, Detail::None),
        }
    }

    fn held(socket: &OwnedFd) -> usize {
        let mut bytes = [0; 256];
        match rustix::net::recv(socket, &mut bytes[..], RecvFlags::DONTWAIT) {
            Ok((_, n)) => n,
            Err(_) => 0,
        }
    }

    #[test]
    fn the_descriptor_holds_a_byte_for_each_event() {
        let flags = SocketFlags::CLOEXEC;
        let (ours, theirs) =
            socketpair(AddressFamily::UNIX, SocketType::STREAM, flags, None).unwrap();
        let mut channel = Channel::new(ours, 1, 1);
        assert_eq!((held(&theirs), channel.surplus()), (0, 0));
        channel.push(event(1, None));
        channel.push(event(2, Some(7)));
        channel.push(event(2, None));
        assert_eq!(channel.surplus(), 0);
        assert_eq!(channel.forget(2), [7]);
        assert_eq!(channel.surplus(), 2);
        assert_eq!(held(&theirs), 3);

        let mut channel = Channel::new(channel.socket, 1, 1);
        for _ in 0..MAX_BYTES + 10 {
            channel.push(event(1, None));
        }
        assert_eq!(held(&theirs), MAX_BYTES);
        channel.byte_taken();
        channel.events.pop_front();
        assert_eq!(channel.surplus(), 0);
        assert_eq!(held(&theirs), 1);
    }
}
