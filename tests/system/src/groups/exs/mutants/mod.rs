//! Group `exs`, continued: what the conformance tests notice. A library is preloaded that breaks
//! one promise of the Extended Sockets library and keeps all others (`tests/exs/mutants`); in each
//! mode some test has to fail.
//!
//! A plain run tries for each mutant the one test that `mutants.toml` has first;
//! `exs/mutants/whole`, which has to be named, all tests of the mutant's function, as
//! `cargo xtask exs-mutants` does, which writes the table.

mod bench;
pub(crate) mod table;

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result};

use super::{Mode, programs, table as programs_table};
use crate::build;
use crate::harness::case::{Case, Ending, Parts, Stop};
use crate::lab::host::Host;
use crate::lab::{Lab, Place};
use crate::packages;
use bench::{Bench, Done};
use table::Mutant;

/// The program whose tests do in each mode what the functions' own leave to the other.
const MIXED: &str = "exs_mixed";

const WHOLE: &str = "exs/mutants/whole";

pub(super) fn cases() -> Vec<Case> {
    let mut cases = vec![Case::new("exs/mutants/mutants.toml has them all", complete)];
    for mode in Mode::ALL {
        cases.push(Case::many(
            format!("exs/mutants/{}", mode.name()),
            move |lab| short(lab, mode),
        ));
    }
    cases.push(Case::many(WHOLE, whole));
    cases
}

/// The whole takes minutes: only who names it gets it.
pub(crate) fn belongs(filters: &[String], name: &str) -> bool {
    name != WHOLE || filters.iter().any(|filter| filter == WHOLE)
}

/// All that the library can break, by name and promise, in its own order.
fn known() -> Result<Vec<(String, String)>> {
    let programs = programs()?;
    let output = Command::new(programs.join("self_test"))
        .env("LD_PRELOAD", programs.join("mutant.so"))
        .env("EXS_MUTANT", "list")
        .output()
        .context("self_test")?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let pairs = text.lines().filter_map(|line| line.split_once('\t'));
    Ok(pairs
        .map(|(name, promise)| (name.to_owned(), promise.to_owned()))
        .collect())
}

/// `mutants.toml` has every mutant with its promise, and for each mode a test that catches it.
fn complete(_: &mut Lab) -> Ending {
    let rows = table::read()?;
    let written: Vec<(String, String)> = rows
        .iter()
        .map(|row| (row.name.clone(), row.promise.clone()))
        .collect();

    if written != known()? {
        return Err(Stop::fail(
            "mutants.toml is not the library's list: `cargo xtask exs-mutants` writes it",
        ));
    }

    for mode in Mode::ALL {
        if let Some(row) = rows.iter().find(|row| row.caught(mode).is_empty()) {
            let what = format!("{} is not caught in {} mode", row.name, mode.name());
            return Err(Stop::fail(what));
        }
    }

    Ok(())
}

/// Each mutant is caught by its first test, which passes without it.
fn short(lab: &mut Lab, mode: Mode) -> Parts {
    let dir = lab.case_dir()?;
    let rows = table::read()?;
    let mut bench = Bench::new(lab.site(Place::OneDaemon)?.client())?;
    let mut used: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for row in &rows {
        let Some((program, test)) = row
            .caught(mode)
            .first()
            .and_then(|test| test.split_once(' '))
        else {
            continue;
        };
        bench.add(Some(&row.name), program, mode, &[test]);
        let tests = used.entry(program).or_default();
        if !tests.contains(&test) {
            tests.push(test);
        }
    }

    for (program, tests) in used {
        bench.add(None, program, mode, &tests);
    }
    let done = bench.run(&dir)?;
    Ok(done.into_iter().map(Done::judge).collect())
}

impl Done {
    /// With a mutant something has to fail, without nothing may.
    fn judge(self) -> (String, Ending) {
        let evidence = |what: &str| Err(Stop::with(what, &[&self.finished]));
        match (&self.mutant, self.failed.is_empty() && self.late.is_empty()) {
            (Some(name), false) => (name.clone(), Ok(())),
            (Some(name), true) => (name.clone(), evidence("nothing notices")),
            (None, true) => ("without a mutant".to_owned(), Ok(())),
            (None, false) => ("without a mutant".to_owned(), evidence("a test fails")),
        }
    }
}

/// Programs whose tests are about a mutant's function, in a mode.
fn programs_for(mutant: &str, mode: Mode) -> Vec<String> {
    let function = mutant.split('.').next().unwrap_or_default();
    let own = format!("exs_{function}");
    let own = programs_table::performed(mode)
        .contains(&own.as_str())
        .then_some(own);
    own.into_iter().chain([MIXED.to_owned()]).collect()
}

/// Every mutant with all tests of its function.
fn matrix(host: &Host, dir: &Path) -> Result<Vec<Mutant>, Stop> {
    let mut mutants: Vec<Mutant> = known()?
        .into_iter()
        .map(|(name, promise)| Mutant {
            name,
            promise,
            blocking: Vec::new(),
            non_blocking: Vec::new(),
        })
        .collect();

    for mode in Mode::ALL {
        let mut bench = Bench::new(host)?;
        for mutant in &mutants {
            for program in programs_for(&mutant.name, mode) {
                bench.add(Some(&mutant.name), &program, mode, &[]);
            }
        }

        let dir = dir.join(mode.name());
        fs::create_dir_all(&dir).context("a directory for the output")?;
        let done = bench.run(&dir)?;

        // A machine that is busy can be what held a test up: only who is late again counts.
        let mut again = Bench::new(host)?;
        for done in done.iter().filter(|done| !done.late.is_empty()) {
            let late: Vec<&str> = done.late.iter().map(String::as_str).collect();
            again.add(done.mutant.as_deref(), &done.program, mode, &late);
        }

        let dir = dir.join("again");
        fs::create_dir_all(&dir).context("a directory for the output")?;
        let again = again.run(&dir)?;
        let sure = done
            .into_iter()
            .map(|done| (done.mutant, done.program, done.failed));
        let late = again.into_iter().map(|mut done| {
            done.failed.append(&mut done.late);
            (done.mutant, done.program, done.failed)
        });

        for (name, program, failed) in sure.chain(late) {
            let found = mutants
                .iter_mut()
                .find(|mutant| Some(&mutant.name) == name.as_ref());
            let Some(mutant) = found else { continue };
            let caught = match mode {
                Mode::Blocking => &mut mutant.blocking,
                Mode::NonBlocking => &mut mutant.non_blocking,
            };
            caught.extend(
                failed
                    .into_iter()
                    .map(|number| format!("{program} {number}")),
            );
        }
    }

    Ok(mutants)
}

/// What the table says of each mutant is so.
fn whole(lab: &mut Lab) -> Parts {
    let dir = lab.case_dir()?;
    let rows = table::read()?;
    let found = matrix(lab.site(Place::OneDaemon)?.client(), &dir)?;
    let judged = found.iter().map(|mutant| {
        let row = rows.iter().find(|row| row.name == mutant.name);
        let ending = match row {
            None => Err(Stop::fail("mutants.toml does not have it")),
            Some(row) => Mode::ALL.into_iter().try_for_each(|mode| {
                let missed: Vec<_> = row
                    .caught(mode)
                    .iter()
                    .filter(|test| !mutant.caught(mode).contains(test))
                    .collect();
                match missed.is_empty() && !mutant.caught(mode).is_empty() {
                    true => Ok(()),
                    false => Err(Stop::fail(format!(
                        "{} mode: not caught by {missed:?}",
                        mode.name()
                    ))),
                }
            }),
        };

        (mutant.name.clone(), ending)
    });

    Ok(judged.collect())
}

/// `cargo xtask exs-mutants`: tries every mutant with all tests of its function, writes the table
/// and the page that is made of it. Whether all are caught in both modes.
pub fn command() -> Result<bool> {
    packages::ensure(packages::EXS)?;
    let mut lab = Lab::new(build::product()?, build::scratch("exs-mutants")?);
    let dir = lab.case_dir().map_err(Stop::into_error)?;
    let site = lab.site(Place::OneDaemon).map_err(Stop::into_error)?;
    let mutants = matrix(site.client(), &dir).map_err(Stop::into_error)?;
    let file = build::workspace().join(table::FILE);
    fs::write(&file, table::write(&mutants)).with_context(|| format!("{}", file.display()))?;
    let mut all = true;
    for mode in Mode::ALL {
        for mutant in mutants
            .iter()
            .filter(|mutant| mutant.caught(mode).is_empty())
        {
            println!("{}: not caught in {} mode", mutant.name, mode.name());
            all = false;
        }
    }

    println!(
        "{} mutants; build xtask again and run `cargo xtask pages`",
        mutants.len()
    );

    Ok(all)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_whole_is_for_who_names_it() {
        let named = |filters: &[&str]| {
            let filters: Vec<String> = filters.iter().map(|&filter| filter.to_owned()).collect();
            belongs(&filters, WHOLE)
        };
        assert!(!named(&[]) && !named(&["exs"]) && !named(&["exs/mutants"]) && named(&[WHOLE]));
        assert!(belongs(&[], "exs/mutants/blocking"));
    }

    #[test]
    fn a_function_that_only_waits_has_no_tests_of_its_own_in_the_other_mode() {
        assert_eq!(
            programs_for("read.byte", Mode::Blocking),
            ["exs_read", MIXED]
        );
        assert_eq!(programs_for("read.byte", Mode::NonBlocking), [MIXED]);
    }
}
