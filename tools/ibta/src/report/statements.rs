//! The matrix of compliance statements: what each is about, which tests are about it, and how they
//! end, on ferroce and on rdma_rxe.
//!
//! How they end on ferroce is found by running them on the simulated device; on rdma_rxe it is read
//! from the page of a run against it.

use super::generated;
use crate::catalog::{Body, Test};
use crate::execute::execute;
use crate::known::{self, Known};
use crate::run::Verdict;
use crate::sim::SimBackend;
use anyhow::{Context, Result};
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use std::fs;
use std::path::Path;

const COMMAND: &str = "statements";
/// The page of the run against rdma_rxe, beside that of the statements.
const RXE: &str = "rxe-suite.md";
/// What the matrix is asked about: services and agents.
const SUBJECTS: [&str; 6] = ["RC", "UC", "UD", "SMA", "PMA", "CM"];
/// So many tests are named; of more the number is given, and the list of tests has them.
const NAMED: usize = 3;

/// How the tests of a statement ended on a device.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Tally {
    /// Tests that did not fail, of those that can run there.
    pub passed: usize,
    /// Tests that failed.
    pub failed: Vec<String>,
    /// Tests that can not run there.
    pub not_run: usize,
}

/// A statement and its tests.
#[derive(Serialize)]
pub struct Row {
    /// Its number.
    pub number: &'static str,
    /// `C`, `o`, `CA` or `oA`.
    pub kind: &'static str,
    /// What it concerns.
    pub of: &'static str,
    /// What it is about.
    pub about: &'static str,
    /// Who names it.
    pub source: &'static str,
    /// The tests that are about it.
    pub tests: Vec<String>,
    /// Where else it is tested.
    #[serde(skip_serializing_if = "str::is_empty")]
    pub elsewhere: &'static str,
    /// On ferroce's state machines.
    pub ferroce: Tally,
    /// On rdma_rxe, where a page tells.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rdma_rxe: Option<Tally>,
}

/// All statements, and what tests cite beside them.
#[derive(Serialize)]
pub struct Matrix {
    /// Tests of the suite.
    pub tests: usize,
    /// Tests that cite a statement, and not sections alone.
    pub numbered: usize,
    /// The statements, in the order of the specification.
    pub statements: Vec<Row>,
    /// Sections, with the number of tests that cite them and no statement.
    pub sections_alone: BTreeMap<String, usize>,
}

/// What the page of a run against rdma_rxe says.
pub struct Rxe {
    failed: BTreeSet<String>,
    deadly: BTreeSet<String>,
    /// Tests of each family that ran: how many in all, and how many of these were not applicable.
    families: BTreeMap<String, (usize, usize)>,
}

impl Rxe {
    /// Reads the page.
    pub fn parse(page: &str) -> Rxe {
        let mut rxe = Rxe {
            failed: BTreeSet::new(),
            deadly: BTreeSet::new(),
            families: BTreeMap::new(),
        };

        for line in page.lines() {
            if let Some((_, rest)) = line.split_once("tests that end the kernel: ")
                && let Some((list, _)) = rest.split_once(". ")
            {
                rxe.deadly.extend(list.split(", ").map(str::to_owned));
            }

            let cells: Vec<&str> = line.split('|').map(str::trim).collect();
            let [_, name, counts @ .., _] = &cells[..] else {
                continue;
            };

            // A line of a test says how it ended; one of a family has counts.
            if counts.iter().any(|cell| matches!(*cell, "FAIL" | "ERROR")) {
                rxe.failed.insert((*name).to_owned());
            }

            let counts: Vec<usize> = counts.iter().flat_map(|cell| cell.parse()).collect();
            if let [passed, failed, not, errors] = counts[..] {
                let all = passed + failed + not + errors;
                rxe.families.insert((*name).to_owned(), (all, not));
            }
        }

        rxe
    }

    /// How a test ended; `None` if that is not known: it needs what rdma_rxe has not, or is newer
    /// than the run.
    fn ended(&self, test: &Test, of_family: usize) -> Option<bool> {
        if self.failed.contains(&test.id) || self.deadly.contains(&test.id) {
            return Some(false);
        }
        let (all, not) = *self.families.get(test.family)?;
        (all == of_family && not < all).then_some(true)
    }
}

/// The matrix of these tests, which are run for it on the simulated device.
pub fn matrix(tests: &[Test], rxe: Option<&Rxe>) -> Matrix {
    let ended: Vec<Verdict> = (tests.iter())
        .map(|test| {
            let (result, _) = execute(test, &mut SimBackend::default(), Box::new(|_| {}));
            result.result
        })
        .collect();

    let numbers = |test: &Test| -> BTreeSet<&str> {
        let cited = test.statements.iter();
        cited
            .filter_map(|cited| Some(known::about(cited)?.number))
            .collect()
    };
    let cited: Vec<BTreeSet<&str>> = tests.iter().map(numbers).collect();
    let row = |known: &Known| {
        let about: Vec<usize> = (0..tests.len())
            .filter(|&n| cited[n].contains(known.number))
            .collect();
        let mut ferroce = Tally::default();
        let mut other = rxe.map(|_| Tally::default());
        for &n in &about {
            let test = &tests[n];
            let passed = match ended[n] {
                Verdict::Pass => Some(true),
                Verdict::NotApplicable => None,
                _ => Some(false),
            };
            count(&mut ferroce, &test.id, passed);
            if let (Some(rxe), Some(other)) = (rxe, &mut other) {
                let family = |other: &&Test| {
                    let transport = matches!(other.body, Body::Transport(_));
                    transport && other.family == test.family && !rxe.deadly.contains(&other.id)
                };
                let of_family = tests.iter().filter(family).count();
                count(other, &test.id, rxe.ended(test, of_family));
            }
        }

        Row {
            number: known.number,
            kind: known.kind(),
            of: known.of,
            about: known.about,
            source: known.source,
            tests: about.iter().map(|&n| tests[n].id.clone()).collect(),
            elsewhere: known.elsewhere,
            ferroce,
            rdma_rxe: other,
        }
    };

    let is_number = |cited: &String| cited.contains('-');
    let (numbered, sectioned): (Vec<&Test>, Vec<&Test>) = tests
        .iter()
        .partition(|test| test.statements.iter().any(is_number));
    let mut sections_alone = BTreeMap::new();
    for section in sectioned.iter().flat_map(|test| &test.statements) {
        *sections_alone.entry(section.clone()).or_default() += 1;
    }
    Matrix {
        tests: tests.len(),
        numbered: numbered.len(),
        statements: known::ALL.iter().map(row).collect(),
        sections_alone,
    }
}

fn count(tally: &mut Tally, id: &str, passed: Option<bool>) {
    match passed {
        Some(true) => tally.passed += 1,
        Some(false) => tally.failed.push(id.to_owned()),
        None => tally.not_run += 1,
    }
}

/// The generated part of the page.
pub fn page(matrix: &Matrix) -> String {
    let mut out = format!(
        "{} of {} tests cite the number of a statement, {} sections alone: where a rule stands is known, and its number is not.\n\n",
        matrix.numbered,
        matrix.tests,
        matrix.tests - matrix.numbered
    );
    out += &subjects(matrix);
    out += "\n| number | kind | of | about | known by | tests | ferroce | rdma_rxe |\n|---|---|---|---|---|---|---|---|\n";

    for row in &matrix.statements {
        let _ = writeln!(
            out,
            "| {} | {} | {} | {} | {} | {} | {} | {} |",
            row.number,
            row.kind,
            row.of,
            row.about,
            row.source,
            tests_of(row),
            ending(&row.ferroce),
            row.rdma_rxe.as_ref().map_or("–".to_owned(), ending),
        );
    }

    out += "\n| known by | what that is |\n|---|---|\n";
    for (short, long) in known::SOURCES {
        let _ = writeln!(out, "| {short} | {long} |");
    }
    out += "\nSections that tests cite without a statement's number:\n\n| section | tests |\n|---|---|\n";
    for (section, tests) in &matrix.sections_alone {
        let _ = writeln!(out, "| {section} | {tests} |");
    }
    out
}

/// For each service and agent: how many statements are known, and how many of these have tests.
fn subjects(matrix: &Matrix) -> String {
    let mut out =
        "| of | statements known | with tests of the suite | tested elsewhere only | without a test |\n|---|---|---|---|---|\n"
            .to_owned();
    for subject in SUBJECTS {
        let of = |row: &&Row| row.of.split(' ').any(|of| of == subject);
        let rows: Vec<&Row> = matrix.statements.iter().filter(of).collect();
        let here = rows.iter().filter(|row| !row.tests.is_empty()).count();
        let elsewhere = |row: &&&Row| row.tests.is_empty() && !row.elsewhere.is_empty();
        let elsewhere = rows.iter().filter(elsewhere).count();
        let _ = writeln!(
            out,
            "| {subject} | {} | {here} | {elsewhere} | {} |",
            rows.len(),
            rows.len() - here - elsewhere
        );
    }

    out
}

fn tests_of(row: &Row) -> String {
    let named = match row.tests.len() {
        0 => String::new(),
        1..=NAMED => row.tests.join(", "),
        many => format!("{many}: {} …", row.tests[..NAMED].join(", ")),
    };
    match (named.is_empty(), row.elsewhere) {
        (true, "") => "**none**".to_owned(),
        (true, elsewhere) => format!("none of the suite; {elsewhere}"),
        (false, "") => named,
        (false, elsewhere) => format!("{named}; {elsewhere}"),
    }
}

fn ending(tally: &Tally) -> String {
    match (tally.passed, &tally.failed[..]) {
        (0, []) => "–".to_owned(),
        (_, []) => "PASS".to_owned(),
        (passed, failed) => format!("FAIL: {} of {}", failed.len(), passed + failed.len()),
    }
}

/// What the page beside `path` says of rdma_rxe, if there is one.
fn beside(path: &Path) -> Option<Rxe> {
    let page = fs::read_to_string(path.with_file_name(RXE)).ok()?;
    Some(Rxe::parse(&page))
}

/// Puts the matrix into a page, between its markers.
///
/// # Errors
/// The file cannot be read or written, or has no markers.
pub fn write(path: &Path, tests: &[Test]) -> Result<()> {
    let rxe = beside(path);
    generated::write(path, COMMAND, &page(&matrix(tests, rxe.as_ref())))
}

/// Compares the matrix in a page with what it must be.
///
/// # Errors
/// It is another, or the file cannot be read or has no markers.
pub fn check(path: &Path, tests: &[Test]) -> Result<()> {
    let rxe = beside(path);
    generated::check(path, COMMAND, &page(&matrix(tests, rxe.as_ref())))
}

/// The matrix for programs; `rxe` is the page of a run against rdma_rxe.
///
/// # Errors
/// The page cannot be read.
pub fn json(tests: &[Test], rxe: Option<&Path>) -> Result<String> {
    let read = |path: &Path| {
        let page = fs::read_to_string(path).with_context(|| format!("{}", path.display()))?;
        anyhow::Ok(Rxe::parse(&page))
    };
    let rxe = rxe.map(read).transpose()?;
    Ok(serde_json::to_string_pretty(&matrix(tests, rxe.as_ref()))?)
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAGE: &str = "Beside these there are tests that end the kernel: D1, D2. Tests of management\n\n\
        | family | passed | failed | not applicable | errors |\n|---|---|---|---|---|\n\
        | F | 1 | 1 | 0 | 0 |\n| G | 0 | 0 | 2 | 0 |\n\n\
        | test | statements | what | result | what was seen |\n|---|---|---|---|---|\n\
        | F_2 | C9-60 | a thing | FAIL | something else |\n";

    fn named(id: &str, family: &'static str) -> Test {
        Test::transport(id, family, "", |_, _| Ok(())).covers(&["C9-60"])
    }

    #[test]
    fn a_page_tells_what_failed_and_nothing_of_what_did_not_run() {
        let rxe = Rxe::parse(PAGE);
        let ended = |id, family, count| rxe.ended(&named(id, family), count);
        assert_eq!(ended("F_1", "F", 2), Some(true));
        assert_eq!(ended("F_2", "F", 2), Some(false));
        assert_eq!(ended("D1", "F", 2), Some(false));
        assert_eq!(ended("G_1", "G", 2), None, "not applicable there");
        assert_eq!(
            ended("F_1", "F", 3),
            None,
            "one of three is newer than the page"
        );
        assert_eq!(ended("H_1", "H", 1), None, "a family that did not run");
    }

    #[test]
    fn tests_are_found_by_number() {
        let tests = [named("F_1", "F"), named("F_2", "F"), named("G_1", "G")];
        let matrix = matrix(&tests, Some(&Rxe::parse(PAGE)));
        let row = matrix
            .statements
            .iter()
            .find(|row| row.number == "C9-60")
            .unwrap();
        assert_eq!(row.tests, ["F_1", "F_2", "G_1"]);
        let other = row.rdma_rxe.clone().unwrap();
        assert_eq!(
            (other.passed, other.failed, other.not_run),
            (1, vec!["F_2".to_owned()], 1)
        );
        assert_eq!((matrix.numbered, matrix.tests), (3, 3));
    }

    #[test]
    fn what_has_no_test_says_so() {
        let page = page(&matrix(&[], None));
        assert!(page.contains("| C9-60 | C | RC | when a request completes, and in which order requests do | CTS | **none** | – | – |"));
        assert!(page.contains("| CM | 7 | 0 | 0 | 7 |"), "{page}");
    }
}
