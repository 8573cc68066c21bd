//! Small requests that wait for company ([`held`]) though no acknowledgement will send them: who
//! has some, and when they go. They are those that nobody acknowledges, and those of queue pairs
//! that have nothing on their way while others of their path have, where the program polls: what
//! all of them have posted until it finds nothing shares sends.
//!
//! They go when as many have come as a send takes, when the program finds a completion queue empty
//! or asks for its next event, before anything that they depend on changes or ends, and after
//! [`COMPANY_WAIT`] by the timer.
//!
//! [`held`]: crate::datapath::held

use ferroce_transport::Time;

use crate::datapath::held::Held;
use crate::hca::Hca;
use crate::memory::keys::KeyTable;
use crate::progress::timers;
use crate::tuning::COMPANY_WAIT;
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
        let listed = (0..self.waiting.len())
            .map_while(|_| self.waiting.pop())
            .filter_map(|index| qps.find(index));
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
