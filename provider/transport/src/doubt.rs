//! What is sent again without a sign that it was lost: after silence, and after a Local ACK
//! Timeout.
//!
//! A timeout says that the way is full, or that nobody is there. Whatever the window is, it is
//! begun anew with one packet, and goes on with as many bytes more as are acknowledged: a run as
//! long as the window would find the same queue full, and be lost as a whole again. Not so where
//! going back is all that recovers: if that one packet is lost no other shows it, and a retry is
//! spent.

use crate::board::{Board, Fate};
use crate::{Host, Qp, Time};

impl Board {
    /// Nothing was heard for long: what is missing below the last that came is to be sent again,
    /// and the oldest in any case. If nothing beyond a gap has come it is the last at `first`, as
    /// its answer says the most, and then the oldest, which may be what the peer waits for; and the
    /// oldest from the start if others wait to be sent again.
    pub(crate) fn probe(&mut self, first: bool) {
        let there = |fate: Fate| matches!(fate, Fate::Came | Fate::Kept);
        match self.entries.iter().rposition(|e| there(e.fate)) {
            Some(last) => {
                for i in 0..=last {
                    if i == 0 || self.entries[i].fate == Fate::Out {
                        self.set(i, Fate::Lost);
                    }
                }
            }
            None => {
                let oldest = (!self.entries.is_empty()).then_some(0);
                let asks = match first && self.lost == 0 {
                    true => self.last_one(),
                    false => oldest,
                };
                if let Some(i) = asks {
                    self.entries[i].probe = true;
                    self.set(i, Fate::Lost);
                }
            }
        }
    }

    /// Nothing that was sent is believed to have come any more, nor what the peer has told of: it
    /// may have given that up. Answers that are here stay.
    pub(crate) fn give_up(&mut self) {
        for i in 0..self.entries.len() {
            let entry = &mut self.entries[i];
            if entry.answered && entry.fate == Fate::Came {
                continue;
            }
            (entry.probe, entry.overtaken) = (false, None);
            self.set(i, Fate::Lost);
        }
    }

    /// All was being sent again, and this PSN would have been the next: it and later ones are to be
    /// sent again still, and were sent before those that have been.
    pub(crate) fn lose_from(&mut self, psn: u64) {
        let (Some(first), Some(last)) = (self.entries.front(), self.entries.back()) else {
            return;
        };
        let (again, still) = (psn - first.psn, last.end - psn);
        for i in 0..self.entries.len() {
            let entry = &mut self.entries[i];
            entry.order = match entry.psn < psn {
                true => entry.order + still,
                false => entry.order - again,
            };
            entry.shows = entry.order;
            if entry.psn >= psn {
                self.set(i, Fate::Lost);
            }
        }
    }
}

impl Qp {
    /// Nothing was heard for long: something is sent again that will be answered.
    pub(crate) fn probe(&mut self, now: Time) {
        if self.req.una >= self.req.max || !self.keeps_score() {
            return;
        }

        let first = self.req.asks(now);
        if let Some(board) = &mut self.req.board {
            board.probe(first);
        }
    }

    /// A Local ACK Timeout has passed: all is sent again, slowly at first if the peer may have
    /// selective acknowledgements. If it has it will tell what of it is not needed.
    pub(crate) fn start_over<H: Host>(&mut self, host: &mut H) {
        if self.req.shows() {
            self.req.restart = Some(self.attr.path_mtu);
        }
        if !self.keeps_score() {
            return self.retry(host);
        }
        if self.spend_retry(host)
            && let Some(board) = &mut self.req.board
        {
            board.give_up();
        }
    }
}
