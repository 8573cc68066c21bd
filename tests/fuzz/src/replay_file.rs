//! A capture file, from anywhere, that `ferroce replay` reads: its blocks, frames and journal, and
//! the transport that is given what it has.

use std::ops::ControlFlow;

use ferroce_replay::{Capture, Options, Verdict, replay};

/// Steps after which a replay is told to end: an input is short, but a number in it may be great.
const MOST: u64 = 10_000;

/// A file. Returns whether a queue pair in it was replayed.
pub fn run(input: &[u8]) -> bool {
    let capture = match Capture::parse(input) {
        Ok(capture) => capture,
        Err(error) => {
            assert!(!error.to_string().is_empty());
            return false;
        }
    };

    let mut last = 0;
    let mut counted = [0_u64; 4];
    let sums = replay(&capture, &Options::default(), &mut |step| {
        assert_eq!(step.number, last + 1);
        last = step.number;
        counted[match step.verdict {
            Verdict::Given => 0,
            Verdict::Agrees => 1,
            Verdict::Differs => 2,
            Verdict::Unknown => 3,
        }] += 1;
        match last < MOST {
            true => ControlFlow::Continue(()),
            false => ControlFlow::Break(()),
        }
    });

    let Ok(sums) = sums else {
        return false;
    };
    let total = |part: fn(&ferroce_replay::Summary) -> u64| sums.iter().map(part).sum::<u64>();
    assert_eq!(total(|sum| sum.steps), last);
    assert_eq!(total(|sum| sum.agreed), counted[1]);
    assert_eq!(total(|sum| sum.differed), counted[2]);
    last > 0
}
