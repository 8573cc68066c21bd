//! Group `interop`: programs between ferroce and the Linux kernel's soft-RoCE, in a throw-away
//! guest.
//!
//! Where nothing is named, one program of each kind is run; named, all of them.

use crate::harness::case::{Case, Parts};
use crate::interop::{self, Scope};
use crate::lab::Lab;

const SHORT: &str = "interop/short";
const WHOLE: &str = "interop/whole";
/// The Extended Sockets library's conformance programs, in a guest of their own.
const EXS: &str = "interop/exs";

pub(crate) fn cases() -> Vec<Case> {
    [
        (SHORT, true, false),
        (WHOLE, false, false),
        (EXS, false, true),
    ]
    .map(|(name, short, exs)| Case::many(name, move |lab| all(lab, short, exs)))
    .into()
}

/// Whether a case is run: the short form where no group is named, else the whole, unless the short
/// form is asked for.
pub(crate) fn belongs(filters: &[String], name: &str) -> bool {
    let short = filters.is_empty() || filters.iter().any(|filter| filter == SHORT);
    match name {
        SHORT => short,
        WHOLE | EXS => !short,
        _ => true,
    }
}

fn all(lab: &mut Lab, short: bool, exs: bool) -> Parts {
    // The guest has its own.
    lab.vacate();
    let scope = Scope {
        short,
        exs,
        only: Vec::new(),
    };
    let (runs, table) = interop::run(&scope, &lab.case_dir()?)?;
    println!("{table}");
    Ok(runs.into_iter().map(|run| (run.name, run.ending)).collect())
}
