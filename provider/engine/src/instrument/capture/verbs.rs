//! What a program does by its verbs, and what it is told, for captures that want that, too.

use ferroce_control::capture::CaptureWriter;
use ferroce_control::capture::record::{Record, Verbs, VerbsKind, What};
use ferroce_transport::{QpState, SendData, SendOp, SendRequest, Sge};

use super::Captures;
use crate::progress::timers;
use crate::verbs::wc::Wc;

impl Captures {
    /// A send request has been posted.
    #[cold]
    pub(crate) fn posted_send(&self, qpn: u32, request: &SendRequest<'_>) {
        let bytes = match request.data {
            SendData::Inline(bytes) => bytes.len() as u64,
            SendData::Sges(sges) => sum(sges),
        };
        let verbs = Verbs {
            kind: VerbsKind::PostSend,
            wr_id: request.wr_id,
            opcode: opcode(&request.op),
            status: 0,
            bytes,
        };
        self.done(qpn, verbs);
    }

    /// A receive request has been posted.
    #[cold]
    pub(crate) fn posted_recv(&self, qpn: u32, wr_id: u64, sges: &[Sge]) {
        let verbs = Verbs {
            kind: VerbsKind::PostRecv,
            wr_id,
            opcode: 0,
            status: 0,
            bytes: sum(sges),
        };
        self.done(qpn, verbs);
    }

    /// A request has been completed.
    #[cold]
    pub(crate) fn completed(&self, wc: &Wc) {
        let verbs = Verbs {
            kind: VerbsKind::Completion,
            wr_id: wc.wr_id,
            opcode: wc.opcode,
            status: wc.status,
            bytes: wc.byte_len.into(),
        };
        self.done(wc.qp_num, verbs);
    }

    /// A queue pair has another state.
    #[cold]
    pub(crate) fn changed(&self, qpn: u32, state: QpState) {
        let verbs = Verbs {
            kind: VerbsKind::State,
            wr_id: 0,
            opcode: 0,
            status: state as u32,
            bytes: 0,
        };
        self.done(qpn, verbs);
    }

    fn done(&self, qpn: u32, verbs: Verbs) {
        let mut state = self.0.lock();
        let record = Record {
            time: timers::wall_clock(),
            qpn,
            what: What::Verbs(verbs),
        };
        let wants = |writer: &&mut CaptureWriter| writer.wants_verbs();
        for writer in state.writers.iter_mut().filter(wants) {
            writer.put(&record, &[]);
        }
    }
}

fn sum(sges: &[Sge]) -> u64 {
    sges.iter().map(|sge| u64::from(sge.length)).sum()
}

/// `enum ibv_wr_opcode`.
fn opcode(op: &SendOp) -> u32 {
    match op {
        SendOp::Write { .. } => 0,
        SendOp::WriteWithImm { .. } => 1,
        SendOp::Send => 2,
        SendOp::SendWithImm(_) => 3,
        SendOp::Read { .. } => 4,
        SendOp::CompareSwap { .. } => 5,
        SendOp::FetchAdd { .. } => 6,
        SendOp::LocalInv(_) => 7,
        SendOp::BindMw(_) => 8,
        SendOp::SendWithInv(_) => 9,
        SendOp::Flush(_) => 14,
        SendOp::AtomicWrite { .. } => 15,
    }
}
