//! Small requests that nobody acknowledges and that wait for company ([`held`]): who has some, and
//! when they go.
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
        inner.held.requests > 0 && self.is_unreliable()
    }

    /// It was on the list. Returns whether something was sent.
    fn send_what_waits(&self, keys: &KeyTable, now: Time) -> bool {
        let mut inner = self.inner.lock();
        inner.waiting = false;
        let holds = self.holds(&inner);
        if holds {
            self.pump(&mut inner, keys, now, false);
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
        let mut sent = false;
        // Those that there are now: others may go on posting.
        for _ in 0..self.waiting.len() {
            let listed = self.waiting.pop().and_then(|index| qps.find(index));
            if let Some(qp) = listed {
                sent |= qp.send_what_waits(&keys, now);
            }
        }
        sent
    }
}
