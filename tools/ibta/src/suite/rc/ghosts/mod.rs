//! Answers that a requester must not take (section 9.7.6): to PSNs never sent, to ones long
//! answered, of the wrong kind, or that say nothing known.

mod kinds;
mod psns;

use crate::Test;

const SECTION: &str = "9.7.6";

pub(super) fn tests() -> Vec<Test> {
    let mut tests = psns::other_psns();
    tests.extend(kinds::other_kinds());
    tests.push(kinds::repeated_responses());
    tests.extend(kinds::unknown_syndromes());
    tests.extend(psns::late_and_early());
    tests
}
