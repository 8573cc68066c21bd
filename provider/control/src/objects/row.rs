//! A queue pair's row of numbers, as the process writes it that has the queue pair.
//!
//! Every number that a process gives a queue pair has a row, so none is without. A row is written
//! under its queue pair's lock, with plain stores: its own thread is the only one that adds, and
//! who reads may see one number from before a store and the next from after it.

use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;

use super::numbers::{Pace, QpAttributes, QpNumbers, QpProgress};
use super::object::two;
use super::{Free, NUMBERS, ObjectTable, QUEUE_PAIRS};
use crate::Counter;

/// Words of a row: six lines of a cache.
pub(super) const WORDS: usize = 48;

/// What is counted of each queue pair, by the names that the device's sums have; the position is
/// the position in the row.
pub const QP_COUNTERS: [Counter; 24] = [
    // One line: what a sender is about.
    Counter::TxPackets,
    Counter::TxBytes,
    Counter::RetransmittedPackets,
    Counter::LocalAckTimeout,
    Counter::RnrNakRetry,
    Counter::PacketSeqErr,
    Counter::ImpliedNakSeqErr,
    Counter::ReqCqeError,
    // One line: what a receiver is about.
    Counter::RxPackets,
    Counter::RxBytes,
    Counter::DuplicateRequest,
    Counter::OutOfSequence,
    Counter::OutOfBuffer,
    Counter::SeqErrNakSent,
    Counter::RespCqeError,
    Counter::RxNoReceive,
    // One line: what is rare.
    Counter::ReqCqeFlushError,
    Counter::RespCqeFlushError,
    Counter::RetryExceeded,
    Counter::RnrRetryExceeded,
    Counter::ReqRemoteAccessErrors,
    Counter::RespRemoteAccessErrors,
    Counter::QkeyViolation,
    Counter::UcLoss,
];

/// Where each counter is among those; [`NOWHERE`]: not counted by queue pair.
const PLACES: [u8; Counter::ALL.len()] = {
    let mut places = [NOWHERE; Counter::ALL.len()];
    let mut at = 0;
    while at < QP_COUNTERS.len() {
        places[QP_COUNTERS[at] as usize] = at as u8;
        at += 1;
    }
    places
};
const NOWHERE: u8 = u8::MAX;

/// The first line of a row: how far the queue pair is, written whenever it has moved.
pub(super) mod progress {
    pub(in super::super) const SENDS_COMPLETED: usize = 0;
    pub(in super::super) const OUTSTANDING: usize = 1;
    pub(in super::super) const SENT_PSNS: usize = 2;
    pub(in super::super) const RECEIVED_PSNS: usize = 3;
    pub(in super::super) const WINDOW: usize = 4;
    pub(in super::super) const RECEIVES_COMPLETED: usize = 5;
    pub(in super::super) const LAST_SENT: usize = 6;
    pub(in super::super) const LAST_RECEIVED: usize = 7;
}

pub(super) const COUNTERS: usize = 8;
/// When something last happened, the last error, and the completion queues.
pub(super) const MOMENTS: usize = COUNTERS + QP_COUNTERS.len();
pub(super) const LAST_ERROR: usize = MOMENTS + QpMoment::COUNT;
pub(super) const ERROR_AT: usize = LAST_ERROR + 1;
pub(super) const QUEUES: usize = ERROR_AT + 1;
/// The rate that the path is held to, in thousands of bytes a second, and the estimate of
/// congestion.
pub(super) const PACE: usize = QUEUES + 1;
/// What `ibv_query_qp(3)` tells.
pub(super) const ATTRIBUTES: usize = 40;

const _: () = assert!(PACE < ATTRIBUTES && ATTRIBUTES + QpAttributes::WORDS == WORDS);

/// Of what is told when it last happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(usize)]
pub enum QpMoment {
    /// A packet was sent again.
    SentAgain,
    /// A Local ACK Timeout expired.
    TimedOut,
    /// An RNR NAK was sent.
    RnrSent,
    /// An RNR NAK was received.
    RnrReceived,
}

impl QpMoment {
    const COUNT: usize = QpMoment::RnrReceived as usize + 1;
}

/// The row of one queue pair, to be written to under the queue pair's lock.
#[derive(Debug)]
pub struct QpRow {
    table: Arc<ObjectTable>,
    first: usize,
}

impl ObjectTable {
    /// A row for a queue pair that is being made; none where there are as many as can be. All of it
    /// is zero from now on but for the completion queues, which are named by the numbers of their
    /// entries. It is another's when it is dropped.
    pub fn row(self: &Arc<Self>, queues: [Option<u32>; 2]) -> Option<QpRow> {
        // Those that were used come first: numbers of queue pairs are random, and rows by them
        // would have a page each.
        let place = Free::locked(&self.rows).take(QUEUE_PAIRS as u32)?;
        let row = QpRow {
            table: self.clone(),
            first: first(place as u16),
        };

        for word in 0..WORDS {
            row.set(word, 0);
        }
        let [send, receive] = queues.map(super::object::perhaps);
        row.set(QUEUES, two(send, receive));
        Some(row)
    }

    /// The numbers of the queue pair whose entry names this row, as of now. They mean something
    /// only while there is such a queue pair.
    pub fn numbers(&self, row: u16) -> QpNumbers {
        let words = std::array::from_fn(|word| self.at(first(row) + word).load(Relaxed));
        QpNumbers::from_words(&words)
    }
}

fn first(row: u16) -> usize {
    NUMBERS + usize::from(row) * WORDS
}

impl Drop for QpRow {
    fn drop(&mut self) {
        // In a forked child the row is the parent's still, who may have held the lock at the fork.
        if self.table.is_own() {
            Free::locked(&self.table.rows)
                .back
                .push(self.place().into());
        }
    }
}

impl QpRow {
    /// Which one it is, for the queue pair's entry.
    pub fn place(&self) -> u16 {
        ((self.first - NUMBERS) / WORDS) as u16
    }

    /// Adds to a counter that is one of [`QP_COUNTERS`]; others are passed over.
    #[inline]
    pub fn count(&self, counter: Counter, n: u64) {
        let place = PLACES[counter as usize];
        if place != NOWHERE {
            self.add(COUNTERS + usize::from(place), n);
        }
    }

    /// Packets went out, with all of their bytes.
    #[inline]
    pub fn sent(&self, packets: u64, bytes: u64, now: u64) {
        self.count(Counter::TxPackets, packets);
        self.count(Counter::TxBytes, bytes);
        self.set(progress::LAST_SENT, now);
    }

    /// Packets came, likewise.
    #[inline]
    pub fn received(&self, packets: u64, bytes: u64, now: u64) {
        self.count(Counter::RxPackets, packets);
        self.count(Counter::RxBytes, bytes);
        self.set(progress::LAST_RECEIVED, now);
    }

    /// How far the queue pair is.
    #[inline]
    pub fn publish(&self, at: &QpProgress) {
        self.set(progress::SENDS_COMPLETED, at.sends_completed);
        self.outstanding(at.sends, at.receives);
        let (sent, received) = at.psns();
        self.set(progress::SENT_PSNS, sent);
        self.set(progress::RECEIVED_PSNS, received);
        self.set(progress::WINDOW, two(at.in_flight, at.window));
    }

    /// How many requests each queue has.
    #[inline]
    pub fn outstanding(&self, sends: u32, receives: u32) {
        self.set(progress::OUTSTANDING, two(sends, receives));
    }

    /// A receive request has completed.
    #[inline]
    pub fn receive_completed(&self) {
        self.add(progress::RECEIVES_COMPLETED, 1);
    }

    /// Something has happened.
    pub fn happened(&self, what: QpMoment, now: u64) {
        self.set(MOMENTS + what as usize, now);
    }

    /// What its path is held to, by marks of congestion; `None`: nothing.
    #[inline]
    pub fn paced(&self, pace: Option<Pace>) {
        self.set(PACE, pace.map_or(0, |pace| pace.word()));
    }

    /// A request has failed, other than by being flushed: a status of `enum ibv_wc_status`.
    pub fn failed(&self, status: u32, receive: bool, now: u64) {
        self.set(LAST_ERROR, two(receive.into(), status));
        self.set(ERROR_AT, now);
    }

    /// The attributes are others.
    pub fn describe(&self, attributes: &QpAttributes) {
        for (word, value) in (ATTRIBUTES..).zip(attributes.words()) {
            self.set(word, value);
        }
    }

    /// Who adds holds the lock, so nobody else does between the two.
    #[inline]
    fn add(&self, word: usize, n: u64) {
        let cell = self.cell(word);
        cell.store(cell.load(Relaxed).wrapping_add(n), Relaxed);
    }

    #[inline]
    fn set(&self, word: usize, value: u64) {
        self.cell(word).store(value, Relaxed);
    }

    #[inline]
    fn cell(&self, word: usize) -> &AtomicU64 {
        debug_assert!(word < WORDS);
        self.table.at(self.first + word)
    }
}
