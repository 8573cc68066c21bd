//! Traps (section 14.2.5.1): what a port has to tell the subnet manager.
//!
//! A trap is repeated until the subnet manager says that it has heard it (TrapRepress), but not for
//! ever; a port sends no two traps within its SubnetTimeOut (o14-2). There is room for a few; the
//! same thing is told once, however often it happens meanwhile.

use crate::cm::Time;
use ferroce_wire::smp::{CapabilityChange, Notice};
use std::time::Duration;

/// Traps that wait at a port at most; what comes then is not told.
const ROOM: usize = 8;
/// Times that a trap is sent.
const SENDS: u32 = 10;

/// Traps of a port that have not been heard yet.
#[derive(Debug, Default)]
pub(super) struct Traps {
    waiting: Vec<Waiting>,
    /// No trap before.
    not_before: Time,
}

#[derive(Debug)]
struct Waiting {
    notice: Notice,
    /// That of its first transmission, and of all others (o13-5).
    tid: u64,
    sent: u32,
}

impl Traps {
    pub(super) fn push(&mut self, notice: Notice, tid: u64) {
        // A later change of the capabilities says all that an earlier one did.
        let same = |other: &Waiting| match (&other.notice, &notice) {
            (Notice::CapabilityChange(_), Notice::CapabilityChange(_)) => true,
            (other, notice) => other == notice,
        };

        if let Some(waiting) = self.waiting.iter_mut().find(|waiting| same(waiting)) {
            if let (Notice::CapabilityChange(old), Notice::CapabilityChange(new)) =
                (&waiting.notice, notice)
            {
                waiting.notice = Notice::CapabilityChange(CapabilityChange {
                    node_description: old.node_description | new.node_description,
                    ..new
                });
                waiting.sent = 0;
            }
        } else if self.waiting.len() < ROOM {
            self.waiting.push(Waiting {
                notice,
                tid,
                sent: 0,
            });
        }
    }

    /// The subnet manager has heard this one.
    pub(super) fn repress(&mut self, tid: u64) {
        self.waiting.retain(|waiting| waiting.tid != tid);
    }

    /// Whoever heard them is gone with the link.
    pub(super) fn clear(&mut self) {
        self.waiting.clear();
    }

    pub(super) fn due(&self) -> Option<Time> {
        (!self.waiting.is_empty()).then_some(self.not_before)
    }

    /// The next trap to send, if it is time.
    pub(super) fn next(&mut self, now: Time, interval: Duration) -> Option<(Notice, u64)> {
        if self.waiting.is_empty() || now < self.not_before {
            return None;
        }
        self.not_before = now + interval;
        let mut next = self.waiting.remove(0);
        let trap = (next.notice, next.tid);
        next.sent += 1;
        if next.sent < SENDS {
            self.waiting.push(next);
        }
        Some(trap)
    }
}
