//! The requester's sending half: which request may start, what is outstanding, and where
//! retransmission resumes.
//!
//! PSNs are kept extended to 64 bits, so that order needs no modular arithmetic; the low 24 bits go
//! on the wire. The packets themselves are made in `packets`; what answers do is in `completer`.

use crate::board::Board;
use crate::budget::Budget;
use crate::peer::Peer;
use crate::reordering::Reordering;
use crate::send_queue::{self, SendWqe};
use crate::silence::Silence;
use crate::timer::Timers;
use crate::tuning::{LOSS_FREE_PACKETS, LOST_AGAIN, LOST_AT_ONCE, MIN_MESSAGE_COST};
use crate::{Access, Duration, Host, Qp, QpAttr, QpState, SendFlags, Sink, Time, WcStatus};
use std::collections::VecDeque;

/// PSNs that may be outstanding: one less than half of their space, so that old and new can be told
/// apart.
const MAX_OUTSTANDING: u64 = (1 << 23) - 1;

/// READ requests (or an ATOMIC) whose responses are awaited: their PSNs from `start` to before
/// `end`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Awaited {
    pub start: u64,
    pub end: u64,
}

/// A request that cannot be sent: it completes with `status` when everything before it has.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Fault {
    pub seq: u64,
    pub status: WcStatus,
}

/// A loss that was acted upon.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Gap {
    /// The PSN that is missing.
    pub at: u64,
    /// The latest PSN that showed it.
    pub seen: u64,
    /// When it was acted upon.
    pub since: Time,
    /// How often it was: 1 and more.
    pub times: u8,
}

impl Gap {
    /// How long answers are taken to be to what was sent before the loss was acted upon last.
    pub(crate) fn patience(&self, rtt: Duration) -> Duration {
        let least = match self.times {
            0..=LOST_AT_ONCE => Duration::ZERO,
            _ => LOST_AGAIN,
        };
        rtt.max(least) * (1 << (self.times - 1))
    }
}

/// The requester's state, shared with the completer.
#[derive(Clone, Debug, Default)]
pub(crate) struct Requester {
    /// Oldest PSN not acknowledged.
    pub una: u64,
    /// PSN that goes out next.
    pub next: u64,
    /// PSN after the highest sent (or, for a READ, awaited).
    pub max: u64,
    /// Request that goes out next.
    pub cursor: u64,
    /// First request that never started, hence has no PSNs.
    pub started: u64,
    /// The window's accounting at `una` and at `next`.
    pub una_cost: u64,
    pub next_cost: u64,
    /// Outstanding READs and ATOMICs, by PSN.
    pub awaited: VecDeque<Awaited>,
    /// PSN after the last packet of this round that asks for an acknowledgement.
    pub asked: u64,
    /// Bytes since then.
    pub unasked: u64,
    /// Messages started; the next one's number is one more (24 bits on the wire).
    pub ssn: u32,
    /// Number of the last message that the peer's credits allow, `None` while it keeps none.
    pub limit: Option<u32>,
    pub fault: Option<Fault>,
    /// The last loss that was acted upon.
    pub gap: Option<Gap>,
    /// After a Local ACK Timeout: bytes that may be on their way, until that is the window.
    pub restart: Option<u32>,
    /// Once this PSN is acknowledged, losses are long ago.
    pub calm_from: u64,
    /// Smoothed round-trip time, 0 before the first sample.
    pub rtt: Duration,
    /// A packet under measurement: the PSN whose acknowledgement ends it, and when it was sent.
    pub timed: Option<(u64, Time)>,
    pub timers: Timers,
    /// Packets sent, a stretch counted as one.
    pub packets: u64,
    /// Whether the peer understands selective acknowledgements.
    pub peer: Peer,
    /// What has become of each packet, while something is missing.
    pub board: Option<Box<Board>>,
    pub reordering: Reordering,
    /// How long nothing was heard, and what that meant.
    pub silence: Silence,
    /// PSN after the last of the parts of READs that were asked for again.
    pub parts_to: u64,
}

/// Why sending of one request paused.
pub(crate) enum Flow {
    Done,
    Blocked,
    Spent,
}

/// Packets that a message of `len` bytes takes.
pub(crate) fn packets(len: u32, mtu: u32) -> u32 {
    len.div_ceil(mtu).max(1)
}

impl SendWqe {
    /// Packets of the message (for a READ: of its response).
    fn packets(&self, mtu: u32) -> u64 {
        u64::from(packets(self.len, mtu))
    }

    /// The window's accounting before the message's packet `k`.
    pub(crate) fn cost_at(&self, k: u64, mtu: u32) -> u64 {
        let packets = self.end - self.first;
        self.cost
            + if k >= packets && !self.level {
                u64::from(self.len).max(MIN_MESSAGE_COST)
            } else {
                k.min(packets) * u64::from(mtu)
            }
    }
}

impl Requester {
    /// Starts afresh for a connection whose first PSN is `psn`.
    pub(crate) fn connect(&mut self, psn: u32, seq: u64, attr: &QpAttr) {
        // A whole turn above zero, so that a PSN before the first is still positive.
        let psn = u64::from(psn) + (1 << 24);
        let awaited = std::mem::take(&mut self.awaited);
        *self = Requester {
            una: psn,
            next: psn,
            max: psn,
            cursor: seq,
            started: seq,
            timers: self.timers,
            awaited,
            packets: self.packets,
            ..Requester::default()
        };
        self.awaited.clear();
        self.timers.stop();
        self.timers.retries = attr.retry_cnt;
        self.timers.rnr_retries = attr.rnr_retry;
    }

    /// Forgets what is outstanding: the queue was emptied and will go on at `seq`.
    pub(crate) fn forget(&mut self, seq: u64) {
        self.cursor = seq;
        self.started = seq;
        self.una = self.max;
        self.next = self.max;
        self.una_cost = self.next_cost;
        self.awaited.clear();
        self.fault = None;
        self.timed = None;
        self.gap = None;
        self.drop_board();
    }

    /// Goes back to the oldest unacknowledged PSN.
    pub(crate) fn rewind(&mut self, oldest: u64) {
        self.calm_from = self.max + LOSS_FREE_PACKETS;
        self.next = self.una;
        self.next_cost = self.una_cost;
        self.cursor = oldest;
        self.asked = 0;
        self.unasked = 0;
        self.timed = None; // Karn: what was sent twice cannot be timed.
        self.timers.ack = None;
        self.drop_board();
    }

    /// Books a packet that was sent.
    #[inline(always)]
    pub(crate) fn sent(&mut self, now: Time, after: u64, end: u64, asks: bool, timeout: u8) {
        if asks {
            if self.next >= self.max && self.timed.is_none() && self.board.is_none() {
                self.timed = Some((self.next, now));
            }
            self.asked = end;
            self.unasked = 0;
        }
        if self.board.is_some() {
            self.board_sent(now, end, after - self.next_cost);
        }
        self.next = end;
        self.max = self.max.max(end);
        self.next_cost = after;
        self.packets += 1;
        if self.timers.ack.is_none() {
            self.timers.ack = self.timers.ack_deadline(now, timeout);
            self.expect_news(now);
        }
    }
}

impl Qp {
    /// Sends what the window, the budget and the protocol allow. Returns whether only the budget
    /// stopped it.
    pub(crate) fn send_requests<H: Host, S: Sink>(
        &mut self,
        now: Time,
        window: u32,
        budget: &mut Budget,
        host: &mut H,
        sink: &mut S,
    ) -> bool {
        let window = self.req.restarted(window);
        if self.req.board.is_some() {
            match self.resend(now, window, budget, host, sink) {
                Flow::Done => {}
                Flow::Blocked => return false,
                Flow::Spent => return true,
            }
        }
        if !self.is_room_worth_a_run(window.into()) {
            return false;
        }
        self.send_what_fits(now, window, budget, host, sink)
    }

    /// As [`send_requests`](Self::send_requests), however little there is room for, and not what is
    /// sent again by itself.
    #[inline(always)]
    pub(crate) fn send_what_fits<H: Host, S: Sink>(
        &mut self,
        now: Time,
        window: u32,
        budget: &mut Budget,
        host: &mut H,
        sink: &mut S,
    ) -> bool {
        loop {
            if !self.may_send() {
                return false;
            }
            if self.req.cursor == self.req.started && !self.start_next(now, window, host) {
                return false;
            }
            let seq = self.req.cursor;
            if self.req.fault.is_some_and(|f| f.seq == seq) {
                return false;
            }
            let Some(wqe) = self.sq.wqe(seq) else {
                return false;
            };
            let flow = if wqe.is_read() {
                self.send_read(now, window, budget, sink)
            } else if wqe.is_answered() {
                self.send_atomic(now, budget, sink)
            } else {
                self.send_message(now, window, budget, sink)
            };
            match flow {
                Ok(Flow::Done) => self.req.cursor += 1,
                Ok(Flow::Blocked) => return false,
                Ok(Flow::Spent) => return true,
                // The sink found the gather list wanting.
                Err(_) => self.set_fault(seq, WcStatus::LocProtErr, host),
            }
        }
    }

    #[inline]
    pub(crate) fn may_send(&self) -> bool {
        matches!(self.attr.qp_state, QpState::Rts | QpState::Sqd) && self.req.timers.rnr.is_none()
    }

    /// Lets the next request begin, if there is one and it may, and gives it its PSNs.
    fn start_next<H: Host>(&mut self, now: Time, window: u32, host: &mut H) -> bool {
        loop {
            let seq = self.req.started;
            let Some(wqe) = self.sq.wqe(seq) else {
                return false;
            };
            // A draining send queue stops between messages.
            if self.attr.qp_state != QpState::Rts || self.req.fault.is_some() {
                return false;
            }
            // C10-78
            if wqe.flags.contains(SendFlags::FENCE) && !self.req.awaited.is_empty() {
                return false;
            }
            if wqe.is_local() {
                if self.start_local(seq, host) {
                    continue;
                }
                return false;
            }
            let mtu = self.attr.path_mtu;
            let packets = wqe.packets(mtu);
            let answers = wqe.is_answered();
            let first_cost = u64::from(wqe.len.min(mtu)).max(MIN_MESSAGE_COST);
            if self.req.max - self.req.una + packets > MAX_OUTSTANDING
                || !self.req.fits(
                    self.req.next_cost.saturating_sub(self.req.base_cost()) + first_cost,
                    u64::from(window),
                )
                || wqe.consumes_receive() && !self.req.credited()
                || answers
                    && self.attr.max_rd_atomic > 0
                    && self.req.awaited.len() >= usize::from(self.attr.max_rd_atomic)
            {
                return false;
            }
            let refused = if answers && self.attr.max_rd_atomic == 0 {
                Some(WcStatus::LocQpOpErr)
            } else if (answers && !wqe.is_atomic_write() && wqe.len > 0
                && host.check_local(self.sq.sges(wqe), Access::LOCAL_WRITE).is_err())
                // A single packet is checked as it is gathered; a longer message must not break off
                // half way.
                || (!answers && packets > 1
                    && matches!(wqe.payload, send_queue::Payload::Sges(_))
                    && host.check_local(self.sq.sges(wqe), Access::empty()).is_err())
            {
                Some(WcStatus::LocProtErr)
            } else {
                None
            };
            let (first, cost, is_read) = (self.req.max, self.req.next_cost, wqe.is_read());
            let fill = self.filling.of_requests();
            let level = fill.levels(packets, self.sq.end() > seq + 1);
            if let Some(wqe) = self.sq.wqe_mut(seq) {
                wqe.first = first;
                wqe.end = first + packets;
                wqe.cost = cost;
                wqe.level = level;
            }
            self.req.started += 1;
            if let Some(status) = refused {
                self.set_fault(seq, status, host);
                return false;
            }
            if !is_read {
                self.req.ssn = (self.req.ssn + 1) & 0xff_ffff;
            }
            self.ping_pong.request(now);
            return true;
        }
    }

    /// Marks a request as impossible. It fails once it is the oldest.
    pub(crate) fn set_fault<H: Host>(&mut self, seq: u64, status: WcStatus, host: &mut H) {
        self.req.fault = Some(Fault { seq, status });
        self.check_fault(host);
    }

    /// Fails a request that was found impossible, once everything before it is complete.
    pub(crate) fn check_fault<H: Host>(&mut self, host: &mut H) {
        if let Some(fault) = self.req.fault
            && fault.seq == self.sq.base()
        {
            self.fail_oldest(fault.status, host);
        }
    }

    /// Completes the oldest request with an error and takes the queue pair to ERR.
    pub(crate) fn fail_oldest<H: Host>(&mut self, status: WcStatus, host: &mut H) {
        if let Some(wqe) = self.sq.pop() {
            self.complete_send(&wqe, status, host);
        }
        self.enter_error(host);
    }
}

#[cfg(test)]
#[path = "requester_tests.rs"]
mod tests;
