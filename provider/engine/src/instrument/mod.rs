//! What can be had of the data path on command: faults. While nothing is asked for, all of it is one
//! word that says so; what looks at it goes on as if nothing were here.
//!
//! A queue pair asks once a visit when it sends, and a run is looked at once when it has come. While
//! something is on, packets are sent one by one, so that each can be looked at by itself.

pub(crate) mod faults;
mod faults_held;
mod faults_out;

use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

use ferroce_control::faults::Verb;

use self::faults::Faults;
use crate::error::Result;

pub(crate) use faults_held::Waiting;
pub(crate) use faults_out::{flip, leave, send};

/// Bit: there are faults.
pub(crate) const FAULTS: u32 = 1 << 0;

/// What is asked for.
#[derive(Default)]
pub(crate) struct Taps {
    /// Which of it; all zeros: nothing.
    on: AtomicU32,
    pub(crate) faults: Faults,
    /// Queue pairs made so far.
    queue_pairs: AtomicU32,
}

impl Taps {
    /// Whether anything is on.
    #[inline]
    pub(crate) fn any(&self) -> bool {
        self.on.load(Relaxed) != 0
    }

    /// Whether one thing is on.
    #[inline]
    pub(crate) fn has(&self, bit: u32) -> bool {
        self.on.load(Relaxed) & bit != 0
    }

    /// Switches one thing on or off. What is under way may end as it has begun.
    pub(crate) fn set(&self, bit: u32, on: bool) {
        match on {
            true => self.on.fetch_or(bit, Relaxed),
            false => self.on.fetch_and(!bit, Relaxed),
        };
    }

    /// Which of the program's queue pairs the next one is, from 1.
    pub(crate) fn next_ordinal(&self) -> u32 {
        self.queue_pairs.fetch_add(1, Relaxed) + 1
    }

    /// Whether a verb may be carried out.
    pub(crate) fn allows(&self, verb: Verb, hit: impl Fn(u8)) -> Result<()> {
        match self.has(FAULTS) {
            true => self.faults.allows(verb, hit),
            false => Ok(()),
        }
    }
}
