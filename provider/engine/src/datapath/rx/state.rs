//! What receiving knows from one run to the next.

use std::sync::Arc;

use ferroce_transport::Time;

use crate::datapath::batch;
use crate::port::Flows;
use crate::port::ring::Rings;
use crate::progress::timers;

/// The largest datagram, or run of merged datagrams.
pub(crate) const MAX_DATAGRAM: usize = 65_536;
/// How many datagrams are taken from a socket in one go.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Take {
    /// At most so many.
    AtMost(usize),
    /// As `AtMost`, but nothing after a packet that came by itself or with one other (the ACK of a
    /// message shares the send of its answer), for which somebody may be waiting: longer runs are
    /// bulk, of which several are better answered at once.
    Runs(usize),
    /// Where more has come than is taken: so many runs, but nothing after as many as `Runs` takes
    /// if the last is long.
    Backlog { most: usize, long: usize },
}

impl Take {
    /// Whether to look for more after so many datagrams, the last of them of `len` bytes in packets
    /// of `segment` (0: a single one).
    pub(super) fn goes_on(self, taken: usize, len: usize, segment: usize) -> bool {
        let is_long = segment != 0 && len > 2 * segment;
        match self {
            _ if is_long => self.has_room(taken),
            Take::AtMost(most) | Take::Backlog { most, .. } => taken < most,
            Take::Runs(_) => false,
        }
    }

    /// Whether another may be taken after so many, if the last was long.
    pub(super) fn has_room(self, taken: usize) -> bool {
        let (Take::AtMost(limit) | Take::Runs(limit) | Take::Backlog { long: limit, .. }) = self;
        taken < limit
    }
}

/// The receive side's own state, under the lock that a polling thread tries.
pub(crate) struct RxState<Q> {
    pub(super) buffer: Box<[u8]>,
    /// QPs that got packets and have yet to answer.
    pub(super) touched: Vec<Arc<Q>>,
    pub(super) flows: Flows,
    /// The inbox.
    pub(super) rings: Rings,
    /// Runs handled since the last answers, and when the last of them was begun.
    pub(super) runs: u32,
    pub(super) at: Time,
}

impl<Q> RxState<Q> {
    pub(crate) fn new() -> RxState<Q> {
        RxState {
            buffer: vec![0; MAX_DATAGRAM].into_boxed_slice(),
            touched: Vec::new(),
            flows: Flows::new(),
            rings: Rings::default(),
            runs: 0,
            at: Time::ZERO,
        }
    }

    /// A run is about to be handled. Returns the time.
    pub(super) fn begin(&mut self) -> Time {
        batch::begin();
        self.runs += 1;
        self.at = timers::now();
        self.at
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_somebody_may_wait_for_is_answered_before_a_look_for_more() {
        let go_on = |len, segment| Take::Runs(4).goes_on(1, len, segment);
        // An ACK; an answer and the ACK that came with it; the two packets of a message.
        for (len, segment) in [(20, 0), (40, 20), (56, 36), (4132, 4112), (8224, 4112)] {
            assert!(!go_on(len, segment), "{len} {segment}");
        }
        assert!(go_on(60_000, 4112));
        assert!(go_on(60, 20));
        assert!(!Take::Runs(4).goes_on(4, 60_000, 4112));
        assert!(Take::AtMost(8).goes_on(7, 20, 0));
        assert!(!Take::AtMost(8).goes_on(8, 20, 0));
        let backlog = Take::Backlog { most: 4, long: 2 };
        assert!(backlog.goes_on(3, 20, 0) && !backlog.goes_on(4, 20, 0));
        assert!(backlog.goes_on(1, 60_000, 4112) && !backlog.goes_on(2, 60_000, 4112));
    }
}
