//! The way to one destination: where its packets leave, and the congestion window of all queue
//! pairs that use it.
//!
//! A path leads to one slot of one host, or to a group.

use std::sync::{Arc, OnceLock};

use ferroce_control::CongestionControl;

use crate::datapath::congestion::Congestion;
use crate::port::address::PathKey;
use crate::port::{Exit, Outgoing};
use crate::progress::timers::Alarmed;

pub(crate) struct Path {
    /// The slot of the lane that it is of.
    pub(crate) from: u8,
    pub(crate) key: PathKey,
    pub(crate) exit: Exit,
    pub(crate) congestion: Congestion,
    /// It leads to a group.
    pub(crate) multicast: bool,
    /// Who looks after its turns, once somebody has waited for one.
    pub(crate) overseer: OnceLock<Arc<dyn Alarmed>>,
}

impl Path {
    pub(crate) fn new(from: u8, key: PathKey, exit: Exit, control: CongestionControl) -> Path {
        Path {
            from,
            key,
            congestion: Congestion::new(control, exit.window()),
            exit,
            multicast: key.is_multicast(),
            overseer: OnceLock::new(),
        }
    }

    /// Whether it leads to a process that has gone. Its slot may be another's, to whom there is a
    /// new path.
    pub(crate) fn is_stale(&self) -> bool {
        self.exit.is_stale()
    }
}
