//! The requester's scoreboard: what has become of each request packet while there are gaps.
//!
//! It exists only between the first gap that is seen and the moment when nothing is missing any
//! more; without losses there is none. Time comes from outside, and nothing is sent from here.
//!
//! A packet counts as lost when one that was sent later has come, by the order of sending and not
//! of PSNs, so what was sent again is judged anew (RACK, RFC 8985). While the network has not been
//! seen to reorder, three packets are enough; else a part of the round trip has to pass.

use crate::tuning::{MAX_REORDERING, REORDER_PACKETS};
use crate::{Duration, Time};
use std::collections::VecDeque;

/// What has become of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fate {
    /// On its way, as far as is known.
    Out,
    /// The peer has it.
    Came,
    /// To be sent again.
    Lost,
}

/// A request packet.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Entry {
    pub psn: u64,
    /// PSN after the last that it takes.
    pub end: u64,
    /// What it counts for in the window.
    pub cost: u32,
    pub fate: Fate,
    /// Its place in the order of sending.
    order: u64,
    /// The place that its arrival speaks for. A probe may find a peer that is only late: what then
    /// comes is what was sent before.
    shows: u64,
    /// Sent again last to ask, not as it was lost.
    probe: bool,
    /// When it was sent, if that was noted.
    at: Option<Time>,
    /// Sent more than once.
    again: bool,
    /// When it was first known that one sent later has come.
    overtaken: Option<Time>,
}

/// What a piece of news has brought.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct News {
    /// Packets are known to have come that were not before.
    pub any: bool,
    /// A round-trip time.
    pub rtt: Option<Duration>,
}

/// How far the network has been seen to reorder: in quarters of a round trip.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Reordering(pub u8);

impl Reordering {
    fn seen(&mut self) {
        self.0 = (self.0 + 1).min(MAX_REORDERING);
    }

    /// How long a packet that was overtaken may be late.
    fn patience(self, rtt: Duration) -> Duration {
        rtt / 4 * u32::from(self.0.max(1))
    }
}

/// The scoreboard.
#[derive(Clone, Debug, Default)]
pub(crate) struct Board {
    entries: VecDeque<Entry>,
    /// Place of the next packet in the order of sending.
    order: u64,
    /// Place after the latest packet that has come.
    newest: u64,
    /// Cost of what is not on its way: it has come, or is lost and was not sent again.
    aside: u64,
    came: usize,
    lost: usize,
    /// Packets sent again that are on their way.
    resent: usize,
    /// This time, packets have come out of order.
    pub reordered: bool,
}

impl Board {
    /// Adds the packet that was just sent, or, while the board is being set up, was sent before.
    pub(crate) fn sent(&mut self, psn: u64, end: u64, cost: u64, at: Option<Time>) {
        self.entries.push_back(Entry {
            psn,
            end,
            cost: cost as u32,
            fate: Fate::Out,
            order: self.order,
            shows: self.order,
            probe: false,
            at,
            again: false,
            overtaken: None,
        });
        self.order += 1;
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
        let mut newest = self.newest;
        while let Some(entry) = self.entries.front_mut() {
            if entry.end > to {
                // Of a READ, some responses.
                entry.psn = entry.psn.max(to);
                break;
            }
            newest = newest.max(self.arrives(0, now, rtt, reordering, &mut news));
            self.set(0, Fate::Out);
            self.resent -= usize::from(self.entries[0].again);
            self.entries.pop_front();
        }
        self.newest = newest;
        news
    }

    /// The packets at these PSNs, which ascend, have come; the oldest on the board has not.
    pub(crate) fn came(
        &mut self,
        psns: impl Iterator<Item = u64>,
        now: Time,
        rtt: Duration,
        reordering: &mut Reordering,
    ) -> News {
        // What had come was refused since, and that was not heard.
        if self.entries.front().is_some_and(|e| e.fate == Fate::Came) {
            self.set(0, Fate::Lost);
        }

        let mut news = News::default();
        let mut newest = self.newest;
        let mut i = 0;
        for psn in psns {
            while self.entries.get(i).is_some_and(|e| e.psn < psn) {
                i += 1;
            }
            if self.entries.get(i).is_some_and(|e| e.psn == psn) {
                newest = newest.max(self.arrives(i, now, rtt, reordering, &mut news));
                self.set(i, Fate::Came);
            }
        }
        self.newest = newest;
        news
    }

    /// Looks at a packet that has come; returns the place after it in the order of sending, 0 if
    /// that says nothing.
    fn arrives(
        &mut self,
        i: usize,
        now: Time,
        rtt: Duration,
        reordering: &mut Reordering,
        news: &mut News,
    ) -> u64 {
        let entry = self.entries[i];
        if entry.fate == Fate::Came {
            return 0;
        }

        news.any = true;
        let took = entry.at.map(|at| now - at);
        // Sooner than the network allows: it is the earlier one that has come, late.
        let early = entry.again && took.is_some_and(|took| took < rtt / 2);
        let late = early || entry.fate == Fate::Lost;
        if late && !entry.probe || !entry.again && entry.overtaken.is_some() {
            self.reordered = true;
            reordering.seen();
        }
        if !entry.probe && (early || entry.fate == Fate::Lost && entry.again) {
            return 0;
        }

        if !entry.again && took.is_some() {
            news.rtt = took;
        }
        entry.shows + 1
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
            if entry.fate != Fate::Out || entry.order + 1 >= self.newest {
                continue;
            }

            let until = *entry.overtaken.get_or_insert(now) + patience;
            let overtaken_by = self.newest - entry.order - 1;
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

    /// Nothing was heard for long: what is missing below the last that came is to be sent again,
    /// and the oldest in any case. If nothing beyond a gap has come it is the last at `first`, as
    /// its answer says the most, and then the oldest, which may be what the peer waits for.
    pub(crate) fn probe(&mut self, first: bool) {
        match self.entries.iter().rposition(|e| e.fate == Fate::Came) {
            Some(last) => {
                for i in 0..=last {
                    if i == 0 || self.entries[i].fate == Fate::Out {
                        self.set(i, Fate::Lost);
                    }
                }
            }
            None if !self.entries.is_empty() => {
                let i = if first { self.entries.len() - 1 } else { 0 };
                self.entries[i].probe = true;
                self.set(i, Fate::Lost);
            }
            None => {}
        }
    }

    /// The oldest packet that is to be sent again.
    pub(crate) fn next_lost(&self) -> Option<(usize, Entry)> {
        if self.lost == 0 {
            return None;
        }
        let i = self.entries.iter().position(|e| e.fate == Fate::Lost)?;
        Some((i, self.entries[i]))
    }

    /// The packet with this PSN, and its place.
    pub(crate) fn find(&self, psn: u64) -> Option<(usize, Entry)> {
        let i = self.entries.partition_point(|entry| entry.end <= psn);
        let entry = self.entries.get(i)?;
        (entry.psn == psn).then_some((i, *entry))
    }

    /// It was sent again.
    pub(crate) fn resent(&mut self, i: usize, now: Time) {
        let order = self.order;
        self.order += 1;
        let entry = &mut self.entries[i];
        (entry.order, entry.at, entry.overtaken) = (order, Some(now), None);
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

    /// Moves a packet from one fate to another.
    fn set(&mut self, i: usize, fate: Fate) {
        let entry = &mut self.entries[i];
        let (cost, before) = (u64::from(entry.cost), entry.fate);
        entry.fate = fate;
        match before {
            Fate::Out => {}
            Fate::Came => self.came -= 1,
            Fate::Lost => self.lost -= 1,
        }
        match fate {
            Fate::Out => {}
            Fate::Came => self.came += 1,
            Fate::Lost => self.lost += 1,
        }
        self.aside += u64::from(fate != Fate::Out) * cost;
        self.aside -= u64::from(before != Fate::Out) * cost;
    }
}

#[cfg(test)]
#[path = "board_tests.rs"]
mod tests;
