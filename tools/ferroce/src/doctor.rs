//! `ferroce doctor`: what of this machine the device needs or would be better for, what there is,
//! and what to do about it. It tries what daemon and programs do, by the same functions, and leaves
//! nothing behind.

mod files;
mod host;
mod place;
mod settings;
mod software;

use std::process::ExitCode;

use ferroce_control::RuntimeDir;
use serde_json::json;

use crate::error::Error;
use crate::show::{pretty, print};

/// How something is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// As it should be.
    Ok,
    /// The device works, but something is slower, or missing for some programs.
    Note,
    /// The device does not work, or no program finds it.
    Bad,
}

impl State {
    fn name(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Note => "note",
            Self::Bad => "bad",
        }
    }
}

/// What was looked at, what there is, and what to do.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Check {
    check: &'static str,
    state: State,
    found: String,
    /// Empty: nothing.
    advice: String,
}

impl Check {
    fn ok(check: &'static str, found: impl Into<String>) -> Self {
        Self::new(check, State::Ok, found, "")
    }

    fn note(check: &'static str, found: impl Into<String>, advice: impl Into<String>) -> Self {
        Self::new(check, State::Note, found, advice)
    }

    fn bad(check: &'static str, found: impl Into<String>, advice: impl Into<String>) -> Self {
        Self::new(check, State::Bad, found, advice)
    }

    fn new(
        check: &'static str,
        state: State,
        found: impl Into<String>,
        advice: impl Into<String>,
    ) -> Self {
        Self {
            check,
            state,
            found: found.into(),
            advice: advice.into(),
        }
    }

    fn line(&self) -> String {
        let Self {
            check,
            state,
            found,
            advice,
        } = self;
        let colon = if advice.is_empty() { "" } else { ": " };
        format!("{:<4}  {check:<17}  {found}{colon}{advice}\n", state.name())
    }
}

/// Looks at everything, and prints a line for each thing, or JSON.
pub(crate) fn doctor(dir: &RuntimeDir, json: bool) -> Result<ExitCode, Error> {
    let mut checks = host::checks();
    checks.extend(files::checks());
    checks.extend(software::checks());
    checks.extend(settings::checks(dir));
    checks.extend(place::checks(dir));
    match json {
        true => {
            let objects: Vec<_> = checks.iter().map(object).collect();
            print(pretty(&objects)?)?;
        }
        false => {
            let lines: String = checks.iter().map(Check::line).collect();
            print(lines)?;
        }
    }

    Ok(match checks.iter().any(|check| check.state == State::Bad) {
        true => ExitCode::FAILURE,
        false => ExitCode::SUCCESS,
    })
}

fn object(check: &Check) -> serde_json::Value {
    json!({
        "check": check.check,
        "state": check.state.name(),
        "found": check.found,
        "advice": check.advice,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_and_an_object_say_the_same() {
        let check = Check::note("io_uring", "EPERM", "allow it");
        assert_eq!(check.line(), "note  io_uring           EPERM: allow it\n");
        let expected = json!({
            "check": "io_uring", "state": "note", "found": "EPERM", "advice": "allow it",
        });
        assert_eq!(object(&check), expected);
        let fine = Check::ok("kernel", "Linux 6.1");
        assert_eq!(fine.line(), "ok    kernel             Linux 6.1\n");
    }
}
