//! The packets of requests (section 9.7.3): SEND and RDMA WRITE segments, READ requests in chunks,
//! and the single packets of ATOMICs, ATOMIC WRITEs and FLUSHes.
//!
//! Each function goes on with the request at the cursor until it is sent, blocked or over budget.
//! Whether a request may begin at all was decided before, in `requester`.

use crate::budget::Budget;
use crate::requester::{Awaited, Flow};
use crate::send_queue::SendWqe;
use crate::tuning::ACK_REQUEST_SPACING;
use crate::{Dest, Gather, MemoryError, Qp, QpAttr, SendFlags, SendOp, Sink, Time, TxPacket};
use ferroce_wire::{AtomicEth, Bth, Ext, Reth, opcode};

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
        let Qp { sq, req, attr, .. } = self;
        let Some(wqe) = sq.wqe(req.cursor) else {
            return Ok(Flow::Blocked);
        };

        let mtu = attr.path_mtu;
        let window = u64::from(window);
        let spacing = ACK_REQUEST_SPACING.min(window / 4);
        while req.next < wqe.end {
            if budget.is_spent() {
                return Ok(Flow::Spent);
            }

            let k = req.next - wqe.first;
            let (first, last) = (k == 0, req.next + 1 == wqe.end);
            let after = wqe.cost_at(k + 1, mtu);
            let in_flight = after - req.una_cost;
            if !req.fits(in_flight, window) {
                return Ok(Flow::Blocked);
            }

            let offset = (k * u64::from(mtu)) as u32;
            let len = mtu.min(wqe.len - offset);
            let ack_req = last
                || req.unasked + u64::from(len) >= spacing
                || in_flight + u64::from(mtu) > window;
            let (opcode, ext) = message_headers(wqe, first, last, base);
            let packet = TxPacket {
                bth: Bth {
                    opcode,
                    solicited: last && wqe.flags.contains(SendFlags::SOLICITED),
                    pad: Bth::pad_for(len as usize),
                    ack_req,
                    ..request_bth(attr, req.next)
                },
                ext,
                payload: sq.gather(wqe, offset, len),
                again: req.next < req.max,
                ah: None,
                srq: 0,
            };

            sink.packet(&packet)?;
            budget.spend(len);
            req.unasked += u64::from(len);
            req.sent(now, after, req.next + 1, ack_req, attr.timeout);
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
        let Qp { sq, req, attr, .. } = self;
        let Some(wqe) = sq.wqe(req.cursor) else {
            return Ok(Flow::Blocked);
        };
        let SendOp::Read { va, rkey } = wqe.op else {
            return Ok(Flow::Blocked);
        };

        let mtu = attr.path_mtu;
        while req.next < wqe.end {
            if budget.is_spent() {
                return Ok(Flow::Spent);
            }

            let again = req.next < req.max;
            let end = if again {
                let i = req.awaited.partition_point(|a| a.end <= req.next);
                req.awaited.get(i).map_or(wqe.end, |a| a.end)
            } else {
                let share = window / u32::from(attr.max_rd_atomic.clamp(1, 4));
                wqe.end.min(req.next + u64::from(share / mtu).max(1))
            };
            let after = wqe.cost_at(end - wqe.first, mtu);
            if !req.fits(after - req.una_cost, u64::from(window))
                || !again && req.awaited.len() >= usize::from(attr.max_rd_atomic.max(1))
            {
                return Ok(Flow::Blocked);
            }

            let offset = ((req.next - wqe.first) * u64::from(mtu)) as u32;
            let until = ((end - wqe.first) * u64::from(mtu)).min(u64::from(wqe.len)) as u32;
            let packet = TxPacket {
                bth: Bth {
                    opcode: opcode::RC_READ_REQUEST | base,
                    ack_req: true,
                    ..request_bth(attr, req.next)
                },
                ext: Ext {
                    reth: Some(Reth {
                        va: va.wrapping_add(u64::from(offset)),
                        rkey,
                        len: until - offset,
                    }),
                    xrceth: srq(wqe),
                    ..Ext::default()
                },
                payload: Gather::None,
                again,
                ah: None,
                srq: 0,
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
        let Qp { sq, req, attr, .. } = self;
        let Some(wqe) = sq.wqe(req.cursor) else {
            return Ok(Flow::Blocked);
        };

        let mut ext = Ext {
            xrceth: srq(wqe),
            ..Ext::default()
        };

        let mut payload = Gather::None;
        let opcode = match wqe.op {
            SendOp::CompareSwap {
                va,
                rkey,
                compare,
                swap,
            } => {
                ext.atomic = Some(AtomicEth {
                    va,
                    rkey,
                    swap_add: swap,
                    compare,
                });
                opcode::RC_COMPARE_SWAP
            }
            SendOp::FetchAdd { va, rkey, add } => {
                ext.atomic = Some(AtomicEth {
                    va,
                    rkey,
                    swap_add: add,
                    compare: 0,
                });
                opcode::RC_FETCH_ADD
            }
            SendOp::AtomicWrite { va, rkey } => {
                let len = wqe.len;
                ext.reth = Some(Reth { va, rkey, len });
                payload = sq.gather(wqe, 0, len);
                opcode::RC_ATOMIC_WRITE
            }
            SendOp::Flush(flush) => {
                let (feth, reth) = flush.headers();
                (ext.feth, ext.reth) = (Some(feth), Some(reth));
                opcode::RC_FLUSH
            }
            _ => return Ok(Flow::Blocked),
        };

        if budget.is_spent() {
            return Ok(Flow::Spent);
        }

        let again = req.next < req.max;
        let packet = TxPacket {
            bth: Bth {
                opcode: opcode | base,
                ack_req: true,
                ..request_bth(attr, req.next)
            },
            ext,
            payload,
            again,
            ah: None,
            srq: 0,
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
}

/// The peer's shared receive queue, where the request names one (XRC).
#[inline]
fn srq(wqe: &SendWqe) -> Option<u32> {
    match wqe.dest {
        Dest::XrcSrq(srq) => Some(srq & 0xff_ffff),
        _ => None,
    }
}

/// A base transport header towards the peer. The P_Key is the default one: its table has one entry.
pub(crate) fn request_bth(attr: &QpAttr, psn: u64) -> Bth {
    Bth {
        migreq: true,
        pkey: 0xffff,
        dest_qp: attr.dest_qp_num,
        psn: psn as u32 & 0xff_ffff,
        ..Bth::default()
    }
}

/// Opcode and extended headers of a packet of a SEND or RDMA WRITE, for the service whose opcodes
/// begin at `base`.
#[inline]
pub(crate) fn message_headers(wqe: &SendWqe, first: bool, last: bool, base: u8) -> (u8, Ext) {
    use opcode::*;

    let pick = |only, begin, middle, end| match (first, last) {
        (true, true) => only,
        (true, false) => begin,
        (false, false) => middle,
        (false, true) => end,
    };

    let mut ext = Ext::default();
    let opcode = match wqe.op {
        SendOp::SendWithImm(imm) => {
            ext.imm = last.then_some(imm);
            pick(
                RC_SEND_ONLY_IMM,
                RC_SEND_FIRST,
                RC_SEND_MIDDLE,
                RC_SEND_LAST_IMM,
            )
        }
        SendOp::SendWithInv(key) => {
            ext.ieth = last.then_some(key);
            pick(
                RC_SEND_ONLY_INV,
                RC_SEND_FIRST,
                RC_SEND_MIDDLE,
                RC_SEND_LAST_INV,
            )
        }
        SendOp::Write { va, rkey } => {
            ext.reth = first.then_some(Reth {
                va,
                rkey,
                len: wqe.len,
            });
            pick(
                RC_WRITE_ONLY,
                RC_WRITE_FIRST,
                RC_WRITE_MIDDLE,
                RC_WRITE_LAST,
            )
        }
        SendOp::WriteWithImm { va, rkey, imm } => {
            ext.reth = first.then_some(Reth {
                va,
                rkey,
                len: wqe.len,
            });
            ext.imm = last.then_some(imm);
            pick(
                RC_WRITE_ONLY_IMM,
                RC_WRITE_FIRST,
                RC_WRITE_MIDDLE,
                RC_WRITE_LAST_IMM,
            )
        }
        _ => pick(RC_SEND_ONLY, RC_SEND_FIRST, RC_SEND_MIDDLE, RC_SEND_LAST),
    };

    ext.xrceth = srq(wqe);
    (opcode | base, ext)
}
