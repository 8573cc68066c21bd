//! Requests that are made to fail: each error status that one side can bring upon the other or
//! itself.

use crate::memory::{BASE, Buffer};
use crate::model::{Placed, RecvExpect, SendExpect};
use crate::plan::{PlannedSend, Planner};
use ferroce_transport::{
    Access, Flush, Placement, Selectivity, SendFlags, SendOp, Sge, WcData, WcOpcode, WcStatus,
};

/// What an RDMA WRITE needs of the memory that it goes to.
const WRITABLE: Access = Access::REMOTE_WRITE.union(Access::LOCAL_WRITE);

/// How a request fails: operation, opcode of its completion, and status.
type Failing = (SendOp, WcOpcode, WcStatus);

/// A message of some length that one side has for the other.
struct Message {
    side: usize,
    len: u32,
    sges: Vec<Sge>,
    data: Vec<u8>,
}

impl Planner<'_> {
    /// A request that must fail.
    pub(crate) fn faulty(&mut self, side: usize) -> PlannedSend {
        let peer = 1 - side;
        let flags = self.flags(side);
        let len = self.length().max(1);
        let sges = self.buffers(side, len, Access::empty());
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

        let mut message = Message {
            side,
            len,
            sges,
            data,
        };

        let mut consumes = None;
        let kind = self.rng.below(if self.shape.xrc > 0 { 12 } else { 10 });
        let (op, opcode, status) = match kind {
            3 | 7 | 8 => {
                let (failing, fault, index) = self.refused_receive(kind, &message);
                recv.fault = Some(fault);
                consumes = Some(index);
                failing
            }
            5 | 6 => self.bad_list(kind, &mut message),
            10 | 11 => self.bad_queue(kind, &message),
            _ => self.bad_target(kind, &mut message),
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
            sges: message.sges,
            inline: None,
            dest: self.dest(),
            expect,
        }
    }

    /// The peer's memory is not what the request takes it for.
    fn bad_target(&mut self, kind: u64, message: &mut Message) -> Failing {
        let (side, peer, len) = (message.side, 1 - message.side, message.len);
        match kind {
            0 => {
                let op = SendOp::Write { va: BASE, rkey: 3 };
                (op, WcOpcode::RdmaWrite, WcStatus::RemAccessErr)
            }
            1 => {
                let to = self.alloc(peer, len - 1, WRITABLE);
                (write(to), WcOpcode::RdmaWrite, WcStatus::RemAccessErr)
            }
            2 => {
                let from = self.alloc(peer, len, WRITABLE);
                message.sges = self.buffers(side, len, Access::LOCAL_WRITE);
                (read(from), WcOpcode::RdmaRead, WcStatus::RemAccessErr)
            }
            4 => {
                let cell = self.sides[peer].cells[0].buffer;
                message.sges = self.buffers(side, 8, Access::LOCAL_WRITE);
                let op = SendOp::FetchAdd {
                    va: cell.va + 1,
                    rkey: cell.key,
                    add: 1,
                };
                (op, WcOpcode::FetchAdd, WcStatus::RemInvReqErr)
            }
            _ => {
                // The region allows the other placement only.
                let of = self.alloc(peer, len, Access::FLUSH_GLOBAL | WRITABLE);
                let op = SendOp::Flush(Flush {
                    va: of.va,
                    rkey: of.key,
                    len,
                    placement: Placement::PERSISTENT,
                    selectivity: self.rng.pick(&[Selectivity::Range, Selectivity::Region]),
                });
                (op, WcOpcode::Flush, WcStatus::RemAccessErr)
            }
        }
    }

    /// The request's own gather or scatter list is not to be used.
    fn bad_list(&mut self, kind: u64, message: &mut Message) -> Failing {
        let (peer, len) = (1 - message.side, message.len);
        match kind {
            5 => {
                for sge in message.sges.iter_mut().filter(|s| s.length > 0) {
                    sge.lkey = 1;
                }
                let to = self.alloc(peer, len, WRITABLE);
                (write(to), WcOpcode::RdmaWrite, WcStatus::LocProtErr)
            }
            _ => {
                // The scatter list may not be written.
                let from = self.alloc(peer, len, Access::REMOTE_READ);
                (read(from), WcOpcode::RdmaRead, WcStatus::LocProtErr)
            }
        }
    }

    /// The peer's receive request cannot take the message: besides how the request fails, how that
    /// one does, and its index.
    fn refused_receive(&mut self, kind: u64, message: &Message) -> (Failing, WcStatus, usize) {
        let (peer, len) = (1 - message.side, message.len);
        match kind {
            3 => {
                // Whole packets that fit are placed before the message turns out too long.
                let fitting = (len - 1) / self.shape.mtu * self.shape.mtu;
                let buffers = self.buffers(peer, len - 1, Access::LOCAL_WRITE);
                self.fills(peer, &buffers, &message.data[..fitting as usize]);
                let failing = (SendOp::Send, WcOpcode::Send, WcStatus::RemInvReqErr);
                (failing, WcStatus::LocLenErr, self.post(peer, buffers))
            }
            7 => {
                let buffer = self.alloc(peer, len, Access::empty());
                let failing = (SendOp::Send, WcOpcode::Send, WcStatus::RemOpErr);
                let index = self.post(peer, vec![buffer.sge()]);
                (failing, WcStatus::LocProtErr, index)
            }
            _ => {
                let buffers = self.buffers(peer, len, Access::LOCAL_WRITE);
                self.fills(peer, &buffers, &message.data);
                let op = SendOp::SendWithInv(77);
                let failing = (op, WcOpcode::Send, WcStatus::RemAccessErr);
                (failing, WcStatus::LocAccessErr, self.post(peer, buffers))
            }
        }
    }

    /// What only extended connections can get wrong: the shared receive queue.
    fn bad_queue(&mut self, kind: u64, message: &Message) -> Failing {
        let (peer, len) = (1 - message.side, message.len);
        match kind {
            10 => {
                // There is no such queue.
                self.srq = 0x77;
                (SendOp::Send, WcOpcode::Send, WcStatus::RemAccessErr)
            }
            _ => {
                // Memory of another protection domain than the queue's.
                let to = self.alloc(peer, len, WRITABLE);
                let regions = &mut self.sides[peer].memory.regions;
                regions.last_mut().expect("just made").pd = 0x77;
                (write(to), WcOpcode::RdmaWrite, WcStatus::RemAccessErr)
            }
        }
    }
}

/// An RDMA WRITE to a buffer.
fn write(to: Buffer) -> SendOp {
    SendOp::Write {
        va: to.va,
        rkey: to.key,
    }
}

/// An RDMA READ of a buffer.
fn read(from: Buffer) -> SendOp {
    SendOp::Read {
        va: from.va,
        rkey: from.key,
    }
}
