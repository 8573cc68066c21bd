//! Two machines over a link that runs at whatever pace the seed says, with memory that is checked.

use std::collections::VecDeque;

use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

use super::message::{Header, Kind};
use super::*;

/// A work request on its way, executed in order as a reliable connection does.
#[derive(Clone, Debug)]
enum Wire {
    Message(Header, Vec<u8>),
    Write {
        address: u64,
        key: u32,
        bytes: Vec<u8>,
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
struct Receive {
    memory: Vec<u8>,
}

struct End {
    machine: Machine,
    out: VecDeque<Wire>,
    /// Executed, not completed yet.
    done: usize,
    sends: VecDeque<Vec<u8>>,
    first_send: u64,
    receives: VecDeque<Receive>,
    first_receive: u64,
    slots: Vec<Option<Vec<u8>>>,
    sent: Vec<(u64, Outcome)>,
    received: Vec<(Vec<u8>, bool, bool, Outcome, bool)>,
    zero_copy: u64,
}

const DATA: u16 = 4;
const CONTROL: u16 = 6;
const PAYLOAD: u64 = 256;

impl End {
    fn new(messages: bool) -> Self {
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
        }
    }

    fn send(&mut self, bytes: Vec<u8>, end: bool, exposable: bool) {
        let length = bytes.len() as u64;
        self.sends.push_back(bytes);
        self.machine.send(length, end, exposable);
        self.act();
    }

    fn receive(&mut self, length: usize, fill: bool, exposable: bool) {
        self.receives.push_back(Receive {
            memory: vec![0; length],
        });
        self.machine.receive(length as u64, fill, exposable);
        self.act();
    }

    fn send_memory(&self, op: u64) -> &[u8] {
        &self.sends[(op - self.first_send) as usize]
    }

    fn receive_memory(&mut self, op: u64) -> &mut [u8] {
        &mut self.receives[(op - self.first_receive) as usize].memory
    }

    fn act(&mut self) {
        while let Some(action) = self.machine.action() {
            match action {
                Action::Send {
                    mut header,
                    expose,
                    payload,
                } => {
                    if let Some(Expose::Source(op) | Expose::Sink(op)) = expose {
                        header.key = op as u32;
                    }
                    let bytes = payload.map_or(Vec::new(), |(op, offset)| {
                        self.send_memory(op)[offset as usize..][..header.length as usize].to_vec()
                    });
                    self.out.push_back(Wire::Message(header, bytes));
                }
                Action::Write {
                    op,
                    offset,
                    length,
                    address,
                    key,
                } => {
                    self.zero_copy += length;
                    let bytes = self.send_memory(op)[offset as usize..][..length as usize].to_vec();
                    self.out.push_back(Wire::Write {
                        address,
                        key,
                        bytes,
                    });
                }
                Action::Read {
                    op,
                    offset,
                    length,
                    address,
                    key,
                } => {
                    self.zero_copy += length;
                    self.out.push_back(Wire::Read {
                        op,
                        offset,
                        length,
                        address,
                        key,
                    });
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
fn execute(from: &mut End, to: &mut End) {
    match from.out.pop_front() {
        None => return,
        Some(Wire::Message(header, bytes)) => {
            let slot = to
                .slots
                .iter()
                .position(Option::is_none)
                .expect("a slot is posted for each message");
            let mut message = header.encode().to_vec();
            message.extend(&bytes);
            let header = Header::parse(&message).expect("a message that parses");
            to.slots[slot] = Some(bytes);
            to.machine.message(slot as u32, &header).unwrap();
            to.act();
        }
        Some(Wire::Write {
            address,
            key,
            bytes,
        }) => {
            // Memory of a receive that is over must not be written: this would index below the first.
            assert!(u64::from(key) >= to.first_receive, "a write after the end");
            to.receive_memory(u64::from(key))[address as usize..][..bytes.len()]
                .copy_from_slice(&bytes);
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
            from.receive_memory(op)[offset as usize..][..length as usize].copy_from_slice(&bytes);
        }
    }
    from.done += 1;
}

fn complete(end: &mut End) {
    if end.done > 0 {
        end.done -= 1;
        end.machine.completed();
        end.act();
    }
}

fn step(ends: &mut [End; 2], rng: &mut StdRng) {
    let (left, right) = ends.split_at_mut(1);
    match rng.random_range(0..4) {
        0 => execute(&mut left[0], &mut right[0]),
        1 => execute(&mut right[0], &mut left[0]),
        2 => complete(&mut left[0]),
        _ => complete(&mut right[0]),
    }
}

fn settle(ends: &mut [End; 2], rng: &mut StdRng) {
    while ends.iter().any(|end| !end.out.is_empty() || end.done > 0) {
        step(ends, rng);
    }
}

fn pattern(rng: &mut StdRng, length: usize) -> Vec<u8> {
    let start: u8 = rng.random();
    (0..length)
        .map(|index| start.wrapping_add((index * 7 / 3) as u8))
        .collect()
}

fn length(rng: &mut StdRng) -> usize {
    match rng.random_range(0..4) {
        0 => rng.random_range(1..64),
        1 => rng.random_range(1..1500),
        2 => rng.random_range(1000..12_000),
        _ => rng.random_range(8000..90_000),
    }
}

#[test]
fn a_stream_arrives_whole_and_in_order() {
    let mut zero_copy = 0;
    for seed in 0..400 {
        let mut rng = StdRng::seed_from_u64(seed);
        let mut ends = [End::new(false), End::new(false)];
        let mut wanted = [Vec::new(), Vec::new()];
        for _ in 0..rng.random_range(1..120) {
            let side = rng.random_range(0..2);
            if rng.random() {
                let size = length(&mut rng);
                let bytes = pattern(&mut rng, size);
                wanted[1 - side].extend(&bytes);
                ends[side].send(bytes, false, rng.random_bool(0.8));
            } else {
                let size = length(&mut rng);
                ends[side].receive(size, rng.random_bool(0.2), rng.random_bool(0.8));
            }
            for _ in 0..rng.random_range(0..30) {
                step(&mut ends, &mut rng);
            }
        }
        for end in &mut ends {
            end.machine.finish();
            end.act();
        }
        settle(&mut ends, &mut rng);
        for side in 0..2 {
            // The end may have found a receive already.
            while !ends[side].received.iter().any(|(_, _, eof, ..)| *eof) {
                let size = length(&mut rng);
                ends[side].receive(size, false, true);
                settle(&mut ends, &mut rng);
            }
        }
        for (side, end) in ends.iter().enumerate() {
            let got: Vec<u8> = end
                .received
                .iter()
                .flat_map(|(bytes, ..)| bytes.clone())
                .collect();
            assert!(got == wanted[side], "seed {seed}: the bytes differ");
            assert!(
                end.received
                    .iter()
                    .all(|(_, truncated, _, outcome, _)| !truncated && *outcome == Outcome::Done)
            );
            assert!(
                end.sent
                    .iter()
                    .all(|(_, outcome)| *outcome == Outcome::Done)
            );
            assert!(
                end.machine.finished() && end.machine.sending() == 0,
                "seed {seed}"
            );
            zero_copy += end.zero_copy;
        }
    }
    assert!(zero_copy > 10_000_000, "{zero_copy}");
}

#[test]
fn messages_keep_their_boundaries() {
    for seed in 0..400 {
        let mut rng = StdRng::seed_from_u64(seed);
        let mut ends = [End::new(true), End::new(true)];
        let parts = seed % 2 == 0;
        let mut wanted: [VecDeque<Vec<u8>>; 2] = Default::default();
        for _ in 0..rng.random_range(1..120) {
            let side = rng.random_range(0..2);
            if rng.random() {
                let mut message = Vec::new();
                for part in (0..rng.random_range(1..4)).rev() {
                    let size = length(&mut rng) - 1;
                    let bytes = pattern(&mut rng, size);
                    message.extend(&bytes);
                    ends[side].send(bytes, part == 0, rng.random_bool(0.8));
                    step(&mut ends, &mut rng);
                }
                wanted[1 - side].push_back(message);
            } else {
                let size = length(&mut rng);
                ends[side].receive(size, parts, rng.random_bool(0.8));
            }
            for _ in 0..rng.random_range(0..30) {
                step(&mut ends, &mut rng);
            }
        }
        for end in &mut ends {
            end.machine.finish();
            end.act();
        }
        settle(&mut ends, &mut rng);
        for side in 0..2 {
            while !ends[side].received.iter().any(|(_, _, eof, ..)| *eof) {
                let size = length(&mut rng);
                ends[side].receive(size, parts, true);
                settle(&mut ends, &mut rng);
            }
        }
        for (side, end) in ends.iter().enumerate() {
            let mut gathered = Vec::new();
            for (bytes, truncated, eof, outcome, last) in &end.received {
                assert_eq!(*outcome, Outcome::Done);
                if *eof {
                    continue;
                }
                gathered.extend(bytes);
                if parts && !last {
                    assert!(!truncated);
                    continue;
                }
                let bytes = &std::mem::take(&mut gathered);
                let message = wanted[side].pop_front().expect("no message out of nothing");
                assert_eq!(*truncated, bytes.len() < message.len(), "seed {seed}");
                assert!(message.starts_with(bytes), "seed {seed}");
            }
            assert!(wanted[side].is_empty(), "seed {seed}: messages are lost");
            assert_eq!(end.machine.sending(), 0, "seed {seed}");
        }
    }
}

#[test]
fn a_slow_receiver_holds_the_sender_back() {
    let mut rng = StdRng::seed_from_u64(1);
    let mut ends = [End::new(false), End::new(false)];
    for _ in 0..20 {
        ends[0].send(vec![1; 100], false, false);
    }
    settle(&mut ends, &mut rng);
    assert_eq!(ends[0].sent.len(), usize::from(DATA));
    assert_eq!(ends[0].machine.room(), 0);
    for taken in 1..=20 {
        ends[1].receive(100, false, false);
        settle(&mut ends, &mut rng);
        assert_eq!(ends[1].received.len(), taken);
    }
    assert_eq!(ends[0].sent.len(), 20);
    assert_eq!(ends[0].machine.room(), u64::from(DATA) * PAYLOAD);
}

#[test]
fn stop_at_any_moment_ends_everything() {
    for seed in 0..400 {
        let mut rng = StdRng::seed_from_u64(seed);
        let messages = rng.random();
        let mut ends = [End::new(messages), End::new(messages)];
        let moment = rng.random_range(0..60);
        for turn in 0..60 {
            let side = rng.random_range(0..2);
            let size = length(&mut rng);
            if rng.random() {
                ends[side].send(vec![3; size], true, rng.random());
            } else {
                ends[side].receive(size, false, rng.random());
            }
            for _ in 0..rng.random_range(0..12) {
                step(&mut ends, &mut rng);
            }
            if turn == moment {
                ends[0].machine.finish();
                ends[0].machine.stop();
                ends[0].act();
                break;
            }
        }
        settle(&mut ends, &mut rng);
        // The other end closes too, as it sees the end.
        ends[1].machine.finish();
        ends[1].machine.stop();
        ends[1].act();
        settle(&mut ends, &mut rng);
        for end in &ends {
            assert!(end.machine.flushed(), "seed {seed}");
            assert!(end.machine.drained(), "seed {seed}");
            assert!(
                end.sends.is_empty() && end.receives.is_empty(),
                "seed {seed}"
            );
        }
    }
}

#[test]
fn a_break_at_any_moment_ends_everything() {
    for seed in 0..400 {
        let mut rng = StdRng::seed_from_u64(seed);
        let mut ends = [End::new(false), End::new(false)];
        let mut wanted = Vec::new();
        for _ in 0..rng.random_range(1..60) {
            let size = length(&mut rng);
            if rng.random() {
                let bytes = pattern(&mut rng, size);
                wanted.extend(&bytes);
                ends[0].send(bytes, false, rng.random());
            } else {
                ends[1].receive(size, false, rng.random());
            }
            for _ in 0..rng.random_range(0..12) {
                step(&mut ends, &mut rng);
            }
        }
        for end in &mut ends {
            end.out.clear();
            end.machine.gone();
            end.act();
            assert_eq!(end.machine.sending(), 0);
        }
        // What was there may still be taken; then the break shows, for good.
        loop {
            ends[1].receive(100, false, false);
            let (bytes, _, eof, outcome, _) = ends[1].received.last().unwrap();
            assert!(!eof, "seed {seed}: a break is no end");
            if *outcome != Outcome::Done {
                assert_eq!((bytes.len(), *outcome), (0, Outcome::Reset));
                break;
            }
        }
        assert_eq!(ends[1].machine.receiving(), 0);
        let got: Vec<u8> = ends[1]
            .received
            .iter()
            .filter(|(_, _, _, outcome, _)| *outcome == Outcome::Done)
            .flat_map(|(bytes, ..)| bytes.clone())
            .collect();
        assert!(wanted.starts_with(&got), "seed {seed}");
    }
}

/// Whatever a hostile peer says: an error at most, no panic, no unbounded memory.
#[test]
fn nonsense_is_a_violation_at_most() {
    let kinds = [
        Kind::Data,
        Kind::Source,
        Kind::Written,
        Kind::ReadDone,
        Kind::Advert,
        Kind::Credit,
        Kind::Fin,
        Kind::Stop,
        Kind::StopAck,
    ];
    for seed in 0..2000 {
        let mut rng = StdRng::seed_from_u64(seed);
        let mut end = End::new(rng.random());
        for _ in 0..60 {
            match rng.random_range(0..8) {
                0 => end.receive(20_000, rng.random(), rng.random()),
                1 => end.send(vec![0; 9000], rng.random(), rng.random()),
                _ => {}
            }
            let header = Header {
                end: rng.random(),
                consumed: rng.random(),
                truncated: rng.random(),
                fill: rng.random(),
                data_credit: rng.random_range(0..3),
                control_credit: rng.random_range(0..3),
                length: if rng.random() {
                    rng.random_range(0..300)
                } else {
                    rng.random()
                },
                address: rng.random(),
                items: rng.random_range(0..3),
                ..Header::new(kinds[rng.random_range(0..kinds.len())])
            };
            let Some(slot) = end.slots.iter().position(Option::is_none) else {
                break;
            };
            end.slots[slot] = Some(vec![0; 300]);
            if end.machine.message(slot as u32, &header).is_err() {
                end.machine.gone();
                // Reposts and ends only: nothing is posted any more, and nothing is left over.
                end.act();
                break;
            }
            end.act();
            end.out.clear();
        }
    }
}
