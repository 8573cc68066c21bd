//! What a test is: its names, what it covers, its body, and the mutants that it must catch.
//!
//! Families whose members differ by a parameter are made by a function that returns one [`Test`]
//! for each value; the body is a closure that holds the value.

use crate::run::{Outcome, Run};
use crate::sim::{Faults, MadFaults};
use crate::statement;
use crate::{MadRig, TransportRig};
use std::time::Duration;

/// A body against the transport tester.
pub type TransportBody = dyn Fn(&mut Run, &mut dyn TransportRig) -> Outcome + Send + Sync;
/// A body against the MAD tester.
pub type MadBody = dyn Fn(&mut Run, &mut dyn MadRig) -> Outcome + Send + Sync;

/// What a test does, and on which tester.
pub enum Body {
    /// On the transport tester.
    Transport(Box<TransportBody>),
    /// On the MAD tester.
    Mad(Box<MadBody>),
}

/// One test.
pub struct Test {
    /// Name, `C09_060_09`.
    pub id: String,
    /// Family, `C09-060`.
    pub family: &'static str,
    /// What it is about, in a few words.
    pub title: String,
    /// Compliance statements as the code names them, `C9-60`; or sections of the specification.
    pub statements: Vec<String>,
    /// Assertions that it decides, `v1c09-060#07`. Each must be checked in a run that passes.
    pub assertions: Vec<String>,
    /// Ports of the device that it needs. With fewer it is not run:
    /// [`mad::reach`](crate::mad::reach).
    pub ports: u8,
    /// Ports that the simulated device has for it and for its mutants, if that are more.
    pub tried_on: u8,
    /// Of the management agents: VLCap of the device that it is about.
    pub lanes: u8,
    /// About how long it takes in real time.
    pub takes: Duration,
    /// If the tester is slower than that in a step, a sound device may do something else than the
    /// test says: send again what was not answered in time, say.
    pub hurries: Option<Duration>,
    /// What it does.
    pub body: Body,
    /// Devices that break one rule, each of which it must catch.
    pub mutants: Vec<Mutant>,
}

/// How a mutant is made, anew for each run.
pub enum Make {
    /// Of the transport.
    Transport(Box<dyn Fn() -> Faults + Send + Sync>),
    /// Of the management agents.
    Mad(Box<dyn Fn() -> MadFaults + Send + Sync>),
}

/// A device that breaks just one rule. Nothing in the device itself knows of it: the hooks lie
/// around the state machine.
pub struct Mutant {
    /// Name, `completes-when-posted`.
    pub name: &'static str,
    /// What is wrong with it, in a sentence.
    pub what: &'static str,
    /// The assertion by which the test must fail.
    pub caught_by: String,
    /// The hooks.
    pub make: Make,
}

impl Mutant {
    /// A mutant of the transport.
    pub fn transport(
        name: &'static str,
        what: &'static str,
        caught_by: impl Into<String>,
        make: impl Fn() -> Faults + Send + Sync + 'static,
    ) -> Mutant {
        Mutant {
            name,
            what,
            caught_by: caught_by.into(),
            make: Make::Transport(Box::new(make)),
        }
    }

    /// A mutant of the management agents.
    pub fn mad(
        name: &'static str,
        what: &'static str,
        caught_by: impl Into<String>,
        make: impl Fn() -> MadFaults + Send + Sync + 'static,
    ) -> Mutant {
        Mutant {
            name,
            what,
            caught_by: caught_by.into(),
            make: Make::Mad(Box::new(make)),
        }
    }
}

impl Test {
    /// A test of the transport; statements, assertions and mutants are added by the methods below.
    pub fn transport(
        id: impl Into<String>,
        family: &'static str,
        title: impl Into<String>,
        body: impl Fn(&mut Run, &mut dyn TransportRig) -> Outcome + Send + Sync + 'static,
    ) -> Test {
        Test::new(
            id.into(),
            family,
            title.into(),
            Body::Transport(Box::new(body)),
        )
    }

    /// A test of the management agents.
    pub fn mad(
        id: impl Into<String>,
        family: &'static str,
        title: impl Into<String>,
        body: impl Fn(&mut Run, &mut dyn MadRig) -> Outcome + Send + Sync + 'static,
    ) -> Test {
        Test::new(id.into(), family, title.into(), Body::Mad(Box::new(body)))
    }

    fn new(id: String, family: &'static str, title: String, body: Body) -> Test {
        Test {
            id,
            family,
            title,
            statements: Vec::new(),
            assertions: Vec::new(),
            ports: 1,
            tried_on: 1,
            lanes: 1,
            takes: Duration::from_millis(500),
            hurries: None,
            body,
            mutants: Vec::new(),
        }
    }

    /// Adds statements, or sections.
    pub fn covers(mut self, statements: &[&'static str]) -> Test {
        for statement in statements {
            self.cover(statement);
        }
        self
    }

    fn cover(&mut self, statement: &str) {
        if !self.statements.iter().any(|known| known == statement) {
            self.statements.push(statement.to_owned());
        }
    }

    /// Adds assertions, and the statements that those of the specification are about.
    pub fn asserts<S: ToString>(mut self, assertions: impl IntoIterator<Item = S>) -> Test {
        for assertion in assertions {
            let assertion = assertion.to_string();
            if let Some(statement) = statement::of_assertion(&assertion) {
                self.cover(&statement);
            }
            self.assertions.push(assertion);
        }
        self
    }

    /// Needs so many ports.
    pub fn on_ports(mut self, ports: u8) -> Test {
        self.ports = ports;
        self
    }

    /// Goes by every port that there is; the simulated device has so many.
    pub fn tried_on_ports(mut self, ports: u8) -> Test {
        self.tried_on = ports;
        self
    }

    /// Is about a device with this VLCap: 1 one data lane, 4 eight.
    pub fn on_lanes(mut self, vl_cap: u8) -> Test {
        self.lanes = vl_cap;
        self
    }

    /// Takes about so long in real time.
    pub fn takes(mut self, time: Duration) -> Test {
        self.takes = time;
        self
    }

    /// The tester must do each step within that time.
    pub fn hurries(mut self, within: Duration) -> Test {
        self.hurries = Some(within);
        self
    }

    /// Adds a mutant.
    pub fn mutant(mut self, mutant: Mutant) -> Test {
        self.mutants.push(mutant);
        self
    }

    /// Whether it is the MAD tester's, which needs cables.
    pub fn is_of_management(&self) -> bool {
        matches!(self.body, Body::Mad(_))
    }

    /// Whether it is of the family with this number, or about this statement or section, or one
    /// below it (`9.7` of `9.7.6`). `number` is [canonical](statement::canonical).
    pub fn is_about(&self, number: &str) -> bool {
        let names = std::iter::once(self.family)
            .chain(self.statements.iter().map(String::as_str))
            .chain(self.assertions.iter().map(String::as_str));
        names.filter_map(statement::canonical).any(|known| {
            let below = known.strip_prefix(number);
            below.is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
        })
    }
}

/// The name among `known` that is most like `given`, if one is much like it.
pub fn nearest<'a>(given: &str, known: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    let given = given.to_uppercase();
    known
        .map(|name| (strsim::jaro_winkler(&given, &name.to_uppercase()), name))
        .filter(|(likeness, _)| *likeness > 0.8)
        .max_by(|a, b| a.0.total_cmp(&b.0))
        .map(|(_, name)| name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_statement_is_not_one_that_begins_like_it() {
        let test =
            |statement| Test::transport("X", "9.7.6", "", |_, _| Ok(())).covers(&[statement]);
        assert!(test("C14-24.1.1").is_about("c14-24"));
        assert!(!test("C14-24.1.1").is_about("c14-2"));
        assert!(!test("C14-24").is_about("c14-24.1"));
        assert!(test("C14-24").is_about("9.7"));
        assert!(!test("C14-24").is_about("9.7.60"));
    }
}
