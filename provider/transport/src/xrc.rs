//! What sets extended reliable connections apart: requests name a shared receive queue of the
//! peer's.
//!
//! The initiator is a requester without a receive queue, the target a responder without a send
//! queue; everything else about them is as with RC. The opcodes are RC's, 0xa0 on.

use crate::responder::{ACCESS, INVALID, Incoming, Refusal};
use crate::{Host, Qp};

impl Qp {
    /// Lets the host know which shared receive queue the request is for, by every packet anew:
    /// nothing of it stays with the host between packets. A message keeps to one queue.
    pub(crate) fn select_srq<H: Host>(&mut self, srq: u32, host: &mut H) -> Result<(), Refusal> {
        let between = matches!(self.resp.incoming, Incoming::None);
        if !between && srq != self.resp.srq {
            return Err(INVALID);
        }
        // A queue that is not of the target's XRC domain is refused as a key of another protection
        // domain is.
        host.select_srq(srq).map_err(|_| ACCESS)?;
        self.resp.srq = srq;
        Ok(())
    }
}
