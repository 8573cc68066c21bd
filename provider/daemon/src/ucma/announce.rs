//! Putting events into the channels' descriptors as records, and what follows when a program takes
//! them out. What comes along with them is `answers`' business.

use std::io::IoSlice;

use ferroce_cabi::ucma_frame::Record;
use rustix::io::Errno;
use rustix::net::{SendAncillaryBuffer, SendFlags};
use zerocopy::IntoBytes;

use super::host::Host;
use super::state::Ucma;

/// A listener with less room than this hears of each request that its program takes.
const LITTLE_ROOM: u32 = 32;

impl Ucma {
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
