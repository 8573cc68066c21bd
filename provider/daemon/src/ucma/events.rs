//! A channel's queue of events, and the records in its descriptor, out of which the program takes them. What comes along with
//! them is `answers`' business.

use std::collections::VecDeque;
use std::io::IoSlice;
use std::os::fd::OwnedFd;

use ferroce_cabi::ucma::{rdma_ucm_event_resp, rdma_ucm_ud_param};
use ferroce_cabi::ucma_frame::Record;
use rustix::io::Errno;
use rustix::net::{SendAncillaryBuffer, SendFlags};
use zerocopy::IntoBytes;

use super::id::Params;
use super::{Host, Ucma};

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

/// One event of a channel's.
#[derive(Debug)]
struct Event {
    /// The id whose event it is: of a request, the listener.
    owner: u32,
    /// The multicast group whose event it is.
    group: Option<u32>,
    /// Of a request: the new id.
    request: Option<u32>,
    /// The id that the program will ask about next.
    subject: Option<u32>,
    answer: Box<rdma_ucm_event_resp>,
}

/// A descriptor holds at most this many records; the others follow when the program says that it has taken some.
const MAX_WINDOW: usize = 64;
/// What a record costs of the socket's buffer, in bytes, and something over.
const RECORD_COST: usize = 2560;
/// A listener with less room than this hears of each request that its program takes.
const LITTLE_ROOM: u32 = 32;

/// One descriptor of a program's.
#[derive(Debug)]
pub struct Channel {
    /// The end that is not the program's.
    pub socket: OwnedFd,
    /// The session that opened it.
    pub session: u64,
    /// The process that did, 0 if unknown.
    pub pid: u32,
    /// Its number.
    pub number: u32,
    /// Events that are not in the descriptor yet.
    waiting: VecDeque<Event>,
    /// Those that are, and as far as is known have not been taken.
    sent: VecDeque<Event>,
    /// How many records have been put into the descriptor, modulo 2^32.
    count: u32,
    /// How many it may hold.
    window: usize,
    /// How many the program must throw away.
    recalled: u32,
}

impl Channel {
    /// A channel without events.
    pub fn new(socket: OwnedFd, session: u64, pid: u32, number: u32) -> Self {
        let room = rustix::net::sockopt::socket_send_buffer_size(&socket).unwrap_or(0);
        Self {
            socket,
            session,
            pid,
            number,
            waiting: VecDeque::new(),
            sent: VecDeque::new(),
            count: 0,
            window: (room / RECORD_COST).clamp(1, MAX_WINDOW),
            recalled: 0,
        }
    }

    /// Takes notice of how many records the program has taken out. Returns the events in them, in order. What makes no
    /// sense is ignored: it may be old, since threads overtake each other.
    fn taken(&mut self, taken: u32) -> Vec<Event> {
        let left = self.count.wrapping_sub(taken) as usize;
        let n = self.sent.len().saturating_sub(left);
        self.sent.drain(..n).collect()
    }

    /// The next event, if the descriptor may hold one more.
    fn next(&self) -> Option<&Event> {
        self.waiting
            .front()
            .filter(|_| self.sent.len() < self.window)
    }

    /// Whether the program shall say when it has taken the next record: twice in a window, and before it can be empty
    /// while events wait.
    fn wants_word(&self) -> bool {
        (self.count.wrapping_add(1) as usize).is_multiple_of(self.window.div_ceil(2))
    }

    /// The next event is in the descriptor.
    fn advance(&mut self) {
        self.count = self.count.wrapping_add(1);
        self.sent.extend(self.waiting.pop_front());
    }

    /// Takes events away, in order. If one of them is in the descriptor already, all there are recalled, and those that stay
    /// follow once more; so how many were taken must be known exactly, and no more be taken meanwhile.
    fn extract(&mut self, theirs: impl Fn(&Event) -> bool) -> Vec<Event> {
        if self.sent.iter().any(&theirs) {
            self.recalled += self.sent.len() as u32;
            for event in self.sent.drain(..).rev() {
                self.waiting.push_front(event);
            }
        }
        let (theirs, rest): (VecDeque<_>, _) = self.waiting.drain(..).partition(theirs);
        self.waiting = rest;
        theirs.into()
    }

    /// How many records the program must take and throw away.
    pub fn recalled(&mut self) -> u32 {
        std::mem::take(&mut self.recalled)
    }

    /// Drops the events of an id. Returns the requests among them, which nobody knows.
    pub fn forget(&mut self, owner: u32) -> Vec<u32> {
        let events = self.extract(|event| event.owner == owner);
        events.iter().filter_map(|event| event.request).collect()
    }

    /// Drops the events of a multicast group.
    pub fn forget_group(&mut self, group: u32) {
        self.extract(|event| event.group == Some(group));
    }
}

impl Ucma {
    /// Queues an event of an id. Those of ids whose program has not said what to call them are dropped, as it could not
    /// tell whose they are.
    pub(super) fn raise(&mut self, handle: u32, kind: Kind, status: i32, detail: Detail) {
        let Some(id) = self.ids.get(handle).filter(|id| id.uid != 0) else {
            return;
        };
        let asks = matches!(
            kind,
            Kind::AddrResolved | Kind::RouteResolved | Kind::ConnectResponse
        );
        let event = Event {
            owner: handle,
            group: None,
            request: None,
            subject: asks.then_some(handle),
            answer: answer(id.uid, handle, kind, status, detail),
        };
        self.push(id.channel, event);
    }

    /// Queues a connection request of a listener's.
    pub(super) fn raise_request(&mut self, listener: u32, request: u32, detail: Detail) {
        let Some(id) = self.ids.get_mut(listener) else {
            return;
        };
        id.backlog = id.backlog.saturating_sub(1);
        let answer = answer(id.uid, request, Kind::ConnectRequest, 0, detail);
        let channel = id.channel;
        let event = Event {
            owner: listener,
            group: None,
            request: Some(request),
            subject: Some(request),
            answer,
        };
        self.push(channel, event);
    }

    /// Queues an event of a multicast group.
    pub(super) fn raise_group(&mut self, handle: u32, kind: Kind, status: i32, detail: Detail) {
        let Some(group) = self.groups.get(handle) else {
            return;
        };
        let (owner, answer) = (group.id, answer(group.uid, handle, kind, status, detail));
        if let Some(channel) = self.ids.get(owner).map(|id| id.channel) {
            let event = Event {
                owner,
                group: Some(handle),
                request: None,
                subject: None,
                answer,
            };
            self.push(channel, event);
        }
    }

    fn push(&mut self, channel: u64, event: Event) {
        if let Some(entry) = self.channels.get_mut(&channel) {
            entry.waiting.push_back(event);
            self.announce_on(channel);
        }
    }

    /// Remembers that a channel may have something to announce.
    pub(super) fn announce_on(&mut self, channel: u64) {
        if self.unannounced.last() != Some(&channel) {
            self.unannounced.push(channel);
        }
    }

    /// A program has taken so many records in all out of a channel.
    pub(super) fn taken(&mut self, channel: u64, taken: u32) {
        let Some(entry) = self.channels.get_mut(&channel) else {
            return;
        };
        let events = entry.taken(taken);
        if !events.is_empty() {
            self.announce_on(channel);
        }
        for event in events {
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
        }
    }

    /// Puts the events that have come up into their descriptors, as far as there is room.
    pub(super) fn announce(&mut self, host: &Host<'_>) {
        while let Some(channel) = self.unannounced.pop() {
            while self.send_next(channel, host) {}
        }
    }

    /// One send for each, as a waiting thread is woken by each.
    fn send_next(&mut self, channel: u64, host: &Host<'_>) -> bool {
        let Some(entry) = self.channels.get(&channel) else {
            return false;
        };
        let Some(event) = entry.next() else {
            return false;
        };
        let listener = event.request.and_then(|_| self.ids.get(event.owner));
        let little_room = listener.is_some_and(|id| id.backlog < LITTLE_ROOM);
        let mut head = Record {
            tell: (little_room || entry.wants_word()).into(),
            ..Default::default()
        };
        let answers = event
            .subject
            .and_then(|subject| self.answers(subject, &mut head, host));
        let parts = [
            IoSlice::new(head.as_bytes()),
            IoSlice::new(event.answer.as_bytes()),
            IoSlice::new(answers.as_ref().map_or(&[], |answers| answers.as_bytes())),
        ];
        let flags = SendFlags::NOSIGNAL | SendFlags::DONTWAIT;
        let sent = rustix::net::sendmsg(
            &entry.socket,
            &parts,
            &mut SendAncillaryBuffer::default(),
            flags,
        );
        if let Err(errno) = sent {
            tracing::debug!(error = %errno, "a channel takes no more events");
            return false;
        }
        if let Some(entry) = self.channels.get_mut(&channel) {
            entry.advance();
        }
        true
    }

    /// `MIGRATE_ID`: moves an id with its events, in order. Returns how many were fetched before.
    pub(super) fn migrate(&mut self, to: u64, from: u64, handle: u32) -> Result<u32, Errno> {
        if from == 0 {
            return Err(Errno::NOENT);
        }
        if !self.channels.contains_key(&from) {
            return Err(Errno::INVAL);
        }
        // No answer about the id depends on its channel.
        self.look(from, handle)?;
        let id = self.existing(handle)?;
        id.channel = to;
        let reported = id.reported;
        if from == to {
            return Ok(reported);
        }
        let moved = self
            .channels
            .get_mut(&from)
            .map(|channel| channel.extract(|event| event.owner == handle));
        self.announce_on(from);
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
    use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};

    fn channel(events: impl IntoIterator<Item = (u32, Option<u32>)>) -> Channel {
        let (flags, kind) = (SocketFlags::CLOEXEC, SocketType::SEQPACKET);
        let (ours, _) = socketpair(AddressFamily::UNIX, kind, flags, None).unwrap();
        let mut channel = Channel::new(ours, 1, 1, 0);
        channel
            .waiting
            .extend(events.into_iter().map(|(owner, request)| Event {
                owner,
                group: None,
                request,
                subject: None,
                answer: answer(1, owner, Kind::AddrResolved, 0, Detail::None),
            }));
        channel
    }

    fn fill(channel: &mut Channel) -> usize {
        let before = channel.count;
        while channel.next().is_some() {
            channel.advance();
        }
        (channel.count - before) as usize
    }

    fn owners(events: &[Event]) -> Vec<u32> {
        events.iter().map(|event| event.owner).collect()
    }

    #[test]
    fn the_descriptor_holds_a_window() {
        let mut channel = channel((0..200).map(|i| (i, None)));
        let window = channel.window;
        assert!((2..=MAX_WINDOW).contains(&window));
        assert_eq!(fill(&mut channel), window);
        assert_eq!(owners(&channel.taken(3)), [0, 1, 2]);
        // What another thread has seen before that is old.
        assert!(channel.taken(2).is_empty());
        assert_eq!(fill(&mut channel), 3);
        assert_eq!(channel.sent.len(), window);
        // Nobody has taken more than there was.
        assert!(channel.taken(channel.count.wrapping_add(1)).is_empty());
    }

    #[test]
    fn the_program_is_asked_for_word_before_the_descriptor_is_empty() {
        let mut channel = channel((0..1000).map(|i| (i, None)));
        let mut asked = Vec::new();
        while channel.next().is_some() {
            if channel.wants_word() {
                asked.push(channel.count + 1);
            }
            channel.advance();
            if channel.next().is_none() {
                // Nobody says anything but what was asked for.
                let word = asked.remove(0);
                channel.taken(word);
            }
        }
        assert_eq!(channel.count, 1000);
    }

    #[test]
    fn events_that_go_recall_what_is_in_the_descriptor() {
        let mut channel = channel([(1, None), (2, Some(7)), (3, None), (2, None)]);
        fill(&mut channel);
        channel.taken(1);
        assert_eq!(channel.forget(2), [7]);
        // Both requests' records and the one between them.
        assert_eq!((channel.recalled(), channel.recalled()), (3, 0));
        // The one between follows once more, and the count goes on.
        assert_eq!(fill(&mut channel), 1);
        assert_eq!(channel.count, 5);
        // What was said before the recall is old.
        assert!(channel.taken(1).is_empty());
        assert!(channel.taken(4).is_empty());
        assert_eq!(owners(&channel.taken(5)), [3]);
    }

    #[test]
    fn events_that_go_before_they_are_sent_recall_nothing() {
        let mut channel = channel([(1, None), (2, None)]);
        channel.advance();
        assert!(channel.forget(2).is_empty());
        assert_eq!((channel.recalled(), channel.sent.len()), (0, 1));
    }
}
