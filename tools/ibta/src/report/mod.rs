//! What came of a run: for people, for programs, and the packets for tshark.

pub mod about;
pub mod conformance;
mod generated;
pub mod html;
pub mod json;
pub mod junit;
pub mod pcapng;
pub mod statements;
pub mod text;

use crate::run::{TestResult, Verdict};

/// How many tests ended how.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sums {
    /// PASS.
    pub passed: usize,
    /// FAIL.
    pub failed: usize,
    /// N/A.
    pub not_applicable: usize,
    /// INCONCLUSIVE.
    pub inconclusive: usize,
    /// ERROR.
    pub errors: usize,
}

impl Sums {
    /// Of these results.
    pub fn of(results: &[TestResult]) -> Sums {
        let mut sums = Sums::default();
        for result in results {
            *match result.result {
                Verdict::Pass => &mut sums.passed,
                Verdict::Fail => &mut sums.failed,
                Verdict::NotApplicable => &mut sums.not_applicable,
                Verdict::Inconclusive => &mut sums.inconclusive,
                Verdict::Error => &mut sums.errors,
            } += 1;
        }
        sums
    }

    /// What the command ends with: 0 if nothing is wrong, 1 if a test failed, 2 if the tester did
    /// or could not reach all that a test is about.
    pub fn exit_code(&self) -> u8 {
        match (self.errors + self.inconclusive, self.failed) {
            (0, 0) => 0,
            (0, _) => 1,
            _ => 2,
        }
    }
}
