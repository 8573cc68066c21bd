//! The send queue: work requests from posting to completion, with their gather lists and inline
//! data.
//!
//! Requests are named by a sequence number that only grows, so that a cursor survives completions
//! at the front. Which of them have been sent, and under which PSNs, the requester writes into the
//! entries.

use crate::ring::{Run, RunRing};
use crate::{
    Dest, Gather, PostError, QpConfig, QpType, SendData, SendFlags, SendOp, SendRequest, Sge,
    WcOpcode,
};
use std::collections::VecDeque;

/// Longest message, the port's `max_msg_sz`.
pub const MAX_MESSAGE: u32 = 1 << 30;

/// Where the payload of a queued request is.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Payload {
    Sges(Run),
    Inline(Run),
}

/// A queued send request.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SendWqe {
    pub wr_id: u64,
    pub op: SendOp,
    pub flags: SendFlags,
    pub payload: Payload,
    pub dest: Dest,
    /// Message length in bytes.
    pub len: u32,
    /// First PSN (extended to 64 bits); valid once started.
    pub first: u64,
    /// PSN after the last.
    pub end: u64,
    /// Position of its first byte in the window's accounting.
    pub cost: u64,
    /// Its last packet is filled, however short it is, or may be (of a READ the last response);
    /// from its start on.
    pub level: bool,
}

impl SendWqe {
    pub(crate) fn opcode(&self) -> WcOpcode {
        match self.op {
            SendOp::Send | SendOp::SendWithImm(_) | SendOp::SendWithInv(_) => WcOpcode::Send,
            SendOp::Write { .. } | SendOp::WriteWithImm { .. } => WcOpcode::RdmaWrite,
            SendOp::Read { .. } => WcOpcode::RdmaRead,
            SendOp::CompareSwap { .. } => WcOpcode::CompSwap,
            SendOp::FetchAdd { .. } => WcOpcode::FetchAdd,
            SendOp::AtomicWrite { .. } => WcOpcode::AtomicWrite,
            SendOp::Flush(_) => WcOpcode::Flush,
            SendOp::LocalInv(_) => WcOpcode::LocalInv,
            SendOp::BindMw(_) => WcOpcode::BindMw,
        }
    }

    pub(crate) fn is_atomic(&self) -> bool {
        matches!(
            self.op,
            SendOp::CompareSwap { .. } | SendOp::FetchAdd { .. }
        )
    }

    /// Carried out here, without a packet?
    pub(crate) fn is_local(&self) -> bool {
        is_local(&self.op)
    }

    pub(crate) fn is_read(&self) -> bool {
        matches!(self.op, SendOp::Read { .. })
    }

    pub(crate) fn is_atomic_write(&self) -> bool {
        matches!(self.op, SendOp::AtomicWrite { .. })
    }

    /// Is the answer a READ response, if only one to a READ of nothing?
    pub(crate) fn is_answered_as_read(&self) -> bool {
        self.is_read() || self.is_atomic_write() || matches!(self.op, SendOp::Flush(_))
    }

    /// Is there an answer of its own to wait for, beside an acknowledgement?
    pub(crate) fn is_answered(&self) -> bool {
        self.is_answered_as_read() || self.is_atomic()
    }

    /// Does the peer consume a receive request for it?
    pub(crate) fn consumes_receive(&self) -> bool {
        matches!(
            self.op,
            SendOp::Send
                | SendOp::SendWithImm(_)
                | SendOp::SendWithInv(_)
                | SendOp::WriteWithImm { .. }
        )
    }
}

/// The queue.
#[derive(Clone, Debug, Default)]
pub(crate) struct SendQueue {
    wqes: VecDeque<SendWqe>,
    /// Sequence number of the front.
    base: u64,
    sges: RunRing<Sge>,
    inline: RunRing<u8>,
}

impl SendQueue {
    pub(crate) fn len(&self) -> usize {
        self.wqes.len()
    }

    /// Sequence number of the oldest request.
    pub(crate) fn base(&self) -> u64 {
        self.base
    }

    /// Sequence number that the next request will get.
    pub(crate) fn end(&self) -> u64 {
        self.base + self.wqes.len() as u64
    }

    pub(crate) fn wqe(&self, seq: u64) -> Option<&SendWqe> {
        self.wqes.get(seq.checked_sub(self.base)? as usize)
    }

    pub(crate) fn wqe_mut(&mut self, seq: u64) -> Option<&mut SendWqe> {
        self.wqes.get_mut(seq.checked_sub(self.base)? as usize)
    }

    /// Sequence number of the request that a PSN belongs to, of those before `started`.
    pub(crate) fn find(&self, psn: u64, started: u64) -> Option<u64> {
        let (mut low, mut high) = (self.base, started);
        while low < high {
            let middle = low + (high - low) / 2;
            match self.wqe(middle)?.end <= psn {
                true => low = middle + 1,
                false => high = middle,
            }
        }
        self.wqe(low).filter(|wqe| wqe.first <= psn).map(|_| low)
    }

    pub(crate) fn front(&self) -> Option<&SendWqe> {
        self.wqes.front()
    }

    /// Queues a request whose length was checked.
    pub(crate) fn push(&mut self, req: &SendRequest<'_>, len: u32) {
        let payload = match req.data {
            SendData::Sges(list) => Payload::Sges(self.hold_sges(list)),
            SendData::Inline(bytes) => Payload::Inline(self.hold_inline(bytes)),
        };

        self.wqes.push_back(SendWqe {
            wr_id: req.wr_id,
            op: req.op,
            flags: req.flags,
            payload,
            dest: req.dest,
            len,
            first: 0,
            end: 0,
            cost: 0,
            level: false,
        });
    }

    /// Removes the oldest request.
    pub(crate) fn pop(&mut self) -> Option<SendWqe> {
        let wqe = self.wqes.pop_front()?;
        self.base += 1;
        match wqe.payload {
            Payload::Sges(run) => self.sges.release(run),
            Payload::Inline(run) => self.inline.release(run),
        }
        Some(wqe)
    }

    /// The gather (or scatter) list of a request, empty for inline data.
    pub(crate) fn sges(&self, wqe: &SendWqe) -> &[Sge] {
        match wqe.payload {
            Payload::Sges(run) => self.sges.slice(run),
            Payload::Inline(_) => &[],
        }
    }

    /// `len` bytes at `offset` of a request's payload.
    pub(crate) fn gather(&self, wqe: &SendWqe, offset: u32, len: u32) -> Gather<'_> {
        match wqe.payload {
            _ if len == 0 => Gather::None,
            Payload::Sges(run) => Gather::Sges {
                sges: self.sges.slice(run),
                offset,
                len,
            },
            Payload::Inline(run) => {
                Gather::Bytes(&self.inline.slice(run)[offset as usize..][..len as usize])
            }
        }
    }

    fn hold_sges(&mut self, list: &[Sge]) -> Run {
        if let Some(run) = self.sges.push(list) {
            return run;
        }
        let mut grown = self.sges.grown(list.len());
        for wqe in &mut self.wqes {
            if let Payload::Sges(run) = &mut wqe.payload {
                *run = grown.push(self.sges.slice(*run)).unwrap_or_default();
            }
        }
        self.sges = grown;
        self.sges.push(list).unwrap_or_default()
    }

    fn hold_inline(&mut self, bytes: &[u8]) -> Run {
        if let Some(run) = self.inline.push(bytes) {
            return run;
        }
        let mut grown = self.inline.grown(bytes.len());
        for wqe in &mut self.wqes {
            if let Payload::Inline(run) = &mut wqe.payload {
                *run = grown.push(self.inline.slice(*run)).unwrap_or_default();
            }
        }
        self.inline = grown;
        self.inline.push(bytes).unwrap_or_default()
    }
}

fn is_local(op: &SendOp) -> bool {
    matches!(op, SendOp::LocalInv(_) | SendOp::BindMw(_))
}

/// Does the service know this operation, and where it should go?
fn check_service(req: &SendRequest<'_>, service: QpType) -> Result<(), PostError> {
    let local = is_local(&req.op);
    let known = match service {
        QpType::Rc => true,
        QpType::XrcSend => !matches!(req.op, SendOp::AtomicWrite { .. }),
        QpType::Uc => {
            local
                || matches!(
                    req.op,
                    SendOp::Send
                        | SendOp::SendWithImm(_)
                        | SendOp::Write { .. }
                        | SendOp::WriteWithImm { .. }
                )
        }
        QpType::Ud => matches!(req.op, SendOp::Send | SendOp::SendWithImm(_)),
        QpType::XrcRecv => return Err(PostError::NoSendQueue),
    };

    if !known {
        return Err(PostError::BadOpcode);
    }

    let fits = match req.dest {
        Dest::Connected => local || matches!(service, QpType::Rc | QpType::Uc),
        Dest::Datagram(_) => service == QpType::Ud,
        Dest::XrcSrq(_) => service == QpType::XrcSend,
    };

    if fits {
        Ok(())
    } else {
        Err(PostError::BadDestination)
    }
}

/// Checks a request against its queue pair's service and limits and returns the message length.
pub(crate) fn check(req: &SendRequest<'_>, config: &QpConfig) -> Result<u32, PostError> {
    check_service(req, config.qp_type)?;
    let (max_sge, max_inline) = (config.cap.max_send_sge, config.cap.max_inline_data);
    let len = match req.data {
        SendData::Sges(list) => {
            if req.flags.contains(SendFlags::INLINE) && !list.is_empty() {
                return Err(PostError::BadOpcode);
            }
            if list.len() > max_sge as usize {
                return Err(PostError::TooManySges);
            }
            list.iter().map(|s| u64::from(s.length)).sum::<u64>()
        }
        SendData::Inline(bytes) => {
            // The word of an ATOMIC WRITE is handed over by value, whatever room for inline data
            // was asked for.
            let word = matches!(req.op, SendOp::AtomicWrite { .. });
            if bytes.len() > max_inline as usize && !word {
                return Err(PostError::InlineTooLong);
            }
            bytes.len() as u64
        }
    };

    if len > u64::from(MAX_MESSAGE) {
        return Err(PostError::BadLength);
    }

    let inline = matches!(req.data, SendData::Inline(_));
    match req.op {
        // Their list says where the answer goes; there is no payload that could be inline.
        SendOp::Read { .. } if inline => Err(PostError::BadOpcode),
        SendOp::CompareSwap { .. } | SendOp::FetchAdd { .. } if inline => Err(PostError::BadOpcode),
        SendOp::CompareSwap { .. } | SendOp::FetchAdd { .. } if len < 8 => {
            Err(PostError::BadLength)
        }
        SendOp::CompareSwap { .. } | SendOp::FetchAdd { .. } => Ok(8),
        SendOp::AtomicWrite { .. } if len != 8 => Err(PostError::BadLength),
        SendOp::Flush(flush) if !flush.is_sound() => Err(PostError::BadLength),
        // No list of theirs is looked at.
        SendOp::Flush(_) | SendOp::LocalInv(_) | SendOp::BindMw(_) => Ok(0),
        _ => Ok(len as u32),
    }
}
