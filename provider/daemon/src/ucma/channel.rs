//! One channel: its events in order, and how many of them are in its descriptor, out of which the
//! program takes them.

use std::collections::VecDeque;
use std::os::fd::OwnedFd;

use super::turns::{Event, Turns, Whose};

/// Who sends a command.
#[derive(Clone, Copy, Debug)]
pub(super) struct Caller {
    /// Its session.
    pub session: u64,
    /// Its process, 0 if unknown.
    pub pid: u32,
    /// Its user.
    pub uid: u32,
    /// Whether it may use ports below 1024.
    pub privileged: bool,
}

/// A descriptor holds at most this many records; the others follow when the program says that it
/// has taken some.
const MAX_WINDOW: usize = 64;
/// What a record costs of the socket's buffer, in bytes, and something over.
const RECORD_COST: usize = 2560;

/// One descriptor of a program's.
#[derive(Debug)]
pub(super) struct Channel {
    /// The end that is not the program's.
    pub socket: OwnedFd,
    /// The session that opened it.
    pub session: u64,
    /// The process that did, 0 if unknown.
    pub pid: u32,
    /// That process's user.
    pub uid: u32,
    /// Its number.
    pub number: u32,
    /// Events that are not in the descriptor yet.
    pub(super) waiting: Turns,
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
    pub(super) fn new(socket: OwnedFd, opener: Caller, number: u32) -> Self {
        let room = rustix::net::sockopt::socket_send_buffer_size(&socket).unwrap_or(0);
        Self {
            socket,
            session: opener.session,
            pid: opener.pid,
            uid: opener.uid,
            number,
            waiting: Turns::default(),
            sent: VecDeque::new(),
            count: 0,
            window: (room / RECORD_COST).clamp(1, MAX_WINDOW),
            recalled: 0,
        }
    }

    /// Whether a caller may use it: of its session, or of its process, unless that has become
    /// another user's.
    pub(super) fn admits(&self, caller: Caller) -> bool {
        let same_process = caller.pid != 0 && caller.pid == self.pid && caller.uid == self.uid;
        self.session == caller.session || same_process
    }

    /// Takes notice of how many records the program has taken out. Returns the events in them, in
    /// order. What makes no sense is ignored: it may be old, since threads overtake each other.
    pub(super) fn taken(&mut self, taken: u32) -> Vec<Event> {
        let left = self.count.wrapping_sub(taken) as usize;
        let n = self.sent.len().saturating_sub(left);
        self.sent.drain(..n).collect()
    }

    /// The next event, if the descriptor may hold one more.
    pub(super) fn next(&self) -> Option<&Event> {
        self.waiting
            .front()
            .filter(|_| self.sent.len() < self.window)
    }

    /// Whether the program shall say when it has taken the next record: twice in a window, and
    /// before it can be empty while events wait.
    pub(super) fn wants_word(&self) -> bool {
        (self.count.wrapping_add(1) as usize).is_multiple_of(self.window.div_ceil(2))
    }

    /// The next event is in the descriptor.
    pub(super) fn advance(&mut self) {
        self.count = self.count.wrapping_add(1);
        self.sent.extend(self.waiting.pop());
    }

    /// Takes events away, those of each peer in order. If one of them is in the descriptor already,
    /// all there are recalled, and those that stay follow once more; so how many were taken must be
    /// known exactly, and no more be taken meanwhile.
    pub(super) fn extract(&mut self, theirs: impl Fn(&Event) -> bool) -> Vec<Event> {
        if self.sent.iter().any(&theirs) {
            self.recalled += self.sent.len() as u32;
            self.waiting.put_back(self.sent.drain(..));
        }
        self.waiting.take_all(theirs)
    }

    /// Drops the event of a peer's connection request, unless it is in the descriptor already.
    pub(super) fn withdraw(&mut self, request: u32, whose: Whose) -> Option<Event> {
        // Those that are withdrawn are old, and so ahead of the peer's others.
        self.waiting
            .take(whose, |event| event.request == Some(request))
    }

    /// How many records the program must take and throw away.
    pub(super) fn recalled(&mut self) -> u32 {
        std::mem::take(&mut self.recalled)
    }

    /// Drops the events of an id. Returns the requests among them, which nobody knows.
    pub(super) fn forget(&mut self, owner: u32) -> Vec<u32> {
        let events = self.extract(|event| event.owner == owner);
        events.iter().filter_map(|event| event.request).collect()
    }

    /// Drops the events of a multicast group.
    pub(super) fn forget_group(&mut self, group: u32) {
        self.extract(|event| event.group == Some(group));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};

    const CALLER: Caller = Caller {
        session: 1,
        pid: 1,
        uid: 1,
        privileged: false,
    };

    fn channel(events: impl IntoIterator<Item = (u32, Option<u32>)>) -> Channel {
        let (flags, kind) = (SocketFlags::CLOEXEC, SocketType::SEQPACKET);
        let (ours, _) = socketpair(AddressFamily::UNIX, kind, flags, None).unwrap();
        let mut channel = Channel::new(ours, CALLER, 0);
        for (owner, request) in events {
            channel.waiting.push(Event {
                owner,
                whose: None,
                group: None,
                request,
                subject: None,
                answer: Box::default(),
            });
        }
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
    fn a_channel_is_used_by_who_opened_it() {
        let channel = channel([]);
        let admits = |session, pid, uid| {
            channel.admits(Caller {
                session,
                pid,
                uid,
                privileged: true,
            })
        };
        assert!(admits(1, 2, 1) && admits(2, 1, 1));
        assert!(!admits(2, 1, 2) && !admits(2, 2, 1) && !admits(2, 0, 1));
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
    fn requests_are_withdrawn_while_nobody_was_told() {
        let mut channel = channel([(1, Some(7)), (1, Some(8)), (1, Some(9))]);
        channel.advance();
        assert!(channel.withdraw(7, None).is_none());
        assert_eq!(channel.withdraw(8, None).map(|event| event.owner), Some(1));
        assert!(channel.withdraw(8, None).is_none());
        assert_eq!(channel.forget(1), [7, 9]);
    }

    #[test]
    fn events_that_go_before_they_are_sent_recall_nothing() {
        let mut channel = channel([(1, None), (2, None)]);
        channel.advance();
        assert!(channel.forget(2).is_empty());
        assert_eq!((channel.recalled(), channel.sent.len()), (0, 1));
    }
}
