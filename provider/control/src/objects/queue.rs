//! The numbers of a completion queue, in the words of its entry that say nothing of what it is.
//!
//! Whoever changes the queue holds its lock and leaves word in one store. A forked child that takes
//! completions of its parent's queue leaves word there, too, which the parent's next puts right:
//! nothing else ever uses these words.

use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;

use super::object::OBJECT;
use super::{Listing, ObjectTable};

/// The words.
const HELD: usize = 1 + OBJECT;
const EVENTS: usize = HELD + 1;
const LAST_EVENT: usize = HELD + 2;

/// Bits below the number of events.
const ARMED: u64 = 1;
const SOLICITED: u64 = 2;
const UNPOLLED: u64 = 4;
const OVERRUN: u64 = 8;
const SHIFT: u32 = 8;

/// What is told of a completion queue, beside what it is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CqNumbers {
    /// Completions that the program has not taken.
    pub held: u32,
    /// Completion events that were sent.
    pub events: u32,
    /// Armed for the next completion, or for the next solicited one.
    pub armed: bool,
    /// Armed for the next solicited one only.
    pub solicited_only: bool,
    /// Since the last event the program has not polled.
    pub unpolled: bool,
    /// A completion found no room, and the queue has ended.
    pub overrun: bool,
    /// When the last event was sent, in nanoseconds of `CLOCK_MONOTONIC`; 0: never.
    pub last_event: u64,
}

impl ObjectTable {
    /// The numbers of the completion queue whose entry has this number.
    pub fn cq_numbers(&self, number: u32) -> CqNumbers {
        if number >= super::MAX_OBJECTS {
            return CqNumbers::default();
        }

        let word = |word| self.entry(number, word).load(Relaxed);
        let events = word(EVENTS);
        CqNumbers {
            held: word(HELD) as u32,
            events: (events >> SHIFT) as u32,
            armed: events & (ARMED | SOLICITED) != 0,
            solicited_only: events & (ARMED | SOLICITED) == SOLICITED,
            unpolled: events & UNPOLLED != 0,
            overrun: events & OVERRUN != 0,
            last_event: word(LAST_EVENT),
        }
    }
}

impl Listing {
    /// So many completions are in the queue now.
    #[inline]
    pub fn held(&self, completions: usize) {
        if let Some(held) = self.number_word(HELD) {
            held.store(completions as u64, Relaxed);
        }
    }

    /// The queue is armed.
    #[inline]
    pub fn armed(&self, solicited_only: bool) {
        let bit = if solicited_only { SOLICITED } else { ARMED };
        if let Some(events) = self.number_word(EVENTS) {
            events.fetch_or(bit, Relaxed);
        }
    }

    /// The event for which it was armed was sent, as one of `events` so far.
    #[inline]
    pub fn notified(&self, events: u32, now: u64) {
        if let Some(word) = self.number_word(EVENTS) {
            word.store(u64::from(events) << SHIFT | UNPOLLED, Relaxed);
        }
        if let Some(last) = self.number_word(LAST_EVENT) {
            last.store(now, Relaxed);
        }
    }

    /// The program has polled, for the first time since the last event.
    #[inline]
    pub fn polled(&self) {
        if let Some(events) = self.number_word(EVENTS) {
            events.fetch_and(!UNPOLLED, Relaxed);
        }
    }

    /// A completion found no room.
    pub fn overrun(&self) {
        if let Some(events) = self.number_word(EVENTS) {
            events.fetch_or(OVERRUN, Relaxed);
        }
    }

    #[inline]
    fn number_word(&self, word: usize) -> Option<&AtomicU64> {
        Some(self.table.entry(self.number?, word))
    }
}
