//! The sending half: how the bytes of each send go out.

mod issue;

use std::collections::VecDeque;

use super::message::{Header, Kind};
use super::{Action, Machine, Outcome, Violation};

/// A send in progress.
#[derive(Debug)]
struct Op {
    length: u64,
    /// Bytes that were posted, offered or skipped.
    issued: u64,
    /// Bytes that went out.
    moved: u64,
    /// Posts and offers not yet over.
    parts: u32,
    end: bool,
    exposable: bool,
    /// Whether its last piece is out.
    last_out: bool,
    outcome: Outcome,
}

/// A buffer that the peer has opened.
#[derive(Clone, Copy, Debug)]
struct Advert {
    address: u64,
    key: u32,
    length: u64,
    filled: u64,
    fill: bool,
}

#[derive(Debug, Default)]
pub(super) struct Sender {
    ops: VecDeque<Op>,
    /// The number of the oldest operation.
    first: u64,
    /// The number of the first that is not wholly issued.
    next: u64,
    adverts: VecDeque<Advert>,
    /// Operations whose memory the peer is reading, oldest first.
    sources: VecDeque<u64>,
    /// RDMA WRITEs under way.
    writes: usize,
    /// Data and Source messages sent.
    items: u32,
    /// The rest of this message is not wanted.
    skipping: bool,
    finishing: bool,
    fin_sent: bool,
    pub stopped: bool,
    /// How sends end once nothing can be sent any more.
    refusal: Option<Outcome>,
    owes_stop_ack: bool,
    /// Posts and reads that are over, and parts of reads.
    pub parts_done: u64,
}

impl Sender {
    pub(super) fn push(&mut self, length: u64, end: bool, exposable: bool) -> u64 {
        self.ops.push_back(Op {
            length,
            issued: 0,
            moved: 0,
            parts: 0,
            end,
            exposable,
            last_out: false,
            outcome: Outcome::Done,
        });

        let number = self.first + self.ops.len() as u64 - 1;
        if self.stopped {
            self.fail(self.refusal.unwrap_or(Outcome::Refused), &[]);
        }

        number
    }

    pub(super) fn len(&self) -> usize {
        self.ops.len()
    }

    pub(super) fn all_issued(&self) -> bool {
        self.next == self.first + self.ops.len() as u64
    }

    /// Whether the peer has still to read the memory of an operation.
    pub(super) fn is_read(&self) -> bool {
        !self.sources.is_empty()
    }

    pub(super) fn finish(&mut self) {
        self.finishing = true;
    }

    pub(super) fn wants_fin(&self) -> bool {
        self.finishing && !self.fin_sent && self.all_issued()
    }

    pub(super) fn fin_sent(&mut self) {
        self.fin_sent = true;
    }

    pub(super) fn flushed(&self) -> bool {
        self.ops.is_empty() && self.fin_sent
    }

    /// A post of an operation is over. Operations that were already retired had none.
    pub(super) fn part_done(&mut self, op: u64) {
        self.parts_done += 1;
        if let Some(op) = self.op(op) {
            op.parts -= 1;
        }
    }

    /// An RDMA WRITE is over.
    pub(super) fn write_done(&mut self, op: u64) {
        self.writes -= 1;
        self.part_done(op);
    }

    /// The connection is gone: nothing posted will complete any more.
    pub(super) fn abandon(&mut self, outcome: Outcome) {
        self.writes = 0;
        self.refusal = Some(outcome);
        self.stopped = true;
        self.owes_stop_ack = false;
        self.adverts.clear();
        self.sources.clear();
        let mut open = Vec::new();
        for (number, op) in (self.first..).zip(&mut self.ops) {
            if std::mem::take(&mut op.parts) > 0 {
                open.push(number);
            }
        }
        self.fail(outcome, &open);
    }

    /// Reports operations that are over, oldest first.
    pub(super) fn retire(&mut self, actions: &mut VecDeque<Action>) {
        while self
            .ops
            .front()
            .is_some_and(|op| op.last_out && op.parts == 0)
        {
            if let Some(op) = self.ops.pop_front() {
                actions.push_back(Action::Sent {
                    op: self.first,
                    length: op.moved,
                    outcome: op.outcome,
                });
                self.first += 1;
                self.next = self.next.max(self.first);
            }
        }
    }

    fn op(&mut self, number: u64) -> Option<&mut Op> {
        let index = usize::try_from(number.checked_sub(self.first)?).ok()?;
        self.ops.get_mut(index)
    }

    /// What is not wholly out, and these operations, end with this outcome when their posts are
    /// over.
    fn fail(&mut self, outcome: Outcome, these: &[u64]) {
        for (number, op) in (self.first..).zip(&mut self.ops) {
            if !op.last_out || these.contains(&number) {
                op.outcome = outcome;
                op.issued = op.length;
                op.last_out = true;
            }
        }
        self.next = self.first + self.ops.len() as u64;
    }
}

impl Machine {
    /// The peer takes no more.
    pub(super) fn stopped(&mut self) {
        let tx = &mut self.tx;
        tx.stopped = true;
        tx.owes_stop_ack = true;
        tx.adverts.clear();
        // The peer has finished its reads before it said so.
        let sources = Vec::from(std::mem::take(&mut tx.sources));
        for op in &sources {
            tx.part_done(*op);
        }
        tx.fail(Outcome::Refused, &sources);
    }

    pub(super) fn advert(&mut self, header: &Header) -> Result<(), Violation> {
        if header.length == 0 || header.address.checked_add(header.length).is_none() {
            return Err(Violation("an advert of no memory"));
        }

        if header.items == self.tx.items && !self.tx.stopped {
            if self.tx.adverts.len() >= usize::from(self.limits.peer_control) * 4 {
                return Err(Violation("too many adverts"));
            }
            self.tx.adverts.push_back(Advert {
                address: header.address,
                key: header.key,
                length: header.length,
                filled: 0,
                fill: header.fill,
            });
        }

        Ok(())
    }

    pub(super) fn read_done(&mut self) -> Result<(), Violation> {
        match self.tx.sources.pop_front() {
            Some(op) => {
                if let Some(entry) = self.tx.op(op) {
                    entry.moved = entry.length;
                }
                self.tx.part_done(op);
                Ok(())
            }
            // A Stop may have crossed it.
            None if self.tx.stopped => Ok(()),
            None => Err(Violation("a read of nothing is done")),
        }
    }

    /// Acknowledgements that the sending half owes.
    pub(super) fn push_stop_ack(&mut self) {
        if self.tx.owes_stop_ack && self.may_control() {
            self.tx.owes_stop_ack = false;
            self.control(Header::new(Kind::StopAck), None);
        }
    }
}
