//! The receiving half: which bytes go into which receive.

use std::collections::VecDeque;

use super::{Action, Outcome, SOURCES, Violation};

/// A receive in progress.
#[derive(Debug)]
pub(super) struct Op {
    pub length: u64,
    /// Bytes that are in its memory, or are being read into it.
    pub bound: u64,
    /// Reads not yet over.
    pub parts: u32,
    pub fill: bool,
    pub exposable: bool,
    pub advertised: bool,
    /// Whether nothing more goes into it.
    pub finished: bool,
    pub truncated: bool,
    pub end: bool,
    pub eof: bool,
    pub outcome: Outcome,
}

/// Bytes that have arrived, or are offered, and are not in any receive yet.
#[derive(Debug)]
pub(super) enum Item {
    Data {
        slot: u32,
        start: u64,
        left: u64,
        end: bool,
    },
    Source {
        number: u64,
        address: u64,
        key: u32,
        left: u64,
        end: bool,
    },
}

/// An offer of the peer's, until it is acknowledged.
#[derive(Debug)]
pub(super) struct Source {
    pub bound: bool,
    pub parts: u32,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Reading {
    #[default]
    Open,
    /// To be stopped; the peer does not know yet, as reads are under way.
    Stopping,
    StopSent,
    Stopped,
}

#[derive(Debug)]
pub(super) struct Receiver {
    pub ops: VecDeque<Op>,
    pub first: u64,
    pub items: VecDeque<Item>,
    pub sources: VecDeque<Source>,
    /// The number of the oldest source.
    pub first_source: u64,
    /// Data and Source messages seen.
    pub seen: u32,
    /// The rest of this message has no place.
    pub discarding: bool,
    /// Whether the peer's last bytes came in a large transfer, which makes adverts worth while.
    pub large: bool,
    pub reading: Reading,
    /// Bytes were lost when the connection broke.
    pub broken: bool,
    pub fin: bool,
    /// Bytes of the oldest source that the peer does not know to be taken, and waits for.
    pub untold: u64,
}

impl Default for Receiver {
    fn default() -> Self {
        Self {
            ops: VecDeque::new(),
            first: 0,
            items: VecDeque::new(),
            sources: VecDeque::new(),
            first_source: 0,
            seen: 0,
            discarding: false,
            // Buffers that are posted before anything has come are likely to be for what will come.
            large: true,
            reading: Reading::Open,
            broken: false,
            fin: false,
            untold: 0,
        }
    }
}

impl Receiver {
    pub(super) fn push(&mut self, length: u64, fill: bool, exposable: bool) -> u64 {
        self.ops.push_back(Op {
            length,
            bound: 0,
            parts: 0,
            fill,
            exposable,
            advertised: false,
            finished: false,
            truncated: false,
            end: false,
            eof: false,
            outcome: Outcome::Done,
        });
        self.first + self.ops.len() as u64 - 1
    }

    pub(super) fn len(&self) -> usize {
        self.ops.len()
    }

    pub(super) fn readable(&self, messages: bool) -> bool {
        let ends = |item: &Item| match item {
            Item::Data { end, .. } | Item::Source { end, .. } => *end,
        };
        let there = match messages {
            true => self.items.iter().any(ends) || self.sources.len() >= SOURCES,
            false => !self.items.is_empty(),
        };
        there || self.fin || self.reading != Reading::Open
    }

    /// `gone`: there is no peer any more that would have to agree. A connection that broke before
    /// stays one that broke.
    pub(super) fn stop(&mut self, gone: bool) {
        if self.reading == Reading::Open {
            self.reading = match gone && self.fin && !self.broken {
                true => Reading::Stopped,
                false => Reading::Stopping,
            };
        }
    }

    pub(super) fn wants_stop(&self) -> bool {
        self.reading == Reading::Stopping && self.sources.iter().all(|source| source.parts == 0)
    }

    pub(super) fn stop_sent(&mut self) {
        self.reading = Reading::StopSent;
    }

    pub(super) fn has_sent_stop(&self) -> bool {
        matches!(self.reading, Reading::StopSent | Reading::Stopped)
    }

    pub(super) fn stop_acknowledged(&mut self) -> Result<(), Violation> {
        if self.reading != Reading::StopSent {
            return Err(Violation("an answer to a stop that was not said"));
        }
        self.reading = Reading::Stopped;
        Ok(())
    }

    pub(super) fn drained(&self) -> bool {
        self.reading == Reading::Stopped && self.ops.is_empty()
    }

    pub(super) fn read_completed(&mut self, op: u64, source: u64) {
        if let Some(op) = self.op(op) {
            op.parts -= 1;
        }
        let index = source.wrapping_sub(self.first_source) as usize;
        if let Some(source) = self.sources.get_mut(index) {
            source.parts -= 1;
        }
    }

    /// The connection is gone: what was being read, or is only offered, is lost, and all that comes
    /// after it.
    pub(super) fn cut(&mut self, messages: bool) {
        self.sources.clear();
        self.reading = match self.reading {
            Reading::Open => Reading::Open,
            _ => Reading::Stopped,
        };

        let mut lost = false;
        for op in &mut self.ops {
            op.advertised = false;
            lost |= op.parts > 0;
            if lost {
                op.parts = 0;
                op.bound = 0;
                op.finished = true;
                op.outcome = Outcome::Reset;
            }
        }

        // A message of which the rest will never come is no message.
        if let Some(op) = self.ops.iter_mut().find(|op| !op.finished) {
            lost |= messages && op.bound > 0;
        }

        if let Some(at) = self
            .items
            .iter()
            .position(|item| matches!(item, Item::Source { .. }))
        {
            lost |= at == 0;
            self.broken = true;
            self.items.truncate(at);
        }

        if lost {
            self.broken = true;
            self.items.clear();
        }
    }

    /// Ends what can take nothing more, and reports what is over, oldest first.
    pub(super) fn retire(&mut self, actions: &mut VecDeque<Action>, messages: bool, gone: bool) {
        if self.items.is_empty() {
            let outcome = match self.reading {
                Reading::Stopped => Some(Outcome::Canceled),
                Reading::Open if self.fin && !self.broken => Some(Outcome::Done),
                _ if gone => Some(Outcome::Reset),
                _ => None,
            };

            if let Some(outcome) = outcome {
                for op in self.ops.iter_mut().filter(|op| !op.finished) {
                    op.finished = true;
                    op.outcome = outcome;
                    op.eof = op.bound == 0 && outcome == Outcome::Done;
                    if messages && op.bound > 0 && outcome == Outcome::Done {
                        op.outcome = Outcome::Reset;
                    }
                }
            }
        }

        while self
            .ops
            .front()
            .is_some_and(|op| op.finished && op.parts == 0)
        {
            if let Some(op) = self.ops.pop_front() {
                actions.push_back(Action::Received {
                    op: self.first,
                    length: op.bound,
                    truncated: op.truncated,
                    end: op.end,
                    eof: op.eof,
                    outcome: op.outcome,
                });
                self.first += 1;
            }
        }
    }

    pub(super) fn op(&mut self, number: u64) -> Option<&mut Op> {
        let index = usize::try_from(number.checked_sub(self.first)?).ok()?;
        self.ops.get_mut(index)
    }

    /// The receive that takes the next bytes: its index.
    pub(super) fn open(&self) -> Option<usize> {
        self.ops.iter().position(|op| !op.finished)
    }

    /// A Data or Source has come: no advert is good any more.
    pub(super) fn void(&mut self) {
        self.seen = self.seen.wrapping_add(1);
        for op in &mut self.ops {
            op.advertised = false;
        }
    }
}
