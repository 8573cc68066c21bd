//! The sending half of the unreliable services, UC and UD (sections 9.8.2 and 9.8.3): packets go
//! out once, and are forgotten.
//!
//! Nobody acknowledges, so nothing is outstanding and no window holds. A request completes when its
//! packets no longer refer to the consumer's memory. One that cannot be sent takes the send queue
//! to SQE; receiving goes on.

use crate::budget::Budget;
use crate::local::carry_out;
use crate::make::{message_headers, request_bth};
use crate::requester::{self, Flow};
use crate::{
    Access, Dest, Host, MemoryError, Qp, QpState, QpType, SendFlags, Sink, TxPacket, WcStatus,
};
use ferroce_wire::{Bth, Deth};

impl Qp {
    /// Neither acknowledged nor sent again?
    pub fn is_unreliable(&self) -> bool {
        matches!(self.config.qp_type, QpType::Uc | QpType::Ud)
    }

    /// Sends what the budget and the state allow. Returns whether only the budget stopped it.
    pub(crate) fn send_unreliable<H: Host, S: Sink>(
        &mut self,
        budget: &mut Budget,
        host: &mut H,
        sink: &mut S,
    ) -> bool {
        if self.attr.qp_state == QpState::Sqe {
            self.flush_sends(host);
        }

        let mut more = false;
        while matches!(self.attr.qp_state, QpState::Rts | QpState::Sqd) {
            if self.req.cursor == self.req.started && !self.start_unreliable(host, sink) {
                break;
            }
            match self.send_once(budget, sink) {
                Ok(Flow::Done) => self.req.cursor += 1,
                Ok(Flow::Blocked) => break,
                Ok(Flow::Spent) => {
                    more = true;
                    break;
                }
                Err(MemoryError::Address) => self.fail_send(WcStatus::LocQpOpErr, host, sink),
                Err(_) => self.fail_send(WcStatus::LocProtErr, host, sink),
            }
        }

        self.settle(host, sink);
        more
    }

    /// Completes what has been sent.
    fn settle<H: Host, S: Sink>(&mut self, host: &mut H, sink: &mut S) {
        if self.sq.base() < self.req.cursor {
            sink.flush();
            while self.sq.base() < self.req.cursor {
                let Some(wqe) = self.sq.pop() else { break };
                self.complete_send(&wqe, WcStatus::Success, host);
            }
        }
        self.check_drained(host);
    }

    /// Fails the request at the cursor, and with it the send queue.
    fn fail_send<H: Host, S: Sink>(&mut self, status: WcStatus, host: &mut H, sink: &mut S) {
        self.settle(host, sink);
        // Packets of a longer message may have been handed over before it failed.
        sink.flush();
        if let Some(wqe) = self.sq.pop() {
            self.complete_send(&wqe, status, host);
        }
        self.enter(QpState::Sqe);
        self.attr.sq_draining = false;
        self.flush_sends(host);
    }

    /// The send queue fails on the host's behalf; receiving goes on. It is as if a request had
    /// failed, whose completion the host has raised.
    pub fn fail_sends<H: Host>(&mut self, host: &mut H) {
        if self.is_unreliable() && matches!(self.attr.qp_state, QpState::Rts | QpState::Sqd) {
            self.enter(QpState::Sqe);
            self.attr.sq_draining = false;
            self.flush_sends(host);
        }
    }

    /// Lets the next request begin, if there is one and it may. Those that nothing is sent for are
    /// carried out on the way.
    fn start_unreliable<H: Host, S: Sink>(&mut self, host: &mut H, sink: &mut S) -> bool {
        loop {
            // A draining send queue stops between messages.
            if self.attr.qp_state != QpState::Rts {
                return false;
            }
            let Some(wqe) = self.sq.wqe(self.req.started) else {
                return false;
            };

            let (op, len) = (wqe.op, wqe.len);
            if wqe.is_local() {
                self.settle(host, sink);
                if let Err(status) = carry_out(&op, host) {
                    self.fail_send(status, host, sink);
                    return false;
                }
                self.req.started += 1;
                self.req.cursor += 1;
                continue;
            }

            let packets = match self.config.qp_type {
                QpType::Ud => 1,
                _ => requester::packets(len, self.attr.path_mtu),
            };

            let refused = if self.config.qp_type == QpType::Ud && len > self.config.mtu {
                // By C10-93.1.1 it would vanish without an error. Adapters complete it with one,
                // which tells the consumer what is wrong.
                Some(WcStatus::LocLenErr)
            } else if packets > 1
                && host
                    .check_local(self.sq.sges(wqe), Access::empty())
                    .is_err()
            {
                // A single packet is checked as it is gathered; a longer message must not break off
                // half way.
                Some(WcStatus::LocProtErr)
            } else {
                None
            };

            if let Some(status) = refused {
                self.fail_send(status, host, sink);
                return false;
            }

            let first = self.req.next;
            if let Some(wqe) = self.sq.wqe_mut(self.req.started) {
                wqe.first = first;
                wqe.end = first + u64::from(packets);
            }

            self.req.started += 1;
            return true;
        }
    }

    /// Sends packets of the request at the cursor, all but the last as long as the MTU allows
    /// (C5-8).
    fn send_once<S: Sink>(
        &mut self,
        budget: &mut Budget,
        sink: &mut S,
    ) -> Result<Flow, MemoryError> {
        let base = self.opcode_base;
        let Qp {
            sq,
            req,
            attr,
            config,
            ..
        } = self;
        let Some(wqe) = sq.wqe(req.cursor) else {
            return Ok(Flow::Blocked);
        };

        // A datagram is one packet, also where the port takes less since it was begun.
        let mtu = match config.qp_type {
            QpType::Ud => wqe.len,
            _ => attr.path_mtu,
        };

        while req.next < wqe.end {
            if budget.is_spent() {
                return Ok(Flow::Spent);
            }

            let k = req.next - wqe.first;
            let (first, last) = (k == 0, req.next + 1 == wqe.end);
            let offset = (k * u64::from(mtu)) as u32;
            let len = mtu.min(wqe.len - offset);
            let (opcode, mut ext) = message_headers(wqe, first, last, base);
            let mut bth = Bth {
                opcode,
                solicited: last && wqe.flags.contains(SendFlags::SOLICITED),
                pad: Bth::pad_for(len as usize),
                ..request_bth(attr, req.next)
            };

            let mut ah = None;
            if let Dest::Datagram(to) = wqe.dest {
                bth.dest_qp = to.qpn & 0xff_ffff;
                ext.deth = Some(Deth {
                    // A controlled Q_Key is never the request's to say, only the queue pair's
                    // (C10-15).
                    qkey: if to.qkey >> 31 == 1 {
                        attr.qkey
                    } else {
                        to.qkey
                    },
                    src_qp: config.qpn,
                });
                ah = Some(to.ah);
            }

            sink.packet(&TxPacket {
                bth,
                ext,
                payload: sq.gather(wqe, offset, len),
                filler: 0,
                packets: 1,
                again: false,
                ah,
                srq: 0,
            })?;

            budget.spend(len);
            req.next += 1;
            req.una = req.next;
            req.max = req.next;
            req.packets += 1;
        }

        Ok(Flow::Done)
    }
}
