//! Requests that nothing is sent for: memory window binds and local invalidates.
//!
//! Both are carried out before any request that was posted after them starts, and complete in their
//! turn. A bind does not wait for the answers to earlier requests (unless it is fenced): those use
//! no window of this side. An invalidate does, since a retransmission may still have to gather
//! under the key.

use crate::{Host, Qp, SendOp, WcStatus};

impl Qp {
    /// Carries out the request `seq`, the next to start in a reliable service's queue. Returns
    /// whether the queue may go on.
    pub(crate) fn start_local<H: Host>(&mut self, seq: u64, host: &mut H) -> bool {
        let Some(wqe) = self.sq.wqe(seq) else {
            return false;
        };

        if let SendOp::LocalInv(_) = wqe.op
            && seq != self.sq.base()
        {
            return false;
        }

        let outcome = carry_out(&wqe.op, host);

        // It takes no PSN and nothing of the window; one that failed is never reached by an
        // acknowledgement.
        let (at, cost) = (self.req.max, self.req.next_cost);
        if let Some(wqe) = self.sq.wqe_mut(seq) {
            (wqe.first, wqe.cost) = (at, cost);
            wqe.end = at + u64::from(outcome.is_err());
        }

        self.req.started += 1;
        if let Err(status) = outcome {
            self.set_fault(seq, status, host);
            return false;
        }

        self.req.cursor += 1;
        if seq == self.sq.base()
            && let Some(wqe) = self.sq.pop()
        {
            self.complete_send(&wqe, WcStatus::Success, host);
        }

        true
    }
}

/// Asks the host. An error is the status that the request completes with.
pub(crate) fn carry_out<H: Host>(op: &SendOp, host: &mut H) -> Result<(), WcStatus> {
    match op {
        SendOp::LocalInv(key) => host
            .invalidate_local(*key)
            .map_err(|_| WcStatus::LocQpOpErr),
        SendOp::BindMw(bind) => host.bind_window(bind).map_err(|_| WcStatus::MwBindErr),
        _ => Ok(()),
    }
}
