//! Requests that are made to fail: each error status that one side can bring upon the other or itself.

use crate::memory::BASE;
use crate::model::{Placed, RecvExpect, SendExpect};
use crate::plan::{PlannedSend, Planner};
use ferroce_transport::{
    Access, Flush, Placement, Selectivity, SendFlags, SendOp, WcData, WcOpcode, WcStatus,
};

impl Planner<'_> {
    /// A request that must fail.
    pub(crate) fn faulty(&mut self, side: usize) -> PlannedSend {
        let peer = 1 - side;
        let flags = self.flags(side);
        let len = self.length().max(1);
        let mut sges = self.buffers(side, len, Access::empty());
        let data = self.sides[side].memory.gather(&sges);
        let mut recv = RecvExpect {
            opcode: WcOpcode::Recv,
            len,
            data: WcData::None,
            solicited: false,
            placed: Placed::default(),
            srq: self.srq,
            fault: None,
        };
        let mut consumes = None;
        let (op, opcode, status) = match self.rng.below(if self.shape.xrc > 0 { 12 } else { 10 }) {
            0 => {
                let op = SendOp::Write { va: BASE, rkey: 3 };
                (op, WcOpcode::RdmaWrite, WcStatus::RemAccessErr)
            }
            1 => {
                let to = self.alloc(peer, len - 1, Access::REMOTE_WRITE | Access::LOCAL_WRITE);
                let op = SendOp::Write {
                    va: to.va,
                    rkey: to.key,
                };
                (op, WcOpcode::RdmaWrite, WcStatus::RemAccessErr)
            }
            2 => {
                let from = self.alloc(peer, len, Access::REMOTE_WRITE | Access::LOCAL_WRITE);
                sges = self.buffers(side, len, Access::LOCAL_WRITE);
                let op = SendOp::Read {
                    va: from.va,
                    rkey: from.key,
                };
                (op, WcOpcode::RdmaRead, WcStatus::RemAccessErr)
            }
            3 => {
                // Whole packets that fit are placed before the message turns out too long.
                recv.fault = Some(WcStatus::LocLenErr);
                let fitting = (len - 1) / self.shape.mtu * self.shape.mtu;
                let buffers = self.buffers(peer, len - 1, Access::LOCAL_WRITE);
                self.fills(peer, &buffers, &data[..fitting as usize]);
                consumes = Some(self.post(peer, buffers));
                (SendOp::Send, WcOpcode::Send, WcStatus::RemInvReqErr)
            }
            4 => {
                let cell = self.sides[peer].cells[0].buffer;
                sges = self.buffers(side, 8, Access::LOCAL_WRITE);
                let op = SendOp::FetchAdd {
                    va: cell.va + 1,
                    rkey: cell.key,
                    add: 1,
                };
                (op, WcOpcode::FetchAdd, WcStatus::RemInvReqErr)
            }
            5 => {
                for sge in sges.iter_mut().filter(|s| s.length > 0) {
                    sge.lkey = 1;
                }
                let to = self.alloc(peer, len, Access::REMOTE_WRITE | Access::LOCAL_WRITE);
                let op = SendOp::Write {
                    va: to.va,
                    rkey: to.key,
                };
                (op, WcOpcode::RdmaWrite, WcStatus::LocProtErr)
            }
            6 => {
                // The scatter list may not be written.
                let from = self.alloc(peer, len, Access::REMOTE_READ);
                let op = SendOp::Read {
                    va: from.va,
                    rkey: from.key,
                };
                (op, WcOpcode::RdmaRead, WcStatus::LocProtErr)
            }
            7 => {
                recv.fault = Some(WcStatus::LocProtErr);
                let buffer = self.alloc(peer, len, Access::empty());
                consumes = Some(self.post(peer, vec![buffer.sge()]));
                (SendOp::Send, WcOpcode::Send, WcStatus::RemOpErr)
            }
            9 => {
                // The region allows the other placement only.
                let access = Access::FLUSH_GLOBAL | Access::REMOTE_WRITE | Access::LOCAL_WRITE;
                let of = self.alloc(peer, len, access);
                let op = SendOp::Flush(Flush {
                    va: of.va,
                    rkey: of.key,
                    len,
                    placement: Placement::PERSISTENT,
                    selectivity: self.rng.pick(&[Selectivity::Range, Selectivity::Region]),
                });
                (op, WcOpcode::Flush, WcStatus::RemAccessErr)
            }
            10 => {
                // No such shared receive queue.
                self.srq = 0x77;
                (SendOp::Send, WcOpcode::Send, WcStatus::RemAccessErr)
            }
            11 => {
                // Memory of another protection domain than the queue's.
                let to = self.alloc(peer, len, Access::REMOTE_WRITE | Access::LOCAL_WRITE);
                self.sides[peer]
                    .memory
                    .regions
                    .last_mut()
                    .expect("just made")
                    .pd = 0x77;
                let op = SendOp::Write {
                    va: to.va,
                    rkey: to.key,
                };
                (op, WcOpcode::RdmaWrite, WcStatus::RemAccessErr)
            }
            _ => {
                recv.fault = Some(WcStatus::LocAccessErr);
                let buffers = self.buffers(peer, len, Access::LOCAL_WRITE);
                self.fills(peer, &buffers, &data);
                consumes = Some(self.post(peer, buffers));
                (
                    SendOp::SendWithInv(77),
                    WcOpcode::Send,
                    WcStatus::RemAccessErr,
                )
            }
        };
        if consumes.is_some() {
            self.sides[peer].recv_expects.push(recv);
        }
        let expect = SendExpect {
            opcode,
            signaled: self.shape.all_signaled[side] || flags.contains(SendFlags::SIGNALED),
            local: None,
            remote: None,
            consumes,
            invalidates: None,
            fault: Some(status),
        };
        PlannedSend {
            op,
            flags,
            sges,
            inline: None,
            dest: self.dest(),
            expect,
        }
    }
}
