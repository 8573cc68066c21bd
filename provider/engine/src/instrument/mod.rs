//! What looks at packets and requests on their way, or acts on them, while somebody asks for it:
//! faults, captures, latencies, and who wants to be called for completions.
//!
//! While nobody does, all that it costs is a look at one word, which nobody writes then, for a run
//! of packets, a visit of a queue pair, a request that is posted and a completion
//! ([`Taps::has`]). While there are faults, packets are sent one by one, so that each can be looked
//! at by itself. Nothing here waits for anybody else.

mod capture;
pub(crate) mod faults;
mod faults_held;
mod faults_out;
pub(crate) mod latency;
mod measuring;
pub(crate) mod watch;

use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

use ferroce_control::capture::record::Fate;
use ferroce_control::faults::Verb;
use ferroce_transport::Injected;
use ferroce_wire::Packet;
use parking_lot::Mutex;

use self::capture::Captures;
use self::faults::Faults;
use crate::error::Result;

pub(crate) use self::capture::{Came, Made};
pub(crate) use faults_held::{Keeper, Waiting};
pub(crate) use faults_out::{flip, leave};

/// Bits of the word: there are faults…
pub(crate) const FAULTS: u32 = 1 << 0;
/// … somebody captures packets…
pub(crate) const CAPTURE: u32 = 1 << 1;
/// … and what is done by verbs.
pub(crate) const VERBS: u32 = 1 << 2;
/// Latencies of queue pairs are measured.
pub(crate) const LATENCY: u32 = 1 << 3;

/// All taps of a device in this process.
#[derive(Default)]
pub(crate) struct Taps {
    /// Which are on; all zeros: none.
    on: AtomicU32,
    pub(crate) faults: Faults,
    pub(crate) captures: Captures,
    /// Queue pairs made so far.
    queue_pairs: AtomicU32,
    /// Queue pairs whose latencies are measured.
    measured: Mutex<u32>,
}

/// A queue pair whose packets are looked at by themselves.
#[derive(Clone, Copy)]
pub(crate) struct Tapped<'a> {
    pub(crate) taps: &'a Taps,
    /// Its number.
    pub(crate) qp: u32,
    /// Which of the program's it is.
    pub(crate) ordinal: u32,
}

impl Taps {
    /// Whether one of these is on.
    #[inline]
    pub(crate) fn has(&self, which: u32) -> bool {
        self.on.load(Relaxed) & which != 0
    }

    /// Switches these on or off. What is under way may end as it has begun.
    pub(crate) fn set(&self, which: u32, on: bool) {
        match on {
            true => self.on.fetch_or(which, Relaxed),
            false => self.on.fetch_and(!which, Relaxed),
        };
    }

    /// From now on what is captured goes into this ring, too.
    pub(crate) fn record_into(&self, ring: OwnedFd) {
        self.captures.add(ring);
        self.look_at_captures();
    }

    /// Lets go of the rings that nobody reads any more.
    pub(crate) fn look_at_captures(&self) {
        let (packets, verbs) = self.captures.wanted(false);
        self.set(CAPTURE, packets);
        self.set(VERBS, verbs);
    }

    /// A fault has a packet of a queue pair's go this way, for who captures.
    pub(crate) fn fault(&self, qpn: u32, incoming: bool, packet: &Packet<'_>, fate: Fate) {
        if self.has(VERBS) {
            self.captures.fault(qpn, incoming, packet, fate);
        }
    }

    /// A fault has a request refused.
    pub(crate) fn refused(&self, qpn: u32, packet: &Packet<'_>, why: Injected) {
        self.fault(qpn, true, packet, capture::fate(why));
    }

    /// Ends all captures: the daemon has gone, who would say that a reader has.
    pub(crate) fn end_captures(&self) {
        self.captures.wanted(true);
        self.set(CAPTURE | VERBS, false);
    }

    /// The latencies of one more queue pair are measured, or of one less.
    pub(crate) fn measured(&self, more: bool) {
        let mut measured = self.measured.lock();
        match more {
            true => *measured += 1,
            false => *measured -= 1,
        }
        self.set(LATENCY, *measured != 0);
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
