//! The tests of the documents as they are written: each document's steps in its order, with its
//! numbers and values, whatever the published specification says otherwise.
//!
//! The other catalogue reads the same documents by the specification. Ids are the same in both, so
//! only one of them is run at a time; neither lists, counts nor runs the other's tests. Where a
//! document cannot be carried out to the letter, the step says how it is read.

mod c09_060_09;
mod c09_142_01;
mod c14_024_06_ca_04;
mod client_reregistration;

pub use client_reregistration::announced_at_bit_4;

use crate::Test;

/// All of them, by id.
pub fn all() -> Vec<Test> {
    let mut tests = vec![
        c09_060_09::test(),
        c09_142_01::test(),
        c14_024_06_ca_04::test(),
    ];
    tests.extend(client_reregistration::tests());
    tests.sort_by(|a, b| a.id.cmp(&b.id));
    tests
}
