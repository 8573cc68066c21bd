//! What a queue pair's state machine asks of the engine, carried out at once.

use std::sync::Arc;

use ferroce_control::Counter;
use ferroce_control::faults::Direction;
use ferroce_control::objects::{Pace, QpMoment};
use ferroce_transport::{
    Access, Completion, Flush, Host, MemoryError, Note, PathSignal, QpEvent, RecvWqe, Selectivity,
    Sge, Time, WindowBind,
};
use ferroce_wire::Octets;

use crate::datapath::path::Path;
use crate::memory::copies;
use crate::memory::guard;
use crate::memory::keys::{KeyTable, Peer, Piece};
use crate::memory::persist;
use crate::port::ib::Origin;
use crate::verbs::qp::Qp;
use crate::verbs::shared_requests::SharedRequests;

/// The host of one QP for one visit.
pub(crate) struct QpHost<'a> {
    pub(super) qp: &'a Qp,
    keys: &'a KeyTable,
    path: Option<&'a Path>,
    pub(super) now: Time,
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
    pub(super) spoilt: Option<Direction>,
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
            spoilt: None,
            sequence_nak: false,
        }
    }

    /// Counts at the device, and at the queue pair if it counts that.
    pub(super) fn count(&self, counter: Counter) {
        self.qp.hca().counters().add(counter, 1);
        self.qp.row.count(counter, 1);
    }

    /// The packet at hand is a CNP, which the path's controller has heard of.
    #[cold]
    fn notified(&self) {
        self.count(Counter::CnpHandled);
        let pace = self.path.and_then(|path| path.congestion.pace());
        tracing::debug!(
            qpn = %format_args!("{:#08x}", self.qp.qp_num()),
            rate = pace.map(|pace| pace.rate),
            alpha = pace.map(|pace| f64::from(pace.alpha) / f64::from(Pace::ONE)),
            "CNP received"
        );
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

    fn complete_send(&mut self, completion: Completion) {
        self.sent(completion);
    }

    fn complete_recv(&mut self, completion: Completion) {
        self.received(completion);
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
            PathSignal::Lost { .. } => self.count(Counter::PacketSeqErr),
            PathSignal::Loss => self.count(Counter::ImpliedNakSeqErr),
            PathSignal::Timeout => {
                self.count(Counter::LocalAckTimeout);
                let now = self.now.as_nanos();
                self.qp.row.happened(QpMoment::TimedOut, now);
            }
            PathSignal::Notified => self.notified(),
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
            Note::Marked => Counter::EcnMarked,
            Note::Notified => Counter::CnpSent,
        });
    }
}
