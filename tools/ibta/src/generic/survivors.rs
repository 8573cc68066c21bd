//! Which test passes on which generic mutant, and why: `survivors.toml`, pair by pair.
//!
//! The table is compared for equality. A pair that is not in it is a test that has become blind, or
//! a mutant that nobody has thought about; one that is in it and does not survive any more is a
//! reason that is not true any more.

use super::Row;
use anyhow::{Context, Result, bail};
use serde::Deserialize;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use std::fs;
use std::path::Path;

/// Where a pair goes that nobody has given a reason.
const UNEXPLAINED: &str = "unexplained";

/// Of a component that more tests than these pass on, those are named that do not.
const MANY: usize = 40;

/// The table.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Eq)]
#[serde(deny_unknown_fields)]
pub struct Survivors {
    /// What the names of reasons mean.
    pub reasons: BTreeMap<String, String>,
    /// All mutants.
    #[serde(default)]
    pub mutants: BTreeMap<String, Entry>,
}

/// What became of a mutant.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Eq)]
#[serde(deny_unknown_fields)]
pub struct Entry {
    /// In how many tests it changes something.
    pub touches: usize,
    /// By the name of the reason, the tests that pass on it.
    #[serde(default)]
    pub passes: BTreeMap<String, BTreeSet<String>>,
    /// In place of `passes`: the tests that it is `caught_by`, and the name of the reason why all
    /// others that it touches pass.
    #[serde(default)]
    pub others: Option<String>,
    /// See there.
    #[serde(default)]
    pub caught_by: BTreeSet<String>,
}

impl Entry {
    /// How many tests pass.
    pub fn passed(&self) -> usize {
        match self.others {
            Some(_) => self.touches - self.caught_by.len(),
            None => self.passes.values().map(BTreeSet::len).sum(),
        }
    }

    fn reasons(&self) -> impl Iterator<Item = &String> {
        self.passes.keys().chain(&self.others)
    }

    fn reason(&self, test: &str) -> Option<&str> {
        let mut passes = self.passes.iter();
        match &self.others {
            Some(reason) => (!self.caught_by.contains(test)).then_some(reason),
            None => passes
                .find(|(_, tests)| tests.contains(test))
                .map(|(name, _)| name.as_str()),
        }
    }

    /// Compares with what was found.
    fn compare(&self, row: &Row) -> Vec<String> {
        let mut wrong = Vec::new();
        let name = &row.name;
        if self.touches != row.touched() {
            let (now, before) = (row.touched(), self.touches);
            wrong.push(format!("{name} touches {now} tests, not {before}"));
        }

        if self.reasons().any(|reason| reason == UNEXPLAINED) {
            wrong.push(format!("nobody says why tests pass on {name}"));
        }

        let all: usize = self.passes.values().map(BTreeSet::len).sum();
        let due: BTreeSet<&String> = match self.others {
            Some(_) => {
                let touched = row.caught.iter().chain(&row.survived);
                touched
                    .filter(|test| !self.caught_by.contains(*test))
                    .collect()
            }
            None => self.passes.values().flatten().collect(),
        };

        if self.others.is_some() && all > 0 || self.others.is_none() && all != due.len() {
            wrong.push(format!("a test has two reasons to pass on {name}"));
        }

        let found: BTreeSet<&String> = row.survived.iter().collect();
        wrong.extend(
            found
                .difference(&due)
                .map(|test| format!("{test} passes on {name}")),
        );

        let gone = due.difference(&found);
        wrong.extend(gone.map(|test| format!("{test} does not pass on {name} any more")));
        wrong
    }

    /// What was found, with the reasons of before.
    fn renewed(before: Option<&Entry>, row: &Row) -> Entry {
        let mut entry = Entry {
            touches: row.touched(),
            ..Entry::default()
        };

        let others = before.and_then(|before| before.others.clone());
        if row.survived.len() > MANY && before.is_none_or(|before| before.passes.is_empty()) {
            entry.others = Some(others.unwrap_or_else(|| UNEXPLAINED.to_owned()));
            entry.caught_by = row.caught.iter().cloned().collect();
            return entry;
        }

        for test in &row.survived {
            let reason = before.and_then(|before| before.reason(test));
            let reason = reason.unwrap_or(UNEXPLAINED).to_owned();
            entry.passes.entry(reason).or_default().insert(test.clone());
        }

        entry
    }

    fn text(&self, out: &mut String) {
        let _ = writeln!(out, "touches = {}", self.touches);
        if let Some(reason) = &self.others {
            let _ = writeln!(out, "others = {reason:?}");
            list(out, "caught_by", &self.caught_by);
        }
        for (reason, tests) in &self.passes {
            list(out, &format!("passes.{reason}"), tests);
        }
    }
}

fn list(out: &mut String, name: &str, tests: &BTreeSet<String>) {
    if tests.is_empty() {
        return;
    }
    let _ = writeln!(out, "{name} = [");
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
        let used = table.mutants.values().flat_map(Entry::reasons);
        let used: BTreeSet<_> = used.filter(|name| *name != UNEXPLAINED).collect();
        if let Some(name) = used.iter().find(|name| !table.reasons.contains_key(**name)) {
            bail!("the reason {name} is not told");
        }
        if let Some(name) = table.reasons.keys().find(|name| !used.contains(name)) {
            bail!("no pair has the reason {name}");
        }
        Ok(table)
    }

    /// Mutants that are faults, as a test that passes on them is said to look elsewhere, and that
    /// no test is known to catch; and reasons that nobody has yet.
    pub fn uncaught(&self) -> Vec<String> {
        let untested = self.reasons.iter();
        let untested = untested.filter(|(_, text)| text.starts_with("untested"));
        let untested = untested.map(|(name, _)| format!("{name} is no reason"));

        let faults = self.mutants.iter().filter(|(_, entry)| {
            let is_fault = |name: &String| {
                let text = self.reasons.get(name).map_or("", String::as_str);
                !text.starts_with("no fault") && !text.starts_with("equivalent")
            };
            entry.reasons().any(is_fault)
        });
        let uncaught = faults.filter(|(_, entry)| entry.passed() >= entry.touches);
        let uncaught =
            uncaught.map(|(name, _)| format!("{name} is a fault, and no test fails on it"));
        untested.chain(uncaught).collect()
    }

    /// The reason of a pair.
    pub fn reason(&self, mutant: &str, test: &str) -> Option<&str> {
        self.mutants.get(mutant)?.reason(test)
    }

    /// Compares what was found with the table.
    ///
    /// # Errors
    /// Each pair that is in one of them only, or that has no reason, or two.
    pub fn compare(&self, rows: &[Row]) -> Result<(), Vec<String>> {
        let mut wrong = Vec::new();
        for row in rows {
            match self.mutants.get(&row.name) {
                Some(entry) => wrong.extend(entry.compare(row)),
                None => wrong.push(format!("{} is not in the table", row.name)),
            }
        }
        let is_row = |name: &&String| rows.iter().any(|row| row.name == **name);
        let gone = self.mutants.keys().filter(|name| !is_row(name));
        wrong.extend(gone.map(|name| format!("there is no {name} any more")));
        match wrong.is_empty() {
            true => Ok(()),
            false => Err(wrong),
        }
    }

    /// The table of what was found. Pairs keep their reasons; new ones are unexplained.
    pub fn renewed(&self, rows: &[Row]) -> Survivors {
        let entry = |row: &Row| {
            let entry = Entry::renewed(self.mutants.get(&row.name), row);
            (row.name.clone(), entry)
        };
        let mutants: BTreeMap<String, Entry> = rows.iter().map(entry).collect();
        let used: BTreeSet<&String> = mutants.values().flat_map(Entry::reasons).collect();
        let kept = self.reasons.iter().filter(|(name, _)| used.contains(name));
        Survivors {
            reasons: kept
                .map(|(name, text)| (name.clone(), text.clone()))
                .collect(),
            mutants,
        }
    }

    /// As it stands in the file.
    pub fn text(&self) -> String {
        let mut out = "# What becomes of each generic mutant: how many tests it touches, which of these pass on it, and why; compared for equality by a\n# test. Of a component that very many pass on, `caught_by` names those that do not, and `others` why all others do.\n#\n# Written by `ferroce-ibta mutants --write FILE`, which keeps the reasons of pairs that it knows; a new pair is \"unexplained\" until\n# somebody gives it a reason of the first table.\n\n[reasons]\n".to_owned();
        for (name, reason) in &self.reasons {
            let _ = writeln!(out, "{name} = {reason:?}");
        }
        for (mutant, entry) in &self.mutants {
            let _ = writeln!(out, "\n[mutants.{mutant:?}]");
            entry.text(&mut out);
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
            "[reasons]\nwhy = \"because\"\n[mutants.\"a+1\"]\ntouches = 2\npasses.why = [\"T1\", \"T2\"]\n",
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
        let wrong = table().compare(&[row("a+1", &["T1", "T2", "T3"])]);
        assert_eq!(
            wrong.unwrap_err(),
            ["a+1 touches 3 tests, not 2", "T3 passes on a+1"]
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
        assert_eq!(wrong, ["nobody says why tests pass on a+1"]);
    }

    #[test]
    fn of_what_most_pass_on_those_are_named_that_do_not() {
        let text = "[reasons]\nwhy = \"because\"\n[mutants.a]\ntouches = 3\nothers = \"why\"\ncaught_by = [\"T3\"]\n";
        let table = Survivors::parse(text).expect("a table");
        let mut row = row("a", &["T1", "T2"]);
        row.caught.push("T3".to_owned());
        assert_eq!(table.compare(std::slice::from_ref(&row)), Ok(()));
        assert_eq!(table.reason("a", "T1"), Some("why"));
        assert_eq!(table.reason("a", "T3"), None);
        let blind = Row {
            caught: Vec::new(),
            survived: ["T1", "T2", "T3"].map(str::to_owned).into(),
            ..row
        };
        let wrong = table.compare(&[blind]).unwrap_err();
        assert_eq!(wrong, ["T3 passes on a"]);
    }

    #[test]
    fn every_fault_is_caught_by_some_test() {
        assert_eq!(Survivors::known().uncaught(), Vec::<String>::new());
    }

    #[test]
    fn a_fault_that_all_tests_pass_on_is_found() {
        let uncaught = |reason: &str, touches: u32, tests: &str| {
            let text = format!(
                "[reasons]\nwhy = \"{reason}\"\n[mutants.a]\ntouches = {touches}\n{tests}\n"
            );
            Survivors::parse(&text).expect("a table").uncaught()
        };

        let elsewhere = "the test is about something else";
        let (named, all) = ("passes.why = [\"T1\"]", "others = \"why\"");
        assert_eq!(uncaught(elsewhere, 2, named), [""; 0]);
        for (touches, tests) in [(1, named), (2, all)] {
            let wrong = uncaught(elsewhere, touches, tests);
            assert_eq!(wrong, ["a is a fault, and no test fails on it"]);
            assert_eq!(uncaught("no fault: as it likes", touches, tests), [""; 0]);
        }

        let wrong = uncaught("untested: nobody looks", 2, named);
        assert_eq!(wrong, ["why is no reason"]);
    }

    #[test]
    fn a_reason_is_told_and_used() {
        assert!(
            Survivors::parse("[reasons]\n[mutants.a]\ntouches = 1\npasses.why = [\"T\"]\n")
                .is_err()
        );
        assert!(Survivors::parse("[reasons]\nwhy = \"because\"\n").is_err());
    }
}
