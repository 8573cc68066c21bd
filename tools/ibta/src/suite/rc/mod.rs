//! Reliable connections, chapter 9: a module for each part of it.

mod bench;
mod case;
mod mutants;
mod program;
mod words;

mod acks;
mod atomics;
mod credits;
mod duplicates;
mod flush;
mod ghosts;
mod lengths;
mod naks;
mod ordering;
mod outstanding;
mod psn;
mod read_responses;
mod reads;
mod refusals;
mod requests;
mod responses;
mod rights;
mod rnr;
mod rnr_waits;
mod sequences;
mod shared_queue;
mod xrc;

use crate::Test;

#[rustfmt::skip]
const PARTS: &[fn() -> Vec<Test>] = &[
    acks::tests,
    atomics::tests,
    credits::tests,
    duplicates::tests,
    flush::tests,
    ghosts::tests,
    lengths::tests,
    naks::tests,
    ordering::tests,
    outstanding::tests,
    psn::tests,
    read_responses::tests,
    reads::tests,
    refusals::tests,
    requests::tests,
    responses::tests,
    rights::tests,
    rnr::tests,
    rnr_waits::tests,
    sequences::tests,
    shared_queue::tests,
    xrc::tests,
];

/// All of them.
pub fn tests() -> Vec<Test> {
    PARTS.iter().flat_map(|tests| tests()).collect()
}
