//! How the tests of management agents are declared.

use crate::Test;
use crate::mad::{Tester, with_tester};
use crate::run::{Outcome, Run};
use std::time::Duration;

/// A test with all ports configured.
pub(crate) fn test(
    id: impl Into<String>,
    family: &'static str,
    title: impl Into<String>,
    body: impl Fn(&mut Run, &mut Tester<'_>) -> Outcome + Send + Sync + 'static,
) -> Test {
    Test::mad(id, family, title, move |run, rig| {
        with_tester(run, rig, |run, tester| body(run, tester))
    })
    .takes(Duration::from_millis(300))
}
