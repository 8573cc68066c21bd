//! The rings that lead from this process to others, one to a slot, whatever paths use it.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};

use ferroce_control::{ControlError, InboxFds};
use parking_lot::Mutex;

use super::RingSender;

#[derive(Default)]
pub(crate) struct Ways {
    rings: Mutex<HashMap<u8, Weak<RingSender>>>,
    /// Some of them have memory that may be given back.
    hold: Arc<AtomicBool>,
}

impl Ways {
    /// The ring to a slot, from `own_slot`; `inbox` asks for the other's inbox if it is not known.
    /// `None`: nobody has the slot.
    pub(crate) fn to(
        &self,
        slot: u8,
        own_slot: u8,
        inbox: impl FnOnce() -> Result<InboxFds, ControlError>,
    ) -> Option<Arc<RingSender>> {
        let mut rings = self.rings.lock();
        rings.retain(|_, ring| ring.strong_count() != 0);
        let known = rings.get(&slot).and_then(Weak::upgrade);
        if let Some(ring) = known.filter(|ring| !ring.is_closed()) {
            return Some(ring);
        }
        let opened = inbox().and_then(|inbox| RingSender::open(inbox, own_slot, self.hold.clone()));
        let ring = Arc::new(opened.ok()?);
        rings.insert(slot, Arc::downgrade(&ring));
        Some(ring)
    }

    /// Whether rings may have memory that can be given back.
    pub(crate) fn hold(&self) -> bool {
        self.hold.load(Ordering::Relaxed)
    }

    /// Has rings that were not used since the last call give their memory back.
    pub(crate) fn give_back(&self) {
        if !self.hold() {
            return;
        }
        // A path is being opened: next time.
        let Some(rings) = self.rings.try_lock() else {
            return;
        };
        self.hold.store(false, Ordering::Relaxed);
        let open = rings.values().filter_map(Weak::upgrade);
        let left = open.filter(|ring| ring.give_back()).count();
        if left != 0 {
            self.hold.store(true, Ordering::Relaxed);
        }
    }
}
