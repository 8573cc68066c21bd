//! When the peer is told that its packets came with marks of congestion.

use crate::Time;
use crate::tuning::CNP_INTERVAL;

/// What is owed to the peer.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Notification {
    owed: bool,
    /// No CNP goes out before.
    not_before: Time,
}

impl Notification {
    /// A packet came marked.
    pub(crate) fn mark(&mut self, now: Time) {
        if now >= self.not_before {
            self.owed = true;
            self.not_before = now + CNP_INTERVAL;
        }
    }

    /// Whether a CNP is to go out.
    pub(crate) fn is_owed(&self) -> bool {
        self.owed
    }

    /// It goes out, or nobody is there for it any more.
    pub(crate) fn settle(&mut self) {
        self.owed = false;
    }
}
