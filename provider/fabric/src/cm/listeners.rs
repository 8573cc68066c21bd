//! Who takes requests for which service ID.

use super::types::CmId;
use std::collections::HashMap;

/// The listeners, of which no two take the same service ID.
#[derive(Default)]
pub(super) struct Listeners {
    /// For one service ID each.
    exact: HashMap<u64, CmId>,
    /// For several: service ID, mask, listener. Few.
    masked: Vec<(u64, u64, CmId)>,
    /// Service ID and mask of each.
    all: HashMap<CmId, (u64, u64)>,
}

impl Listeners {
    pub(super) fn len(&self) -> usize {
        self.all.len()
    }

    pub(super) fn contains(&self, id: CmId) -> bool {
        self.all.contains_key(&id)
    }

    /// Is there a service ID for which somebody listens already?
    pub(super) fn overlap(&self, service_id: u64, mask: u64) -> bool {
        if mask == !0 {
            return self.find(service_id).is_some();
        }
        self.all
            .values()
            .any(|(other, other_mask)| (service_id ^ other) & mask & other_mask == 0)
    }

    pub(super) fn insert(&mut self, id: CmId, service_id: u64, mask: u64) {
        self.all.insert(id, (service_id, mask));
        if mask == !0 {
            self.exact.insert(service_id, id);
        } else {
            self.masked.push((service_id, mask, id));
        }
    }

    /// `false` if it is none of these.
    pub(super) fn remove(&mut self, id: CmId) -> bool {
        let Some((service_id, mask)) = self.all.remove(&id) else {
            return false;
        };
        if mask == !0 {
            self.exact.remove(&service_id);
        } else {
            self.masked.retain(|(_, _, other)| *other != id);
        }
        true
    }

    /// Who listens there?
    pub(super) fn find(&self, service_id: u64) -> Option<CmId> {
        self.exact.get(&service_id).copied().or_else(|| {
            self.masked
                .iter()
                .find(|(other, mask, _)| (service_id ^ other) & mask == 0)
                .map(|(_, _, id)| *id)
        })
    }
}
