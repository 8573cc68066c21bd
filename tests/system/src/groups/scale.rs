//! Group `scale`: the tests of `tests/verbs/many.c` with as many processes and queue pairs as they
//! take. Smaller ones are run with the other C programs.

use std::time::Duration;

use crate::harness::case::{Case, Parts};
use crate::harness::process;
use crate::lab::{Lab, Place};
use crate::programs::cprogram;

const GROUP: &str = "scale";
const PROGRAM: &str = "many";
/// The tests end by themselves before.
const LIMIT: Duration = Duration::from_secs(300);

/// A test, how its environment says how many there are, and how many.
const CASES: &[(&str, &str, &str)] = &[
    ("all_to_all_memory", "PROCESSES", "64"),
    ("all_at_once", "QPS", "32768"),
];

pub(crate) fn cases() -> Vec<Case> {
    let case = |(test, what, number): &'static (&str, &str, &str)| {
        let name = format!("{GROUP}/{PROGRAM}.c {what}={number}");
        Case::many(name, move |lab| run(lab, test, what, number))
    };
    CASES.iter().map(case).collect()
}

fn run(lab: &mut Lab, test: &str, what: &str, number: &str) -> Parts {
    let program = cprogram::compile(PROGRAM)?;
    let dir = lab.case_dir()?;
    let mut command = lab.site(Place::OneDaemon)?.client().run(&program);
    command.arg(test).env(what, number);
    let finished = process::run(command, &dir, "program", LIMIT)?;

    // The numbers themselves, for who reads the log.
    let is_verdict = |line: &str| {
        ["ok ", "not ok ", "skip "]
            .iter()
            .any(|word| line.starts_with(word))
    };
    for line in finished.out.lines().filter(|line| !is_verdict(line)) {
        println!("  {what}={number}: {line}");
    }
    Ok(cprogram::endings(&finished))
}
