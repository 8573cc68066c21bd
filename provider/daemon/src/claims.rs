//! Which client has which slot, and what goes with it.

use std::collections::{BTreeMap, HashSet};

use ferroce_control::objects::ObjectTable;
use ferroce_control::{CounterPage, InboxFds};

use crate::lent::Lent;

/// What a client has claimed.
#[derive(Debug)]
pub(crate) struct Claimed {
    /// The client's process, 0 if it is in a namespace that this one does not see.
    pub(crate) pid: u32,
    /// The client's user.
    pub(crate) uid: u32,
    /// Its counters.
    pub(crate) counters: CounterPage,
    /// Its objects, as it says.
    pub(crate) objects: ObjectTable,
    /// Where other clients put packets for it.
    pub(crate) inbox: InboxFds,
    /// The groups of which it has the slot's socket, by index.
    pub(crate) groups: HashSet<usize>,
    /// The sockets of this network that it has besides.
    pub(crate) lent: Lent,
}

/// What all clients have claimed, by slot.
#[derive(Debug, Default)]
pub(crate) struct Claims(BTreeMap<u8, Claimed>);

impl Claims {
    /// Whether nobody has a slot.
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// All of them.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (u8, &Claimed)> {
        self.0.iter().map(|(slot, claimed)| (*slot, claimed))
    }

    /// What the client of a slot has claimed.
    pub(crate) fn of(&self, slot: u8) -> Option<&Claimed> {
        self.0.get(&slot)
    }

    /// The same, to be changed.
    pub(crate) fn of_mut(&mut self, slot: u8) -> Option<&mut Claimed> {
        self.0.get_mut(&slot)
    }

    /// A client has claimed a slot.
    pub(crate) fn insert(&mut self, slot: u8, claimed: Claimed) {
        self.0.insert(slot, claimed);
    }

    /// Its client has gone.
    pub(crate) fn remove(&mut self, slot: u8) -> Option<Claimed> {
        self.0.remove(&slot)
    }

    /// Whether a queue pair of some client has heard of its peer, as the client's engine says.
    pub(crate) fn heard(&self, qp: u32) -> bool {
        let claimed = self.of((qp >> 16) as u8);
        claimed.is_some_and(|claimed| claimed.objects.heard(qp as u16))
    }

    /// Has the memory given back through which a slot's last owner sent to the other clients.
    pub(crate) fn reclaim_rings(&self, slot: u8) {
        for claimed in self.0.values() {
            if let Err(error) = claimed.inbox.reclaim(slot) {
                tracing::warn!(%error, slot, "a ring keeps its memory");
            }
        }
    }
}
