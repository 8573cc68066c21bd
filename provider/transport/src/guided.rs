//! One packet at a time, for who says when what is sent: a replay, which goes by what a capture
//! shows.
//!
//! [`transmit`](Qp::transmit) decides by itself which of the packets that may be sent are, by
//! window, budget and company. That is the host's to choose, and so is this: which packet is the
//! next of its kind is the queue pair's alone.

use crate::budget::Budget;
use crate::{Host, Qp, QpState, SendFlags, Sink, Time};

impl Qp {
    /// Sends the one packet that is the next answer owed to the peer, if there is one: a response,
    /// a NAK or an ACK.
    pub fn answer_once<H: Host, S: Sink>(&mut self, host: &mut H, sink: &mut S) {
        let mut budget = Budget::of(1);
        if self.is_unreliable() {
            return;
        }
        if self.resp.resources.owed() {
            self.send_answer(&mut budget, host, sink);
        } else {
            self.send_responses(&mut budget, false, host, sink);
        }
    }

    /// Sends the one packet that is the next of the requests, if one may be sent within the window,
    /// however little room that has.
    pub fn request_once<H: Host, S: Sink>(
        &mut self,
        now: Time,
        window: u32,
        host: &mut H,
        sink: &mut S,
    ) {
        let mut budget = Budget::of(1);
        match self.is_unreliable() {
            true => self.send_unreliable(&mut budget, host, sink),
            false => self.send_what_fits(now, window, &mut budget, host, sink),
        };
    }

    /// Does what [`transmit`](Self::transmit) does besides sending: completes what the state has
    /// complete with an error, and carries out what is next and nothing is sent for. Of UC such
    /// requests are carried out by [`request_once`](Self::request_once).
    pub fn settle_once<H: Host>(&mut self, host: &mut H) {
        match self.attr.qp_state {
            QpState::Err => self.flush(host),
            QpState::Sqe if self.is_unreliable() => self.flush_sends(host),
            QpState::Rts if !self.is_unreliable() => self.carry_out_local(host),
            _ => {}
        }
    }

    fn carry_out_local<H: Host>(&mut self, host: &mut H) {
        while self.req.cursor == self.req.started && self.req.fault.is_none() {
            let seq = self.req.started;
            let Some(wqe) = self.sq.wqe(seq).filter(|wqe| wqe.is_local()) else {
                return;
            };
            let fenced = wqe.flags.contains(SendFlags::FENCE) && !self.req.awaited.is_empty();
            if fenced || !self.start_local(seq, host) {
                return;
            }
        }
    }
}
