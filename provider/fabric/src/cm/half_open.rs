//! What peers began and nobody has finished: how much of it there is, and what goes when there is too much.
//!
//! Nobody who asks for a connection has shown that he is where he says. So what such requests take is bounded for each peer, for each listener
//! and in all, and the oldest makes room for the newest: an honest peer needs its place for as long as a message takes to come back, a
//! flood wants to keep it. What has gone so is gone at once: its owner is told, and every call about it fails as for an ID that there is not.

use super::Limits;
use super::types::CmId;
use ferroce_wire::mad::Gid;
use std::collections::{BTreeSet, HashMap};

/// The peer that began something, and the listener that it is for.
pub(super) type Ends = (Gid, CmId);

/// Requests and questions without an end, by age: IDs are given out in order.
#[derive(Default)]
pub(super) struct HalfOpen {
    all: BTreeSet<CmId>,
    by_peer: HashMap<Gid, BTreeSet<CmId>>,
    by_listener: HashMap<CmId, BTreeSet<CmId>>,
}

impl HalfOpen {
    pub(super) fn insert(&mut self, id: CmId, (peer, listener): Ends) {
        self.all.insert(id);
        self.by_peer.entry(peer).or_default().insert(id);
        self.by_listener.entry(listener).or_default().insert(id);
    }

    pub(super) fn remove(&mut self, id: CmId, (peer, listener): Ends) {
        self.all.remove(&id);
        if let Some(theirs) = self.by_peer.get_mut(&peer) {
            theirs.remove(&id);
            if theirs.is_empty() {
                self.by_peer.remove(&peer);
            }
        }
        if let Some(theirs) = self.by_listener.get_mut(&listener) {
            theirs.remove(&id);
            if theirs.is_empty() {
                self.by_listener.remove(&listener);
            }
        }
    }

    /// The one that has to go before another of these ends may come; the narrowest bound first, so that who floods pays.
    pub(super) fn surplus(&self, (peer, listener): Ends, limits: &Limits) -> Option<CmId> {
        let oldest = |ids: Option<&BTreeSet<CmId>>, limit: usize| {
            ids.filter(|ids| ids.len() >= limit)?.first().copied()
        };
        oldest(self.by_peer.get(&peer), limits.half_open_of_peer)
            .or_else(|| {
                oldest(
                    self.by_listener.get(&listener),
                    limits.half_open_of_listener,
                )
            })
            .or_else(|| oldest(Some(&self.all), limits.half_open))
    }
}
