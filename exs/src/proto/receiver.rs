//! The receiving half: which bytes go into which receive.

use std::collections::VecDeque;

use super::message::{Header, Kind};
use super::{ADVERT_LEAST, ADVERTS, Action, Expose, Machine, Outcome, Posted, Violation};

/// A receive in progress.
#[derive(Debug)]
struct Op {
    length: u64,
    /// Bytes that are in its memory, or are being read into it.
    bound: u64,
    /// Reads not yet over.
    parts: u32,
    fill: bool,
    exposable: bool,
    advertised: bool,
    /// Whether nothing more goes into it.
    finished: bool,
    truncated: bool,
    end: bool,
    eof: bool,
    outcome: Outcome,
}

/// Bytes that have arrived, or are offered, and are not in any receive yet.
#[derive(Debug)]
enum Item {
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
struct Source {
    bound: bool,
    parts: u32,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Reading {
    #[default]
    Open,
    /// Told to stop; the peer is not told yet, as reads are under way.
    Stopping,
    Told,
    Stopped,
}

#[derive(Debug)]
pub(super) struct Receiver {
    ops: VecDeque<Op>,
    first: u64,
    items: VecDeque<Item>,
    sources: VecDeque<Source>,
    /// The number of the oldest source.
    first_source: u64,
    /// Data and Source messages seen.
    seen: u32,
    /// The rest of this message has no place.
    discarding: bool,
    /// Whether the peer's last bytes came in a large transfer, which makes adverts worth while.
    large: bool,
    reading: Reading,
    /// Bytes were lost when the connection broke.
    broken: bool,
    pub fin: bool,
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
        }
    }
}

impl Receiver {
    pub fn push(&mut self, length: u64, fill: bool, exposable: bool) -> u64 {
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

    pub fn len(&self) -> usize {
        self.ops.len()
    }

    pub fn readable(&self) -> bool {
        !self.items.is_empty() || self.fin || self.reading != Reading::Open
    }

    pub fn stop(&mut self) {
        if self.reading == Reading::Open {
            self.reading = Reading::Stopping;
        }
    }

    pub fn wants_stop(&self) -> bool {
        self.reading == Reading::Stopping && self.sources.iter().all(|source| source.parts == 0)
    }

    pub fn stop_sent(&mut self) {
        self.reading = Reading::Told;
    }

    pub fn stop_told(&self) -> bool {
        matches!(self.reading, Reading::Told | Reading::Stopped)
    }

    pub fn stop_acknowledged(&mut self) -> Result<(), Violation> {
        if self.reading != Reading::Told {
            return Err(Violation("an answer to a stop that was not said"));
        }
        self.reading = Reading::Stopped;
        Ok(())
    }

    pub fn drained(&self) -> bool {
        self.reading == Reading::Stopped && self.ops.is_empty()
    }

    pub fn read_completed(&mut self, op: u64, source: u64) {
        if let Some(op) = self.op(op) {
            op.parts -= 1;
        }
        let index = source.wrapping_sub(self.first_source) as usize;
        if let Some(source) = self.sources.get_mut(index) {
            source.parts -= 1;
        }
    }

    /// The connection is gone: what was being read, or is only offered, is lost, and all that comes after it.
    pub fn cut(&mut self, messages: bool) {
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
    pub fn retire(&mut self, actions: &mut VecDeque<Action>, messages: bool, gone: bool) {
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

    fn op(&mut self, number: u64) -> Option<&mut Op> {
        let index = usize::try_from(number.checked_sub(self.first)?).ok()?;
        self.ops.get_mut(index)
    }

    /// The receive that takes the next bytes: its index.
    fn open(&self) -> Option<usize> {
        self.ops.iter().position(|op| !op.finished)
    }

    /// A Data or Source has come: no advert is good any more.
    fn void(&mut self) {
        self.seen = self.seen.wrapping_add(1);
        for op in &mut self.ops {
            op.advertised = false;
        }
    }
}

impl Machine {
    pub(super) fn data(&mut self, slot: u32, header: &Header) -> Result<(), Violation> {
        if self.rx.fin {
            return Err(Violation("data after the end"));
        }
        if header.length > self.limits.payload || (header.length == 0 && !self.limits.messages) {
            return Err(Violation("data of a wrong size"));
        }
        self.rx.void();
        self.rx.large = false;
        self.rx.items.push_back(Item::Data {
            slot,
            start: 0,
            left: header.length,
            end: header.end,
        });
        Ok(())
    }

    pub(super) fn source(&mut self, header: &Header) -> Result<(), Violation> {
        if self.rx.fin {
            return Err(Violation("data after the end"));
        }
        if header.length == 0 || header.address.checked_add(header.length).is_none() {
            return Err(Violation("an offer of no memory"));
        }
        // Each was a control message, whose slot is free again: only this bounds what a peer can make us remember.
        if self.rx.sources.len() > usize::from(self.limits.own_control) {
            return Err(Violation("too many offers"));
        }
        self.rx.void();
        self.rx.large = true;
        let number = self.rx.first_source + self.rx.sources.len() as u64;
        self.rx.sources.push_back(Source {
            bound: false,
            parts: 0,
        });
        self.rx.items.push_back(Item::Source {
            number,
            address: header.address,
            key: header.key,
            left: header.length,
            end: header.end,
        });
        Ok(())
    }

    pub(super) fn written(&mut self, header: &Header) -> Result<(), Violation> {
        self.rx.large = true;
        let index = self
            .rx
            .open()
            .ok_or(Violation("a write without a receive"))?;
        let op = &mut self.rx.ops[index];
        if !op.advertised || header.length > op.length - op.bound {
            return Err(Violation("a write that was not asked for"));
        }
        op.bound += header.length;
        op.truncated |= header.truncated;
        op.end |= header.end;
        op.finished = header.consumed;
        Ok(())
    }

    /// Gives what has arrived to the receives that are posted.
    pub(super) fn bind(&mut self) {
        if self.rx.reading != Reading::Open {
            self.discard();
            return;
        }
        while !self.rx.items.is_empty() {
            if self.rx.discarding {
                self.drop_front();
                continue;
            }
            let Some(index) = self.rx.open() else { return };
            if !self.bind_front(index) {
                return;
            }
        }
    }

    /// Moves bytes of the oldest item into a receive; false if that must wait.
    fn bind_front(&mut self, index: usize) -> bool {
        let messages = self.limits.messages;
        let number = self.rx.first + index as u64;
        let room = self.rx.ops[index].length - self.rx.ops[index].bound;
        let offset = self.rx.ops[index].bound;
        let (left, end) = match self.rx.items.front() {
            Some(Item::Data { left, end, .. } | Item::Source { left, end, .. }) => (*left, *end),
            None => return false,
        };
        if room == 0 && left > 0 {
            // Only a message comes here: a stream's receive is finished when it is full.
            let op = &mut self.rx.ops[index];
            op.finished = true;
            op.truncated = true;
            self.rx.discarding = true;
            return true;
        }
        let length = match self.rx.items.front_mut() {
            Some(Item::Data {
                slot, start, left, ..
            }) => {
                let length = room.min(*left);
                if length > 0 {
                    self.actions.push_back(Action::Copy {
                        op: number,
                        offset,
                        slot: *slot,
                        start: *start,
                        length,
                    });
                }
                *start += length;
                *left -= length;
                length
            }
            Some(Item::Source {
                number: source,
                address,
                key,
                left,
                ..
            }) => {
                if !self.flow.may_rdma(&self.limits) {
                    return false;
                }
                let length = room.min(*left).min(self.limits.piece);
                self.flow.rdma_posts += 1;
                self.posted.push_back(Posted::Read {
                    op: number,
                    source: *source,
                });
                self.actions.push_back(Action::Read {
                    op: number,
                    offset,
                    length,
                    address: *address,
                    key: *key,
                });
                *address += length;
                *left -= length;
                let index = (*source - self.rx.first_source) as usize;
                self.rx.sources[index].parts += 1;
                self.rx.ops[index_of(number, self.rx.first)].parts += 1;
                length
            }
            None => return false,
        };
        let exhausted = length == left;
        if exhausted {
            self.pop_front();
        }
        let next_is_data = matches!(self.rx.items.front(), Some(Item::Data { .. }));
        let op = &mut self.rx.ops[index];
        op.bound += length;
        if messages {
            op.end = exhausted && end;
            op.finished = op.end || (op.fill && op.bound == op.length);
        } else {
            // Like any stream: what is there, as far as it fits. A large transfer starts in a buffer of its own.
            op.finished = op.bound == op.length || (exhausted && !op.fill && !next_is_data);
        }
        true
    }

    /// The oldest item has been given away.
    fn pop_front(&mut self) {
        match self.rx.items.pop_front() {
            Some(Item::Data { slot, .. }) => {
                self.flow.data_freed();
                self.actions.push_back(Action::Repost { slot });
            }
            Some(Item::Source { number, .. }) => {
                let index = (number - self.rx.first_source) as usize;
                if let Some(source) = self.rx.sources.get_mut(index) {
                    source.bound = true;
                }
            }
            None => {}
        }
    }

    /// Drops the oldest item, of a message that was too large for its receive.
    fn drop_front(&mut self) {
        if let Some(Item::Data { end, .. } | Item::Source { end, .. }) = self.rx.items.front() {
            self.rx.discarding = !*end;
        }
        self.pop_front();
    }

    /// Drops all items: this end takes no more. Offers are not acknowledged; Stop says that they are refused.
    fn discard(&mut self) {
        while let Some(item) = self.rx.items.pop_front() {
            if let Item::Data { slot, .. } = item {
                self.flow.data_freed();
                self.actions.push_back(Action::Repost { slot });
            }
        }
    }

    pub(super) fn push_acknowledgements(&mut self) {
        while self
            .rx
            .sources
            .front()
            .is_some_and(|source| source.bound && source.parts == 0)
            && self.may_control()
        {
            self.rx.sources.pop_front();
            self.rx.first_source += 1;
            self.control(Header::new(Kind::ReadDone), None);
        }
        self.push_stop_ack();
    }

    /// Opens posted buffers to the peer, in order and as long as nothing is before them.
    pub(super) fn push_adverts(&mut self) {
        if !self.rx.items.is_empty()
            || !self.rx.large
            || self.rx.fin
            || self.rx.discarding
            || self.rx.reading != Reading::Open
        {
            return;
        }
        let Some(open) = self.rx.open() else { return };
        for index in open..self.rx.ops.len().min(open + ADVERTS) {
            let number = self.rx.first + index as u64;
            let op = &self.rx.ops[index];
            if op.advertised {
                continue;
            }
            let rest = op.length - op.bound;
            if !op.exposable || rest < ADVERT_LEAST || !self.may_control() {
                return;
            }
            let header = Header {
                fill: op.fill,
                length: rest,
                address: op.bound,
                items: self.rx.seen,
                ..Header::new(Kind::Advert)
            };
            self.rx.ops[index].advertised = true;
            self.control(header, Some(Expose::Sink(number)));
        }
    }
}

fn index_of(number: u64, first: u64) -> usize {
    (number - first) as usize
}
