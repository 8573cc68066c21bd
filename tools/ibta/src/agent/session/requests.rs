//! Work requests: posted at queue pairs and shared receive queues of the session, and polled for.

use std::time::Duration;

use ferroce_cabi::{ibv_sge, wr_opcode};
use ferroce_ibta::protocol::{self, RecvQueue, Reply, SendRequest, Sge, Side, send_flags};

use super::Session;
use crate::agent::convert;
use crate::agent::library::{Verb, VerbsError};
use crate::agent::named::unknown;
use crate::agent::post::{Bind, Send, Target};

impl Session {
    pub(super) fn post_send(&mut self, qp: u32, request: &SendRequest) -> Verb<Reply> {
        let call = "ibv_post_send";
        let objects = &self.objects;
        let qp = objects.qp(qp, call)?;
        let inline = request.flags & send_flags::INLINE != 0;
        let ours = |sge: &Sge| objects.region(sge.addr, sge.len.into(), call).is_ok();
        if inline && !request.sges.iter().all(ours) {
            return Err(VerbsError {
                call,
                errno: libc::EFAULT,
            });
        }

        let target = match (request.to, request.opcode) {
            (Some(to), _) => {
                let ah = objects.handles.get(&to.ah).ok_or_else(|| unknown(call))?;
                Target::Datagram {
                    ah: ah.clone(),
                    qpn: to.qp,
                    qkey: to.qkey,
                }
            }
            (None, protocol::Opcode::CompareSwap | protocol::Opcode::FetchAdd) => Target::Atomic {
                address: request.remote_addr,
                rkey: request.rkey,
                compare_add: request.compare_add,
                swap: request.swap,
            },
            (None, _) => Target::Memory {
                address: request.remote_addr,
                rkey: request.rkey,
            },
        };

        let bind = match &request.bind {
            None => None,
            Some(bind) => Some(self.bind(bind)?),
        };

        let opcode = convert::opcode(request.opcode);
        if let Some((bind, 1)) = &bind {
            qp.bind(request.wr_id, request.flags, bind)?;
            return Ok(Reply::Done);
        }

        if opcode == wr_opcode::BIND_MW && bind.is_none() {
            return Err(unknown(call));
        }

        let imm_or_rkey = match opcode {
            wr_opcode::SEND_WITH_INV | wr_opcode::LOCAL_INV => request.invalidate,
            _ => u32::from_ne_bytes(request.imm),
        };

        qp.post_send(&mut Send {
            wr_id: request.wr_id,
            opcode,
            flags: request.flags,
            sges: elements(&request.sges),
            imm_or_rkey,
            target,
            bind: bind.map(|(bind, _)| bind),
        })?;

        Ok(Reply::Done)
    }

    /// A bind, and the kind of its window.
    fn bind(&self, bind: &protocol::Bind) -> Verb<(Bind, u8)> {
        let call = "ibv_bind_mw";
        let objects = &self.objects;
        let window = objects.windows.get(&bind.window);
        let (window, kind) = window.ok_or_else(|| unknown(call))?;
        let bind = Bind {
            window: window.clone(),
            region: objects.registered(bind.lkey, call)?.clone(),
            address: bind.addr,
            len: bind.len,
            access: bind.access,
            rkey: bind.rkey,
        };
        Ok((bind, *kind))
    }

    pub(super) fn post_recv(&self, queue: RecvQueue, wr_id: u64, sges: &[Sge]) -> Verb<Reply> {
        let mut sges = elements(sges);
        match queue {
            RecvQueue::Qp(qp) => {
                let qp = self.objects.qp(qp, "ibv_post_recv")?;
                qp.post_recv(wr_id, &mut sges)?;
            }
            RecvQueue::Srq(srq) => {
                let srq = self.objects.srq(srq, "ibv_post_srq_recv")?;
                srq.post_recv(wr_id, &mut sges)?;
            }
        }
        Ok(Reply::Done)
    }

    pub(super) fn poll(&self, qp: u32, queue: Side, at_most: u32, within: Duration) -> Verb<Reply> {
        let qp = self.objects.qp(qp, "ibv_poll_cq")?;
        let cq = match queue {
            Side::Send => &qp.parts.send,
            Side::Recv => &qp.parts.recv,
        };

        let found = cq.poll(at_most as usize, within)?;
        Ok(Reply::Completions {
            completions: found.iter().map(convert::completion).collect(),
        })
    }
}

fn elements(sges: &[Sge]) -> Vec<ibv_sge> {
    let element = |sge: &Sge| ibv_sge {
        addr: sge.addr,
        length: sge.len,
        lkey: sge.lkey,
    };
    sges.iter().map(element).collect()
}
