//! How far a queue pair is, for whoever shows it to others.

use crate::Qp;

/// What changes in a queue pair as it works. PSNs have 24 bits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Standing {
    /// Send requests that have left the queue since the queue pair was made or reset.
    pub sends_completed: u64,
    /// Send requests that are in it.
    pub sends: u32,
    /// Receive requests that are in the queue pair's own receive queue.
    pub receives: u32,
    /// The PSN that goes out next.
    pub next_psn: u32,
    /// The oldest that is not acknowledged.
    pub unacknowledged_psn: u32,
    /// The one after the highest that went out.
    pub highest_psn: u32,
    /// The one that is expected of the peer.
    pub expected_psn: u32,
    /// Retries that are left.
    pub retries: u8,
    /// Retries that are left after RNR NAKs.
    pub rnr_retries: u8,
    /// It waits as long as an RNR NAK has said.
    pub waits_for_receiver: bool,
    /// Payload bytes that are not acknowledged, as the window counts them.
    pub in_flight: u32,
}

impl Qp {
    /// Of each request in the send queue, the oldest first, whether it raises a completion when it
    /// succeeds.
    pub fn signals(&self) -> impl Iterator<Item = bool> {
        let wqes = (self.sq.base()..self.sq.end()).filter_map(|number| self.sq.wqe(number));
        wqes.map(|wqe| self.is_signaled(wqe.flags))
    }

    /// How far it is.
    #[inline]
    pub fn standing(&self) -> Standing {
        let req = &self.req;
        let psn = |extended: u64| extended as u32 & 0xff_ffff;
        let in_flight = req.next_cost.saturating_sub(req.base_cost());

        Standing {
            sends_completed: self.sq.base(),
            sends: self.sq.len() as u32,
            receives: self.rq.len() as u32,
            next_psn: psn(req.next),
            unacknowledged_psn: psn(req.una),
            highest_psn: psn(req.max),
            expected_psn: self.expected_psn(),
            retries: req.timers.retries,
            rnr_retries: req.timers.rnr_retries,
            waits_for_receiver: req.timers.rnr.is_some(),
            in_flight: u32::try_from(in_flight).unwrap_or(u32::MAX),
        }
    }
}
