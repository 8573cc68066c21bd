//! Small packets of several queue pairs of a path share a send, where they are visited in a row.
//!
//! What a visit has left is in the thread's arena, and the queue pair stays locked until it has
//! been sent: otherwise another thread might have the queue pair send what comes after it, and that
//! would come first.

use std::sync::Arc;

use ferroce_control::CounterPage;
use ferroce_wire::pkey;

use super::leaving::count_run;
use super::scratch::SCRATCH;
use super::{Run, Source, Way};
use crate::datapath::path::Path;
use crate::instrument::{CAPTURE, FAULTS};
use crate::port::Outgoing;
use crate::tuning::{SHARED_BYTES, SHARED_PACKETS};

/// What queue pairs have left for those that are visited after them.
#[derive(Default)]
pub(super) struct Shared {
    under_way: bool,
    left: Option<Left>,
}

/// A run, from the beginning of the arena on, that more packets may join.
struct Left {
    path: Arc<Path>,
    bytes: usize,
    segments: usize,
    segment: usize,
    /// All of it are requests; or else responses.
    requests: bool,
}

/// While there is one, queue pairs that this thread visits may leave small packets for those that
/// it visits next. Whoever has one keeps them locked as long as something [`is
/// left`](Self::is_left).
pub(crate) struct Together(());

impl Together {
    /// From now on. A thread whose storage is gone shares nothing.
    pub(crate) fn begin() -> Together {
        let _ = SCRATCH.try_with(|s| s.borrow_mut().shared.under_way = true);
        Together(())
    }

    /// Whether packets wait that were left.
    pub(crate) fn is_left(&self) -> bool {
        SCRATCH.try_with(|s| s.borrow().shared.left.is_some()) == Ok(true)
    }

    /// Sends what was left.
    pub(crate) fn send(&self, counters: &CounterPage) {
        let _ = SCRATCH.try_with(|s| {
            let mut s = s.borrow_mut();
            if let Some(left) = s.shared.left.take() {
                left.send(&mut s.arena, counters);
            }
        });
    }

    /// No more is to be left.
    pub(crate) fn end(self, counters: &CounterPage) {
        self.send(counters);
        let _ = SCRATCH.try_with(|s| s.borrow_mut().shared.under_way = false);
    }
}

impl Left {
    /// Sends it by itself. Each queue pair has counted its own packets.
    fn send(self, arena: &mut [u8], counters: &CounterPage) {
        let mut iov = [libc::iovec {
            iov_base: arena.as_mut_ptr().cast(),
            iov_len: self.bytes,
        }];
        let segment = (self.segments > 1).then_some(self.segment as u16);
        let sent = self.path.exit.send(&mut iov, segment).is_ok();
        count_run(counters, &self.path, sent, self.segments, self.bytes);
    }
}

impl Run<'_> {
    /// Takes up what other queue pairs have left on the same path; what was left on another is
    /// sent.
    pub(super) fn join(&mut self) {
        let Some(left) = self.scratch.shared.left.take() else {
            return;
        };
        let here = self.path_to_share();
        if !here.is_some_and(|path| Arc::ptr_eq(path, &left.path)) {
            return left.send(&mut self.scratch.arena, self.source.counters);
        }

        (self.used, self.bytes) = (left.bytes, left.bytes);
        (self.segments, self.segment) = (left.segments, left.segment);
        (self.requests, self.responses) = (left.requests, !left.requests);
        self.others = (left.segments, left.bytes);
    }

    /// The path of a queue pair whose packets may go with others'. Those that are paced or looked
    /// at go by themselves, and those without a partition nowhere.
    fn path_to_share(&self) -> Option<&Arc<Path>> {
        let source = &self.source;
        match &self.way {
            Way::Path(path)
                if !source.paced
                    && !source.taps.has(FAULTS | CAPTURE)
                    && pkey::is_valid(source.p_key) =>
            {
                Some(path)
            }
            _ => None,
        }
    }

    /// Leaves a run of small packets, all of it in the arena, for who is visited next. `false`: it
    /// is to be sent.
    pub(super) fn leave(&mut self) -> bool {
        let may = self.scratch.shared.under_way
            && self.open == 0
            && !self.closed
            && self.requests != self.responses
            && !self.stretched
            && (1..SHARED_PACKETS).contains(&self.segments)
            && self.bytes <= SHARED_BYTES;
        let Some(path) = self.path_to_share().filter(|_| may).cloned() else {
            return false;
        };

        let (packets, bytes) = (self.segments - self.others.0, self.bytes - self.others.1);
        if packets > 0 {
            path.congestion.sent(bytes);
            let Source { row, now, .. } = self.source;
            row.sent(packets as u64, bytes as u64, now.as_nanos());
        }
        self.scratch.shared.left = Some(Left {
            path,
            bytes: self.bytes,
            segments: self.segments,
            segment: self.segment,
            requests: self.requests,
        });
        true
    }
}
