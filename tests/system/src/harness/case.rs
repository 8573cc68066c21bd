//! Test cases and how they end.

use std::fmt::Display;

use serde::{Deserialize, Serialize};

use crate::harness::process::Finished;
use crate::lab::Lab;

/// Why a case did not pass.
#[derive(Deserialize, Serialize)]
pub enum Stop {
    /// It failed: what was seen, and the commands that were run.
    Fail(Failure),
    /// It could not be tried here, and why.
    Skip(String),
}

/// A failure and its evidence.
#[derive(Deserialize, Serialize)]
pub struct Failure {
    /// What was expected and seen.
    pub what: String,
    /// The commands that took part.
    pub commands: Vec<Finished>,
}

impl Failure {
    /// What was seen, and all that the commands printed.
    pub fn text(&self) -> String {
        let mut text = self.what.clone();
        for command in &self.commands {
            let (line, ending) = (&command.line, command.ending());
            text += &format!("\n{line}\n{ending}\n{}{}", command.out, command.err);
        }
        text
    }
}

impl Stop {
    /// As an error of a command that is not a test: what was seen, and what the commands printed.
    pub fn into_error(self) -> anyhow::Error {
        match self {
            Stop::Skip(reason) => anyhow::anyhow!(reason),
            Stop::Fail(failure) => anyhow::anyhow!(failure.text()),
        }
    }

    /// A failure without commands.
    pub fn fail(what: impl Display) -> Stop {
        Stop::Fail(Failure {
            what: what.to_string(),
            commands: Vec::new(),
        })
    }

    /// A failure and the commands that took part.
    pub fn with(what: impl Display, commands: &[&Finished]) -> Stop {
        let commands = commands.iter().map(|&finished| finished.clone()).collect();
        Stop::Fail(Failure {
            what: what.to_string(),
            commands,
        })
    }
}

impl From<anyhow::Error> for Stop {
    fn from(error: anyhow::Error) -> Stop {
        Stop::fail(format!("{error:#}"))
    }
}

/// How one case ended.
pub type Ending = Result<(), Stop>;

/// What a case answers.
#[derive(Deserialize, Serialize)]
pub enum Endings {
    /// One result under the case's own name.
    One(Ending),
    /// Several results, each under the case's name and its own.
    Many(Vec<(String, Ending)>),
}

/// Several results, each under a name of its own, or why there are none.
pub type Parts = Result<Vec<(String, Ending)>, Stop>;

impl From<Parts> for Endings {
    fn from(parts: Parts) -> Endings {
        match parts {
            Ok(endings) => Endings::Many(endings),
            Err(stop) => Endings::One(Err(stop)),
        }
    }
}

impl From<Ending> for Endings {
    fn from(ending: Ending) -> Endings {
        Endings::One(ending)
    }
}

/// What may run at the same time as a case, in a network namespace of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Company {
    /// Nothing: it keeps all processors busy, or looks at times.
    Alone,
    /// One other case that is so: it looks at times, but waits for most of its own.
    InPairs,
    /// What is [`Company::Apart`]: it needs the machine's own network, as it fetches or installs.
    AtHome,
    /// Cases that are so, after all that are [`Company::AtHome`]: it compiles for minutes, and
    /// nothing that those find is to depend on how long they wait for cargo's locks.
    AtEnd,
    /// Cases that are [`Company::AtHome`]: it has a machine of its own, which keeps one processor
    /// busy for minutes.
    Apart,
    /// Cases of other groups and of other places. Those of one place follow each other, so that the
    /// place is brought up once.
    ByPlace,
    /// Cases of other groups. Those of its own group follow each other, since later ones look at
    /// what earlier ones left.
    AsOne,
}

/// A named case.
pub struct Case {
    /// `group/place/what`.
    pub name: String,
    /// Where it differs from its group's.
    pub company: Option<Company>,
    run: Box<dyn FnOnce(&mut Lab) -> Endings>,
}

impl Case {
    /// A case with one result.
    pub fn new(name: impl Into<String>, run: impl FnOnce(&mut Lab) -> Ending + 'static) -> Case {
        Case {
            name: name.into(),
            company: None,
            run: Box::new(|lab| run(lab).into()),
        }
    }

    /// A case with several results.
    pub fn many(name: impl Into<String>, run: impl FnOnce(&mut Lab) -> Parts + 'static) -> Case {
        Case {
            name: name.into(),
            company: None,
            run: Box::new(|lab| run(lab).into()),
        }
    }

    /// The same, in other company than its group.
    pub fn in_company(self, company: Company) -> Case {
        let company = Some(company);
        Case { company, ..self }
    }

    /// Runs it.
    pub fn run(self, lab: &mut Lab) -> Endings {
        (self.run)(lab)
    }
}

/// Turns a condition into an ending.
pub(crate) fn expect(holds: bool, what: impl FnOnce() -> String) -> Ending {
    if holds {
        Ok(())
    } else {
        Err(Stop::fail(what()))
    }
}
