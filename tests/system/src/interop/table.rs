//! The result as a table: a row for each program, a column for each setting.

use std::collections::BTreeMap;

use super::field::{Family, Side};
use super::outcome::Outcome;
use super::setting::{MTUS, Setting};
use crate::harness::case::Stop;

/// The columns, left to right.
fn columns() -> Vec<Setting> {
    let mut columns = Vec::new();
    for server in [Side::Ferroce, Side::Rxe] {
        for family in [Family::V4, Family::V6] {
            for mtu in MTUS {
                columns.push(Setting {
                    server,
                    family,
                    mtu,
                    bad: false,
                });
            }
        }
    }
    columns
}

/// As Markdown: all runs over a good network, then those over a bad one. Tests of one C program
/// share a row.
pub(super) fn markdown(outcomes: &[Outcome]) -> String {
    let mut text = String::new();
    for bad in [false, true] {
        let mut rows: Vec<String> = Vec::new();
        let mut cells: BTreeMap<(String, usize), Cell> = BTreeMap::new();
        let columns = columns();
        for outcome in outcomes.iter().filter(|outcome| outcome.setting.bad == bad) {
            let row = outcome.program.split(": ").next().unwrap_or_default();
            if !rows.iter().any(|known| known == row) {
                rows.push(row.to_owned());
            }
            let good = Setting {
                bad: false,
                ..outcome.setting
            };
            if let Some(column) = columns.iter().position(|column| *column == good) {
                cells
                    .entry((row.to_owned(), column))
                    .or_default()
                    .add(outcome);
            }
        }

        if rows.is_empty() {
            continue;
        }

        text += if bad {
            "\nOver a network that loses, doubles and reorders:\n\n"
        } else {
            "\nOver a good network:\n\n"
        };

        text += "| program | ferroce serves: IPv4 1500 | 9000 | IPv6 1500 | 9000 | rxe serves: IPv4 1500 | 9000 | IPv6 1500 | 9000 |\n";
        text += "|---|---|---|---|---|---|---|---|---|\n";

        for row in rows {
            text += &format!("| {row} |");
            for column in 0..columns.len() {
                let cell = cells.get(&(row.clone(), column));
                text += &format!(" {} |", cell.map(Cell::words).unwrap_or_default());
            }
            text.push('\n');
        }
    }

    text
}

#[derive(Default)]
struct Cell {
    good: u32,
    failed: u32,
    skipped: u32,
}

impl Cell {
    fn add(&mut self, outcome: &Outcome) {
        match outcome.ending {
            Ok(()) => self.good += 1,
            Err(Stop::Skip(_)) => self.skipped += 1,
            Err(Stop::Fail(_)) => self.failed += 1,
        }
    }

    fn words(&self) -> String {
        let all = self.good + self.failed + self.skipped;
        match (self.good, self.failed, self.skipped) {
            (1, 0, 0) => "ok".to_owned(),
            (_, 0, 0) => format!("{all} ok"),
            (0, 0, _) => "skipped".to_owned(),
            (_, 0, _) => format!("{} ok, {} skipped", self.good, self.skipped),
            (0, 1, 0) => "**failed**".to_owned(),
            _ => format!("**{} of {all} failed**", self.failed),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tests_of_a_program_share_a_row() {
        let setting = Setting {
            server: Side::Rxe,
            family: Family::V4,
            mtu: 9000,
            bad: false,
        };

        let outcome = |program: &str, ending| Outcome {
            program: program.to_owned(),
            setting,
            ending,
            seconds: 0.0,
        };

        let outcomes = [
            outcome("data.c: a", Ok(())),
            outcome("data.c: b", Err(Stop::fail("no"))),
            outcome("rping", Ok(())),
        ];
        let text = markdown(&outcomes);
        assert!(text.contains("| data.c |  |  |  |  |  | **1 of 2 failed** |  |  |\n"));
        assert!(text.contains("| rping |  |  |  |  |  | ok |  |  |\n"));
    }
}
