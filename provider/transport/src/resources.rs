//! The responder's READ and ATOMIC resources: what was asked, kept for replay, and which answers
//! are still owed.
//!
//! They lie in PSN order. A duplicate request finds its record here; an ATOMIC's stored result is
//! replayed, never computed again. When a new request needs room, the oldest record whose answer
//! was sent goes.
//!
//! A duplicate interrupts what is owed to later requests, as the specification has it. From a peer
//! that understands selective acknowledgements it does not: that peer asks for the part that it
//! lacks, and takes what else is on its way. So its duplicates have their turn (`replays`).

use crate::replays::{Replay, Replays};
use crate::requester;
use ferroce_wire::{Psn, Reth};
use std::collections::VecDeque;

/// Most READ and ATOMIC requests outstanding that a queue pair can be set to, in either direction.
pub const MAX_RD_ATOMIC: u8 = 128;

/// What is to be answered.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Answer {
    /// READ responses; `va` and `len` belong to the stream being sent, which begins with packet
    /// `start`.
    Read {
        va: u64,
        rkey: u32,
        len: u32,
        start: u32,
    },
    /// The value before an ATOMIC.
    Atomic(u64),
}

impl Answer {
    /// The response to a READ of nothing, by which other requests are answered.
    pub(crate) fn nothing(reth: &Reth) -> Answer {
        Answer::Read {
            va: reth.va,
            rkey: reth.rkey,
            len: 0,
            start: 0,
        }
    }
}

/// One request.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Resource {
    /// First PSN.
    pub first: Psn,
    /// PSNs that it takes.
    pub count: u32,
    /// MSN that its answer carries.
    pub msn: u32,
    pub answer: Answer,
    /// Shared receive queue that the request named (XRC), 0 otherwise.
    pub srq: u32,
    /// Packet that goes out next.
    pub next: u32,
    /// Packet after the last of the stream.
    pub end: u32,
    /// Packets that were sent at least once.
    pub sent: u32,
}

impl Resource {
    pub(crate) fn is_owed(&self) -> bool {
        self.next < self.end
    }
}

/// The records.
#[derive(Clone, Debug, Default)]
pub(crate) struct Resources {
    ring: VecDeque<Resource>,
    /// Records whose answer is owed, and replays that wait for their turn.
    owed: usize,
    /// Replays that wait for their turn, if there are any.
    replays: Option<Box<Replays>>,
}

/// The peer has more requests outstanding than it was allowed.
pub(crate) struct TooMany;

impl Resources {
    /// Makes room for one more of at most `limit`.
    pub(crate) fn reserve(&mut self, limit: usize) -> Result<(), TooMany> {
        if limit == 0 {
            return Err(TooMany);
        }

        while self.ring.len() >= limit {
            let Some(oldest) = self.ring.front() else {
                break;
            };
            if oldest.sent < oldest.count {
                return Err(TooMany);
            }
            if oldest.is_owed() {
                self.owed -= 1; // a replay that nobody waits for any more
            }
            let first = oldest.first;
            self.ring.pop_front();
            if let Some(replays) = &mut self.replays {
                self.owed -= replays.forget(first);
            }
        }

        Ok(())
    }

    pub(crate) fn push(&mut self, resource: Resource) {
        self.owed += 1;
        self.ring.push_back(resource);
    }

    /// Is any answer owed?
    pub(crate) fn owed(&self) -> bool {
        self.owed > 0
    }

    /// Is one owed after the first?
    pub(crate) fn more_are_owed(&self) -> bool {
        self.owed > 1
    }

    /// The record whose answer is owed first.
    pub(crate) fn first_owed(&mut self) -> Option<&mut Resource> {
        if self.owed == 0 {
            return None;
        }
        if self.replays.is_some() {
            self.begin_replay();
        }
        self.ring.iter_mut().find(|r| r.is_owed())
    }

    /// The answer of the oldest owed record has been sent.
    pub(crate) fn settled(&mut self) {
        self.owed -= 1;
    }

    /// The record that `psn` belongs to, and the packet's index in it.
    pub(crate) fn find(&mut self, psn: Psn) -> Option<(&mut Resource, u32)> {
        let r = self
            .ring
            .iter_mut()
            .find(|r| psn.within(r.first, r.count))?;
        let index = psn.forward_from(r.first);
        Some((r, index))
    }

    /// A duplicate READ request: its answer is owed again, from `psn` on, `in_turn` after what is
    /// owed already. Returns whether it is one.
    pub(crate) fn replay_read(
        &mut self,
        psn: Psn,
        reth: &Reth,
        len: u32,
        mtu: u32,
        in_turn: bool,
    ) -> bool {
        let Reth { va, rkey, .. } = *reth;
        let Some((r, index)) = self.find(psn) else {
            return false;
        };

        let Answer::Read {
            rkey: old_rkey,
            start,
            va: old_va,
            ..
        } = r.answer
        else {
            return false;
        };

        let packets = requester::packets(len, mtu);

        // The same bytes under the same PSNs, or it is no duplicate.
        let base = old_va.wrapping_sub(u64::from(start) * u64::from(mtu));
        if va != base.wrapping_add(u64::from(index) * u64::from(mtu))
            || rkey != old_rkey
            || u64::from(index) + u64::from(packets) > u64::from(r.count)
        {
            return false;
        }

        let was_owed = r.is_owed();
        if in_turn {
            if !was_owed || index < r.next || index + packets > r.end {
                let replay = Replay {
                    first: r.first,
                    start: index,
                    end: index + packets,
                    range: Some((va, len)),
                };
                self.replay_in_turn(replay);
            }
            return true;
        }
        if was_owed && index > r.next {
            return true; // still to be sent anyhow; to skip what comes before it would make a gap
        }

        r.answer = Answer::Read {
            va,
            rkey,
            len,
            start: index,
        };

        r.next = index;
        r.end = index + packets;
        if !was_owed {
            self.owed += 1;
        }

        true
    }

    /// A duplicate ATOMIC request: its stored result is owed again.
    pub(crate) fn replay_atomic(&mut self, psn: Psn, in_turn: bool) -> bool {
        let Some((r, _)) = self.find(psn) else {
            return false;
        };
        if !matches!(r.answer, Answer::Atomic(_)) {
            return false;
        }
        if !r.is_owed() {
            let replay = Replay {
                first: r.first,
                start: 0,
                end: 1,
                range: None,
            };
            if in_turn {
                self.replay_in_turn(replay);
            } else {
                r.next = 0;
                self.owed += 1;
            }
        }
        true
    }

    /// Owes an answer again, after what is owed already.
    #[cold]
    fn replay_in_turn(&mut self, replay: Replay) {
        let newest = self.ring.back().map_or(replay.first, |newest| newest.first);
        let replays = self.replays.get_or_insert_default();
        self.owed += usize::from(replays.add(replay, newest));
    }

    /// Has the first of what waits be owed by its record, if it is its turn. What waits goes with
    /// its record, so there is one.
    #[cold]
    fn begin_replay(&mut self) {
        let owed = self.ring.iter().find(|r| r.is_owed()).map(|r| r.first);
        let Some(replays) = &mut self.replays else {
            return;
        };
        let replay = replays.take(owed);
        if replays.is_empty() {
            self.replays = None;
        }
        let Some(replay) = replay else { return };
        let Some(r) = self.ring.iter_mut().find(|r| r.first == replay.first) else {
            self.owed -= 1;
            return;
        };
        if let (Answer::Read { va, len, start, .. }, Some(range)) = (&mut r.answer, replay.range) {
            ((*va, *len), *start) = (range, replay.start);
        }
        (r.next, r.end) = (replay.start, replay.end);
    }

    /// Forgets every record.
    pub(crate) fn clear(&mut self) {
        self.ring.clear();
        self.owed = 0;
        self.replays = None;
    }
}
