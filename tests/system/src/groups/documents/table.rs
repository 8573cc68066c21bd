//! What is known of a document's commands: `readme.toml` and its neighbours. Every command has a
//! row, which says what it shows or why it is not run, and every row has its command.

use std::collections::BTreeMap;

use anyhow::{Result, bail};
use serde::Deserialize;

use super::page::{Block, Page, SHELL};

/// A document's rows.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Table {
    /// For what stands between fences.
    #[serde(default)]
    block: Vec<Row>,
    /// For commands within sentences.
    #[serde(default)]
    inline: Vec<Row>,
    /// For commands within sentences that begin so: why they are not run.
    #[serde(default)]
    excused: BTreeMap<String, String>,
}

/// What is known of a command, or of several that are typed one after the other.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Row {
    /// What the block has and no other one has; of a command within a sentence, all of it.
    pub has: String,
    /// Why it is not run.
    #[serde(default)]
    pub excused: Option<String>,
    /// It is no command but a file, of this name.
    #[serde(default)]
    pub file: Option<String>,
    /// What it must print, and how often at least.
    #[serde(default)]
    pub shows: BTreeMap<String, usize>,
    /// What it must not print.
    #[serde(default)]
    pub never: Vec<String>,
    /// What is done before, as the reader's own things are not in the document.
    #[serde(default)]
    pub before: String,
    /// What must hold afterwards.
    #[serde(default)]
    pub after: String,
    /// Lines that are left out: what they have, and why.
    #[serde(default)]
    pub without: BTreeMap<String, String>,
    /// What it starts in the background does not end by itself.
    #[serde(default)]
    pub stays: bool,
    /// It needs cargo, which has things in the tester's home.
    #[serde(default)]
    pub cargo: bool,
    /// It is typed in the checkout, and may need cargo.
    #[serde(default)]
    pub checkout: bool,
}

/// A command of a document with its row.
#[derive(Debug)]
pub(super) struct Unit {
    /// For people: its first words.
    pub name: String,
    pub text: String,
    pub row: Row,
}

impl Table {
    pub(super) fn parse(text: &str) -> Result<Table> {
        Ok(toml::from_str(text)?)
    }

    /// All of the document's commands and files, each with its row.
    ///
    /// # Errors
    ///
    /// A command without a row or with several, a row without a command, a line that is to be left
    /// out and is not there.
    pub(super) fn units(&self, page: &Page) -> Result<Vec<Unit>> {
        let mut units = Vec::new();
        let mut wrong = Vec::new();

        for block in &page.blocks {
            let matches = |row: &&Row| block.text.contains(&row.has);
            match self.block.iter().filter(matches).collect::<Vec<_>>()[..] {
                [row] => units.push(Unit::of(block, row)),
                [] => wrong.push(format!("neither run nor excused:\n{}", block.text)),
                _ => wrong.push(format!("several rows are for\n{}", block.text)),
            }
        }
        for command in &page.inline {
            let row = self.inline.iter().find(|row| row.has == *command);
            let mut reasons = self.excused.keys();
            match row {
                Some(row) => units.push(Unit::inline(command, row)),
                None if reasons.any(|start| command.starts_with(start)) => {}
                None => wrong.push(format!("neither run nor excused: `{command}`")),
            }
        }

        let used = |row: &Row| units.iter().any(|unit| unit.row.has == row.has);
        let rows = self.block.iter().chain(&self.inline);
        let unused = rows.filter(|row| !used(row));
        wrong.extend(unused.map(|row| format!("no command has {:?}", row.has)));
        wrong.extend(units.iter().flat_map(Unit::not_there));
        match wrong.is_empty() {
            true => Ok(units),
            false => bail!("{}", wrong.join("\n")),
        }
    }
}

impl Unit {
    fn of(block: &Block, row: &Row) -> Unit {
        let is_command = |line: &&str| !line.starts_with('#') && !line.trim().is_empty();
        let first = match block.language.as_str() {
            SHELL => block.text.lines().find(is_command).unwrap_or_default(),
            _ => row.file.as_deref().unwrap_or(&block.language),
        };
        let words = first.split(['#', '&']).next().unwrap_or_default();
        Unit {
            name: words.trim().to_owned(),
            text: block.text.clone(),
            row: row.clone(),
        }
    }

    fn inline(command: &str, row: &Row) -> Unit {
        Unit {
            name: format!("`{command}`"),
            text: format!("{command}\n"),
            row: row.clone(),
        }
    }

    fn not_there(&self) -> Vec<String> {
        let without = self.row.without.keys();
        without
            .filter(|part| !self.text.contains(*part))
            .map(|part| format!("{}: no line has {part:?}", self.name))
            .collect()
    }

    /// What is typed, without the lines that are left out.
    pub(super) fn script(&self) -> String {
        let left_out = |line: &&str| self.row.without.keys().any(|part| line.contains(part));
        let lines = self.text.lines().filter(|line| !left_out(line));
        lines.map(|line| format!("{line}\n")).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn page() -> Page {
        let block = |text: &str| Block {
            language: SHELL.to_owned(),
            text: text.to_owned(),
        };
        Page {
            blocks: vec![block("# why\na one # so\nb\n"), block("c\n")],
            inline: vec!["ferroce x".to_owned()],
        }
    }

    fn units(rows: &str) -> Result<Vec<Unit>, String> {
        let table = Table::parse(rows).unwrap();
        table.units(&page()).map_err(|error| error.to_string())
    }

    const ALL: &str = "[[block]]\nhas = \"a one\"\nwithout = { b = \"why\" }\n[[block]]\nhas = \"c\"\n\
         [[inline]]\nhas = \"ferroce x\"\nexcused = \"why\"\n";

    #[test]
    fn every_command_finds_its_row() {
        let units = units(ALL).unwrap();
        assert_eq!(units.len(), 3);
        assert_eq!(units[0].name, "a one");
        assert_eq!(units[0].script(), "# why\na one # so\n");
        assert!(units[2].row.excused.is_some());
    }

    #[test]
    fn what_does_not_fit_is_told() {
        let without_c = ALL.replace("[[block]]\nhas = \"c\"\n", "");
        assert!(
            units(&without_c)
                .unwrap_err()
                .contains("neither run nor excused:\nc")
        );
        let twice = ALL.replace("has = \"c\"", "has = \"c\"\n[[block]]\nhas = \"a\"");
        assert!(units(&twice).unwrap_err().contains("several rows"));
        let more = format!("{ALL}[[inline]]\nhas = \"ferroce y\"\n");
        assert!(
            units(&more)
                .unwrap_err()
                .contains("no command has \"ferroce y\"")
        );
        let line = ALL.replace("{ b =", "{ d =");
        assert!(units(&line).unwrap_err().contains("no line has \"d\""));
    }
}
