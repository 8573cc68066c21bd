//! Runs of the simulator, written as a capture would be, and replayed: without a difference as they
//! are, and with one where something in them was changed.
//!
//! `FERROCE_SIM_SEEDS` says how many, `FERROCE_SIM_SEED` replays one and prints its steps.

mod written;

use std::ops::ControlFlow;

use ferroce_replay::{Capture, Options, Step, Summary, Verdict, replay};
use ferroce_sim::world::{QPN, World};
use ferroce_sim::{Rng, recorded};
use written::{Change, file};

fn env(name: &str) -> Option<u64> {
    std::env::var(name)
        .ok()
        .map(|value| value.parse().expect("a number"))
}

/// Of odd seeds, sides may understand selective acknowledgements.
fn ran(seed: u64) -> World {
    let mut world = recorded::world(seed, seed % 2 == 1);
    world.run();
    world.sides.iter_mut().for_each(|side| side.tell(None));
    world
}

/// The sums, and the steps that differ.
fn replayed(bytes: &[u8], print: bool) -> (Vec<Summary>, Vec<Step>) {
    let capture = Capture::parse(bytes).expect("a capture");
    let mut differing = Vec::new();
    let summaries = replay(&capture, &Options::default(), &mut |step| {
        if print {
            println!("{step:?}");
        }
        if step.verdict == Verdict::Differs {
            differing.push(step.clone());
        }
        ControlFlow::Continue(())
    });
    // A run may have come to nothing.
    (summaries.unwrap_or_default(), differing)
}

#[test]
fn what_was_recorded_is_what_is_replayed() {
    if let Some(seed) = env("FERROCE_SIM_SEED") {
        let (summaries, differing) = replayed(&file(&ran(seed), &[]), true);
        println!("{summaries:#?}\n{differing:#?}");
        assert!(differing.is_empty());
        return;
    }

    let (mut agreed, mut broken) = (0, 0);
    for seed in 0..env("FERROCE_SIM_SEEDS").unwrap_or(300) {
        let world = ran(seed);
        let (summaries, differing) = replayed(&file(&world, &[]), false);
        assert!(
            differing.is_empty(),
            "seed {seed}: {} differ, the first: {:#?}",
            differing.len(),
            differing[0]
        );
        agreed += summaries.iter().map(|summary| summary.agreed).sum::<u64>();
        broken += summaries
            .iter()
            .filter(|summary| summary.state == "ERR")
            .count();
        for (summary, side) in summaries.iter().zip(&world.sides) {
            let state = format!("{:?}", side.qp.state()).to_uppercase();
            assert_eq!(summary.state, state, "seed {seed}");
        }
    }
    println!("{agreed} steps agree, {broken} queue pairs ended in ERR");
    assert!(agreed > 10_000 && broken > 5, "{agreed} {broken}");
}

/// A packet that was sent and is another in the capture is noticed at its step, and so is one that
/// is not there.
#[test]
fn what_was_changed_is_noticed() {
    let (mut tried, mut noticed) = (0, 0);
    for seed in 0..40 {
        let world = ran(seed);
        for change in [
            Change::Psn,
            Change::MessageNumber,
            Change::Opcode,
            Change::Shorter,
            Change::Missing,
        ] {
            for (side, &qpn) in QPN.iter().enumerate() {
                let Some(bytes) = written::changed(&world, side, change) else {
                    continue;
                };
                let (_, differing) = replayed(&bytes, false);
                tried += 1;
                noticed += usize::from(differing.iter().any(|step| step.qp == qpn));
                // An acknowledgement may be missing that the next one makes up for.
                assert!(
                    !differing.is_empty() || matches!(change, Change::Missing),
                    "seed {seed}, side {side}: {change:?}"
                );
            }
        }
    }
    println!("{noticed} of {tried} noticed");
    assert!(
        tried > 100 && noticed * 10 > tried * 8,
        "{noticed} of {tried}"
    );
}

/// Another transport, as it were: one that tries less often than the one that was captured.
#[test]
fn another_behaviour_is_noticed() {
    let mut noticed = 0;
    for seed in 0..100 {
        let bytes = file(&ran(seed), &[("retry_cnt 7", "retry_cnt 0")]);
        noticed += usize::from(!replayed(&bytes, false).1.is_empty());
    }
    assert!(noticed > 30, "{noticed} of 100");
}

/// Without journal and comments it is what tcpdump would have between the two.
#[test]
fn packets_alone_are_replayed_as_far_as_they_allow() {
    let (mut agreed, mut steps, mut differed) = (0, 0, 0);
    for seed in 0..100 {
        let Some(bytes) = written::wire(&ran(seed)) else {
            continue;
        };
        let capture = Capture::parse(&bytes).expect("a capture");
        let Ok(summaries) = replay(&capture, &Options::default(), &mut |_| {
            ControlFlow::Continue(())
        }) else {
            continue;
        };
        for summary in summaries {
            agreed += summary.agreed;
            differed += summary.differed;
            steps += summary.steps;
        }
    }
    println!("{agreed} of {steps} steps agree, {differed} differ");
    assert!(
        agreed > 1000 && agreed > 10 * differed,
        "{agreed} {differed}"
    );
}

/// Wherever a file is cut, what is before the cut is there, or an error says what is wrong.
#[test]
fn a_file_that_is_cut_off_says_so() {
    let bytes = file(&ran(3), &[]);
    let whole = Capture::parse(&bytes).expect("whole");
    assert_eq!(whole.cut, None);
    for end in (0..bytes.len()).step_by(17) {
        match Capture::parse(&bytes[..end]) {
            Ok(capture) => assert!(capture.entries.len() <= whole.entries.len()),
            Err(error) => assert!(!error.to_string().is_empty()),
        }
    }
    let cut = Capture::parse(&bytes[..bytes.len() - 10]).expect("most of it");
    assert_eq!(cut.cut.as_deref(), Some("it is cut off"));
}

/// A file is bytes of which nothing is believed: changed anywhere it is replayed to its end, or
/// refused in words.
#[test]
fn a_file_that_was_tampered_with_does_no_harm() {
    let mut replayed = 0;
    for seed in 0..12 {
        let world = ran(seed);
        let files = [Some(file(&world, &[])), written::wire(&world)];
        for whole in files.into_iter().flatten() {
            for mutant in 0..150 {
                let mut rng = Rng::new(seed << 32 | mutant);
                let mut bytes = whole.clone();
                for _ in 0..rng.range(1, 12) {
                    let at = rng.below(bytes.len() as u64) as usize;
                    match rng.below(4) {
                        0 => bytes[at] = rng.next() as u8,
                        1 => bytes[at] ^= 1 << rng.below(8),
                        2 => bytes[at] = rng.pick(&[0, 0xff, b'0', b'9']),
                        _ => drop(bytes.drain(at..(at + 4).min(bytes.len()))),
                    }
                }
                let Ok(capture) = Capture::parse(&bytes) else {
                    continue;
                };
                let mut last = 0;
                let sums = replay(&capture, &Options::default(), &mut |step| {
                    assert_eq!(step.number, last + 1);
                    last = step.number;
                    match last < 3_000 {
                        true => ControlFlow::Continue(()),
                        false => ControlFlow::Break(()),
                    }
                });
                replayed += u64::from(sums.is_ok());
            }
        }
    }
    assert!(replayed > 500, "{replayed}");
}
