//! What peers began and nobody has finished: how much of it there is, and what goes when there is
//! too much.
//!
//! Nobody who asks for a connection has shown that he is where he says. So what such requests take
//! is bounded for each peer, for each listener and in all, and one that waits makes room for the
//! newest: the oldest of the peer that has the most. An honest peer needs a few places for as long
//! as its listener takes to look at what came before; a flood wants to keep many. What has gone so
//! is gone at once: its owner is told, and every call about it fails as for an ID that there is
//! not.

use super::limits::Limits;
use super::types::CmId;
use ferroce_wire::mad::Gid;
use std::cmp::Reverse;
use std::collections::{BTreeSet, HashMap};

/// The peer that began something, and the listener that it is for.
pub(super) type Ends = (Gid, CmId);

/// Requests and questions without an end.
#[derive(Default)]
pub(super) struct HalfOpen {
    all: Crowd,
    by_listener: HashMap<CmId, Crowd>,
}

impl HalfOpen {
    pub(super) fn insert(&mut self, id: CmId, (peer, listener): Ends) {
        self.all.insert(id, peer);
        let theirs = self.by_listener.entry(listener).or_default();
        theirs.insert(id, peer);
    }

    pub(super) fn remove(&mut self, id: CmId, (peer, listener): Ends) {
        self.all.remove(id, peer);
        if let Some(theirs) = self.by_listener.get_mut(&listener) {
            theirs.remove(id, peer);
            if theirs.len == 0 {
                self.by_listener.remove(&listener);
            }
        }
    }

    /// The one that has to go before another of these ends may come; the narrowest bound first, so
    /// that who floods pays.
    pub(super) fn surplus(&self, (peer, listener): Ends, limits: &Limits) -> Option<CmId> {
        let own = self.all.by_peer.get(&peer);
        let own = own.filter(|ids| ids.len() >= limits.half_open_of_peer);
        if let Some(ids) = own {
            return ids.first().copied();
        }
        let theirs = self.by_listener.get(&listener);
        theirs
            .filter(|crowd| crowd.len >= limits.half_open_of_listener)
            .or_else(|| Some(&self.all).filter(|all| all.len >= limits.half_open))?
            .oldest_of_most()
    }
}

/// Those of one listener, or all. IDs are given out in order, so the least is the oldest.
#[derive(Default)]
struct Crowd {
    by_peer: HashMap<Gid, BTreeSet<CmId>>,
    /// The peers by how many they have; of those with as many, the one with the oldest is the last.
    ranks: BTreeSet<(usize, Reverse<CmId>, Gid)>,
    len: usize,
}

impl Crowd {
    fn insert(&mut self, id: CmId, peer: Gid) {
        self.change(peer, |ids| ids.insert(id));
    }

    fn remove(&mut self, id: CmId, peer: Gid) {
        self.change(peer, |ids| ids.remove(&id));
    }

    fn change(&mut self, peer: Gid, change: impl FnOnce(&mut BTreeSet<CmId>) -> bool) {
        let rank = |ids: &BTreeSet<CmId>| Some((ids.len(), Reverse(*ids.first()?), peer));
        let ids = self.by_peer.entry(peer).or_default();
        if let Some(rank) = rank(ids) {
            self.ranks.remove(&rank);
        }
        self.len -= ids.len();
        change(ids);
        self.len += ids.len();
        match rank(ids) {
            Some(rank) => drop(self.ranks.insert(rank)),
            None => drop(self.by_peer.remove(&peer)),
        }
    }

    fn oldest_of_most(&self) -> Option<CmId> {
        let (_, Reverse(oldest), _) = self.ranks.last()?;
        Some(*oldest)
    }
}
