//! Events that wait for room in a descriptor: first come, first served for each peer, and the peers
//! take turns.
//!
//! Nobody who asks for a connection has shown that he is where he says, and one who asks for
//! thousands must not have everybody else wait until a program has looked at all of them. What one
//! peer's ids raise stays in order; so does what the program's own ids raise, which count as one
//! peer.

use std::collections::{BTreeMap, HashMap, VecDeque};

use ferroce_cabi::ucma::rdma_ucm_event_resp;

use super::addr::Gid;

/// Whose ids raise it: a peer's, or the program's own.
pub(super) type Whose = Option<Gid>;

/// One event of a channel's.
#[derive(Debug)]
pub(super) struct Event {
    /// The id whose event it is: of a request, the listener.
    pub(super) owner: u32,
    /// Whose turn it takes: of a request and all that follows, the peer's.
    pub(super) whose: Whose,
    /// The multicast group whose event it is.
    pub(super) group: Option<u32>,
    /// Of a request: the new id.
    pub(super) request: Option<u32>,
    /// The id that the program will ask about next.
    pub(super) subject: Option<u32>,
    pub(super) answer: Box<rdma_ucm_event_resp>,
}

/// The events of a channel's that are not in its descriptor.
#[derive(Debug, Default)]
pub(super) struct Turns {
    /// What was in the descriptor already, in order.
    again: VecDeque<Event>,
    /// None of these is empty.
    queues: HashMap<Whose, Queue>,
    /// Everybody who has a queue, by the turn.
    order: BTreeMap<u64, Whose>,
    /// The turn of who comes last.
    last: u64,
}

#[derive(Debug, Default)]
struct Queue {
    turn: u64,
    events: VecDeque<Event>,
}

impl Turns {
    /// Adds one behind those of the same peer.
    pub(super) fn push(&mut self, event: Event) {
        let whose = event.whose;
        if let Some(queue) = self.queues.get_mut(&whose) {
            queue.events.push_back(event);
            return;
        }
        let mut queue = Queue::default();
        queue.events.push_back(event);
        self.enter(whose, queue);
    }

    /// Puts back what was taken out, ahead of all, in order.
    pub(super) fn put_back(&mut self, events: impl DoubleEndedIterator<Item = Event>) {
        for event in events.rev() {
            self.again.push_front(event);
        }
    }

    /// The next one.
    pub(super) fn front(&self) -> Option<&Event> {
        let next = || {
            let (_, whose) = self.order.first_key_value()?;
            self.queues.get(whose)?.events.front()
        };
        self.again.front().or_else(next)
    }

    /// Takes the next one out; whose it is comes last now.
    pub(super) fn pop(&mut self) -> Option<Event> {
        if let Some(event) = self.again.pop_front() {
            return Some(event);
        }
        let (_, whose) = self.order.pop_first()?;
        let mut queue = self.queues.remove(&whose)?;
        let event = queue.events.pop_front();
        self.enter(whose, queue);
        event
    }

    /// Takes out the oldest of a peer's of this kind, unless it was in the descriptor.
    pub(super) fn take(
        &mut self,
        whose: Whose,
        wanted: impl FnMut(&Event) -> bool,
    ) -> Option<Event> {
        let queue = self.queues.get_mut(&whose)?;
        let at = queue.events.iter().position(wanted)?;
        let event = queue.events.remove(at);
        if queue.events.is_empty() {
            self.order.remove(&queue.turn);
            self.queues.remove(&whose);
        }
        event
    }

    /// Takes out all of a kind, those of each peer in order.
    pub(super) fn take_all(&mut self, wanted: impl Fn(&Event) -> bool) -> Vec<Event> {
        let split = |events: &mut VecDeque<Event>| {
            let (theirs, rest): (VecDeque<_>, _) = events.drain(..).partition(&wanted);
            *events = rest;
            theirs
        };
        let mut taken: Vec<_> = split(&mut self.again).into();
        for whose in self.order.values() {
            if let Some(queue) = self.queues.get_mut(whose) {
                taken.extend(split(&mut queue.events));
            }
        }

        self.queues.retain(|_, queue| !queue.events.is_empty());
        self.order
            .retain(|_, whose| self.queues.contains_key(whose));
        taken
    }

    /// Somebody's turn is the last.
    fn enter(&mut self, whose: Whose, mut queue: Queue) {
        if queue.events.is_empty() {
            return;
        }
        self.last += 1;
        queue.turn = self.last;
        self.order.insert(queue.turn, whose);
        self.queues.insert(whose, queue);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(owner: u32, peer: u8) -> Event {
        Event {
            owner,
            whose: (peer > 0).then_some([peer; 16]),
            group: None,
            request: None,
            subject: None,
            answer: Box::default(),
        }
    }

    fn rest(turns: &mut Turns) -> Vec<u32> {
        std::iter::from_fn(|| turns.pop().map(|event| event.owner)).collect()
    }

    #[test]
    fn a_crowd_of_one_peer_keeps_nobody_waiting() {
        let mut turns = Turns::default();
        for owner in 0..1000 {
            turns.push(event(owner, 1));
        }
        turns.push(event(2000, 2));
        turns.push(event(2001, 2));
        turns.push(event(3000, 0));
        let order = rest(&mut turns);
        assert_eq!(order[..6], [0, 2000, 3000, 1, 2001, 2]);
        assert_eq!(order[6..], Vec::from_iter(3..1000));
        assert!(turns.queues.is_empty() && turns.order.is_empty());
    }

    #[test]
    fn what_comes_one_by_one_stays_in_order() {
        let mut turns = Turns::default();
        for (owner, peer) in (0..).zip([3, 0, 1, 2]) {
            turns.push(event(owner, peer));
        }
        assert_eq!(rest(&mut turns), [0, 1, 2, 3]);
    }

    #[test]
    fn what_goes_leaves_no_empty_turn() {
        let mut turns = Turns::default();
        for (owner, peer) in [(1, 1), (2, 2), (3, 1), (4, 3), (4, 3)] {
            turns.push(event(owner, peer));
        }
        assert!(
            turns
                .take(Some([1; 16]), |event| event.owner == 2)
                .is_none()
        );

        assert!(
            turns
                .take(Some([2; 16]), |event| event.owner == 2)
                .is_some()
        );

        assert_eq!(turns.take_all(|event| event.owner == 4).len(), 2);
        let first = turns.pop();
        turns.put_back(first.into_iter());
        assert_eq!(turns.front().map(|event| event.owner), Some(1));
        assert_eq!(turns.order.len(), 1);
        assert_eq!(rest(&mut turns), [1, 3]);
    }
}
