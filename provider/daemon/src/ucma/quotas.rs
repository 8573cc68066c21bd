//! How many of the ids requests of peers may take, so that one peer's leave room for the others'
//! and for what programs begin.

use std::collections::HashMap;

use super::addr::Gid;
use super::table::MAX_IDS;

/// With so many ids requests of peers wait, but for those of peers that have few: the others are
/// for what programs begin.
pub(super) const MAX_REQUESTED: usize = MAX_IDS / 2;
/// With so many all wait.
const MAX_OF_FEW: usize = MAX_REQUESTED + MAX_IDS / 8;
/// What is few. An id stays as long as its program has not destroyed it, also when its connection
/// has gone, so a flood at a slow program takes more of them than there can be connections.
const FEW: u32 = 64;

/// How many ids have come of each peer's requests.
#[derive(Debug, Default)]
pub(super) struct Quotas {
    by_peer: HashMap<Gid, u32>,
}

impl Quotas {
    /// Whether one more of the peer's may come, with so many ids in all.
    pub(super) fn has_room(&self, peer: &Gid, ids: usize) -> bool {
        let own = || self.by_peer.get(peer).copied().unwrap_or(0);
        ids < MAX_REQUESTED || ids < MAX_OF_FEW && own() < FEW
    }

    pub(super) fn enter(&mut self, peer: Gid) {
        *self.by_peer.entry(peer).or_insert(0) += 1;
    }

    /// An id has gone; `None`: it came of no request.
    pub(super) fn leave(&mut self, peer: Option<Gid>) {
        let Some(peer) = peer else { return };
        let Some(own) = self.by_peer.get_mut(&peer) else {
            return;
        };
        *own -= 1;
        if *own == 0 {
            self.by_peer.remove(&peer);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn peers_with_few_ids_find_room_beside_one_that_has_taken_all() {
        let (flooder, other) = ([1; 16], [2; 16]);
        let mut quotas = Quotas::default();
        for ids in 0..MAX_REQUESTED {
            assert!(quotas.has_room(&flooder, ids));
            quotas.enter(flooder);
        }

        assert!(!quotas.has_room(&flooder, MAX_REQUESTED));
        for ids in MAX_REQUESTED..MAX_REQUESTED + FEW as usize {
            assert!(quotas.has_room(&other, ids));
            quotas.enter(other);
        }

        // Few they have to be, and not too many peers.
        assert!(!quotas.has_room(&other, MAX_REQUESTED + FEW as usize));
        assert!(quotas.has_room(&[3; 16], MAX_OF_FEW - 1));
        assert!(!quotas.has_room(&[3; 16], MAX_OF_FEW));

        // What programs begin finds room all the same.
        const { assert!(MAX_OF_FEW < MAX_IDS) };
    }

    #[test]
    fn who_has_no_ids_left_is_forgotten() {
        let mut quotas = Quotas::default();
        quotas.enter([1; 16]);
        quotas.leave(None);
        quotas.leave(Some([2; 16]));
        quotas.leave(Some([1; 16]));
        assert!(quotas.by_peer.is_empty());
    }
}
