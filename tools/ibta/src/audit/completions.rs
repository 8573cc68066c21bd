//! Completions against the requests that they are of (11.4.2.1, 11.6.2).

use super::books::{Books, Message, Pair, RECV};
use crate::protocol::{Completion, Opcode, Service};
use ferroce_wire::{NakCode, Syndrome};

/// `enum ibv_wc_status`.
pub(super) mod status {
    pub(crate) const LOC_LEN: u32 = 1;
    pub(crate) const LOC_QP_OP: u32 = 2;
    pub(crate) const LOC_PROT: u32 = 4;
    pub(crate) const FLUSHED: u32 = 5;
    pub(crate) const MW_BIND: u32 = 6;
    pub(crate) const BAD_RESP: u32 = 7;
    pub(crate) const LOC_ACCESS: u32 = 8;
    pub(crate) const REM_INV_REQ: u32 = 9;
    pub(crate) const REM_ACCESS: u32 = 10;
    pub(crate) const REM_OP: u32 = 11;
    pub(crate) const RETRY_EXC: u32 = 12;
    pub(crate) const RNR_RETRY_EXC: u32 = 13;
}
/// How a receive request may fail by itself (11.6.2): it is too short, its memory is not to be
/// written, or it is flushed.
const RECEIVE_ERRORS: [u32; 5] = [
    status::LOC_LEN,
    status::LOC_QP_OP,
    status::LOC_PROT,
    status::FLUSHED,
    status::LOC_ACCESS,
];

/// The NAK that goes with a status.
fn nak_of(status: u32) -> Option<NakCode> {
    match status {
        status::REM_INV_REQ => Some(NakCode::InvalidRequest),
        status::REM_ACCESS => Some(NakCode::RemoteAccessError),
        status::REM_OP => Some(NakCode::RemoteOperationalError),
        _ => None,
    }
}

/// Whether a send request may have failed so: what the peer is blamed for it has said (9.7.5.2.1,
/// 11.6.2).
///
/// # Errors
/// It may not.
fn has_cause(with: u32, pair: &Pair, opcode: Opcode) -> Result<(), String> {
    let cause = match with {
        status::LOC_LEN | status::LOC_QP_OP | status::LOC_PROT | status::FLUSHED => true,
        status::MW_BIND => opcode == Opcode::BindMw,
        status::BAD_RESP => pair.answered,
        status::RETRY_EXC => pair.created.service == Service::Rc,
        status::RNR_RETRY_EXC => {
            let not_ready = |syndrome: &Syndrome| matches!(syndrome, Syndrome::RnrNak { .. });
            pair.refusals.iter().any(not_ready)
        }
        _ => nak_of(with).is_some_and(|code| pair.refusals.contains(&Syndrome::Nak(code))),
    };

    match cause {
        true => Ok(()),
        false => Err(format!(
            "nothing was answered that a {opcode:?} fails of so"
        )),
    }
}

impl Books {
    /// A receive request that failed as the peer's fault: the peer was told so (C9-222.1.1).
    pub(super) fn check_blame(&mut self) {
        for (code, done) in std::mem::take(&mut self.blamed) {
            if !self.refused.contains(&(done.qp, Syndrome::Nak(code))) {
                self.note(format!("the peer has got no NAK of this: {done:?}"));
            }
        }
    }

    /// A completion of a send request.
    ///
    /// # Errors
    /// It is not as it must be.
    pub(super) fn sent(&mut self, qp: u32, done: &Completion) -> Result<(), String> {
        if done.qp != qp {
            return Err(format!("qp_num is not that of the queue pair, {qp:#x}"));
        }

        let pair = self
            .pairs
            .get_mut(&qp)
            .ok_or("there is no such queue pair")?;

        let at = pair
            .sends
            .iter()
            .position(|posted| posted.wr_id == done.wr_id);
        let at = at.ok_or("no send request with this wr_id is outstanding")?;

        // Behind one that is signaled nothing completes before it; one that is not completes
        // unheard.
        if let Some(first) = pair.sends.iter().take(at).find(|posted| posted.signaled) {
            return Err(format!("request {} is before it", first.wr_id));
        }

        let posted = pair.sends.drain(..=at).next_back().expect("just found");
        pair.completed += usize::from(posted.signaled);

        // C10-93.1.1, 11.6.2
        let too_long = pair.created.service == Service::Ud && posted.len > self.mtu;
        if too_long && !matches!(done.status, status::LOC_LEN | status::FLUSHED) {
            return Err("a datagram is longer than the MTU".to_owned());
        }
        if done.status != 0 {
            return has_cause(done.status, pair, posted.opcode);
        }
        if !posted.signaled {
            return Err("a request that is not signaled completes unheard".to_owned());
        }

        let (opcode, len) = match posted.opcode {
            Opcode::Send | Opcode::SendWithImm | Opcode::SendWithInv => (0, None),
            Opcode::RdmaWrite | Opcode::RdmaWriteWithImm => (1, None),
            Opcode::RdmaRead => (2, Some(posted.len)),
            Opcode::CompareSwap => (3, Some(8)),
            Opcode::FetchAdd => (4, Some(8)),
            Opcode::BindMw => (5, None),
            Opcode::LocalInv => (6, None),
        };

        if done.opcode != opcode {
            return Err(format!("opcode is not {opcode}, of {:?}", posted.opcode));
        }

        // How much was sent the sender knows; verbs promises byte_len of what comes in.
        match len {
            Some(len) if len != done.byte_len => Err(format!("byte_len is not {len}")),
            _ => Ok(()),
        }
    }

    /// A completion of a receive request.
    ///
    /// # Errors
    /// It is not as it must be.
    pub(super) fn received(&mut self, qp: u32, done: &Completion) -> Result<(), String> {
        let pair = self.pairs.get(&qp).ok_or("there is no such queue pair")?;

        // Those of a domain complete in one queue.
        let is_its_own = match pair.created.service {
            Service::XrcTarget => self
                .pairs
                .get(&done.qp)
                .is_some_and(|other| other.created.xrcd == pair.created.xrcd),
            _ => done.qp == qp,
        };
        if !is_its_own {
            return Err(format!("qp_num is not that of the queue pair, {qp:#x}"));
        }

        let service = pair.created.service;
        let mut queues = self.receive_queues(pair, qp).into_iter();
        let posted = queues.find_map(|(queue, in_turn)| {
            let requests = self.receives.get_mut(&queue)?;
            let at = requests
                .iter()
                .position(|(wr_id, _)| *wr_id == done.wr_id)?;
            let (_, len) = requests[at];
            if in_turn && at > 0 {
                return Some(Err(format!("{at} receive requests are before it")));
            }
            requests.remove(at);
            Some(Ok(len))
        });

        let len = posted.ok_or("no receive request with this wr_id is outstanding")??;
        if done.status != 0 {
            // What the peer was told may be on its way still.
            match nak_of(done.status) {
                Some(code) => self.blamed.push((code, *done)),
                None if RECEIVE_ERRORS.contains(&done.status) => {}
                None => return Err("no receive request fails so".to_owned()),
            }
            return Ok(());
        }

        if done.opcode == RECV && done.byte_len > len {
            return Err(format!("the request has room for {len} bytes"));
        }

        *self.delivered.entry(done.qp).or_default() += 1;
        let message = Message {
            opcode: done.opcode,
            byte_len: done.byte_len,
            imm: done.imm,
            invalidated: done.invalidated,
            src_qp: (service == Service::Ud).then_some(done.src_qp),
        };

        let sent = self.messages.get(&done.qp).map_or(&[][..], Vec::as_slice);
        match sent.contains(&message) {
            true => Ok(()),
            false => Err(format!(
                "no message that was sent is told so; they are {sent:?}"
            )),
        }
    }
}
