//! What a host looks at that has the queue pairs of one path send in turn.

use crate::budget::Budget;
use crate::trace::{Traced, is_watched};
use crate::{Host, Qp, QpState, Sink, TransmitOpts};

impl Qp {
    /// As [`transmit`](Self::transmit), but requests stay where they are: only what the peer has
    /// asked for goes out. Returns whether more of that is ready at once.
    pub fn respond<H: Host, S: Sink>(
        &mut self,
        opts: TransmitOpts,
        host: &mut H,
        sink: &mut S,
    ) -> bool {
        let hold = !opts.flush_acks && self.ack_deferrable();
        let budget = Budget::of(opts.budget).in_stretches_of(opts.stretch);
        self.only_respond(budget, hold, host, sink)
    }

    /// Sends what is no data, and so waits for no rate: the CNP that is owed, and the
    /// acknowledgement or the NAK before which nothing goes. Returns whether answers with data
    /// wait.
    pub fn acknowledge<H: Host, S: Sink>(&mut self, host: &mut H, sink: &mut S) -> bool {
        self.only_respond(Budget::nothing(), false, host, sink)
    }

    fn only_respond<H: Host, S: Sink>(
        &mut self,
        mut budget: Budget,
        hold: bool,
        host: &mut H,
        sink: &mut S,
    ) -> bool {
        match is_watched() {
            false => {
                self.notify(host, sink);
                self.send_responses(&mut budget, hold, host, sink)
            }
            true => {
                let sink = &mut Traced::new(self.config.qpn, sink);
                self.notify(host, sink);
                self.send_responses(&mut budget, hold, host, sink)
            }
        }
    }

    /// Whether [`transmit`](Self::transmit) has something to do for a reliable connection, with or
    /// without an ACK that could wait. Where it has not, a host saves the preparations.
    #[inline]
    pub fn has_anything_to_send(&self, flush_acks: bool) -> bool {
        let ack_goes = || flush_acks || !self.ack_deferrable();
        !self.receiving()
            || self.resp.resources.owed()
            || self.resp.nak.is_some()
            || self.resp.ack_pending && ack_goes()
            || self.req.board.is_some()
            || self.notification.is_owed()
            || self.has_requests_to_send()
    }

    /// Whether there is a request, or a part of one, that would be sent now if the window allowed
    /// it.
    pub fn has_requests_to_send(&self) -> bool {
        self.req.cursor < self.sq.end()
            && matches!(self.attr.qp_state, QpState::Rts | QpState::Sqd)
            && self.req.timers.rnr.is_none()
    }

    /// Whether what is still to be sent is one request of so many bytes at most.
    pub fn has_little_to_send(&self, bytes: u32) -> bool {
        self.req.cursor + 1 == self.sq.end()
            && (self.sq.wqe(self.req.cursor)).is_some_and(|wqe| wqe.len <= bytes)
    }

    /// Bytes of requests sent since the connection was made, as the window counts them; fewer again
    /// when some of them have to be sent again.
    pub fn sent_cost(&self) -> u64 {
        self.req.next_cost
    }

    /// Where the window begins: bytes as [`sent_cost`](Self::sent_cost) counts them.
    pub fn settled_cost(&self) -> u64 {
        self.req.base_cost()
    }

    /// Whether packets have been lost singly and are being sent again.
    pub fn is_recovering(&self) -> bool {
        self.req.board.is_some()
    }
}
