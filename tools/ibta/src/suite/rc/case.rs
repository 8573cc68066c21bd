//! How the tests of reliable connections are declared: names, the channel that they stand on, and
//! their mutants.

use super::bench::Bench;
use crate::catalog::{Mutant, Test};
use crate::channel::ChannelOptions;
use crate::run::Outcome;
use crate::sim::Faults;
use crate::suite::timeout::t_tr;

/// A test of a section of the specification, on a channel with the usual options: `S09_7_4_03` with
/// the assertion `s9.7.4#03`. For rules whose statement's number is not known for certain.
pub(super) fn test(
    section: &'static str,
    n: u32,
    title: impl Into<String>,
    body: impl Fn(&mut Bench<'_>) -> Outcome + Send + Sync + 'static,
) -> Test {
    test_with(section, n, ChannelOptions::default(), title, body)
}

/// The same with other options.
pub(super) fn test_with(
    section: &'static str,
    n: u32,
    options: ChannelOptions,
    title: impl Into<String>,
    body: impl Fn(&mut Bench<'_>) -> Outcome + Send + Sync + 'static,
) -> Test {
    let id = format!("S0{}_{n:02}", section.replace('.', "_"));
    let assertion = format!("s{section}#{n:02}");
    named(id, section, assertion, options, title, body).covers(&[section])
}

/// A test with a name of its own; its statements are for the caller to add.
pub(super) fn named(
    id: impl Into<String>,
    family: &'static str,
    assertion: impl Into<String>,
    options: ChannelOptions,
    title: impl Into<String>,
    body: impl Fn(&mut Bench<'_>) -> Outcome + Send + Sync + 'static,
) -> Test {
    let assertion = assertion.into();
    let declared = assertion.clone();
    let test = Test::transport(id, family, title, move |run, rig| {
        let mut bench = Bench::open(run, rig, options, assertion.clone())?;
        body(&mut bench)?;
        bench.cc.close(bench.rig)?;
        Ok(())
    })
    .asserts([declared]);
    match options.timeout {
        0 => test,
        // What the tester does not answer in time is sent again.
        exponent => test.hurries(t_tr(exponent)),
    }
}

/// Mutants that are caught by a test's first assertion.
pub(super) trait Breaks {
    /// Adds one.
    fn breaks(
        self,
        name: &'static str,
        what: &'static str,
        make: impl Fn() -> Faults + Send + Sync + 'static,
    ) -> Test;
}

impl Breaks for Test {
    fn breaks(
        self,
        name: &'static str,
        what: &'static str,
        make: impl Fn() -> Faults + Send + Sync + 'static,
    ) -> Test {
        let caught_by = self.assertions.first().cloned().unwrap_or_default();
        self.mutant(Mutant::transport(name, what, caught_by, make))
    }
}
