//! The packets of requests (section 9.7.3): SEND and RDMA WRITE segments, READ requests in chunks,
//! and the single packets of ATOMICs, ATOMIC WRITEs and FLUSHes.
//!
//! Each function goes on with the request at the cursor until it is sent, blocked or over budget.
//! Whether a request may begin at all was decided before, in `requester`.

use crate::budget::Budget;
use crate::make::Maker;
use crate::requester::{Awaited, Flow};
use crate::tuning::ACK_REQUEST_SPACING;
use crate::{MemoryError, Qp, Sink, Time};

impl Qp {
    /// Sends packets of the SEND or RDMA WRITE at the cursor, all but the last as long as the path
    /// MTU allows (C5-8).
    pub(crate) fn send_message<S: Sink>(
        &mut self,
        now: Time,
        window: u32,
        budget: &mut Budget,
        sink: &mut S,
    ) -> Result<Flow, MemoryError> {
        let base = self.opcode_base;
        let fill = self.filling.of_requests();
        let Qp { sq, req, attr, .. } = self;
        let Some(wqe) = sq.wqe(req.cursor) else {
            return Ok(Flow::Blocked);
        };

        let make = Maker {
            sq,
            attr,
            base,
            selective: req.shows(),
            fill,
        };
        let mtu = attr.path_mtu;
        let window = u64::from(window);
        let spacing = ACK_REQUEST_SPACING.min(window / 4);
        while req.next < wqe.end {
            if budget.is_spent() {
                return Ok(Flow::Spent);
            }

            let k = req.next - wqe.first;
            let again = req.next < req.max;
            let packets = match again || req.board.is_some() {
                true => 1,
                false => {
                    let used = req.next_cost.saturating_sub(req.base_cost());
                    budget.stretch(wqe.end - req.next, window.saturating_sub(used), mtu)
                }
            };
            let end = req.next + u64::from(packets);
            let last = end == wqe.end;
            let after = wqe.cost_at(k + u64::from(packets), mtu);
            let in_flight = after.saturating_sub(req.base_cost());
            if !req.fits(in_flight, window) || !req.reaches() {
                return Ok(Flow::Blocked);
            }

            let offset = (k * u64::from(mtu)) as u32;
            let len = (packets * mtu).min(wqe.len - offset);
            let ack_req = last
                || req.unasked + u64::from(len) >= spacing
                || in_flight + u64::from(mtu) > window;
            let (packet, _) = make.message(wqe, req.next, packets, ack_req, again);
            sink.packet(&packet)?;
            budget.spend(len);
            req.unasked += u64::from(len);
            req.sent(now, after, end, ack_req, attr.timeout);
        }

        Ok(Flow::Done)
    }

    /// Sends READ requests for the READ at the cursor, a chunk each.
    ///
    /// A chunk that was asked for before is asked for again from the first missing response on and
    /// to its old end, so that the responder can tell it for a duplicate.
    pub(crate) fn send_read<S: Sink>(
        &mut self,
        now: Time,
        window: u32,
        budget: &mut Budget,
        sink: &mut S,
    ) -> Result<Flow, MemoryError> {
        let base = self.opcode_base;
        let fill = self.filling.of_requests();
        let Qp { sq, req, attr, .. } = self;
        let Some(wqe) = sq.wqe(req.cursor) else {
            return Ok(Flow::Blocked);
        };

        let make = Maker {
            sq,
            attr,
            base,
            selective: req.shows(),
            fill,
        };
        let mtu = attr.path_mtu;
        while req.next < wqe.end {
            if budget.is_spent() {
                return Ok(Flow::Spent);
            }

            let again = req.next < req.max;
            let end = if again {
                req.chunk_end(req.next).min(wqe.end)
            } else {
                let share = window / u32::from(attr.max_rd_atomic.clamp(1, 4));
                wqe.end.min(req.next + u64::from(share / mtu).max(1))
            };
            let after = wqe.cost_at(end - wqe.first, mtu);
            let in_flight = after.saturating_sub(req.base_cost());
            if !req.fits(in_flight, u64::from(window))
                || !req.reaches()
                || !again && req.awaited.len() >= usize::from(attr.max_rd_atomic.max(1))
            {
                return Ok(Flow::Blocked);
            }

            let Some(packet) = make.read(wqe, req.next, end, again) else {
                return Ok(Flow::Blocked);
            };
            sink.packet(&packet)?;
            budget.spend(0);
            if !again {
                req.awaited.push_back(Awaited {
                    start: req.next,
                    end,
                });
                req.ssn = (req.ssn + 1) & 0xff_ffff;
            }

            req.sent(now, after, end, true, attr.timeout);
        }

        Ok(Flow::Done)
    }

    /// Sends the ATOMIC, ATOMIC WRITE or FLUSH at the cursor: one packet whose answer is awaited.
    pub(crate) fn send_atomic<S: Sink>(
        &mut self,
        now: Time,
        budget: &mut Budget,
        sink: &mut S,
    ) -> Result<Flow, MemoryError> {
        let base = self.opcode_base;
        let fill = self.filling.of_requests();
        let Qp { sq, req, attr, .. } = self;
        let Some(wqe) = sq.wqe(req.cursor) else {
            return Ok(Flow::Blocked);
        };

        if budget.is_spent() {
            return Ok(Flow::Spent);
        }
        if !req.reaches() {
            return Ok(Flow::Blocked);
        }

        let again = req.next < req.max;
        let make = Maker {
            sq,
            attr,
            base,
            selective: req.shows(),
            fill,
        };
        let Some(packet) = make.answered(wqe, req.next, again) else {
            return Ok(Flow::Blocked);
        };

        sink.packet(&packet)?;
        budget.spend(0);
        if !again {
            req.awaited.push_back(Awaited {
                start: req.next,
                end: wqe.end,
            });
        }

        req.sent(
            now,
            wqe.cost_at(1, attr.path_mtu),
            wqe.end,
            true,
            attr.timeout,
        );

        Ok(Flow::Done)
    }

    /// Sends the packet at `psn` of a request again; of a READ what asks for the responses up to
    /// `end`. Returns the bytes of its payload.
    #[cold]
    pub(crate) fn send_again<S: Sink>(
        &mut self,
        seq: u64,
        psn: u64,
        end: u64,
        sink: &mut S,
    ) -> Result<u32, MemoryError> {
        let Some(wqe) = self.sq.wqe(seq) else {
            return Ok(0);
        };

        let make = Maker {
            sq: &self.sq,
            attr: &self.attr,
            base: self.opcode_base,
            selective: self.req.shows(),
            fill: self.filling.of_requests(),
        };
        let (packet, len) = if wqe.is_answered() {
            let packet = make.read(wqe, psn, end, true);
            (packet.or_else(|| make.answered(wqe, psn, true)), 0)
        } else {
            let (packet, len) = make.message(wqe, psn, 1, true, true);
            (Some(packet), len)
        };

        if let Some(packet) = packet {
            sink.packet(&packet)?;
        }
        Ok(len)
    }
}
