//! Answers that come before an earlier one: responses of READs, and answers to ATOMICs, ATOMIC
//! WRITEs and FLUSHes.
//!
//! Towards a peer that understands selective acknowledgements such an answer is taken at once: it
//! is placed in the program's buffer, of which nothing is promised before the completion, and its
//! PSN is noted on the scoreboard. What is missing is asked for by itself, by a READ request for
//! that part, which is a duplicate to the peer. That is done only once the peer is known to have
//! taken the READ: before, the part would pass for a new request of its own.
//!
//! The acknowledged edge `una` stays at the first answer that is missing, so requests complete in
//! order, and nothing is placed for one that has. An answer that is not what it should be is
//! dropped: in its turn it comes again, and is refused then.

use crate::board::{Board, Entry, Fate, News};
use crate::reordering::Reordering;
use crate::requester::Requester;
use crate::{Duration, Host, PathSignal, Qp, Time, WcStatus};
use ferroce_wire::{Operation, Packet, Position};

impl Board {
    /// The peer has carried out everything before `to`. `acked`: an acknowledgement says so, which
    /// follows all that was answered.
    #[cold]
    pub(crate) fn executed(
        &mut self,
        to: u64,
        acked: bool,
        now: Time,
        rtt: Duration,
        reordering: &mut Reordering,
    ) -> News {
        let mut news = News::default();
        self.acked = self.acked.max(to);
        for i in 0..self.entries.len() {
            let entry = self.entries[i];
            if entry.psn >= to {
                break;
            }
            if !entry.answered {
                self.arrives(i, now, rtt, reordering, &mut news);
                self.is_here(i, &mut news);
                continue;
            }
            if entry.fate == Fate::Kept {
                // It was answered when its turn came: neither its place nor its time is when it was
                // sent.
                self.set(i, Fate::Out);
                let others = entry.end - entry.psn - 1;
                self.entries[i].order = self.newest.saturating_sub(others);
                self.entries[i].shows = self.entries[i].order;
                self.entries[i].head = false;
            }
            // Of what was asked for again an acknowledgement may be older.
            if acked && entry.end <= to && entry.fate != Fate::Came && !entry.again {
                self.newest = self.newest.max(self.entries[i].last() + 2);
            }
        }
        news
    }

    /// Has the answer with this PSN not come yet?
    pub(crate) fn lacks(&self, psn: u64) -> bool {
        let i = self.entries.partition_point(|entry| entry.end <= psn);
        let entry = self.entries.get(i).filter(|entry| entry.psn <= psn);
        entry.is_some_and(|entry| entry.answered && entry.fate != Fate::Came)
    }

    /// The answer with this PSN has come, which was lacking.
    #[cold]
    pub(crate) fn answer(
        &mut self,
        psn: u64,
        now: Time,
        rtt: Duration,
        reordering: &mut Reordering,
    ) -> News {
        let mut news = self.executed(psn + 1, false, now, rtt, reordering);
        if !self.lacks(psn) {
            return news;
        }

        let i = self.isolate(psn, psn + 1);
        self.arrives(i, now, rtt, reordering, &mut news);
        self.is_here(i, &mut news);
        self.join(i + 1);
        self.join(i);
        news
    }

    /// Makes responses that are a part of an entry, or all of it, an entry of their own, and
    /// returns its place.
    fn isolate(&mut self, psn: u64, end: u64) -> usize {
        let mut i = self.entries.partition_point(|entry| entry.end <= psn);
        if self.entries[i].psn < psn {
            self.cut(i, psn);
            i += 1;
        }
        if self.entries[i].end > end {
            self.cut(i, end);
        }
        i
    }

    /// The entry that a request for these PSNs would send again, and its place: a whole one, or a
    /// part of an answer of which the peer has begun to send.
    pub(crate) fn part(&mut self, psn: u64, end: Option<u64>) -> Option<(usize, Entry)> {
        let i = self.entries.partition_point(|entry| entry.end <= psn);
        let entry = *self.entries.get(i)?;
        let end = end.unwrap_or(entry.end);
        if (entry.psn, entry.end) == (psn, end) {
            return Some((i, entry));
        }
        let within = entry.psn <= psn && psn < end && end <= entry.end;
        if !within || !self.is_divisible(&entry) {
            return None;
        }
        let i = self.isolate(psn, end);
        Some((i, self.entries[i]))
    }

    /// May a part of it be asked for? Not before the peer has taken the whole.
    fn is_divisible(&self, entry: &Entry) -> bool {
        entry.answered && (entry.psn < self.acked || !entry.head)
    }

    /// The last of what is on the board: of an answer that has begun the last response.
    pub(crate) fn last_one(&mut self) -> Option<usize> {
        let entry = *self.entries.back()?;
        if entry.end - entry.psn > 1 && self.is_divisible(&entry) {
            self.cut(self.entries.len() - 1, entry.end - 1);
        }
        Some(self.entries.len() - 1)
    }

    /// Up to where everything is acknowledged, and each answer here, from `una` on.
    pub(crate) fn passable(&self, una: u64) -> u64 {
        let mut to = una;
        for entry in &self.entries {
            if entry.psn >= self.acked || entry.answered && entry.fate != Fate::Came {
                break;
            }
            to = entry.end.min(self.acked);
        }
        to
    }
}

impl Requester {
    /// Where the READ request that asks for `psn` ends.
    pub(crate) fn chunk_end(&self, psn: u64) -> u64 {
        let i = self.awaited.partition_point(|a| a.end <= psn);
        self.awaited.get(i).map_or(u64::MAX, |a| a.end)
    }

    /// Is this the first PSN of a request whose answer is awaited?
    pub(crate) fn is_start(&self, psn: u64) -> bool {
        let i = self.awaited.partition_point(|a| a.end <= psn);
        self.awaited.get(i).is_some_and(|a| a.start == psn)
    }
}

impl Qp {
    /// As [`progress`](Self::progress) while there is a scoreboard.
    #[cold]
    pub(crate) fn progress_on_board<H: Host>(&mut self, now: Time, to: u64, host: &mut H) -> bool {
        let req = &mut self.req;
        let Some(board) = &mut req.board else {
            return false;
        };
        let news = board.executed(to, true, now, req.rtt, &mut req.reordering);
        let passable = board.passable(req.una);
        self.heard(now, news, host);
        if passable > self.req.una {
            self.advance(now, passable, host);
        }
        passable < to
    }

    /// An acknowledgement of `psn` shows that an answer before it is missing.
    #[cold]
    pub(crate) fn missing_answer<H: Host>(&mut self, now: Time, psn: u64, host: &mut H) {
        if !self.keeps_score() {
            return self.lost_response(now, psn, host);
        }
        let req = &mut self.req;
        let Some(board) = &mut req.board else { return };
        let news = board.executed(psn + 1, true, now, req.rtt, &mut req.reordering);
        self.heard(now, news, host);
        self.find_losses(now, host);
    }

    /// Takes an answer that has come before an earlier one. Returns whether it was: of a peer
    /// without selective acknowledgements it is not.
    #[cold]
    pub(crate) fn take_early<H: Host>(
        &mut self,
        now: Time,
        psn: u64,
        packet: &Packet<'_>,
        host: &mut H,
    ) -> bool {
        if !self.keeps_score() {
            return false;
        }
        let awaited = &self.req.awaited;
        let of = awaited.partition_point(|a| a.end <= psn);
        let Some(end) = awaited.get(of).filter(|a| a.start <= psn).map(|a| a.end) else {
            return true;
        };
        let lacking = self.req.board.as_ref().is_some_and(|b| b.lacks(psn));
        let seq = self.sq.find(psn, self.req.started).filter(|_| lacking);
        let Some(seq) = seq.filter(|seq| self.req.fault.is_none_or(|fault| fault.seq > *seq))
        else {
            return true;
        };
        if self.place(seq, psn, end, packet, 1, host) != Some(Ok(())) {
            return true;
        }

        if let Some(aeth) = packet.ext.aeth {
            self.take_credits(aeth);
        }
        let req = &mut self.req;
        if let Some(board) = &mut req.board {
            let news = board.answer(psn, now, req.rtt, &mut req.reordering);
            self.heard(now, news, host);
        }
        self.find_losses(now, host);
        true
    }

    /// The answer that was due has been placed, and there is a scoreboard: up to where that closes
    /// the gap.
    #[cold]
    pub(crate) fn closes<H: Host>(&mut self, now: Time, psn: u64, host: &mut H) -> u64 {
        let req = &mut self.req;
        let Some(board) = &mut req.board else {
            return psn + 1;
        };
        let news = board.answer(psn, now, req.rtt, &mut req.reordering);
        let to = board.passable(req.una);
        self.heard(now, news, host);
        to.max(psn + 1)
    }

    /// There is news from the scoreboard: the path is alive.
    pub(crate) fn heard<H: Host>(&mut self, now: Time, news: News, host: &mut H) {
        let req = &mut self.req;
        let News { any, rtt, told } = news;
        if let Some(rtt) = rtt {
            req.sample(rtt);
        }
        if rtt.is_some() || told > 0 {
            let bytes = u32::try_from(told).unwrap_or(u32::MAX);
            host.path_signal(PathSignal::Acked { bytes, rtt });
        }
        if any {
            req.timers.silent = false;
            req.timers.ack = req.timers.ack_deadline(now, self.attr.timeout);
            req.expect_news(now);
        }
    }

    /// Places an answer to the request `seq`, which asks for responses up to the PSN `end`, by one
    /// packet or a stretch of `packets`. `None`: it is no answer to such a request; an error: it is
    /// not what it should be, or cannot be placed.
    #[inline(always)]
    pub(crate) fn place<H: Host>(
        &self,
        seq: u64,
        psn: u64,
        end: u64,
        packet: &Packet<'_>,
        packets: u32,
        host: &mut H,
    ) -> Option<Result<(), WcStatus>> {
        let wqe = self.sq.wqe(seq)?;
        let placed = if packet.info.operation == Operation::AtomicAcknowledge {
            let value = packet.ext.atomic_ack.filter(|_| wqe.is_atomic())?;
            host.scatter(self.sq.sges(wqe), 0, value.to_ne_bytes()[..].into())
        } else {
            if !wqe.is_answered_as_read() {
                return None;
            }
            let mtu = u64::from(self.attr.path_mtu);
            let packets = u64::from(packets);
            let last = psn + packets == end;
            let offset = (psn - wqe.first) * mtu;
            // ATOMIC WRITE and FLUSH are answered as if they had read nothing.
            let len = if wqe.is_read() { wqe.len } else { 0 };
            let left = u64::from(len) - offset;
            let want = if last {
                left.min(packets * mtu)
            } else {
                packets * mtu
            };
            let fits = match packet.info.position {
                Position::First | Position::Middle => !last,
                // A part that was asked for again may end anywhere.
                Position::Last | Position::Only => last || psn < self.req.parts_to,
            };
            if !fits || packet.payload.len() as u64 != want {
                return Some(Err(WcStatus::BadRespErr));
            }
            match want {
                0 => Ok(()),
                _ => host.scatter(self.sq.sges(wqe), offset as u32, packet.payload),
            }
        };
        Some(placed.map_err(|_| WcStatus::LocProtErr))
    }
}

#[cfg(test)]
#[path = "answers_tests.rs"]
mod tests;
