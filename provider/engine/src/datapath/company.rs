//! Small requests that wait for company ([`held`]) though no acknowledgement will send them: who has
//! some, and when they go. They are those that nobody acknowledges, and those of queue pairs that
//! have nothing on their way while others of their path have, where the program polls: what all of
//! them have posted until it finds nothing shares sends.
//!
//! They go when as many have come as a send takes, when the program finds a completion queue empty
//! or asks for its next event, before anything that they depend on changes or ends, and after
//! [`COMPANY_WAIT`] by the timer.
//!
//! [`held`]: crate::datapath::held

use std::sync::atomic::{AtomicU32, Ordering};

use ferroce_transport::Time;

use crate::datapath::held::Held;
use crate::hca::Hca;
use crate::memory::keys::KeyTable;
use crate::progress::timers;
use crate::tuning::{BURST, COMPANY_WAIT, MAX_BURST};
use crate::verbs::qp::{Inner, Qp};

impl Qp {
    /// Has requests wait that were posted. `held`: all that wait now.
    pub(crate) fn hold(&self, inner: &mut Inner, held: Held, now: Time) {
        if !self.holds(inner) {
            inner.resume_at = inner.resume_at.min(now + COMPANY_WAIT);
            self.arm(inner);
        }
        inner.held = held;
        if !inner.waiting {
            inner.waiting = true;
            self.hca().waiting.push(self.qp_num() as u16);
        }
    }

    /// Whether requests wait that no acknowledgement will send.
    pub(super) fn holds(&self, inner: &Inner) -> bool {
        inner.held.requests > 0 && (inner.waiting || self.is_unreliable())
    }

    /// It was on the list. Returns whether something was sent.
    fn send_what_waits(&self, inner: &mut Inner, keys: &KeyTable, now: Time) -> bool {
        let holds = self.holds(inner);
        inner.waiting = false;
        if holds {
            self.pump(inner, keys, now, false);
        }
        holds
    }
}

/// Whether requests that are acknowledged wait for those of other queue pairs. They are sent when
/// the program polls, so one that computes after posting has them wait in vain, for
/// [`COMPANY_WAIT`]: then the next do not.
#[derive(Default)]
pub(crate) struct Company {
    /// Posts that do not wait.
    skipped: AtomicU32,
    /// How many they were the last time.
    step: AtomicU32,
}

impl Company {
    /// Whether one that is posted may wait. Counts are approximate on purpose.
    pub(crate) fn may_wait(&self) -> bool {
        let left = self.skipped.load(Ordering::Relaxed);
        if left > 0 {
            self.skipped.store(left - 1, Ordering::Relaxed);
        }
        left == 0
    }

    /// The timer had to send what waited.
    pub(crate) fn in_vain(&self) {
        let step = self.step.load(Ordering::Relaxed);
        let step = (2 * step).clamp(BURST, MAX_BURST);
        self.step.store(step, Ordering::Relaxed);
        self.skipped.store(step, Ordering::Relaxed);
    }

    /// The program has polled, and sent what waited.
    fn paid(&self) {
        let step = self.step.load(Ordering::Relaxed);
        if step > 0 {
            self.step.store(step / 2, Ordering::Relaxed);
        }
    }
}

impl Hca {
    /// Sends what waits for company. The caller holds no queue pair. Returns whether something was
    /// sent.
    #[inline]
    pub(crate) fn send_what_waits(&self) -> bool {
        self.waiting.any() && self.alive() && self.send_all_that_waits()
    }

    #[cold]
    fn send_all_that_waits(&self) -> bool {
        let qps = self.qps.read();
        let keys = self.keys.read();
        let now = timers::now();
        // Those that there are now: others may go on posting.
        let listed: Vec<_> = (0..self.waiting.len())
            .map_while(|_| self.waiting.pop())
            .filter_map(|index| qps.find(index))
            .collect();
        let mut sent = false;
        self.visit(listed, |qp, inner| {
            sent |= qp.send_what_waits(inner, &keys, now);
        });
        if sent {
            self.company.paid();
        }
        sent
    }
}
