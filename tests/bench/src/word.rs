//! A word of memory that two threads hand to each other, each looking at it until it is its turn:
//! how programs wait that poll memory, with nothing between them. Beside other programs it tells
//! what the scheduler makes of such a wait.

use std::hint::spin_loop;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::{Acquire, Release};
use std::thread;
use std::time::Instant;

use crate::pingpong::Figure;

/// So many parts of the rounds are measured apart. Where both threads begin on one processor the
/// first of these lasts until the scheduler parts them.
const PARTS: u64 = 20;

/// Hands it there and back so many times, at least, and prints how long one of them took, in
/// microseconds.
pub(crate) fn run(rounds: u64, figure: Figure) {
    let word = AtomicU64::new(0);
    let wait = |value| {
        while word.load(Acquire) != value {
            spin_loop();
        }
    };

    let each = rounds.div_ceil(PARTS).max(1);
    let mut parts = Vec::new();
    thread::scope(|scope| {
        scope.spawn(|| {
            for round in 0..PARTS * each {
                wait(2 * round + 1);
                word.store(2 * round + 2, Release);
            }
        });
        for part in 0..PARTS {
            let began = Instant::now();
            for round in part * each..(part + 1) * each {
                word.store(2 * round + 1, Release);
                wait(2 * round + 2);
            }
            parts.push(began.elapsed());
        }
    });

    println!("{:.4}", figure.of(parts) / each as f64);
}
