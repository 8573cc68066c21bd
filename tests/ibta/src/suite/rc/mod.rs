//! Reliable connections, chapter 9: a module for each part of it.

pub mod bench;
mod mutants;

mod acks;
mod atomics;
mod credits;
mod duplicates;
mod ghosts;
mod lengths;
mod naks;
mod ordering;
mod psn;
mod reads;
mod requests;
mod responses;
mod rights;
mod rnr;
mod sequences;

use crate::Test;

#[rustfmt::skip]
const PARTS: &[fn() -> Vec<Test>] = &[
    acks::tests,
    atomics::tests,
    credits::tests,
    duplicates::tests,
    ghosts::tests,
    lengths::tests,
    naks::tests,
    ordering::tests,
    psn::tests,
    reads::tests,
    requests::tests,
    responses::tests,
    rights::tests,
    rnr::tests,
    sequences::tests,
];

/// All of them.
pub fn tests() -> Vec<Test> {
    PARTS.iter().flat_map(|tests| tests()).collect()
}
