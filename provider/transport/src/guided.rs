//! One packet at a time, for who says when what is sent: a replay, which goes by what a capture
//! shows.
//!
//! [`transmit`](Qp::transmit) decides by itself which of the packets that may be sent are, by
//! window, budget and company. That is the host's to choose, and so is this: which packet is the
//! next of its kind is the queue pair's alone.

use crate::budget::Budget;
use crate::peer::Peer;
use crate::{Host, Qp, QpState, SendFlags, Sink, Time};
use ferroce_wire::Psn;

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
    /// however little room that has. What is lost and sent again by itself is for
    /// [`resend_once`](Self::resend_once).
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

    /// Sends the packet with this PSN (24 bits) again, and no other, if it is outstanding and the
    /// peer understands selective acknowledgements: as one that was lost, or to ask about silence.
    /// Of a READ what asks for so many responses, or for all that it asked for.
    pub fn resend_once<S: Sink>(
        &mut self,
        now: Time,
        psn: u32,
        responses: Option<u32>,
        sink: &mut S,
    ) {
        let psn = self.outstanding_psn(psn);
        if !self.may_send() || psn >= self.req.max || !self.keeps_score() {
            return;
        }

        let end = responses.map(|count| psn + u64::from(count));
        let found = self.req.board.as_mut().and_then(|b| b.part(psn, end));
        let seq = self.sq.find(psn, self.req.started);
        let (Some((i, entry)), Some(seq)) = (found, seq) else {
            return;
        };
        if self.send_again(seq, psn, entry.end, sink).is_ok() {
            self.resent(now, i, &entry);
        }
    }

    /// Has [`request_once`](Self::request_once) go on with this PSN (24 bits), if it is outstanding
    /// or the first that is not, and the peer understands selective acknowledgements: it has gone
    /// back to it, or has not gone back.
    pub fn go_on_from(&mut self, psn: u32) {
        let (una, max) = (self.req.una, self.req.max);
        let psn = self.outstanding_psn(psn);
        if self.req.peer != Peer::Selective || psn > max || una == max {
            return;
        }
        self.resume_at(psn);
        // It knows the order of sending, which is another now.
        self.req.drop_board();
    }

    /// The first PSN from the oldest unacknowledged one on whose 24 bits are these.
    fn outstanding_psn(&self, psn: u32) -> u64 {
        let una = self.req.una;
        let ahead = Psn::new(psn).forward_from(Psn::new(una as u32 & 0xff_ffff));
        una + u64::from(ahead)
    }

    /// When the Local ACK Timeout lapses, or the wait for a receiver ends: the timers whose lapsing
    /// changes what is sent next.
    pub fn next_retry(&self) -> Option<Time> {
        let timers = &self.req.timers;
        timers.ack.into_iter().chain(timers.rnr).min()
    }

    /// Whether requests show that this side understands selective acknowledgements.
    pub fn shows_selective(&self) -> bool {
        self.req.shows()
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
