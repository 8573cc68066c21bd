//! The rings that lead from this process to others, one to a slot, whatever paths use it.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use ferroce_control::{ControlError, InboxFds};
use parking_lot::Mutex;

use super::RingSender;

#[derive(Default)]
pub(crate) struct Ways {
    /// One stays for a moment when no path has it any more: to ask for the other's inbox takes a
    /// round trip to the daemon, which who connects anew to the same process shall not wait for.
    rings: Mutex<HashMap<u8, Arc<RingSender>>>,
    /// Some of them have memory that may be given back, or may be given up.
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
        rings.retain(|_, ring| !ring.is_closed());
        if let Some(ring) = rings.get(&slot) {
            return Some(ring.clone());
        }
        let opened = inbox().and_then(|inbox| RingSender::open(inbox, own_slot, self.hold.clone()));
        let ring = Arc::new(opened.ok()?);
        rings.insert(slot, ring.clone());
        Some(ring)
    }

    /// Whether rings may have memory that can be given back, or be given up.
    pub(crate) fn hold(&self) -> bool {
        self.hold.load(Ordering::Relaxed)
    }

    /// Has rings that were not used since the last call give their memory back, and those of them
    /// that no path has end.
    pub(crate) fn give_back(&self) {
        if !self.hold() {
            return;
        }
        // A path is being opened: next time.
        let Some(mut rings) = self.rings.try_lock() else {
            return;
        };
        self.hold.store(false, Ordering::Relaxed);
        let mut left = false;
        rings.retain(|_, ring| {
            let may_have = ring.give_back();
            left |= may_have;
            may_have || Arc::strong_count(ring) > 1
        });
        if left {
            self.hold.store(true, Ordering::Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// How often an inbox was asked for.
    struct Asked(u32);

    impl Asked {
        fn to(&mut self, ways: &Ways, fds: &InboxFds) -> Arc<RingSender> {
            let ring = ways.to(3, 4, || {
                self.0 += 1;
                Ok(fds.duplicate().unwrap())
            });
            ring.unwrap()
        }
    }

    #[test]
    fn a_ring_stays_for_who_comes_again_soon() {
        let fds = InboxFds::create().unwrap();
        let (ways, mut asked) = (Ways::default(), Asked(0));

        let ring = asked.to(&ways, &fds);
        assert!(Arc::ptr_eq(&ring, &asked.to(&ways, &fds)));
        drop(ring);
        drop(asked.to(&ways, &fds));
        // Used since the last look, which was none.
        ways.give_back();
        let ring = asked.to(&ways, &fds);
        assert_eq!(asked.0, 1);

        // It has given its memory back, and stays with who has it.
        for _ in 0..3 {
            ways.give_back();
        }
        assert!(!ways.hold());
        assert!(Arc::ptr_eq(&ring, &asked.to(&ways, &fds)));
        assert_eq!(asked.0, 1);

        ring.leave();
        drop(ring);
        assert!(ways.hold());
        ways.give_back();
        assert!(!ways.hold());
        drop(asked.to(&ways, &fds));
        assert_eq!(asked.0, 2);

        // The other process has gone.
        fds.close().unwrap();
        drop(asked.to(&ways, &fds));
        assert_eq!(asked.0, 3);
    }
}
