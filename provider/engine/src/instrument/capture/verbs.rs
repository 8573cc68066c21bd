//! What a program does by its verbs, and what it is told, for captures that want that, too.

use ferroce_control::capture::CaptureWriter;
use ferroce_control::capture::record::{
    Attributes, Fate, FaultNote, Record, Verbs, VerbsKind, What,
};
use ferroce_transport::{Injected, QpAttr, QpState, QpType, SendData, SendOp, SendRequest, Sge};
use ferroce_wire::{Packet, mtu};

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
            status: request.flags.bits(),
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

    /// A queue pair has been set to something, or is captured from now on.
    #[cold]
    pub(crate) fn attributes(&self, qpn: u32, made: &Made, attr: &QpAttr) {
        let attributes = Attributes {
            service: made.service as u8,
            state: attr.qp_state as u8,
            path_mtu: mtu::code(attr.path_mtu),
            timeout: attr.timeout,
            retry_cnt: attr.retry_cnt,
            rnr_retry: attr.rnr_retry,
            min_rnr_timer: attr.min_rnr_timer,
            max_rd_atomic: attr.max_rd_atomic,
            max_dest_rd_atomic: attr.max_dest_rd_atomic,
            srq: made.srq,
            sq_sig_all: made.sq_sig_all,
            access: attr.qp_access_flags.bits(),
            sq_psn: attr.sq_psn,
            rq_psn: attr.rq_psn,
            dest_qp: attr.dest_qp_num,
            qkey: attr.qkey,
            stretch: made.stretch,
        };
        self.note(qpn, What::Attributes(attributes));
    }

    /// A fault has a packet of the queue pair's go this way.
    #[cold]
    pub(crate) fn fault(&self, qpn: u32, incoming: bool, packet: &Packet<'_>, fate: Fate) {
        let note = FaultNote {
            incoming,
            opcode: packet.bth.opcode,
            psn: packet.bth.psn,
            fate,
        };
        self.note(qpn, What::Fault(note));
    }

    fn done(&self, qpn: u32, verbs: Verbs) {
        self.note(qpn, What::Verbs(verbs));
    }

    fn note(&self, qpn: u32, what: What) {
        let mut state = self.0.lock();
        let record = Record {
            time: timers::wall_clock(),
            qpn,
            what,
        };
        let wants = |writer: &&mut CaptureWriter| writer.wants_verbs();
        for writer in state.writers.iter_mut().filter(wants) {
            writer.put(&record, &[]);
        }
    }
}

/// What a queue pair was made with.
pub(crate) struct Made {
    pub(crate) service: QpType,
    pub(crate) srq: bool,
    pub(crate) sq_sig_all: bool,
    pub(crate) stretch: u32,
}

/// What becomes of a request that is refused.
pub(crate) fn fate(why: Injected) -> Fate {
    match why {
        Injected::NotReady => Fate::NotReady,
        Injected::PsnSequence => Fate::PsnSequence,
        Injected::InvalidRequest => Fate::InvalidRequest,
        Injected::RemoteAccess => Fate::RemoteAccess,
        Injected::RemoteOperational => Fate::RemoteOperational,
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
