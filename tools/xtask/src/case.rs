//! Test cases and how they end.

use std::fmt::Display;

use crate::lab::Lab;
use crate::process::Finished;

/// Why a case did not pass.
pub enum Stop {
    /// It failed: what was seen, and the commands that were run.
    Fail(Failure),
    /// It could not be tried here, and why.
    Skip(String),
}

/// A failure and its evidence.
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
pub enum Endings {
    /// One result under the case's own name.
    One(Ending),
    /// Several results, each under the case's name and its own.
    Many(Vec<(String, Ending)>),
}

impl From<Ending> for Endings {
    fn from(ending: Ending) -> Endings {
        Endings::One(ending)
    }
}

/// A named case.
pub struct Case {
    /// `group/place/what`.
    pub name: String,
    run: Box<dyn FnOnce(&mut Lab) -> Endings>,
}

impl Case {
    /// A case with one result.
    pub fn new(name: impl Into<String>, run: impl FnOnce(&mut Lab) -> Ending + 'static) -> Case {
        Case {
            name: name.into(),
            run: Box::new(|lab| run(lab).into()),
        }
    }

    /// A case with several results.
    pub fn many(name: impl Into<String>, run: impl FnOnce(&mut Lab) -> Endings + 'static) -> Case {
        Case {
            name: name.into(),
            run: Box::new(run),
        }
    }

    /// Runs it.
    pub fn run(self, lab: &mut Lab) -> Endings {
        (self.run)(lab)
    }
}
