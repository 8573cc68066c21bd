//! Measuring how long send requests of a queue pair take (`latency`), and what a queue pair tells
//! of its requests.

use ferroce_transport::{SendRequest, WcOpcode, WcStatus};

use super::latency::{Histogram, Latency, Posted};
use super::{LATENCY, VERBS};
use crate::error::{Error, Result};
use crate::progress::timers;
use crate::verbs::qp::{Inner, Qp};
use crate::verbs::wc::Wc;

impl Qp {
    /// Begins to measure, or begins anew.
    pub fn measure(&self) -> Result<()> {
        let hca = self.hca();
        if hca.is_inherited() {
            return Err(Error::Dead);
        }
        if self.tm.is_some() {
            let why = "latencies of a send queue that is for rendezvous";
            return Err(Error::Unsupported(why));
        }

        let inner = self.inner.lock();
        let begun = Latency::new(inner.transport.signals());
        let before = self.latency.lock().replace(Box::new(begun));
        if before.is_none() {
            hca.taps.measured(true);
        }
        Ok(())
    }

    /// What was measured so far; `None`: nobody measures.
    pub fn measured(&self) -> Option<Histogram> {
        let latency = self.latency.lock();
        latency.as_ref().map(|latency| latency.histogram.clone())
    }

    /// Measures no more; whether somebody did.
    pub fn unmeasure(&self) -> bool {
        let was = self.latency.lock().take().is_some();
        if was {
            self.hca().taps.measured(false);
        }
        was
    }

    /// A request has been posted, and somebody wants to know.
    #[cold]
    pub(crate) fn posted(&self, request: &SendRequest<'_>, signaled: bool) {
        let taps = &self.hca().taps;
        if taps.has(VERBS) {
            taps.captures.posted_send(self.number, request);
        }
        if taps.has(LATENCY)
            && let Some(latency) = &mut *self.latency.lock()
        {
            latency.posted.push_back(Posted {
                at: Some(timers::now()),
                signaled,
            });
        }
    }

    /// A request has completed, likewise.
    #[cold]
    pub(crate) fn told(&self, wc: &Wc) {
        let taps = &self.hca().taps;
        if taps.has(VERBS) {
            taps.captures.completed(wc);
        }

        let received = wc.opcode & WcOpcode::Recv as u32 != 0;
        if received || !taps.has(LATENCY) {
            return;
        }
        if let Some(latency) = &mut *self.latency.lock() {
            match wc.status == WcStatus::Success as u32 {
                true => latency.completed(timers::now()),
                false => latency.posted.clear(),
            }
        }
    }

    /// The send queue has been emptied, and nothing completes. The caller holds its lock.
    pub(crate) fn forget_posted(&self, _: &Inner) {
        if let Some(latency) = &mut *self.latency.lock() {
            latency.posted.clear();
        }
    }
}
