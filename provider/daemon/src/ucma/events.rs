//! Events: raising them, and putting them into the channels' descriptors as records. What comes along with them is `answers`'
//! business.

use std::io::IoSlice;

use ferroce_cabi::ucma::{rdma_ucm_event_resp, rdma_ucm_ud_param};
use ferroce_cabi::ucma_frame::Record;
use rustix::io::Errno;
use rustix::net::{SendAncillaryBuffer, SendFlags};
use zerocopy::IntoBytes;

use super::channel::Event;
use super::id::Params;
use super::{Host, Ucma};

/// `enum rdma_cm_event_type`, but for what never happens here: QPs are the program's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum Kind {
    AddrResolved = 0,
    AddrError = 1,
    RouteResolved = 2,
    RouteError = 3,
    ConnectRequest = 4,
    ConnectResponse = 5,
    ConnectError = 6,
    Unreachable = 7,
    Rejected = 8,
    Established = 9,
    Disconnected = 10,
    DeviceRemoval = 11,
    MulticastJoin = 12,
    MulticastError = 13,
    AddrChange = 14,
    TimewaitExit = 15,
    /// Written by the program.
    User = 18,
    /// Written by librdmacm.
    Internal = 19,
}

/// What comes with an event.
#[derive(Debug)]
pub enum Detail {
    /// Nothing.
    None,
    /// A connection's parameters.
    Connection(Box<Params>),
    /// A datagram service's, or a multicast group's.
    Datagram(Box<rdma_ucm_ud_param>),
    /// What a program has written.
    Argument(u64),
}

/// A listener with less room than this hears of each request that its program takes.
const LITTLE_ROOM: u32 = 32;

impl Ucma {
    /// Queues an event of an id. Those of ids whose program has not said what to call them are no use to it, as it could not
    /// tell whose they are; it may be about to say so.
    pub(super) fn raise(&mut self, handle: u32, kind: Kind, status: i32, detail: Detail) {
        let Some(id) = self.ids.get_mut(handle) else {
            return;
        };
        if id.uid == 0 {
            id.missed = Some((kind, status, detail));
            return;
        }
        let (uid, channel, whose) = (id.uid, id.channel, id.peer);
        let asks = matches!(
            kind,
            Kind::AddrResolved | Kind::RouteResolved | Kind::ConnectResponse
        );
        let event = Event {
            owner: handle,
            whose,
            group: None,
            request: None,
            subject: asks.then_some(handle),
            answer: answer(uid, handle, kind, status, detail),
        };
        self.push(channel, event);
    }

    /// Queues a connection request of a listener's.
    pub(super) fn raise_request(&mut self, listener: u32, request: u32, detail: Detail) {
        let whose = self.ids.get(request).and_then(|id| id.peer);
        let Some(id) = self.ids.get_mut(listener) else {
            return;
        };
        id.backlog = id.backlog.saturating_sub(1);
        let answer = answer(id.uid, request, Kind::ConnectRequest, 0, detail);
        let channel = id.channel;
        let event = Event {
            owner: listener,
            whose,
            group: None,
            request: Some(request),
            subject: Some(request),
            answer,
        };
        self.push(channel, event);
    }

    /// Takes back a connection request that no record tells of yet, with its id; `false`: there is none.
    pub(super) fn forget_request(&mut self, request: u32, host: &Host<'_>) -> bool {
        let Some((channel, whose)) = self.ids.get(request).map(|id| (id.channel, id.peer)) else {
            return false;
        };
        let channel = self.channels.get_mut(&channel);
        let Some(event) = channel.and_then(|channel| channel.withdraw(request, whose)) else {
            return false;
        };
        if let Some(listener) = self.ids.get_mut(event.owner) {
            listener.backlog += 1;
        }
        // There is nothing else of it that would have to be looked for among all the others' events.
        if let Some(id) = self.ids.remove(request) {
            self.requested.leave(id.peer);
            self.generations.touch(request);
            self.generations.end(request);
            if let Some(cm) = id.cm {
                self.by_cm.remove(&cm);
                let _ = self.cm.destroy(host.now, cm, &mut self.out);
            }
        }
        true
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
                whose: None,
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
            entry.waiting.push(event);
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
        Detail::Argument(argument) => answer.param[..8].copy_from_slice(&argument.to_ne_bytes()),
    }
    answer
}
