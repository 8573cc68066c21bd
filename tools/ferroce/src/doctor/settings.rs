//! What the user has set: configuration files and the environment.

use std::process::Stdio;

use ferroce_control::{RuntimeDir, switches};

use super::Check;
use crate::daemon;

pub(super) fn checks(dir: &RuntimeDir) -> Vec<Check> {
    vec![configuration(dir), environment(&switches::mistakes())]
}

/// The daemon reads the file itself, as one that is started now would.
fn configuration(dir: &RuntimeDir) -> Check {
    const NAME: &str = "configuration";
    let asked = daemon::command(dir)
        .map_err(|error| error.to_string())
        .and_then(|mut command| {
            let command = command.arg("--check").stdin(Stdio::null());
            command.output().map_err(|error| error.to_string())
        });
    let answer = match asked {
        Ok(answer) => answer,
        Err(why) => return Check::bad(NAME, why, "no daemon can be started"),
    };

    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).trim().to_owned();
    match answer.status.success() {
        true => Check::ok(NAME, text(&answer.stdout)),
        false => {
            let why = text(&answer.stderr);
            let why = why.strip_prefix("ferroced: ").unwrap_or(&why).to_owned();
            let advice = "mend it, or no daemon starts, but with `ferroce up --config` of another";
            Check::bad(NAME, why, advice)
        }
    }
}

fn environment(mistakes: &[String]) -> Check {
    const NAME: &str = "environment";
    match mistakes.is_empty() {
        true => Check::ok(NAME, "no variable whose value means nothing"),
        false => Check::note(
            NAME,
            mistakes.join("; "),
            "until then it is as if it were not set",
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::doctor::State;

    #[test]
    fn variables_that_mean_nothing_are_named() {
        assert_eq!(environment(&[]).state, State::Ok);
        let check = environment(&["A=b".to_owned(), "C=d".to_owned()]);
        assert_eq!((check.state, &*check.found), (State::Note, "A=b; C=d"));
    }
}
