//! Duplicate requests of a peer that understands selective acknowledgements: they are answered
//! after what was owed when they came, so that the peer can tell by what comes later what is lost.

use crate::tuning::MAX_REPLAYS;
use ferroce_wire::Psn;
use std::collections::VecDeque;

/// An answer, or a part of one, that is owed again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Replay {
    /// First PSN of the record.
    pub first: Psn,
    /// The first packet, and the one after the last.
    pub start: u32,
    pub end: u32,
    /// Of a READ where the packets' bytes begin, and how many there are.
    pub range: Option<(u64, u32)>,
}

/// Those that wait, in the order in which they were asked for; each with the first PSN of the
/// newest record of that time.
#[derive(Clone, Debug, Default)]
pub(crate) struct Replays(VecDeque<(Replay, Psn)>);

impl Replays {
    /// Has it wait for all that is owed by records up to the one with the first PSN `newest`.
    /// Returns whether there is one more that waits: one that does already does so once.
    pub(crate) fn add(&mut self, replay: Replay, newest: Psn) -> bool {
        let room = self.0.len() < MAX_REPLAYS;
        let adds = room && self.0.iter().all(|(waits, _)| *waits != replay);
        if adds {
            self.0.push_back((replay, newest));
        }
        adds
    }

    /// Takes the one whose turn it is, while `owed` is the first PSN of the oldest record that owes
    /// something.
    pub(crate) fn take(&mut self, owed: Option<Psn>) -> Option<Replay> {
        let (_, newest) = self.0.front()?;
        let turn = owed.is_none_or(|owed| newest.before(owed));
        turn.then(|| self.0.pop_front())?.map(|(replay, _)| replay)
    }

    /// Forgets those of a record. Returns how many there were.
    pub(crate) fn forget(&mut self, first: Psn) -> usize {
        let before = self.0.len();
        self.0.retain(|(replay, _)| replay.first != first);
        before - self.0.len()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}
