//! Raising events: they queue up at their channels, and the channels are remembered.

use super::events::{Detail, Kind, answer};
use super::state::Ucma;
use super::turns::Event;

impl Ucma {
    /// Queues an event of an id. Those of ids whose program has not said what to call them are no
    /// use to it, as it could not tell whose they are; it may be about to say so.
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

    pub(super) fn push(&mut self, channel: u64, event: Event) {
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
}
