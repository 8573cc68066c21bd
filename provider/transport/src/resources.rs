//! The responder's READ and ATOMIC resources: what was asked, kept for replay, and which answers
//! are still owed.
//!
//! They lie in PSN order. A duplicate request finds its record here; an ATOMIC's stored result is
//! replayed, never computed again. When a new request needs room, the oldest record whose answer
//! was sent goes.

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
    owed: usize,
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
            self.ring.pop_front();
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

    /// The oldest record whose answer is owed.
    pub(crate) fn first_owed(&mut self) -> Option<&mut Resource> {
        if self.owed == 0 {
            return None;
        }
        self.ring.iter_mut().find(|r| r.is_owed())
    }

    /// The answer of the oldest owed record has been sent.
    pub(crate) fn settled(&mut self) {
        self.owed -= 1;
    }

    /// The record that `psn` belongs to, and the packet's index in it.
    fn find(&mut self, psn: Psn) -> Option<(&mut Resource, u32)> {
        let r = self
            .ring
            .iter_mut()
            .find(|r| psn.within(r.first, r.count))?;
        let index = psn.forward_from(r.first);
        Some((r, index))
    }

    /// A duplicate READ request: its answer is owed again, from `psn` on. Returns whether it is
    /// one.
    pub(crate) fn replay_read(&mut self, psn: Psn, va: u64, rkey: u32, len: u32, mtu: u32) -> bool {
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
    pub(crate) fn replay_atomic(&mut self, psn: Psn) -> bool {
        let Some((r, _)) = self.find(psn) else {
            return false;
        };
        if !matches!(r.answer, Answer::Atomic(_)) {
            return false;
        }
        if !r.is_owed() {
            r.next = 0;
            self.owed += 1;
        }
        true
    }

    /// Forgets every record.
    pub(crate) fn clear(&mut self) {
        self.ring.clear();
        self.owed = 0;
    }
}
