//! The tests, a module for each subject.
//!
//! A module has a `tests()` that returns its tests; it is named here once.

pub mod completion;
pub mod mad;
pub mod message;

use crate::Test;

/// All tests, in no order.
pub fn tests() -> Vec<Test> {
    let subjects: [fn() -> Vec<Test>; 2] = [completion::tests, mad::tests];
    subjects.iter().flat_map(|tests| tests()).collect()
}
