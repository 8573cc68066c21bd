//! The requester's receiving half: acknowledgements, READ and ATOMIC responses, NAKs and lost
//! answers.
//!
//! An answer completes everything before it (C9-60), but never passes a READ or ATOMIC whose
//! response is missing: that response counts as lost, and is asked for again. What comes beyond it
//! is for `answers`, or is dropped.

use crate::requester::Gap;
use crate::trace::Hex;
use crate::tuning::MAX_LOST_AGAIN;
use crate::{Duration, Host, PathSignal, Qp, QpEvent, QpState, Time, WcStatus};
use ferroce_wire::{Aeth, NakCode, Operation, Packet, Psn, Syndrome, rnr_timer_nanos};
use tracing::debug;

impl Qp {
    /// Takes a response packet, or a stretch of so many (section 9.7.6). Ghosts of old exchanges
    /// are dropped.
    #[inline]
    pub(crate) fn on_response<H: Host>(
        &mut self,
        now: Time,
        packet: &Packet<'_>,
        packets: u32,
        host: &mut H,
    ) {
        let una = self.req.una;
        let distance = Psn::new(packet.bth.psn).distance(Psn::new(una as u32 & 0xff_ffff));
        let psn = una.wrapping_add_signed(i64::from(distance));
        if psn >= self.req.max || psn + 1 < una {
            return;
        }
        self.meet(packet);
        match packet.info.operation {
            Operation::SelectiveAcknowledge => self.on_selective(now, psn, packet, host),
            Operation::Acknowledge => {
                if let Some(aeth) = packet.ext.aeth {
                    self.on_acknowledge(now, psn, aeth, host);
                }
            }
            Operation::ReadResponse | Operation::AtomicAcknowledge => {
                self.on_answer(now, psn, packet, packets, host);
            }
            _ => {}
        }
    }

    fn on_acknowledge<H: Host>(&mut self, now: Time, psn: u64, aeth: Aeth, host: &mut H) {
        match aeth.kind() {
            Syndrome::Ack(_) => {
                self.take_credits(aeth);
                if self.progress(now, psn + 1, host) {
                    self.missing_answer(now, psn, host);
                }
            }
            Syndrome::RnrNak { timer } => self.on_rnr(now, psn, timer, host),
            Syndrome::Nak(code) => self.on_nak(now, psn, code, host),
            Syndrome::Reserved(_) => {}
        }
    }

    /// Notes how far the peer's credits allow messages to go (section 9.7.7.2). The limit never
    /// falls: receive requests are not taken back.
    pub(crate) fn take_credits(&mut self, aeth: Aeth) {
        let Syndrome::Ack(code) = aeth.kind() else {
            return;
        };
        self.req.limit = match (code.count(), self.req.limit) {
            (None, _) => None,
            (Some(count), old) => {
                let new = aeth.msn.wrapping_add(count) & 0xff_ffff;
                match old {
                    Some(old) if new.wrapping_sub(old) & 0xff_ffff >= 1 << 23 => Some(old),
                    _ => Some(new),
                }
            }
        };
    }

    /// Everything before `to` is acknowledged, as far as no response is missing. Returns whether
    /// one is.
    #[must_use]
    pub(crate) fn progress<H: Host>(&mut self, now: Time, to: u64, host: &mut H) -> bool {
        if self.req.board.is_some() {
            return self.progress_on_board(now, to, host);
        }
        let (to, missing) = match self.req.awaited.front() {
            Some(a) if to > a.start.max(self.req.una) => (a.start.max(self.req.una), true),
            _ => (to, false),
        };
        if to > self.req.una {
            self.advance(now, to, host);
        }
        missing
    }

    /// Moves `una`, completes what lies before it and restarts counters and timer.
    pub(crate) fn advance<H: Host>(&mut self, now: Time, to: u64, host: &mut H) {
        let mtu = self.attr.path_mtu;
        let req = &mut self.req;
        req.una = to;
        req.gap = None;
        req.timers.retries = self.attr.retry_cnt;
        req.timers.rnr_retries = self.attr.rnr_retry;
        req.timers.rnr = None;
        while req.awaited.front().is_some_and(|a| a.end <= to) {
            req.awaited.pop_front();
        }

        // C9-60: a request completes when all of its packets are acknowledged, in order.
        let mut cost = None;
        while self.sq.base() < self.req.started {
            let Some(wqe) = self.sq.front() else { break };
            if wqe.end > to {
                cost = Some(wqe.cost_at(to.saturating_sub(wqe.first), mtu));
                break;
            }
            cost = Some(if wqe.first == wqe.end {
                wqe.cost // nothing was sent for it
            } else {
                wqe.cost_at(wqe.end - wqe.first, mtu)
            });
            if let Some(wqe) = self.sq.pop() {
                self.complete_send(&wqe, WcStatus::Success, host);
            }
        }

        let req = &mut self.req;
        let cost = cost.unwrap_or(req.una_cost).max(req.una_cost);
        let bytes = cost - req.una_cost;
        req.una_cost = cost;
        if let Some(restart) = &mut req.restart {
            *restart = restart.saturating_add(u32::try_from(bytes).unwrap_or(u32::MAX));
        }
        if req.next < to {
            // What was being sent again has arrived after all.
            req.next = to;
            req.next_cost = cost;
            req.cursor = self.sq.base();
        }

        debug_assert!(req.cursor >= self.sq.base());
        let news = req.board_passes(now, to);
        let bytes = bytes.saturating_sub(news.told);
        let rtt = match req.timed {
            Some((psn, sent)) if psn < to => {
                req.timed = None;
                Some(now - sent)
            }
            _ => news.rtt,
        };
        if let Some(rtt) = rtt {
            req.sample(rtt);
        }

        req.timers.silent = false;
        req.timers.ack = if req.una < req.max && req.next > req.una {
            req.timers.ack_deadline(now, self.attr.timeout)
        } else {
            None
        };
        req.expect_news(now);

        if bytes > 0 || rtt.is_some() {
            host.path_signal(PathSignal::Acked {
                bytes: bytes.min(u64::from(u32::MAX)) as u32,
                rtt,
            });
        }

        self.check_fault(host);
        self.check_drained(host);
    }

    /// A response is missing, as the later PSN `seen` shows (an implied NAK).
    pub(crate) fn lost_response<H: Host>(&mut self, now: Time, seen: u64, host: &mut H) {
        if self.attr.qp_state == QpState::Err {
            return;
        }
        let (una, rtt) = (self.req.una, self.req.rtt);
        if let Some(gap) = self.req.gap.as_mut().filter(|g| g.at == una) {
            // One loss shows in every answer after it; a second one at the same place shows in
            // answers that begin over, a round trip later.
            if seen > gap.seen || rtt.is_zero() || now - gap.since < gap.patience(rtt) {
                gap.seen = gap.seen.max(seen);
                return;
            }
        }
        self.lost(now, seen, host);
    }

    /// Something was lost at the oldest unacknowledged PSN.
    fn lost<H: Host>(&mut self, now: Time, seen: u64, host: &mut H) {
        let una = self.req.una;
        let before = self.req.gap.filter(|g| g.at == una).map_or(0, |g| g.times);
        self.req.gap = Some(Gap {
            at: una,
            seen,
            since: now,
            times: (before + 1).min(MAX_LOST_AGAIN),
        });
        host.path_signal(PathSignal::Loss);
        self.retry(host);
    }

    /// Sends again from the oldest unacknowledged PSN, if the retry count allows.
    pub(crate) fn retry<H: Host>(&mut self, host: &mut H) {
        if self.spend_retry(host) {
            self.req.rewind(self.sq.base());
        }
    }

    /// Counts a retry, if one is left; else the oldest request fails (C9-143).
    pub(crate) fn spend_retry<H: Host>(&mut self, host: &mut H) -> bool {
        if self.req.timers.retries == 0 {
            self.fail_oldest(WcStatus::RetryExcErr, host);
            return false;
        }
        self.req.timers.retries -= 1;
        debug!(
            qpn = %Hex(self.config.qpn),
            psn = self.req.una & 0xff_ffff,
            retries_left = self.req.timers.retries,
            "sends again"
        );
        true
    }

    /// The Local ACK Timeout has passed without progress (C9-139, C9-142).
    pub(crate) fn on_ack_timeout<H: Host>(&mut self, host: &mut H) {
        self.req.timers.ack = None;
        if self.req.una >= self.req.max {
            return;
        }
        self.req.gap = None;
        self.req.timers.silent = true;
        let psn = self.req.una & 0xff_ffff;
        debug!(qpn = %Hex(self.config.qpn), psn, "Local ACK Timeout");
        host.path_signal(PathSignal::Timeout);
        self.start_over(host);
    }

    fn on_rnr<H: Host>(&mut self, now: Time, psn: u64, timer: u8, host: &mut H) {
        if psn < self.req.una {
            return;
        }
        if self.progress(now, psn, host) {
            return self.lost_response(now, psn, host);
        }
        if self.attr.qp_state == QpState::Err || self.req.next == self.req.una {
            return; // nothing was sent since the last one: a duplicate
        }
        if self.req.timers.rnr_retries == 0 {
            return self.fail_oldest(WcStatus::RnrRetryExcErr, host);
        }
        // C9-132: 7 is for ever.
        if self.attr.rnr_retry != 7 {
            self.req.timers.rnr_retries -= 1;
        }
        debug!(
            qpn = %Hex(self.config.qpn),
            psn = psn & 0xff_ffff,
            wait_ns = rnr_timer_nanos(timer),
            retries_left = self.req.timers.rnr_retries,
            "RNR NAK received"
        );
        self.req.rewind(self.sq.base());
        // C9-130: nothing is sent again before the time that the responder asked for has passed.
        self.req.timers.rnr = Some(now + Duration::from_nanos(rnr_timer_nanos(timer)));
    }

    fn on_nak<H: Host>(&mut self, now: Time, psn: u64, code: NakCode, host: &mut H) {
        if psn < self.req.una {
            return;
        }
        if self.progress(now, psn, host) {
            return self.lost_response(now, psn, host);
        }
        if self.attr.qp_state == QpState::Err {
            return;
        }
        debug!(qpn = %Hex(self.config.qpn), psn = psn & 0xff_ffff, ?code, "NAK received");
        let status = match code {
            NakCode::PsnSequenceError => {
                // A second one for the same gap is a duplicate, unless a round trip has passed.
                let known = self.req.gap.is_some_and(|g| {
                    g.at == self.req.una
                        && now - g.since < self.req.rtt.max(Duration::from_nanos(1))
                });
                if self.req.next != self.req.una && !known {
                    self.lost(now, psn, host);
                }
                return;
            }
            NakCode::InvalidRequest => WcStatus::RemInvReqErr,
            NakCode::RemoteAccessError => WcStatus::RemAccessErr,
            NakCode::RemoteOperationalError => WcStatus::RemOpErr,
            NakCode::InvalidRdRequest => return,
        };
        self.fail_oldest(status, host);
    }

    /// The READ or ATOMIC whose response is due, if `psn` is its next packet. Anything before it is
    /// acknowledged; what is beyond a gap is taken, or shows a loss.
    #[inline(always)]
    fn due<H: Host>(
        &mut self,
        now: Time,
        psn: u64,
        packet: &Packet<'_>,
        host: &mut H,
    ) -> Option<u64> {
        let a = *self.req.awaited.front()?;
        let next = a.start.max(self.req.una);
        if psn < next {
            return None; // a duplicate, or a ghost
        }
        if next > self.req.una {
            self.advance(now, next, host);
        }
        if psn > next {
            if !self.take_early(now, psn, packet, host) {
                self.lost_response(now, psn, host);
            }
            return None;
        }
        (self.attr.qp_state != QpState::Err && self.req.awaited.front().is_some()).then_some(a.end)
    }

    /// A response of a READ, or a stretch of so many; or the answer to an ATOMIC.
    fn on_answer<H: Host>(
        &mut self,
        now: Time,
        psn: u64,
        packet: &Packet<'_>,
        packets: u32,
        host: &mut H,
    ) {
        let aeth = packet.ext.aeth;
        if aeth.is_some_and(|a| !matches!(a.kind(), Syndrome::Ack(_))) {
            return;
        }
        let Some(end) = self.due(now, psn, packet, host) else {
            return;
        };
        match self.place(self.sq.base(), psn, end, packet, packets, host) {
            None => return,
            Some(Err(status)) => return self.fail_oldest(status, host),
            Some(Ok(())) => {}
        }
        if let Some(aeth) = aeth {
            self.take_credits(aeth);
        }
        let to = match self.req.board {
            None => psn + u64::from(packets),
            Some(_) => self.closes(now, psn, host),
        };
        self.advance(now, to, host);
    }

    /// Announces that a draining send queue has nothing outstanding any more.
    pub(crate) fn check_drained<H: Host>(&mut self, host: &mut H) {
        if self.attr.qp_state == QpState::Sqd
            && self.attr.sq_draining
            && self.req.started == self.sq.base()
        {
            self.attr.sq_draining = false;
            if self.attr.en_sqd_async_notify {
                host.event(QpEvent::SqDrained);
            }
        }
    }
}

#[cfg(test)]
#[path = "completer_tests.rs"]
mod tests;
