//! Two machines over a link that runs at whatever pace the seed says, with memory that is checked.

use std::collections::VecDeque;

use rand::Rng;
use rand::rngs::StdRng;

use super::super::message::{Header, Kind};
use super::super::*;

/// A work request on its way, executed in order as a reliable connection does.
#[derive(Clone, Debug)]
pub(super) enum Wire {
    Message(Header, Vec<u8>, Option<u32>),
    Write {
        address: u64,
        key: u32,
        bytes: Vec<u8>,
        immediate: Option<u32>,
    },
    Read {
        op: u64,
        offset: u64,
        length: u64,
        address: u64,
        key: u32,
    },
}

#[derive(Debug)]
pub(super) struct Receive {
    memory: Vec<u8>,
    exposable: bool,
}

pub(super) struct End {
    pub machine: Machine,
    pub out: VecDeque<Wire>,
    /// Executed, not completed yet.
    pub done: usize,
    pub sends: VecDeque<Vec<u8>>,
    pub first_send: u64,
    pub receives: VecDeque<Receive>,
    pub first_receive: u64,
    pub slots: Vec<Option<Vec<u8>>>,
    pub sent: Vec<(u64, Outcome)>,
    pub received: Vec<(Vec<u8>, bool, bool, Outcome, bool)>,
    pub zero_copy: u64,
    /// What was read for a receive that is not exposable; empty while that is under way.
    aside: Option<Vec<u8>>,
}

pub(super) const DATA: u16 = 4;
const CONTROL: u16 = 6;
pub(super) const PAYLOAD: u64 = 256;

impl End {
    /// `immediates`: whether its peer takes them.
    pub(super) fn new(messages: bool, immediates: bool) -> Self {
        Self {
            machine: Machine::new(Limits {
                messages,
                peer_data: DATA,
                peer_control: CONTROL,
                own_data: DATA,
                own_control: CONTROL,
                payload: PAYLOAD,
                data_posts: 4,
                control_posts: 8,
                rdma_posts: 3,
                piece: 20_000,
                immediates,
            }),
            out: VecDeque::new(),
            done: 0,
            sends: VecDeque::new(),
            first_send: 0,
            receives: VecDeque::new(),
            first_receive: 0,
            slots: (0..DATA + CONTROL).map(|_| None).collect(),
            sent: Vec::new(),
            received: Vec::new(),
            zero_copy: 0,
            aside: None,
        }
    }

    pub(super) fn send(&mut self, bytes: Vec<u8>, end: bool, exposable: bool) {
        let length = bytes.len() as u64;
        self.sends.push_back(bytes);
        self.machine.send(length, end, exposable);
        self.act();
    }

    pub(super) fn receive(&mut self, length: usize, fill: bool, exposable: bool) {
        self.receives.push_back(Receive {
            memory: vec![0; length],
            exposable,
        });
        self.machine.receive(length as u64, fill, exposable);
        self.act();
    }

    pub(super) fn send_memory(&self, op: u64) -> &[u8] {
        &self.sends[(op - self.first_send) as usize]
    }

    pub(super) fn receive_memory(&mut self, op: u64) -> &mut [u8] {
        &mut self.receives[(op - self.first_receive) as usize].memory
    }

    /// A slot that is posted, which a message or immediate data take.
    fn posted_slot(&self) -> usize {
        let posted = self.slots.iter().position(Option::is_none);
        posted.expect("a slot is posted for each message")
    }

    /// Takes immediate data of `length` bytes, with the slot that they take.
    fn immediate(&mut self, kind: Kind, immediate: u32, length: usize, slot_has: Vec<u8>) {
        let slot = self.posted_slot();
        self.slots[slot] = Some(slot_has);
        self.machine
            .immediate(slot as u32, kind, immediate, length as u64)
            .unwrap();
        self.act();
    }

    /// Counts what is read into a receive's own memory. Aside there is one at a time, and no more
    /// than there is room for.
    fn read(&mut self, op: u64, length: u64) {
        if self.receives[(op - self.first_receive) as usize].exposable {
            self.zero_copy += length;
        } else {
            assert!(length <= ASIDE && self.aside.is_none());
            self.aside = Some(Vec::new());
        }
    }

    pub(super) fn act(&mut self) {
        while let Some(action) = self.machine.action() {
            match action {
                Action::Send {
                    mut header,
                    expose,
                    payload,
                    immediate,
                } => {
                    if let Some(Expose::Source(op) | Expose::Sink(op)) = expose {
                        header.key = op as u32;
                    }
                    let bytes = payload.map_or(Vec::new(), |(op, offset)| {
                        self.send_memory(op)[offset as usize..][..header.length as usize].to_vec()
                    });
                    self.out.push_back(Wire::Message(header, bytes, immediate));
                }
                Action::Write {
                    op,
                    offset,
                    length,
                    address,
                    key,
                    immediate,
                } => {
                    self.zero_copy += length;
                    let bytes = self.send_memory(op)[offset as usize..][..length as usize].to_vec();
                    self.out.push_back(Wire::Write {
                        address,
                        key,
                        bytes,
                        immediate,
                    });
                }
                Action::Read {
                    op,
                    offset,
                    length,
                    address,
                    key,
                } => {
                    self.read(op, length);
                    self.out.push_back(Wire::Read {
                        op,
                        offset,
                        length,
                        address,
                        key,
                    });
                }
                Action::Fetch { op, offset, length } => {
                    let bytes = self.aside.take().expect("something was read");
                    self.receive_memory(op)[offset as usize..][..length as usize]
                        .copy_from_slice(&bytes);
                }
                Action::Copy {
                    op,
                    offset,
                    slot,
                    start,
                    length,
                } => {
                    let bytes = self.slots[slot as usize].as_ref().unwrap()[start as usize..]
                        [..length as usize]
                        .to_vec();
                    self.receive_memory(op)[offset as usize..][..length as usize]
                        .copy_from_slice(&bytes);
                }
                Action::Repost { slot } => assert!(self.slots[slot as usize].take().is_some()),
                Action::Sent {
                    op,
                    length,
                    outcome,
                } => {
                    assert_eq!(op, self.first_send);
                    self.first_send += 1;
                    let bytes = self.sends.pop_front().unwrap();
                    if outcome == Outcome::Done {
                        assert_eq!(length, bytes.len() as u64);
                    }
                    self.sent.push((length, outcome));
                }
                Action::Received {
                    op,
                    length,
                    truncated,
                    end,
                    eof,
                    outcome,
                } => {
                    assert_eq!(op, self.first_receive);
                    self.first_receive += 1;
                    let mut memory = self.receives.pop_front().unwrap().memory;
                    memory.truncate(length as usize);
                    self.received.push((memory, truncated, eof, outcome, end));
                }
            }
        }
    }
}

/// Executes the oldest request of one end at the other.
pub(super) fn execute(from: &mut End, to: &mut End) {
    match from.out.pop_front() {
        None => return,
        Some(Wire::Message(header, bytes, Some(immediate))) => {
            to.immediate(header.kind, immediate, bytes.len(), bytes);
        }
        Some(Wire::Message(header, bytes, None)) => {
            let slot = to.posted_slot();
            let mut message = header.encode().to_vec();
            message.extend(&bytes);
            let header = Header::parse(&message).expect("a message that parses");
            to.slots[slot] = Some(message);
            to.machine.message(slot as u32, &header).unwrap();
            to.act();
        }
        Some(Wire::Write {
            address,
            key,
            bytes,
            immediate,
        }) => {
            // Memory of a receive that is over must not be written: this would index below the
            // first.
            assert!(u64::from(key) >= to.first_receive, "a write after the end");
            to.receive_memory(u64::from(key))[address as usize..][..bytes.len()]
                .copy_from_slice(&bytes);
            if let Some(immediate) = immediate {
                to.immediate(Kind::Written, immediate, bytes.len(), Vec::new());
            }
        }
        Some(Wire::Read {
            op,
            offset,
            length,
            address,
            key,
        }) => {
            assert!(u64::from(key) >= to.first_send, "a read after the end");
            let bytes =
                to.send_memory(u64::from(key))[address as usize..][..length as usize].to_vec();
            // Nobody but the driver writes to memory that is not registered.
            if from.receives[(op - from.first_receive) as usize].exposable {
                from.receive_memory(op)[offset as usize..][..length as usize]
                    .copy_from_slice(&bytes);
            } else {
                from.aside = Some(bytes);
            }
        }
    }

    from.done += 1;
}

pub(super) fn complete(end: &mut End) {
    if end.done > 0 {
        end.done -= 1;
        end.machine.completed();
        end.act();
    }
}

pub(super) fn step(ends: &mut [End; 2], rng: &mut StdRng) {
    let (left, right) = ends.split_at_mut(1);
    match rng.random_range(0..4) {
        0 => execute(&mut left[0], &mut right[0]),
        1 => execute(&mut right[0], &mut left[0]),
        2 => complete(&mut left[0]),
        _ => complete(&mut right[0]),
    }
}

pub(super) fn settle(ends: &mut [End; 2], rng: &mut StdRng) {
    while ends.iter().any(|end| !end.out.is_empty() || end.done > 0) {
        step(ends, rng);
    }
}

pub(super) fn pattern(rng: &mut StdRng, length: usize) -> Vec<u8> {
    let start: u8 = rng.random();
    (0..length)
        .map(|index| start.wrapping_add((index * 7 / 3) as u8))
        .collect()
}

pub(super) fn length(rng: &mut StdRng) -> usize {
    match rng.random_range(0..4) {
        0 => rng.random_range(1..64),
        1 => rng.random_range(1..1500),
        2 => rng.random_range(1000..12_000),
        _ => rng.random_range(8000..90_000),
    }
}
