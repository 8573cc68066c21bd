//! The requester's scoreboard: what has become of each request packet, and of each answer that is
//! awaited, while there are gaps.
//!
//! It exists only between the first gap that is seen and the moment when nothing is missing any
//! more; without losses there is none. Time comes from outside, and nothing is sent from here.
//!
//! A packet counts as lost when one that was sent later has come, by the order of sending and not
//! of PSNs, so what was sent again is judged anew (RACK, RFC 8985). While the network has not been
//! seen to reorder, three packets are enough; else a part of the round trip has to pass.
//!
//! A request that is answered by itself (READ, ATOMIC and their like) is one entry until the peer
//! has carried it out. From then on its entry stands for the responses, and is cut to pieces where
//! some have come and some have not (`answers`). Each has its own place in the order of sending.

use crate::reordering::Reordering;
use crate::tuning::REORDER_PACKETS;
use crate::{Duration, Time};
use std::collections::VecDeque;

/// What has become of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fate {
    /// On its way, as far as is known.
    Out,
    /// The peer has the request, and will answer it in its turn.
    Kept,
    /// The peer has it; of an answer: it is here.
    Came,
    /// To be sent again.
    Lost,
}

/// A request packet, or responses with adjacent PSNs that one packet has asked for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Entry {
    pub psn: u64,
    /// PSN after the last that it takes.
    pub end: u64,
    /// What it counts for in the window.
    pub cost: u32,
    pub fate: Fate,
    /// An answer of its own is awaited.
    pub answered: bool,
    /// Begins with the first PSN that its request asks for.
    pub head: bool,
    /// Its place in the order of sending; each PSN has one.
    pub order: u64,
    /// The place that its arrival speaks for. A probe may find a peer that is only late: what then
    /// comes is what was sent before.
    pub shows: u64,
    /// Sent again last to ask, not as it was lost.
    pub probe: bool,
    /// When it was sent, if that was noted.
    at: Option<Time>,
    /// Sent more than once.
    pub again: bool,
    /// When it was first known that one sent later has come.
    pub overtaken: Option<Time>,
    /// The path was told that its bytes have come.
    pub told: bool,
}

impl Entry {
    /// Place of its last PSN in the order of sending.
    pub(crate) fn last(&self) -> u64 {
        self.order + (self.end - self.psn) - 1
    }
}

/// What a piece of news has brought.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct News {
    /// Packets are known to have come that were not before.
    pub any: bool,
    /// A round-trip time.
    pub rtt: Option<Duration>,
    /// Bytes that the path is told of with this news; of what is passed, those that it was told of.
    pub told: u64,
}

/// The scoreboard.
#[derive(Clone, Debug, Default)]
pub(crate) struct Board {
    pub entries: VecDeque<Entry>,
    /// Bytes of a response that is not the last.
    mtu: u64,
    /// Everything before this PSN was carried out by the peer.
    pub acked: u64,
    /// Place of the next packet in the order of sending.
    order: u64,
    /// Place after the latest packet that has come.
    pub newest: u64,
    /// Cost of what is not on its way: it has come, or is lost and was not sent again.
    aside: u64,
    /// Entries that have come, or are kept.
    came: usize,
    pub lost: usize,
    /// Entries sent again that are on their way.
    resent: usize,
    /// This time, packets have come out of order.
    pub reordered: bool,
}

impl Board {
    /// An empty one of a path MTU; everything before the PSN `una` is acknowledged.
    pub(crate) fn new(mtu: u32, una: u64) -> Board {
        Board {
            mtu: u64::from(mtu),
            acked: una,
            ..Board::default()
        }
    }

    /// Adds the packet that was just sent, or, while the board is being set up, was sent before.
    pub(crate) fn sent(&mut self, psn: u64, end: u64, cost: u64, at: Option<Time>) {
        self.entries.push_back(Entry {
            psn,
            end,
            cost: cost as u32,
            fate: Fate::Out,
            answered: false,
            head: true,
            order: self.order,
            shows: self.order,
            probe: false,
            at,
            again: false,
            overtaken: None,
            told: false,
        });
        self.order += end - psn;
    }

    /// The entry that was added last is awaiting an answer. `whole`: its first PSN is the first
    /// that the request asked for.
    pub(crate) fn awaits(&mut self, whole: bool) {
        if let Some(entry) = self.entries.back_mut() {
            (entry.answered, entry.head) = (true, whole);
        }
    }

    /// Cost of what is not on its way.
    pub(crate) fn aside(&self) -> u64 {
        self.aside
    }

    /// Is nothing missing or in doubt?
    pub(crate) fn is_settled(&self) -> bool {
        self.came + self.lost + self.resent == 0
    }

    /// Everything before `to` has come.
    pub(crate) fn passes(
        &mut self,
        to: u64,
        now: Time,
        rtt: Duration,
        reordering: &mut Reordering,
    ) -> News {
        let mut news = News::default();
        while let Some(entry) = self.entries.front() {
            if entry.psn >= to {
                break;
            }
            if entry.end > to {
                self.cut(0, to); // of a READ, some responses
            }
            self.arrives(0, now, rtt, reordering, &mut news);
            self.set(0, Fate::Out);
            let Entry {
                again, told, cost, ..
            } = self.entries[0];
            self.resent -= usize::from(again);
            news.told += u64::from(told) * u64::from(cost);
            self.entries.pop_front();
        }
        self.acked = self.acked.max(to);
        news
    }

    /// The request packets at these PSNs, which ascend, have come; the oldest on the board has not,
    /// be it a request or an answer.
    pub(crate) fn came(
        &mut self,
        psns: impl Iterator<Item = u64>,
        now: Time,
        rtt: Duration,
        reordering: &mut Reordering,
    ) -> News {
        // What had come was refused since, and that was not heard.
        let there = |e: &Entry| matches!(e.fate, Fate::Came | Fate::Kept);
        if self.entries.front().is_some_and(there) {
            self.set(0, Fate::Lost);
        }

        let mut news = News::default();
        let mut i = 0;
        for psn in psns {
            while self.entries.get(i).is_some_and(|e| e.psn < psn) {
                i += 1;
            }
            // What the peer has carried out since is judged by its answer.
            let found = self.entries.get(i).filter(|e| e.psn == psn);
            let Some(entry) = found.filter(|e| !e.answered || psn >= self.acked) else {
                continue;
            };
            let answered = entry.answered;
            self.arrives(i, now, rtt, reordering, &mut news);
            match answered {
                true => self.set(i, Fate::Kept),
                false => self.is_here(i, &mut news),
            }
        }
        news
    }

    /// What was sent is acknowledged, or an answer is here, though something before it is missing:
    /// its bytes have left the network, and nothing about them is in doubt any more. The path hears
    /// of them now, and not when the gap is filled, so that they are weighed against losses of the
    /// same time.
    pub(crate) fn is_here(&mut self, i: usize, news: &mut News) {
        self.set(i, Fate::Came);
        let entry = &mut self.entries[i];
        if !std::mem::replace(&mut entry.told, true) {
            news.told += u64::from(entry.cost);
        }
    }

    /// Looks at a packet that has come, or a response, and notes its place in the order of sending.
    pub(crate) fn arrives(
        &mut self,
        i: usize,
        now: Time,
        rtt: Duration,
        reordering: &mut Reordering,
        news: &mut News,
    ) {
        let entry = self.entries[i];
        if matches!(entry.fate, Fate::Came | Fate::Kept) {
            return;
        }

        news.any = true;
        let took = entry.at.map(|at| now - at);
        // Sooner than the network allows: it is the earlier one that has come, late.
        let early = entry.again && took.is_some_and(|took| took < rtt / 2);
        // What was given up without being overtaken is no sign of reordering.
        let late = early || entry.fate == Fate::Lost && entry.overtaken.is_some();
        if late && !entry.probe || !entry.again && entry.overtaken.is_some() {
            self.reordered = true;
            reordering.seen();
        }
        // Nor can the two be told apart before the first round trip has been measured.
        let either = entry.again && (entry.fate == Fate::Lost || rtt.is_zero());
        if !entry.probe && (early || either) {
            return;
        }

        // Later responses of a READ have waited for the first ones.
        if !entry.again && took.is_some() && entry.head {
            news.rtt = took;
        }
        self.newest = self.newest.max(entry.shows + 1);
    }

    /// Finds what is lost by now. Returns its cost, and when to look again.
    pub(crate) fn losses(
        &mut self,
        now: Time,
        rtt: Duration,
        reordering: Reordering,
    ) -> (u64, Option<Time>) {
        let patience = reordering.patience(rtt);
        let (mut cost, mut again) = (0, None::<Time>);
        for i in 0..self.entries.len() {
            let entry = &mut self.entries[i];
            if entry.fate != Fate::Out || entry.last() + 1 >= self.newest {
                continue;
            }

            let until = *entry.overtaken.get_or_insert(now) + patience;
            let overtaken_by = self.newest - entry.last() - 1;
            if until <= now || reordering.0 == 0 && overtaken_by >= REORDER_PACKETS {
                cost += u64::from(entry.cost);
                entry.probe = false;
                self.set(i, Fate::Lost);
            } else {
                again = Some(again.map_or(until, |again| again.min(until)));
            }
        }
        (cost, again)
    }

    /// The oldest packet that is to be sent again.
    pub(crate) fn next_lost(&self) -> Option<(usize, Entry)> {
        if self.lost == 0 {
            return None;
        }
        let i = self.entries.iter().position(|e| e.fate == Fate::Lost)?;
        Some((i, self.entries[i]))
    }

    /// It was sent again.
    pub(crate) fn resent(&mut self, i: usize, now: Time) {
        let order = self.order;
        let entry = &mut self.entries[i];
        self.order += entry.end - entry.psn;
        (entry.order, entry.at, entry.overtaken) = (order, Some(now), None);
        entry.head = true;
        if !entry.probe {
            entry.shows = order;
        }
        if entry.again {
            self.resent -= 1;
        }
        entry.again = true;
        self.resent += 1;
        self.set(i, Fate::Out);
    }

    /// Cuts an entry of responses in two, the second of which begins with a PSN within it.
    pub(crate) fn cut(&mut self, i: usize, psn: u64) {
        let entry = &mut self.entries[i];
        let count = psn - entry.psn;
        let rest = Entry {
            psn,
            order: entry.order + count,
            shows: entry.shows + count,
            cost: (u64::from(entry.cost)).saturating_sub(count * self.mtu) as u32,
            head: false,
            ..*entry
        };
        (entry.end, entry.cost) = (psn, entry.cost - rest.cost);
        let (fate, again) = (entry.fate, entry.again);
        self.entries.insert(i + 1, rest);
        self.count(fate, true);
        self.resent += usize::from(again);
    }

    /// Joins an entry and the one before it, two parts of the same responses that have come.
    pub(crate) fn join(&mut self, i: usize) {
        let Some(before) = i.checked_sub(1).and_then(|i| self.entries.get(i)) else {
            return;
        };
        let Some(entry) = self.entries.get(i) else {
            return;
        };
        let came = before.fate == Fate::Came && entry.fate == Fate::Came && entry.answered;
        let one = !entry.head && before.last() + 1 == entry.order && before.again == entry.again;
        if came && one {
            let (end, cost, again) = (entry.end, entry.cost, entry.again);
            self.entries[i - 1].end = end;
            self.entries[i - 1].cost += cost;
            self.entries.remove(i);
            self.count(Fate::Came, false);
            self.resent -= usize::from(again);
        }
    }

    /// There is one entry of a fate more, or less.
    fn count(&mut self, fate: Fate, more: bool) {
        let count = match fate {
            Fate::Out => return,
            Fate::Kept | Fate::Came => &mut self.came,
            Fate::Lost => &mut self.lost,
        };
        match more {
            true => *count += 1,
            false => *count -= 1,
        }
    }

    /// Moves an entry from one fate to another.
    pub(crate) fn set(&mut self, i: usize, fate: Fate) {
        let entry = &mut self.entries[i];
        let (cost, before) = (u64::from(entry.cost), entry.fate);
        entry.fate = fate;
        self.count(before, false);
        self.count(fate, true);
        self.aside += u64::from(fate != Fate::Out) * cost;
        self.aside -= u64::from(before != Fate::Out) * cost;
    }
}

#[cfg(test)]
#[path = "board_tests.rs"]
mod tests;
