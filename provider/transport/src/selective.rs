//! The requester's part of selective acknowledgements: gaps are filled one by one, and silence is
//! asked about long before the Local ACK Timeout.
//!
//! Only towards a peer that has shown that it understands them. What the scoreboard decides is in
//! `board`, what answers do to it in `answers`, what silence does in `doubt`. After a NAK or an RNR
//! NAK all is sent again from the oldest on, as towards everybody else, until there is news of what
//! of it is not needed.

use crate::board::{Entry, News};
use crate::budget::Budget;
use crate::peer::Peer;
use crate::requester::{Flow, Requester};
use crate::{Duration, Host, PathSignal, Qp, QpState, Sink, Time};
use ferroce_wire::selective::{Came, REACH};
use ferroce_wire::{Packet, Syndrome};

impl Requester {
    /// Whether requests show that this side understands selective acknowledgements: to whom it may
    /// be of use, until an answer says that the other does not.
    #[inline]
    pub(crate) fn shows(&self) -> bool {
        matches!(self.peer, Peer::Unknown | Peer::Selective)
    }

    /// Where the window's accounting begins: what is not on its way does not count.
    pub(crate) fn base_cost(&self) -> u64 {
        self.una_cost + self.board.as_ref().map_or(0, |board| board.aside())
    }

    /// May a packet with the next PSN still be kept by the peer, should it come early?
    pub(crate) fn reaches(&self) -> bool {
        self.board.is_none() || self.next <= self.una + u64::from(REACH)
    }

    /// A round trip has taken so long.
    pub(crate) fn sample(&mut self, rtt: Duration) {
        self.rtt = if self.rtt.is_zero() {
            rtt
        } else {
            self.rtt - self.rtt / 8 + rtt / 8
        };
    }

    /// The next packet was sent, and the scoreboard is to know.
    #[cold]
    pub(crate) fn board_sent(&mut self, now: Time, end: u64, cost: u64) {
        let next = self.next;
        let awaited = self.awaited.back().is_some_and(|a| a.start == next);
        if let Some(board) = &mut self.board {
            board.sent(next, end, cost, Some(now));
            if awaited {
                board.awaits(true);
            }
        }
    }

    /// There was news, or the first packet of a flight went out: from now on it is waited for the
    /// next.
    #[inline]
    pub(crate) fn expect_news(&mut self, now: Time) {
        if self.peer == Peer::Selective {
            self.silence.ends(now, self.rtt);
            self.timers.probe = self.probe_at(now);
        }
    }

    /// When to ask, if there is no news.
    pub(crate) fn probe_at(&self, now: Time) -> Option<Time> {
        (self.una < self.max).then(|| now + self.silence.wait(now, self.rtt))
    }

    /// Something is sent again as nothing was heard for long. Whether that is the first since there
    /// was news.
    pub(crate) fn asks(&mut self, now: Time) -> bool {
        let first = self.silence.probe(now, self.rtt);
        self.timers.probe = self.probe_at(now);
        first
    }

    /// Everything before `to` has come: the scoreboard moves on, and goes if it has no more to say.
    #[inline]
    pub(crate) fn board_passes(&mut self, now: Time, to: u64) -> News {
        match self.board {
            None => News::default(),
            Some(_) => self.move_board(now, to),
        }
    }

    #[cold]
    fn move_board(&mut self, now: Time, to: u64) -> News {
        let Some(board) = &mut self.board else {
            return News::default();
        };
        let news = board.passes(to, now, self.rtt, &mut self.reordering);
        if board.is_settled() {
            if !board.reordered {
                self.reordering.0 = self.reordering.0.saturating_sub(1);
            }
            self.drop_board();
        } else {
            self.timers.reorder = Some(now);
        }
        news
    }

    pub(crate) fn drop_board(&mut self) {
        self.board = None;
        self.timers.reorder = None;
    }
}

impl Qp {
    /// The peer may be one that understands selective acknowledgements, until the next RESET: from
    /// now on requests show that this side does, if so, and requests that show it are answered in
    /// kind. A stranger's are not, whatever its reserved bits are.
    pub fn introduce(&mut self) {
        self.introduced = self.config.selective.is_some() && !self.is_unreliable();
        let connected = matches!(self.attr.qp_state, QpState::Rts | QpState::Sqd);
        if connected && self.req.peer == Peer::Stranger {
            self.req.peer = self.first_impression();
        }
    }

    /// The peer may be one that understands filled packets, until the next RESET: from now on it is
    /// shown that this side does, and those that it sends are taken. Unreliable services have none.
    /// `near`: no line is between, on which what fills short packets would take the place of data.
    pub fn expect_filled(&mut self, near: bool) {
        self.filling.expected = !self.is_unreliable();
        self.filling.near = near;
    }

    /// Whether the peer may be one of our kind ([`Self::expect_filled`]): on a host whose losses
    /// are asked after some round trips later, or on this device, where there are none.
    pub fn knows_its_peer(&self) -> bool {
        self.filling.expected
    }

    /// What is known of the peer before it has answered.
    pub(crate) fn first_impression(&self) -> Peer {
        match self.introduced {
            true => Peer::Unknown,
            false => Peer::Stranger,
        }
    }

    /// What an answer shows of the peer. One that was introduced by name may not have heard of this
    /// side yet, and will.
    #[inline]
    pub(crate) fn meet(&mut self, packet: &Packet<'_>) {
        if self.req.peer == Peer::Unknown {
            if packet.bth.selective {
                self.req.peer = Peer::Selective;
            } else if self.config.introduced {
                self.req.peer = Peer::Plain;
            }
        }
    }

    /// A selective acknowledgement: an ACK of everything up to `psn`, and what has come beyond the
    /// packet after it.
    pub(crate) fn on_selective<H: Host>(
        &mut self,
        now: Time,
        psn: u64,
        packet: &Packet<'_>,
        host: &mut H,
    ) {
        let (Some(aeth), Some(came)) = (packet.ext.aeth, Came::parse(packet.payload)) else {
            return;
        };
        if self.req.peer != Peer::Selective || !matches!(aeth.kind(), Syndrome::Ack(_)) {
            return;
        }

        self.take_credits(aeth);
        if self.progress(now, psn + 1, host) {
            self.missing_answer(now, psn, host);
        }

        if self.req.una > psn + 1 || !self.keeps_score() {
            return;
        }

        let req = &mut self.req;
        let Some(board) = &mut req.board else { return };
        let psns = came.iter().map(|offset| psn + 2 + u64::from(offset));
        let news = board.came(psns, now, req.rtt, &mut req.reordering);
        self.heard(now, news, host);
        self.find_losses(now, host);
    }

    /// Has what is lost by now sent again.
    pub(crate) fn find_losses<H: Host>(&mut self, now: Time, host: &mut H) {
        let req = &mut self.req;
        let Some(board) = &mut req.board else { return };
        let (cost, again) = board.losses(now, req.rtt, req.reordering);
        req.timers.reorder = again;
        if cost > 0 {
            let bytes = u32::try_from(cost).unwrap_or(u32::MAX);
            host.path_signal(PathSignal::Lost { bytes });
        }
    }

    /// Acts on the timers of this part that have passed.
    pub(crate) fn on_recovery_timers<H: Host>(&mut self, now: Time, host: &mut H) {
        if self.req.timers.reorder.is_some_and(|t| t <= now) {
            self.req.timers.reorder = None;
            self.find_losses(now, host);
        }
        if self.req.timers.probe.is_some_and(|t| t <= now) {
            self.req.timers.probe = None;
            self.probe(now);
        }
    }

    /// Sends again what is lost, as the window and the budget allow. `Done`: nothing is left of it.
    pub(crate) fn resend<H: Host, S: Sink>(
        &mut self,
        now: Time,
        window: u32,
        budget: &mut Budget,
        host: &mut H,
        sink: &mut S,
    ) -> Flow {
        if !self.may_send() {
            return Flow::Blocked;
        }
        while let Some((i, entry)) = self.req.board.as_ref().and_then(|board| board.next_lost()) {
            if budget.is_spent() {
                return Flow::Spent;
            }
            let in_flight = self.req.next_cost.saturating_sub(self.req.base_cost());
            if in_flight > 0 && in_flight + u64::from(entry.cost) > u64::from(window) {
                return Flow::Blocked;
            }

            let Some(seq) = self.sq.find(entry.psn, self.req.started) else {
                return Flow::Blocked;
            };
            // It fails once it is the oldest, and takes what follows it along.
            if self.req.fault.is_some_and(|fault| fault.seq <= seq) {
                return Flow::Blocked;
            }
            match self.send_again(seq, entry.psn, entry.end, sink) {
                Ok(len) => budget.spend(len),
                Err(_) => {
                    self.set_fault(seq, crate::WcStatus::LocProtErr, host);
                    return Flow::Blocked;
                }
            }

            self.resent(now, i, &entry);
        }
        Flow::Done
    }

    /// Books a packet that was sent again by itself: its place on the scoreboard.
    pub(crate) fn resent(&mut self, now: Time, i: usize, entry: &Entry) {
        let req = &mut self.req;
        req.packets += 1;
        if entry.answered {
            req.parts_to = req.parts_to.max(entry.end);
        }
        if let Some(board) = &mut req.board {
            board.resent(i, now);
        }
        if req.timers.ack.is_none() {
            req.timers.ack = req.timers.ack_deadline(now, self.attr.timeout);
        }
        if req.timers.probe.is_none() {
            req.timers.probe = req.probe_at(now);
        }
    }
}
