//! How many turns are taken (see [`turns`](crate::datapath::turns)), in one word, so that taking
//! one and giving it back costs no lock while nobody waits.
//!
//! Whether somebody waits is in the same word. So who gives a turn back either sees that, or has
//! given it back before the other decided to wait, who then sees that it is free: nobody waits for
//! a turn that nobody has. While somebody waits the word changes under the lock of those who wait
//! alone.

use std::sync::atomic::Ordering::Relaxed;

use crate::progress::words::Word;

/// Turns that are taken: the lower bits.
const TAKEN: u64 = 0xffff_ffff;
/// Somebody waits.
const WANTED: u64 = 1 << 32;
/// The round begins here: turns of earlier ones were written off.
const ROUND: u32 = 33;

/// The count.
pub(crate) struct TurnCount<W>(W);

impl<W: Word<Value = u64>> TurnCount<W> {
    /// None are taken, if `word` is 0.
    pub(crate) const fn new(word: W) -> TurnCount<W> {
        TurnCount(word)
    }

    /// Turns that are taken.
    #[inline]
    pub(crate) fn taken(&self) -> u32 {
        taken_of(self.word())
    }

    /// Whether somebody waits.
    #[inline]
    pub(crate) fn are_wanted(&self) -> bool {
        self.word() & WANTED != 0
    }

    /// Which round it is, of those that can be told apart.
    #[inline]
    pub(crate) fn round(&self) -> u32 {
        round_of(self.word())
    }

    /// Takes one of `limit`, unless somebody waits. Its round.
    #[inline]
    pub(crate) fn take(&self, limit: u32) -> Option<u32> {
        loop {
            let word = self.word();
            if word & WANTED != 0 || taken_of(word) >= limit {
                return None;
            }
            if self.0.change(word, word + 1) {
                return Some(round_of(word));
            }
        }
    }

    /// Gives one of a round back. `false`: somebody waits, so it is to be done
    /// [under the lock](Self::give_back_locked).
    #[inline]
    pub(crate) fn give_back(&self, round: u32) -> bool {
        loop {
            let word = self.word();
            if word & WANTED != 0 {
                return false;
            }
            if round_of(word) != round || self.0.change(word, word - 1) {
                return true;
            }
        }
    }

    /// Under the lock: gives one of a round back.
    pub(crate) fn give_back_locked(&self, round: u32) {
        self.update(|word| (round_of(word) == round).then(|| word - 1));
    }

    /// Under the lock: who asks waits from now on. `Err`: one of `limit` is free, and taken; its
    /// round.
    pub(crate) fn want(&self, limit: u32) -> Result<(), u32> {
        let mut free = None;
        self.update(|word| {
            free = (word & WANTED == 0 && taken_of(word) < limit).then_some(round_of(word));
            Some(match free {
                Some(_) => word + 1,
                None => word | WANTED,
            })
        });
        match free {
            Some(round) => Err(round),
            None => Ok(()),
        }
    }

    /// Under the lock: takes one of `limit` for who waits; `last`: nobody else does. Its round.
    pub(crate) fn pass_on(&self, limit: u32, last: bool) -> Option<u32> {
        let mut passed = None;
        self.update(|word| {
            passed = (taken_of(word) < limit).then_some(round_of(word));
            let rest = match last {
                true => word & !WANTED,
                false => word,
            };
            passed.map(|_| rest + 1)
        });
        passed
    }

    /// Under the lock, while somebody waits: those that are taken count no longer.
    pub(crate) fn write_off(&self) {
        self.update(|word| {
            let round = round_of(word).wrapping_add(1);
            Some(u64::from(round) << ROUND | word & WANTED)
        });
    }

    #[inline]
    fn word(&self) -> u64 {
        self.0.load(Relaxed)
    }

    fn update(&self, mut next: impl FnMut(u64) -> Option<u64>) {
        loop {
            let word = self.word();
            match next(word) {
                Some(new) if !self.0.change(word, new) => {}
                _ => return,
            }
        }
    }
}

fn taken_of(word: u64) -> u32 {
    (word & TAKEN) as u32
}

/// Without its highest bit, for which there is no room.
fn round_of(word: u64) -> u32 {
    (word >> ROUND) as u32
}
