//! The tests of rdma-core's suite that are skipped, as the table in docs/conformance.md has them, and what a run is
//! worth against it: a skip that appears or disappears is a failure.
//!
//! The table is the only place where skips are written down. Its rows begin with a test's name in backquotes:
//! test, when it is skipped, what the suite says, and why that is all right.

use std::collections::BTreeMap;
use std::fs;

use anyhow::{Context, Result, bail};

use crate::build;
use crate::harness::case::{Ending, Stop};
use crate::harness::unittest::{Outcome, Verdict};

const FILE: &str = "docs/conformance.md";

/// When a test of the table is skipped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum When {
    Always,
    /// Where the kernel has no huge pages to give.
    WithoutHugePages,
}

#[derive(Debug)]
struct Row {
    line: usize,
    when: When,
    words: String,
    why: String,
}

/// The table.
pub struct Table {
    rows: BTreeMap<String, Row>,
}

/// What a machine has that decides about skips.
#[derive(Clone, Copy)]
pub struct Machine {
    /// Huge pages of 2 MiB.
    pub huge_pages: bool,
}

impl Table {
    /// Reads it from the documentation.
    pub fn read() -> Result<Table> {
        let path = build::workspace().join(FILE);
        Table::parse(&fs::read_to_string(&path).with_context(|| format!("{}", path.display()))?)
    }

    fn parse(text: &str) -> Result<Table> {
        let mut rows = BTreeMap::new();
        for (index, line) in text.lines().enumerate() {
            let Some(rest) = line.strip_prefix("| `test_") else {
                continue;
            };
            let number = index + 1;
            let cells: Vec<&str> = rest.trim_end().trim_end_matches('|').split(" | ").collect();
            let [name, when, words, why] = cells[..] else {
                bail!(
                    "{FILE}:{number}: a row of four cells is wanted: test, when, the suite's words, why"
                );
            };
            let when = match when.trim() {
                "always" => When::Always,
                "without huge pages" => When::WithoutHugePages,
                other => bail!("{FILE}:{number}: skipped {other:?}?"),
            };
            let row = Row {
                line: number,
                when,
                words: words.trim().to_owned(),
                why: why.trim().to_owned(),
            };
            let name = format!("test_{}", name.trim().trim_end_matches('`'));
            if let Some(other) = rows.insert(name, row) {
                bail!("{FILE}:{number}: this test is in line {} too", other.line);
            }
        }
        Ok(Table { rows })
    }

    /// What each test's outcome is worth. Rows without an outcome are failures under the test's name.
    pub fn judge(&self, outcomes: &[Outcome], machine: Machine) -> Vec<(String, Ending)> {
        let mut endings: Vec<(String, Ending)> = outcomes
            .iter()
            .map(|outcome| (outcome.name.clone(), self.ending(outcome, machine)))
            .collect();
        for (name, row) in &self.rows {
            if !outcomes.iter().any(|outcome| outcome.name == *name) {
                let what = format!("{FILE}:{}: the suite has no such test", row.line);
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
            (Verdict::Passed, Some(row)) => Err(Stop::fail(format!(
                "passes, and {FILE}:{} says that it is skipped: take the line out",
                row.line
            ))),
            (Verdict::Skipped(words), Some(row)) if *words == row.words => {
                Err(Stop::Skip(row.why.clone()))
            }
            (Verdict::Skipped(words), Some(row)) => Err(Stop::fail(format!(
                "skipped with {words:?}, and {FILE}:{} has other words",
                row.line
            ))),
            (Verdict::Skipped(words), None) => Err(Stop::fail(format!(
                "skipped with {words:?}, which no line of {FILE} has"
            ))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "\
| test | skipped | the suite says | why |
|---|---|---|---|
| `test_x.T.test_a` | always | no `such` thing | needs a GPU |
| `test_x.T.test_b` | without huge pages | There are no huge pages | none to be had |
";
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
        assert!(failures(&table, PLAIN, &disappeared)[0].contains("conformance.md:3"));
        let other_words = [outcome("test_a", skipped("oh")), b.clone()];
        assert_eq!(failures(&table, PLAIN, &other_words).len(), 1);
        let gone = [a];
        assert!(failures(&table, PLAIN, &gone)[0].contains("conformance.md:4"));
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
        assert!(Table::parse("| `test_x.T.test_a` | always | words |").is_err());
        assert!(Table::parse("| `test_x.T.test_a` | often | words | why |").is_err());
        assert!(Table::read().is_ok());
    }
}
