//! Completions with which a queue pair fails.

use ferroce_control::faults::Direction;
use ferroce_transport::{Completion, WcStatus};

use crate::datapath::qp_host::QpHost;

/// Why a queue pair fails with a completion.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Failure {
    /// It had no room.
    Overrun,
    /// A fault has made it an error.
    Spoilt,
}

impl QpHost<'_> {
    /// Whether the queue pair is to fail after the visit.
    #[inline]
    pub(crate) fn failure(&self) -> Option<Failure> {
        match (self.overrun, self.spoilt) {
            (false, false) => None,
            (true, _) => Some(Failure::Overrun),
            (false, true) => Some(Failure::Spoilt),
        }
    }

    /// What faults make of a completion. Those behind an error are flushed.
    #[cold]
    pub(super) fn spoil(&mut self, completion: &mut Completion, direction: Direction) {
        if !self.spoilt {
            let hca = self.qp.hca();
            let qp = (self.qp.qp_num(), self.qp.ordinal);
            let faults = &hca.taps.faults;
            self.spoilt = faults.spoil(qp, completion, direction, hca.counters());
        } else if completion.status == WcStatus::Success {
            completion.status = WcStatus::WrFlushErr;
        }
    }
}
