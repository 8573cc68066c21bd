//! Group `kernels`: this suite's own cases under Debian's kernels of other releases, older and
//! newer than most users have, each in a throw-away guest.
//!
//! The guest sees the programs and what is built here, so all that differs is the kernel: what its
//! io_uring can do, how its sockets merge and cut, how it schedules. A case that fails there fails
//! here, under its own name.

use std::time::Duration;

use anyhow::Context;

use crate::build;
use crate::harness::case::{Case, Ending, Parts, Stop};
use crate::lab::{Lab, guest};
use crate::packages;

/// Debian's releases, by the names of their kernels' suites, and what Linux they have.
const KERNELS: [(&str, &str); 2] = [("bullseye", "5.10"), ("trixie", "6.12")];
/// What is run there.
const CASES: [&str; 3] = [
    "verbs/one-daemon-sockets",
    "cm/one-daemon",
    "robust/no io_uring",
];
/// An emulated processor takes ten times as long.
const LIMIT: Duration = Duration::from_secs(1500);

pub(crate) fn cases() -> Vec<Case> {
    let kernels = KERNELS.iter();
    let cases = kernels.map(|&(suite, linux)| {
        Case::many(format!("kernels/{linux}"), move |lab| {
            under(lab, suite, linux)
        })
    });
    cases.collect()
}

/// The cases' endings under one kernel.
fn under(lab: &mut Lab, suite: &'static str, linux: &str) -> Parts {
    // Over there nothing can be fetched, and there are devices enough.
    packages::ensure(packages::CM)?;
    lab.vacate();
    let program = std::env::current_exe().context("the path of this program")?;
    let program = program.display().to_string();
    // All is built, and the guest has no use for a look at that.
    let mut line = vec!["env", "CARGO=true", &program, "test"];
    line.extend(CASES);
    // Over there the runner empties the directory of logs, which must not be the shared one.
    let share = build::scratch("kernels")?;
    let finished = guest::run_under(Some(suite), &line, &share, linux, LIMIT)?;

    let endings: Vec<_> = finished.out.lines().filter_map(ending).collect();
    let said = finished.out.lines().any(|line| line.ends_with(" skipped"));
    if !said || endings.is_empty() {
        let why = format!("the cases did not run to their end under Linux {linux}");
        return Err(Stop::with(why, &[&finished]));
    }

    Ok(endings)
}

/// A line of the runner: how a case ended, and why if not well.
fn ending(line: &str) -> Option<(String, Ending)> {
    let (how, rest) = line.split_once(' ')?;
    let rest = rest.trim_start();
    let (name, why) = rest.split_once("  (").unwrap_or((rest, ""));
    let why = why.split_once("): ").map_or("", |(_, why)| why);
    match how {
        "ok" => Some((name.to_owned(), Ok(()))),
        "FAILED" => Some((name.to_owned(), Err(Stop::fail(why)))),
        "skipped" => {
            let (name, why) = rest.split_once(": ").unwrap_or((rest, ""));
            Some((name.to_owned(), Err(Stop::Skip(why.to_owned()))))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_runners_lines_are_read() {
        let read = |line| ending(line).map(|(name, ending)| (name, ending.is_ok()));
        let case = || "cm/one-daemon/rping -v".to_owned();
        assert_eq!(
            read("ok       cm/one-daemon/rping -v  (1.2 s)"),
            Some((case(), true))
        );
        let failed = "FAILED   cm/one-daemon/rping -v  (1.2 s): not both ends succeed";
        assert_eq!(read(failed), Some((case(), false)));
        let Some((_, Err(Stop::Skip(why)))) = ending("skipped  cm/one-daemon/rping -v: no rping")
        else {
            panic!("it is skipped");
        };
        assert_eq!(why, "no rping");
        assert_eq!(read("51 passed, 0 failed, 1 skipped"), None);
    }
}
