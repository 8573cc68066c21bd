//! The protocol from seeds: whatever the order of things, the bytes are right and everything ends.

mod link;
mod pace;

use std::collections::VecDeque;

use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

use super::message::{Header, Kind};
use super::*;
use link::*;

/// Two ends, of which the seed says whether they take notices as immediate data.
fn ends(messages: bool, seed: u64) -> [End; 2] {
    [
        End::new(messages, seed % 4 < 2),
        End::new(messages, seed % 3 < 1),
    ]
}

#[test]
fn a_stream_arrives_whole_and_in_order() {
    let mut zero_copy = 0;
    for seed in 0..400 {
        let mut rng = StdRng::seed_from_u64(seed);
        let mut ends = ends(false, seed);
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
        let mut ends = ends(true, seed);
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
fn a_message_is_there_when_all_of_it_is_or_no_more_can_come() {
    let mut rng = StdRng::seed_from_u64(1);
    let mut ends = ends(true, 0);
    for (part, end) in [(100, false), (100, false), (0, true)] {
        assert!(!ends[1].machine.readable());
        ends[0].send(vec![1; part], end, false);
        settle(&mut ends, &mut rng);
    }
    assert!(ends[1].machine.readable());
    ends[1].receive(1000, false, false);
    assert_eq!(ends[1].received.last().map(|last| last.0.len()), Some(200));
    assert!(!ends[1].machine.readable());

    // Through the slots, and read from the sender.
    for (size, exposable, parts) in [(100, false, usize::from(DATA)), (9000, true, SOURCES)] {
        for _ in 0..parts {
            assert!(!ends[1].machine.readable());
            ends[0].send(vec![2; size], false, exposable);
            settle(&mut ends, &mut rng);
        }
        assert!(ends[1].machine.readable());
        ends[0].send(vec![2; 1], true, false);
        ends[1].receive(100_000, false, false);
        settle(&mut ends, &mut rng);
        let taken = ends[1].received.last().map(|last| last.0.len());
        assert_eq!(taken, Some(parts * size + 1));
    }
}

#[test]
fn stop_at_any_moment_ends_everything() {
    for seed in 0..400 {
        let mut rng = StdRng::seed_from_u64(seed);
        let messages = rng.random();
        let mut ends = ends(messages, seed);
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
fn a_stop_after_the_end_of_the_connection_is_no_break() {
    for (in_order, wanted) in [
        (true, [Outcome::Done, Outcome::Canceled]),
        (false, [Outcome::Reset, Outcome::Reset]),
    ] {
        let mut ends = ends(false, 0);
        if in_order {
            ends[0].machine.finish();
            ends[0].act();
        }
        settle(&mut ends, &mut StdRng::seed_from_u64(1));
        let end = &mut ends[1];
        end.machine.gone();
        end.receive(100, false, false);
        end.machine.stop();
        end.receive(100, false, false);
        let outcomes: Vec<Outcome> = end.received.iter().map(|received| received.3).collect();
        assert_eq!(outcomes, wanted);
    }
}

#[test]
fn a_break_at_any_moment_ends_everything() {
    for seed in 0..400 {
        let mut rng = StdRng::seed_from_u64(seed);
        let mut ends = ends(false, seed);
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
            // What is sent from now on fares no better, and no differently.
            end.send(vec![1], false, false);
            assert_eq!(end.sent.last(), Some(&(0, Outcome::Reset)));
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
        let mut end = End::new(rng.random(), rng.random());
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
