//! What the daemon is composed of.

use std::time::Instant;

/// A part of the daemon that waits for something of its own. The loop asks each part when it wants
/// to be called, calls it when that time has come or one of its descriptors is ready, and stays
/// while programs use one. What a part is lent for a call says what else it sees of the daemon.
pub(crate) trait Service {
    /// When there is something to do even if no descriptor is ready.
    fn next_timeout(&self) -> Option<Instant>;

    /// Whether programs use it.
    fn is_used(&self) -> bool {
        false
    }

    /// Whether somebody is there who may be about to use it.
    fn is_about_to_be(&self) -> bool {
        false
    }

    /// Whether that time has come.
    fn is_due(&self, now: Instant) -> bool {
        self.next_timeout().is_some_and(|at| at <= now)
    }
}
