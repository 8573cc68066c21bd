//! The tests of rdma-core's suite that are skipped, and what a run is worth against that: a skip
//! that appears or disappears is a failure.
//!
//! `skips.toml` is the only place where skips are written down; the table of
//! `docs/conformance/pyverbs.md` is made of it.

use std::collections::BTreeMap;

use anyhow::{Context, Result, bail};
use serde::Deserialize;

use crate::harness::case::{Ending, Stop};
use crate::harness::unittest::{Outcome, Verdict};
use crate::pages::row;

const FILE: &str = "skips.toml";

/// When a test of the table is skipped.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq)]
enum When {
    #[serde(rename = "always")]
    Always,
    /// Where the kernel has no huge pages to give.
    #[serde(rename = "without huge pages")]
    WithoutHugePages,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    skip: Vec<Skip>,
}

/// Tests that are skipped for the same reason.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Skip {
    when: When,
    /// The suite's own words.
    says: String,
    why: String,
    tests: Vec<String>,
}

#[derive(Debug)]
struct Row {
    when: When,
    words: String,
    why: String,
}

/// The table.
pub(crate) struct Table {
    rows: BTreeMap<String, Row>,
}

/// What a machine has that decides about skips.
#[derive(Clone, Copy)]
pub(crate) struct Machine {
    /// Huge pages of 2 MiB.
    pub huge_pages: bool,
}

impl Table {
    /// Reads it.
    pub(crate) fn read() -> Result<Table> {
        Table::parse(include_str!("skips.toml"))
    }

    fn parse(text: &str) -> Result<Table> {
        let file: File = toml::from_str(text).context(FILE)?;
        let mut rows = BTreeMap::new();
        for skip in file.skip {
            for test in skip.tests {
                let row = Row {
                    when: skip.when,
                    words: skip.says.clone(),
                    why: skip.why.clone(),
                };
                if rows.insert(test.clone(), row).is_some() {
                    bail!("{FILE}: {test} is there twice");
                }
            }
        }

        Ok(Table { rows })
    }

    /// As a document has it.
    pub(crate) fn markdown(&self) -> String {
        let mut table = row(&["test", "skipped", "the suite says", "why"]);
        table += "|---|---|---|---|\n";
        for (test, Row { when, words, why }) in &self.rows {
            let when = match when {
                When::Always => "always",
                When::WithoutHugePages => "without huge pages",
            };
            table += &row(&[&format!("`{test}`"), when, words, why]);
        }
        table
    }

    /// What each test's outcome is worth. Rows without an outcome are failures under the test's
    /// name.
    pub(crate) fn judge(&self, outcomes: &[Outcome], machine: Machine) -> Vec<(String, Ending)> {
        let mut endings: Vec<(String, Ending)> = outcomes
            .iter()
            .map(|outcome| (outcome.name.clone(), self.ending(outcome, machine)))
            .collect();
        for name in self.rows.keys() {
            if !outcomes.iter().any(|outcome| outcome.name == *name) {
                let what = format!("{FILE}: the suite has no such test");
                endings.push((name.clone(), Err(Stop::fail(what))));
            }
        }
        endings
    }

    fn ending(&self, outcome: &Outcome, machine: Machine) -> Ending {
        let expected = self.rows.get(&outcome.name).filter(|row| match row.when {
            When::Always => true,
            When::WithoutHugePages => !machine.huge_pages,
        });

        match (&outcome.verdict, expected) {
            (Verdict::Failed(why), _) => Err(Stop::fail(why)),
            (Verdict::Passed, None) => Ok(()),
            (Verdict::Passed, Some(_)) => Err(Stop::fail(format!(
                "passes, and {FILE} says that it is skipped: take it out"
            ))),
            (Verdict::Skipped(words), Some(row)) if *words == row.words => {
                Err(Stop::Skip(row.why.clone()))
            }
            (Verdict::Skipped(words), Some(_)) => Err(Stop::fail(format!(
                "skipped with {words:?}, and {FILE} has other words"
            ))),
            (Verdict::Skipped(words), None) => Err(Stop::fail(format!(
                "skipped with {words:?}, which {FILE} does not have"
            ))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = r#"
[[skip]]
when = "always"
says = "no `such` thing"
why = "needs a GPU"
tests = ["test_x.T.test_a"]

[[skip]]
when = "without huge pages"
says = "There are no huge pages"
why = "none to be had"
tests = ["test_x.T.test_b"]
"#;
    const PLAIN: Machine = Machine { huge_pages: false };

    fn outcome(name: &str, verdict: Verdict) -> Outcome {
        Outcome {
            name: format!("test_x.T.{name}"),
            verdict,
        }
    }

    fn skipped(words: &str) -> Verdict {
        Verdict::Skipped(words.to_owned())
    }

    fn failures(table: &Table, machine: Machine, outcomes: &[Outcome]) -> Vec<String> {
        table
            .judge(outcomes, machine)
            .into_iter()
            .filter_map(|(name, ending)| match ending {
                Err(Stop::Fail(failure)) => Some(format!("{name}: {}", failure.what)),
                _ => None,
            })
            .collect()
    }

    #[test]
    fn skips_must_be_those_of_the_table() {
        let table = Table::parse(TEXT).unwrap();
        let a = outcome("test_a", skipped("no `such` thing"));
        let b = outcome("test_b", skipped("There are no huge pages"));
        assert!(failures(&table, PLAIN, &[a.clone(), b.clone()]).is_empty());
        let appeared = [a.clone(), b.clone(), outcome("test_c", skipped("oh"))];
        assert!(failures(&table, PLAIN, &appeared)[0].starts_with("test_x.T.test_c: skipped"));
        let disappeared = [outcome("test_a", Verdict::Passed), b.clone()];
        assert!(failures(&table, PLAIN, &disappeared)[0].contains("take it out"));
        let other_words = [outcome("test_a", skipped("oh")), b.clone()];
        assert_eq!(failures(&table, PLAIN, &other_words).len(), 1);
        let gone = [a];
        assert!(failures(&table, PLAIN, &gone)[0].contains("no such test"));
    }

    #[test]
    fn a_condition_decides_both_ways() {
        let table = Table::parse(TEXT).unwrap();
        let rich = Machine { huge_pages: true };
        let a = outcome("test_a", skipped("no `such` thing"));
        let ran = [a.clone(), outcome("test_b", Verdict::Passed)];
        let skips = [a, outcome("test_b", skipped("There are no huge pages"))];
        assert!(failures(&table, rich, &ran).is_empty());
        assert_eq!(failures(&table, rich, &skips).len(), 1);
        assert_eq!(failures(&table, PLAIN, &ran).len(), 1);
    }

    #[test]
    fn failures_stay_failures_and_rows_must_be_whole() {
        let table = Table::parse(TEXT).unwrap();
        let failed = Verdict::Failed("why".to_owned());
        let b = outcome("test_b", skipped("There are no huge pages"));
        assert_eq!(
            failures(&table, PLAIN, &[outcome("test_a", failed), b]),
            ["test_x.T.test_a: why"]
        );
        let twice = TEXT.replace("test_b", "test_a");
        assert!(Table::parse(&twice).is_err());
        assert!(Table::parse(&TEXT.replace("always", "often")).is_err());
        assert!(Table::parse(&TEXT.replace("why = \"needs a GPU\"\n", "")).is_err());
        assert!(Table::read().is_ok());
    }
}
