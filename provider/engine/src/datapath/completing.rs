//! Completions: who gets them, what is counted, and those with which a queue pair fails.

use ferroce_control::Counter;
use ferroce_control::faults::Direction;
use ferroce_transport::{Completion, Host, WcData, WcStatus};

use crate::datapath::qp_host::QpHost;
use crate::instrument::{FAULTS, LATENCY, VERBS};
use crate::verbs::places::{Place, Side};
use crate::verbs::rendezvous::{TmCompletion, TmQp};
use crate::verbs::wc::Wc;

/// `enum ibv_wc_flags`
const WC_GRH: u32 = 1 << 0;
const WC_WITH_IMM: u32 = 1 << 1;
const WC_WITH_INV: u32 = 1 << 3;

/// Why a queue pair fails with a completion.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Failure {
    /// It had no room.
    Overrun,
    /// A fault has made it an error: one of the send queue, or of the receive queue.
    Spoilt(Direction),
}

impl QpHost<'_> {
    /// Whether the queue pair is to fail after the visit.
    #[inline]
    pub(crate) fn failure(&self) -> Option<Failure> {
        match (self.overrun, self.spoilt) {
            (false, None) => None,
            (true, _) => Some(Failure::Overrun),
            (false, Some(direction)) => Some(Failure::Spoilt(direction)),
        }
    }

    /// A send request is complete.
    pub(super) fn sent(&mut self, mut completion: Completion) {
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
            let place = Place::new(self.qp.row.place(), Side::Send, completion.count);
            self.tell(&wc);
            self.overrun |= !cq.push_placed(wc, completion.solicited, place);
        }
    }

    /// A receive request is complete.
    pub(super) fn received(&mut self, mut completion: Completion) {
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
            let place = match (&self.qp.srq, completion.srq) {
                (None, 0) => Place::new(self.qp.row.place(), Side::Receive, completion.count),
                _ => Place::default(),
            };
            self.overrun |= !cq.push_placed(wc, completion.solicited, place);
        }
    }

    /// A request has failed, other than by being flushed.
    #[cold]
    fn failed(&self, status: WcStatus, receive: bool) {
        let now = self.now.as_nanos();
        self.qp.row.failed(status as u32, receive, now);
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

    /// Shows a completion to who captures or measures.
    #[inline]
    fn tell(&self, wc: &Wc) {
        if self.qp.hca().taps.has(VERBS | LATENCY) {
            self.qp.told(wc);
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

    /// What faults make of a completion. Those behind an error are flushed.
    #[cold]
    fn spoil(&mut self, completion: &mut Completion, direction: Direction) {
        if self.spoilt.is_none() {
            let hca = self.qp.hca();
            let qp = (self.qp.qp_num(), self.qp.ordinal);
            let faults = &hca.taps.faults;
            let spoilt = faults.spoil(qp, completion, direction, hca.counters());
            self.spoilt = spoilt.then_some(direction);
        } else if completion.status == WcStatus::Success {
            completion.status = WcStatus::WrFlushErr;
        }
    }
}
