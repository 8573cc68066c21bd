//! The tests, a module for each subject.
//!
//! A module has a `tests()` that returns its tests; it is named here once. [`as_written`] is a
//! catalogue of its own.

pub mod arrival;
pub mod as_written;
pub mod completion;
pub mod domains;
pub mod header;
pub mod mad;
pub mod message;
pub mod rc;
pub mod responses;
pub mod retries;
pub mod states;
pub mod timeout;
pub mod uc;
pub mod ud;
pub mod unreliable;

use crate::Test;

/// One a line, so that two who add one do not meet.
#[rustfmt::skip]
const SUBJECTS: &[fn() -> Vec<Test>] = &[
    completion::tests,
    header::tests,
    mad::tests,
    rc::tests,
    responses::tests,
    states::tests,
    retries::tests,
    timeout::tests,
    uc::tests,
    ud::tests,
    unreliable::tests,
];

/// All tests, by id. No subject asks for it: a test knows what a test is, not which others there
/// are.
pub fn all() -> Vec<Test> {
    let mut tests: Vec<Test> = SUBJECTS.iter().flat_map(|tests| tests()).collect();
    tests.sort_by(|a, b| a.id.cmp(&b.id));
    tests
}
