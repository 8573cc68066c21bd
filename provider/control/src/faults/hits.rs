//! How often faults have hit, in a program's page of counters: the daemon looks without asking. A
//! word bears the fault's number above the count, so that one whose place another has got since is
//! not taken for it.

use std::sync::atomic::Ordering::Relaxed;

use super::MAX_FAULTS;
use crate::CounterPage;
use crate::ports::END;

/// The word that says by which list of faults the program goes.
const TAKEN: usize = END;
/// The first fault's word.
const FIRST: usize = TAKEN + 1;
/// Bits of the count.
const COUNT: u32 = 40;

const _: () = assert!(FIRST + MAX_FAULTS <= CounterPage::WORDS);

impl CounterPage {
    /// The program goes by this list of faults from now on; `begin` are the numbers and places of
    /// those that it has not had before.
    pub fn take_faults(&self, generation: u64, begin: impl IntoIterator<Item = (u32, u8)>) {
        for (id, place) in begin {
            self.word(FIRST + usize::from(place) % MAX_FAULTS)
                .store(u64::from(id) << COUNT, Relaxed);
        }
        self.word(TAKEN).store(generation, Relaxed);
    }

    /// The list of faults that the program goes by.
    pub fn faults_taken(&self) -> u64 {
        self.word(TAKEN).load(Relaxed)
    }

    /// The fault at a place has hit.
    pub fn hit(&self, place: u8) {
        self.word(FIRST + usize::from(place) % MAX_FAULTS)
            .fetch_add(1, Relaxed);
    }

    /// How often the fault of this number and place has hit here.
    pub fn hits(&self, id: u32, place: u8) -> u64 {
        let word = self.word(FIRST + usize::from(place) % MAX_FAULTS);
        let word = word.load(Relaxed);
        let known = u64::from(id) & (u64::MAX >> COUNT);
        match word >> COUNT == known {
            true => word & ((1 << COUNT) - 1),
            false => 0,
        }
    }
}
