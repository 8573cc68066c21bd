//! A word of memory that two threads hand to each other, each looking at it until it is its turn:
//! how programs wait that poll memory, with nothing between them. Beside other programs it tells
//! what the scheduler makes of such a wait.

use std::hint::spin_loop;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::{Acquire, Release};
use std::thread;
use std::time::Instant;

/// Hands it there and back so many times and prints how long one of them took, in microseconds.
pub(crate) fn run(rounds: u64) {
    let word = AtomicU64::new(0);
    let wait = |value| {
        while word.load(Acquire) != value {
            spin_loop();
        }
    };

    let began = Instant::now();
    thread::scope(|scope| {
        scope.spawn(|| {
            for round in 0..rounds {
                wait(2 * round + 1);
                word.store(2 * round + 2, Release);
            }
        });
        for round in 0..rounds {
            word.store(2 * round + 1, Release);
            wait(2 * round + 2);
        }
    });

    println!("{}", began.elapsed().as_secs_f64() * 1e6 / rounds as f64);
}
