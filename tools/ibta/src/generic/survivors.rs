//! Which test passes on which generic mutant, and why: `survivors.toml`, pair by pair.
//!
//! The table is compared for equality. A pair that is not in it is a test that has become blind, or a mutant that nobody has thought about;
//! one that is in it and does not survive any more is a reason that is not true any more.

use super::Row;
use anyhow::{Context, Result, bail};
use serde::Deserialize;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use std::fs;
use std::path::Path;

/// Where a pair goes that nobody has given a reason.
const UNEXPLAINED: &str = "unexplained";

/// The table.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Eq)]
#[serde(deny_unknown_fields)]
pub struct Survivors {
    /// What the names of reasons mean.
    pub reasons: BTreeMap<String, String>,
    /// Of a mutant: by the name of the reason, the tests that pass on it.
    #[serde(default)]
    pub mutants: BTreeMap<String, BTreeMap<String, BTreeSet<String>>>,
}

impl Survivors {
    /// The table as it was when this was built.
    pub fn known() -> Survivors {
        Survivors::parse(include_str!("survivors.toml")).expect("the table, which a test reads")
    }

    /// A table.
    ///
    /// # Errors
    /// It is none, or names a reason that it does not tell.
    pub fn parse(text: &str) -> Result<Survivors> {
        let table: Survivors = toml::from_str(text)?;
        let used = table.mutants.values().flat_map(BTreeMap::keys);
        let used: BTreeSet<_> = used.filter(|name| *name != UNEXPLAINED).collect();
        if let Some(name) = used.iter().find(|name| !table.reasons.contains_key(**name)) {
            bail!("the reason {name} is not told");
        }
        if let Some(name) = table.reasons.keys().find(|name| !used.contains(name)) {
            bail!("no pair has the reason {name}");
        }
        Ok(table)
    }

    /// The reason of a pair.
    pub fn reason(&self, mutant: &str, test: &str) -> Option<&str> {
        let reasons = self.mutants.get(mutant)?;
        let found = reasons.iter().find(|(_, tests)| tests.contains(test));
        found.map(|(name, _)| name.as_str())
    }

    /// Compares what survived with the table.
    ///
    /// # Errors
    /// Each pair that is in one of them only, or that has no reason, or two.
    pub fn compare(&self, rows: &[Row]) -> Result<(), Vec<String>> {
        let mut wrong = Vec::new();
        let found: BTreeSet<(&str, &str)> = rows
            .iter()
            .flat_map(|row| {
                row.survived
                    .iter()
                    .map(|test| (row.name.as_str(), test.as_str()))
            })
            .collect();
        let mut due = BTreeSet::new();
        for (mutant, reasons) in &self.mutants {
            for (reason, tests) in reasons {
                for test in tests {
                    if reason == UNEXPLAINED {
                        wrong.push(format!("nobody says why {test} passes on {mutant}"));
                    }
                    if !due.insert((mutant.as_str(), test.as_str())) {
                        wrong.push(format!("{test} has two reasons to pass on {mutant}"));
                    }
                }
            }
        }
        let new = found.difference(&due);
        wrong.extend(new.map(|(mutant, test)| format!("{test} passes on {mutant}")));
        let gone = due.difference(&found);
        wrong.extend(
            gone.map(|(mutant, test)| format!("{test} does not pass on {mutant} any more")),
        );
        match wrong.is_empty() {
            true => Ok(()),
            false => Err(wrong),
        }
    }

    /// The table of what survived. Pairs keep their reasons; new ones are unexplained.
    pub fn renewed(&self, rows: &[Row]) -> Survivors {
        let mut table = Survivors::default();
        for row in rows {
            for test in &row.survived {
                let reason = self.reason(&row.name, test).unwrap_or(UNEXPLAINED);
                let reasons = table.mutants.entry(row.name.clone()).or_default();
                let tests = reasons.entry(reason.to_owned()).or_default();
                tests.insert(test.clone());
                if let Some(text) = self.reasons.get(reason) {
                    table.reasons.insert(reason.to_owned(), text.clone());
                }
            }
        }
        table
    }

    /// As it stands in the file.
    pub fn text(&self) -> String {
        let mut out = "# Which test passes on which generic mutant, and why; compared for equality by a test.\n# Written by `ferroce-ibta mutants --write FILE`, which keeps the reasons of pairs that it knows; a new pair is \"unexplained\" until\n# somebody gives it a reason of the first table.\n\n[reasons]\n".to_owned();
        for (name, reason) in &self.reasons {
            let _ = writeln!(out, "{name} = {reason:?}");
        }
        for (mutant, reasons) in &self.mutants {
            let _ = writeln!(out, "\n[mutants.{mutant:?}]");
            for (reason, tests) in reasons {
                let _ = writeln!(out, "{reason} = [");
                let mut line = String::new();
                for test in tests {
                    if line.len() + test.len() > 90 {
                        let _ = writeln!(out, "   {line}");
                        line.clear();
                    }
                    let _ = write!(line, " {test:?},");
                }
                let _ = writeln!(out, "   {line}\n]");
            }
        }
        out
    }

    /// Writes the table of what survived to a file, with the reasons that are there.
    ///
    /// # Errors
    /// The file cannot be read or written, or is no table.
    pub fn renew(path: &Path, rows: &[Row]) -> Result<()> {
        let before = fs::read_to_string(path).with_context(|| format!("{}", path.display()))?;
        // Here a reason may be without pairs: it waits for those that are unexplained.
        let before: Survivors = toml::from_str(&before)?;
        let after = before.renewed(rows).text();
        fs::write(path, after).with_context(|| format!("{}", path.display()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(name: &str, survived: &[&str]) -> Row {
        Row {
            name: name.to_owned(),
            caught: Vec::new(),
            survived: survived.iter().map(|test| (*test).to_owned()).collect(),
        }
    }

    fn table() -> Survivors {
        Survivors::parse(
            "[reasons]\nwhy = \"because\"\n[mutants.\"a+1\"]\nwhy = [\"T1\", \"T2\"]\n",
        )
        .expect("a table")
    }

    #[test]
    fn a_new_survivor_and_one_that_is_gone_are_differences() {
        assert_eq!(table().compare(&[row("a+1", &["T1", "T2"])]), Ok(()));
        let wrong = table().compare(&[row("a+1", &["T2", "T3"])]).unwrap_err();
        assert_eq!(
            wrong,
            ["T3 passes on a+1", "T1 does not pass on a+1 any more"]
        );
        assert!(table().compare(&[row("b=0", &["T1"])]).is_err());
    }

    #[test]
    fn what_is_renewed_keeps_its_reasons_and_new_pairs_want_one() {
        let rows = [row("a+1", &["T2", "T3"])];
        let new = Survivors::parse(&table().renewed(&rows).text()).expect("a table");
        assert_eq!(new.reason("a+1", "T2"), Some("why"));
        assert_eq!(new.reason("a+1", "T1"), None);
        let wrong = new.compare(&rows).unwrap_err();
        assert_eq!(wrong, ["nobody says why T3 passes on a+1"]);
    }

    #[test]
    fn a_reason_is_told_and_used() {
        assert!(Survivors::parse("[reasons]\n[mutants.a]\nwhy = [\"T\"]\n").is_err());
        assert!(Survivors::parse("[reasons]\nwhy = \"because\"\n").is_err());
    }
}
