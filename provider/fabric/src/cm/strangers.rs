//! What is known of peers: who has answered a message of ours, and how much is asked for in whose
//! name.
//!
//! A source address proves nothing. It does once somebody there has named a communication ID of
//! ours, which is random and was sent there, or has sent what only the peer of a queue pair of ours
//! can send. Before, each message to that address answers one from there and nothing is repeated by
//! the clock, else we could be had to flood it.

use super::conn::Conn;
use super::types::{State, Time};
use ferroce_wire::mad::Gid;
use std::collections::{HashSet, VecDeque};
use std::hash::{BuildHasher, RandomState};
use std::time::Duration;

/// How many peers are remembered that have answered.
const KNOWN: usize = 1 << 14;
/// Requests in the names of peers are counted in so many places, for so long at a time. Peers that
/// share one share the count.
const PLACES: usize = 1 << 12;
const WINDOW: Duration = Duration::from_secs(10);
/// With more new requests than this in a window, a peer is not asked whether it has forgotten its
/// connections: whoever tries numbers of QPs in its name shall not have us ask for each that he
/// finds.
const FEW: u32 = 100;

/// What is known of peers.
pub(super) struct Strangers {
    known: HashSet<Gid>,
    order: VecDeque<Gid>,
    asked: Box<[u32]>,
    window: Time,
    hasher: RandomState,
}

impl Strangers {
    pub(super) fn new() -> Strangers {
        Strangers {
            known: HashSet::new(),
            order: VecDeque::new(),
            asked: vec![0; PLACES].into_boxed_slice(),
            window: Time::ZERO,
            hasher: RandomState::new(),
        }
    }

    /// Somebody there has shown that what we send arrives.
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

    /// Whether the peer of a connection may be sent what it did not ask for just now: not, if our
    /// REP is all that it can have of us and nobody there has shown that it arrived.
    pub(super) fn may_tell(&self, conn: &Conn) -> bool {
        conn.state != State::ReplySent || self.known.contains(&conn.to.remote_gid)
    }

    /// A new request has come in the name of this peer. Whether there were few lately.
    pub(super) fn asks(&mut self, now: Time, peer: &Gid) -> bool {
        if now - self.window >= WINDOW {
            self.window = now;
            self.asked.fill(0);
        }
        let place = self.hasher.hash_one(peer) as usize % PLACES;
        let asked = &mut self.asked[place];
        *asked = asked.saturating_add(1);
        *asked <= FEW
    }
}
