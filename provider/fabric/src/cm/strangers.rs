//! What is known of peers: who has answered a message of ours, and how much is asked for in whose name.
//!
//! A source address proves nothing. It does once somebody there has named a communication ID of ours, which is random and was sent there. Before,
//! nobody is sent much more than has come in his name, else we could be had to flood him: repetitions to strangers have a budget,
//! ample for honest peers whose messages get lost, and soon used up by a flood of requests.

use super::interval::SECOND;
use super::types::Time;
use ferroce_wire::mad::Gid;
use std::collections::{HashSet, VecDeque};
use std::hash::{BuildHasher, RandomState};

/// How many peers are remembered that have answered.
const KNOWN: usize = 1 << 14;
/// Repetitions to strangers: so many at once, and one more in so much time.
const BURST: u32 = 256;
const REFILL: Time = SECOND / 100;
/// Requests in the names of peers are counted in so many places, for so long at a time. Peers that share one share the count.
const PLACES: usize = 1 << 12;
const WINDOW: Time = 10 * SECOND;
/// With more new requests than this in a window, a peer is not believed to have forgotten its connections: a number of a QP can be found by
/// trying: at this rate after an hour on average where 2^16 numbers are possible.
const FEW: u32 = 100;

/// What is known of peers.
pub(super) struct Strangers {
    known: HashSet<Gid>,
    order: VecDeque<Gid>,
    budget: u32,
    refilled: Time,
    asked: Box<[u32]>,
    window: Time,
    hasher: RandomState,
}

impl Strangers {
    pub(super) fn new() -> Strangers {
        Strangers {
            known: HashSet::new(),
            order: VecDeque::new(),
            budget: BURST,
            refilled: 0,
            asked: vec![0; PLACES].into_boxed_slice(),
            window: 0,
            hasher: RandomState::new(),
        }
    }

    /// Somebody there has named a communication ID of ours.
    pub(super) fn answered(&mut self, peer: Gid) {
        if !self.known.insert(peer) {
            return;
        }
        self.order.push_back(peer);
        if self.order.len() > KNOWN
            && let Some(first) = self.order.pop_front()
        {
            self.known.remove(&first);
        }
    }

    /// Whether a peer may be sent what it did not ask for just now: it has answered before, or the budget allows it.
    pub(super) fn may_tell(&mut self, now: Time, peer: &Gid) -> bool {
        if self.known.contains(peer) {
            return true;
        }
        let more = now.saturating_sub(self.refilled) / REFILL;
        self.refilled += more * REFILL;
        let more = u32::try_from(more).unwrap_or(BURST);
        self.budget = self.budget.saturating_add(more).min(BURST);
        let left = self.budget.checked_sub(1);
        self.budget = left.unwrap_or(0);
        left.is_some()
    }

    /// A new request has come in the name of this peer. Whether there were few lately.
    pub(super) fn asks(&mut self, now: Time, peer: &Gid) -> bool {
        if now.saturating_sub(self.window) >= WINDOW {
            self.window = now;
            self.asked.fill(0);
        }
        let place = self.hasher.hash_one(peer) as usize % PLACES;
        let asked = &mut self.asked[place];
        *asked = asked.saturating_add(1);
        *asked <= FEW
    }
}
