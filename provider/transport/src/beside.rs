//! An acknowledgement that was held back for a request that it can go out beside.

use crate::budget::Budget;
use crate::tuning::ACK_COMPANY;
use crate::{Host, Qp, Sink, Time, TransmitOpts};

impl Qp {
    /// Sends requests, and beside the first of them the ACK that is owed. It is never behind the
    /// last packet of a long one: where a peer sleeps until there is a completion, that of its own
    /// request is the first of the two, as with adapters, which answer at once.
    pub(crate) fn send_beside_ack<H: Host, S: Sink>(
        &mut self,
        now: Time,
        opts: TransmitOpts,
        mut budget: Budget,
        host: &mut H,
        sink: &mut S,
    ) -> bool {
        let mtu = self.attr.path_mtu;
        let length = self.next_length();
        if opts.stretch != 0 && length > mtu {
            // A stretch goes by itself.
            self.send_ack(sink);
        }

        let mut rest = Budget::nothing();
        if opts.stretch == 0 && length > ACK_COMPANY * mtu {
            // Behind a few packets, as in front of them it would need a send of its own.
            (budget, rest) = budget.split(ACK_COMPANY * mtu);
        }
        let sent = self.req.packets;
        let more = self.send_requests(now, opts.window, &mut budget, host, sink);
        if self.req.packets != sent {
            self.send_ack(sink);
        }
        match more && !rest.is_spent() {
            true => self.send_requests(now, opts.window, &mut rest, host, sink),
            false => more,
        }
    }
}
