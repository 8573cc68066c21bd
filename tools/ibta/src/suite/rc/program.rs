//! What the device's program does at a bench: it posts requests, and sees how they complete.

use super::bench::Bench;
use super::words::PMTU;
use crate::channel::{self, pattern};
use crate::protocol::{Command, Completion, Opcode, RecvQueue, SendRequest, Sge, Side, send_flags};
use crate::run::Outcome;
use ferroce_wire::opcode;
use std::time::Duration;

impl Bench<'_> {
    /// Posts a receive request for a part of the memory.
    pub(super) fn post_recv(&mut self, wr_id: u64, offset: u32, len: u32) -> Outcome {
        Ok(self
            .cc
            .post_recv(self.rig, wr_id, self.region.part(offset, len))?)
    }

    /// Posts a receive request for nothing.
    pub(super) fn post_empty_recv(&mut self, wr_id: u64) -> Outcome {
        let queue = match self.cc.options.srq {
            Some(srq) => RecvQueue::Srq(srq),
            None => RecvQueue::Qp(self.cc.qp),
        };
        let sges: Vec<Sge> = Vec::new();
        channel::must(self.rig, Command::PostRecv { queue, wr_id, sges })?;
        Ok(())
    }

    /// A signaled request on the first `len` bytes of the memory; remote address and key are
    /// arbitrary.
    pub(super) fn request(&self, wr_id: u64, opcode: Opcode, len: u32) -> SendRequest {
        SendRequest {
            wr_id,
            opcode,
            sges: if len == 0 {
                Vec::new()
            } else {
                vec![self.region.part(0, len)]
            },
            flags: send_flags::SIGNALED,
            imm: [0xde, 0xad, 0xbe, 0xef],
            remote_addr: 0x99_9000,
            rkey: 0x12345,
            invalidate: 0x54321,
            compare_add: 1,
            swap: 0x1122_3344_5566_7788,
            ..SendRequest::default()
        }
    }

    /// Posts it.
    pub(super) fn post(&mut self, wr_id: u64, opcode: Opcode, len: u32) -> Outcome {
        let request = self.request(wr_id, opcode, len);
        self.post_request(request)
    }

    /// Posts a request.
    pub(super) fn post_request(&mut self, request: SendRequest) -> Outcome {
        Ok(self.cc.post(self.rig, request)?)
    }

    /// Exactly one completion comes, with this identifier and status.
    pub(super) fn completed(&mut self, side: Side, wr_id: u64, status: u32) -> Outcome<Completion> {
        let done = self
            .cc
            .poll_one(self.run, self.rig, &self.assertion, side)?;
        self.eq(
            "wr_id and status of the completion",
            (done.wr_id, done.status),
            (wr_id, status),
        )?;
        Ok(done)
    }

    /// These completions come, in this order, and no others.
    pub(super) fn all_completed(&mut self, side: Side, due: &[(u64, u32)]) -> Outcome {
        let patience = self.rig.patience();
        let mut all = self.cc.poll(self.rig, side, due.len() as u32, patience)?;
        all.extend(self.cc.poll(self.rig, side, u32::MAX, Duration::ZERO)?);
        let seen: Vec<(u64, u32)> = all.iter().map(|c| (c.wr_id, c.status)).collect();
        self.eq("wr_ids and statuses of completions", seen, due.to_vec())
    }

    /// No completion comes.
    pub(super) fn not_completed(&mut self, side: Side) -> Outcome {
        self.cc
            .verify_no_completion(self.run, self.rig, &self.assertion, side)
    }

    /// The device posts SENDs of one packet, numbered from 1, and they come.
    pub(super) fn device_sends(&mut self, count: u32) -> Outcome {
        self.step(format!("The device sends {count} SENDs"));
        for n in 0..count {
            self.post(u64::from(n) + 1, Opcode::Send, 8)?;
            self.packet(opcode::RC_SEND_ONLY, self.cc.device_psn(n))?;
        }
        Ok(())
    }

    /// The packets of the device's first SEND, from packet `from` to the last; it consists of so
    /// many whole packets of a pattern.
    pub(super) fn device_message(&mut self, from: u32, packets: u32) -> Outcome {
        use opcode::{RC_SEND_FIRST, RC_SEND_LAST, RC_SEND_MIDDLE};
        let (pmtu, data) = (PMTU as usize, pattern(packets * PMTU));
        for n in from..packets {
            let opcode = match (n == 0, n + 1 == packets) {
                (true, _) => RC_SEND_FIRST,
                (_, true) => RC_SEND_LAST,
                _ => RC_SEND_MIDDLE,
            };
            let packet = self.packet(opcode, self.cc.device_psn(n))?;
            let due = &data[n as usize * pmtu..][..pmtu];
            self.brings(&packet, due)?;
        }
        Ok(())
    }
}
