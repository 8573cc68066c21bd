//! What a queue pair's state machine asks of the engine, carried out at once.

use std::sync::Arc;

use ferroce_control::Counter;
use ferroce_control::faults::Direction;
use ferroce_control::objects::QpMoment;
use ferroce_transport::{
    Access, Completion, Flush, Host, MemoryError, Note, PathSignal, QpEvent, RecvWqe, Selectivity,
    Sge, Time, WcData, WcStatus, WindowBind,
};
use ferroce_wire::Octets;

use crate::datapath::path::Path;
use crate::instrument::{FAULTS, VERBS};
use crate::memory::copies;
use crate::memory::guard;
use crate::memory::keys::{KeyTable, Peer, Piece};
use crate::memory::persist;
use crate::port::ib::Origin;
use crate::verbs::qp::Qp;
use crate::verbs::rendezvous::{TmCompletion, TmQp};
use crate::verbs::shared_requests::SharedRequests;
use crate::verbs::wc::Wc;

/// `enum ibv_wc_flags`
const WC_GRH: u32 = 1 << 0;
const WC_WITH_IMM: u32 = 1 << 1;
const WC_WITH_INV: u32 = 1 << 3;

/// The host of one QP for one visit.
pub(crate) struct QpHost<'a> {
    pub(super) qp: &'a Qp,
    keys: &'a KeyTable,
    path: Option<&'a Path>,
    now: Time,
    /// Who accesses memory: the QP, in its own protection domain or, for an XRC target, in that of
    /// the selected queue.
    peer: Peer,
    /// XRC target: the shared receive queue that the request at hand is for.
    selected: Option<Arc<SharedRequests>>,
    /// Where the datagram at hand came from.
    pub(crate) origin: Option<Origin>,
    /// The datagram at hand was dropped for its Q_Key.
    pub(crate) wrong_qkey: bool,
    /// A completion queue had no room.
    pub(super) overrun: bool,
    /// A fault has made a completion an error.
    pub(super) spoilt: bool,
    /// The packet at hand is a NAK for a PSN sequence error.
    pub(crate) sequence_nak: bool,
}

impl<'a> QpHost<'a> {
    pub(crate) fn new(
        qp: &'a Qp,
        keys: &'a KeyTable,
        path: Option<&'a Path>,
        now: Time,
    ) -> QpHost<'a> {
        QpHost {
            qp,
            keys,
            path,
            now,
            peer: qp.peer(),
            selected: None,
            origin: None,
            wrong_qkey: false,
            overrun: false,
            spoilt: false,
            sequence_nak: false,
        }
    }

    /// Counts at the device, and at the queue pair if it counts that.
    fn count(&self, counter: Counter) {
        self.qp.hca().counters().add(counter, 1);
        self.qp.row.count(counter, 1);
    }

    /// A request has failed, other than by being flushed.
    #[cold]
    fn failed(&self, status: WcStatus, receive: bool) {
        let now = self.now.as_nanos();
        self.qp.row.failed(status as u32, receive, now);
    }

    /// The packet at hand is an RNR NAK.
    pub(crate) fn receiver_not_ready(&self) {
        self.count(Counter::RnrNakRetry);
        let now = self.now.as_nanos();
        self.qp.row.happened(QpMoment::RnrReceived, now);
    }

    fn atomic(
        &self,
        rkey: u32,
        va: u64,
        f: impl FnOnce(*mut u64) -> Result<u64, MemoryError>,
    ) -> Result<u64, MemoryError> {
        let access = Access::REMOTE_ATOMIC;
        self.keys.remote(self.peer, rkey, va, 8, access, |at| {
            f(copies::atomic_cell(at.addr)?)
        })
    }

    /// Whose memory receive requests name: the shared receive queue's that they come from, or the
    /// queue pair's own.
    fn receive_pd(&self) -> u32 {
        match self.selected.as_ref().or(self.qp.srq.as_ref()) {
            Some(srq) => srq.pd_handle(),
            None => self.qp.peer().pd,
        }
    }

    /// Whose memory send requests name. Those of a queue pair that matches tags fetch what receive
    /// requests are for.
    fn requester_pd(&self) -> u32 {
        match self.qp.tm {
            Some(_) => self.receive_pd(),
            None => self.qp.peer().pd,
        }
    }

    fn scatter_in(
        &self,
        pd: u32,
        sges: &[Sge],
        offset: u32,
        data: Octets<'_>,
    ) -> Result<(), MemoryError> {
        let (mut rest, len) = (data, data.len() as u32);
        let place = |to: Piece| {
            let (now, later) = rest.split_at(to.len);
            rest = later;
            // SAFETY: the piece lies in a registered region, and the key table's lock that is held
            // keeps it registered.
            unsafe { copies::place(to.addr, now) }
        };
        self.keys
            .pieces(pd, sges, offset, len, Access::LOCAL_WRITE, place)
    }

    /// Completes a message on a queue that matches tags.
    fn complete_tagged(&mut self, tm: &TmQp, mut wc: Wc, tagged: TmCompletion, solicited: bool) {
        wc.opcode = tagged.opcode;
        wc.status = tagged.status;
        wc.wc_flags |= tagged.flags;
        if let Some((sges, headers)) = tagged.place {
            let room: u64 = sges.iter().map(|sge| u64::from(sge.length)).sum();
            let headers = &headers[..room.min(headers.len() as u64) as usize];
            if self.scatter_received(&sges, 0, headers.into()).is_err() {
                wc.status = WcStatus::LocProtErr as u32;
            }
        }
        self.overrun |= !tm.completions().push_tagged(wc, solicited, tagged.info);
    }

    /// Shows a completion to who captures.
    #[inline]
    fn tell(&self, wc: &Wc) {
        let taps = &self.qp.hca().taps;
        if taps.has(VERBS) {
            taps.completed(wc);
        }
    }

    fn wc(&self, c: &Completion) -> Wc {
        let (imm_data, mut wc_flags) = match c.data {
            WcData::None => ([0; 4], 0),
            WcData::Imm(imm) => (imm, WC_WITH_IMM),
            WcData::Invalidated(key) => (key.to_ne_bytes(), WC_WITH_INV),
        };
        if c.grh && self.origin.is_none_or(|origin| origin.has_grh) {
            wc_flags |= WC_GRH;
        }

        Wc {
            wr_id: c.wr_id,
            status: c.status as u32,
            opcode: c.opcode as u32,
            byte_len: c.byte_len,
            imm_data,
            qp_num: self.qp.qp_num(),
            src_qp: c.src_qp,
            wc_flags,
            slid: self.origin.map_or(0, |origin| origin.slid),
            sl: self.origin.map_or(0, |origin| origin.sl),
            dlid_path_bits: self.origin.map_or(0, |origin| origin.path_bits),
            ..Wc::default()
        }
    }
}

impl Host for QpHost<'_> {
    fn check_remote(
        &mut self,
        rkey: u32,
        va: u64,
        len: u64,
        access: Access,
    ) -> Result<(), MemoryError> {
        self.keys
            .remote(self.peer, rkey, va, len, access, |_| Ok(()))
    }

    fn write_remote(&mut self, rkey: u32, va: u64, data: Octets<'_>) -> Result<(), MemoryError> {
        let (len, access) = (data.len() as u64, Access::REMOTE_WRITE);
        let place = |to: Piece| {
            // SAFETY: the range lies in a registered region, and the key table's lock that is held
            // keeps it registered.
            unsafe { copies::place(to.addr, data) }
        };
        self.keys.remote(self.peer, rkey, va, len, access, place)
    }

    fn compare_swap(
        &mut self,
        rkey: u32,
        va: u64,
        compare: u64,
        swap: u64,
    ) -> Result<u64, MemoryError> {
        self.atomic(rkey, va, |cell| {
            // SAFETY: the aligned cell lies in a registered region.
            Ok(unsafe { guard::compare_swap(cell, compare, swap) }?)
        })
    }

    fn fetch_add(&mut self, rkey: u32, va: u64, add: u64) -> Result<u64, MemoryError> {
        self.atomic(rkey, va, |cell| {
            // SAFETY: the aligned cell lies in a registered region.
            Ok(unsafe { guard::fetch_add(cell, add) }?)
        })
    }

    fn write_word(&mut self, rkey: u32, va: u64, value: [u8; 8]) -> Result<(), MemoryError> {
        let access = Access::REMOTE_WRITE;
        self.keys.remote(self.peer, rkey, va, 8, access, |at| {
            let cell = copies::atomic_cell(at.addr)?;
            // SAFETY: the aligned cell lies in a registered region.
            Ok(unsafe { guard::publish(cell.cast(), u64::from_le_bytes(value), 8) }?)
        })
    }

    fn flush_remote(&mut self, flush: &Flush) -> Result<(), MemoryError> {
        let (va, len) = match flush.selectivity {
            Selectivity::Range => (flush.va, u64::from(flush.len)),
            Selectivity::Region => self.keys.extent(self.peer, flush.rkey)?,
        };
        let access = flush.placement.access();
        self.keys
            .remote(self.peer, flush.rkey, va, len, access, |of| {
                persist::place(of, flush.placement)
            })
    }

    fn invalidate_remote(&mut self, rkey: u32) -> Result<(), MemoryError> {
        self.keys.invalidate(self.peer, rkey)
    }

    fn invalidate_local(&mut self, key: u32) -> Result<(), MemoryError> {
        self.keys.invalidate(self.peer, key)
    }

    fn bind_window(&mut self, bind: &WindowBind) -> Result<(), MemoryError> {
        self.keys.bind(self.peer, bind)
    }

    fn select_srq(&mut self, srqn: u32) -> Result<(), MemoryError> {
        if matches!(&self.selected, Some(srq) if srq.number() == srqn) {
            return Ok(());
        }
        let domain = self.qp.domain().ok_or(MemoryError::Key)?;
        let srq = domain.srq(srqn).ok_or(MemoryError::Key)?;
        self.peer.pd = srq.pd_handle();
        self.selected = Some(srq);
        Ok(())
    }

    fn check_local(&mut self, sges: &[Sge], access: Access) -> Result<(), MemoryError> {
        self.keys.check_list(self.requester_pd(), sges, access)
    }

    fn scatter(&mut self, sges: &[Sge], offset: u32, data: Octets<'_>) -> Result<(), MemoryError> {
        self.scatter_in(self.requester_pd(), sges, offset, data)
    }

    fn scatter_received(
        &mut self,
        sges: &[Sge],
        offset: u32,
        data: Octets<'_>,
    ) -> Result<(), MemoryError> {
        self.scatter_in(self.receive_pd(), sges, offset, data)
    }

    fn take_srq(&mut self) -> Option<RecvWqe> {
        self.qp.srq.as_ref().or(self.selected.as_ref())?.take()
    }

    fn take_srq_for(&mut self, payload: Octets<'_>, only: bool) -> Option<RecvWqe> {
        let (Some(tm), Some(srq)) = (&self.qp.tm, &self.qp.srq) else {
            return self.take_srq();
        };
        let (wqe, room) = tm.receive(srq, payload, only, self.qp.qp_num())?;
        self.overrun |= !room;
        Some(wqe)
    }

    fn complete_send(&mut self, mut completion: Completion) {
        use WcStatus::*;

        if self.qp.hca().taps.has(FAULTS) {
            self.spoil(&mut completion, Direction::Out);
        }

        match completion.status {
            Success => {}
            WrFlushErr => self.count(Counter::ReqCqeFlushError),
            other => {
                self.count(Counter::ReqCqeError);
                self.failed(other, false);
                match other {
                    RetryExcErr => self.count(Counter::RetryExceeded),
                    RnrRetryExcErr => self.count(Counter::RnrRetryExceeded),
                    RemAccessErr => self.count(Counter::ReqRemoteAccessErrors),
                    RemInvReqErr => self.count(Counter::ReqRemoteInvalidRequest),
                    _ => {}
                }
            }
        }

        if let Some(tm) = &self.qp.tm {
            if let Some(wc) = tm.sent(&completion, self.qp.qp_num()) {
                self.overrun |= !tm.completions().push(wc, false);
            }
            return;
        }

        if let Some(cq) = &self.qp.send_cq {
            let wc = self.wc(&completion);
            self.tell(&wc);
            self.overrun |= !cq.push(wc, completion.solicited);
        }
    }

    fn complete_recv(&mut self, mut completion: Completion) {
        self.qp.row.receive_completed();
        if self.qp.hca().taps.has(FAULTS) {
            self.spoil(&mut completion, Direction::In);
        }

        match completion.status {
            WcStatus::Success => {}
            WcStatus::WrFlushErr => self.count(Counter::RespCqeFlushError),
            other => {
                self.count(Counter::RespCqeError);
                self.failed(other, true);
                if other == WcStatus::LocLenErr {
                    self.count(Counter::RespLocalLengthError);
                }
            }
        }

        let wc = self.wc(&completion);
        if let Some(tm) = &self.qp.tm
            && let Some(tagged) = tm.received(completion.status)
        {
            self.complete_tagged(tm, wc, tagged, completion.solicited);
            return;
        }

        // The queue may have gone while a request taken from it was under way: then nobody waits
        // for it.
        let of_srq;
        let cq = match completion.srq {
            0 => self.qp.recv_cq.as_ref(),
            number => {
                of_srq = self.qp.domain().and_then(|domain| domain.srq(number));
                of_srq.as_ref().and_then(|srq| srq.serves().completions())
            }
        };
        if let Some(cq) = cq {
            self.tell(&wc);
            self.overrun |= !cq.push(wc, completion.solicited);
        }
    }

    fn event(&mut self, event: QpEvent) {
        self.qp.raise(event as u32);
    }

    fn path_signal(&mut self, signal: PathSignal) {
        if let Some(path) = self.path {
            path.congestion.signal(self.now, signal);
        }
        match signal {
            PathSignal::Acked { .. } => {}
            PathSignal::Loss if self.sequence_nak => self.count(Counter::PacketSeqErr),
            PathSignal::Loss => self.count(Counter::ImpliedNakSeqErr),
            PathSignal::Timeout => {
                self.count(Counter::LocalAckTimeout);
                let now = self.now.as_nanos();
                self.qp.row.happened(QpMoment::TimedOut, now);
            }
            PathSignal::Notified => self.count(Counter::CnpHandled),
        }
    }

    fn note(&mut self, note: Note) {
        self.wrong_qkey |= matches!(note, Note::QkeyViolation);
        self.count(match note {
            Note::Duplicate => Counter::DuplicateRequest,
            Note::OutOfSequence => Counter::OutOfSequence,
            Note::QkeyViolation => Counter::QkeyViolation,
            Note::NoReceive => Counter::RxNoReceive,
            Note::TooLong => Counter::RespLocalLengthError,
            Note::UcLoss => Counter::UcLoss,
            Note::Refused => Counter::RespRemoteAccessErrors,
        });
    }
}
