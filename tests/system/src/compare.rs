//! `cargo xtask pyverbs-rxe`: rdma-core's own suite over the kernel's rdma_rxe and over ferroce, in
//! one guest, test by test.
//!
//! The result is a page of the documentation. No test may pass over rdma_rxe and not over ferroce.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::fs;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use serde::Deserialize;

use crate::build;
use crate::harness::case::Stop;
use crate::harness::process;
use crate::lab::guest;
use crate::lab::huge::HugePages;
use crate::lab::rxe::Contestant;
use crate::packages;
use crate::programs::perftest::Runs;
use crate::programs::suite::Suite;

const PAGE: &str = "docs/pyverbs-rxe.md";
/// For both runs of the suite, in an emulated machine.
const LIMIT: Duration = Duration::from_secs(3000);
/// For one test there, in seconds. On a busy machine the slowest of ours take most of it, on an
/// idle one a few.
const TEST_LIMIT: &str = "120";

/// What came of one test.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
struct Outcome {
    name: String,
    verdict: Verdict,
    /// What the suite says, unless it passed.
    words: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Verdict {
    Passed,
    Skipped,
    Failed,
    /// It had to be killed.
    Hung,
}

/// Runs both and writes the page; whether every test that passes over rdma_rxe does over ferroce.
pub fn run() -> Result<bool> {
    packages::ensure(packages::PYVERBS)?;
    build::product()?;
    let suite = Suite::unpack_all()?;
    let share = build::scratch("pyverbs-rxe")?;
    let this = std::env::current_exe()?;
    let (this, tests) = (this.to_string_lossy(), suite.tests());
    let (tests, results) = (tests.to_string_lossy(), share.to_string_lossy());
    println!(
        "xtask: the suite over rdma_rxe and over ferroce in a guest; about a quarter of an hour"
    );
    let command = [
        &*this,
        "pyverbs-rxe",
        "--tests",
        &*tests,
        "--results",
        &*results,
    ];

    let ended = guest::run(&command, &share, "suite", LIMIT).map_err(Stop::into_error)?;
    print!("{}", ended.out);
    if !ended.success() {
        bail!("the guest: {}\n{}", ended.ending(), ended.err);
    }

    let [rxe, ferroce] = [read(&share, "rxe")?, read(&share, "ferroce")?];
    let page = build::workspace().join(PAGE);
    fs::write(&page, text(&rxe, &ferroce)).with_context(|| format!("{}", page.display()))?;
    let behind = behind(&rxe, &ferroce);
    println!("{}\nwritten: {PAGE}", sums(&rxe, &ferroce));
    for name in &behind {
        println!("passes over rdma_rxe and not over ferroce: {name}");
    }
    Ok(behind.is_empty())
}

/// The part inside the guest: runs the suite in `tests` over both, and leaves what came of it in
/// `results`.
pub fn inside(tests: &Path, results: &Path) -> Result<()> {
    let _huge = HugePages::lend();
    let rxe = Contestant::rxe()?;
    let ferroce = Contestant::ferroce(&build::release_dir()?)?;

    // The first GID of rdma_rxe is the link-local one, which says nothing about its interface.
    for (contestant, gid) in [(&rxe, "1"), (&ferroce, "0")] {
        let [end, _] = contestant.alone();
        let mut command = end.program("/usr/bin/python3");
        command
            .arg(build::workspace().join("tests/pyverbs/each.py"))
            .args(["--gid", gid])
            .args(
                end.device()
                    .map(|device| ["--dev", device])
                    .into_iter()
                    .flatten(),
            )
            .env("LIMIT", TEST_LIMIT)
            .env("RESULTS", file(results, contestant.name))
            .current_dir(tests);

        let ended = process::run(
            command,
            results,
            &format!("{}-suite", contestant.name),
            LIMIT,
        )?;

        println!(
            "{}: {}, {:.0} s",
            contestant.name,
            ended.ending(),
            ended.elapsed.as_secs_f64()
        );

        if !ended.success() {
            bail!("{}\n{}", ended.out, ended.err);
        }
    }

    Ok(())
}

fn file(dir: &Path, contestant: &str) -> std::path::PathBuf {
    dir.join(format!("{contestant}.jsonl"))
}

fn read(dir: &Path, contestant: &str) -> Result<Vec<Outcome>> {
    let path = file(dir, contestant);
    let text = fs::read_to_string(&path).with_context(|| format!("{}", path.display()))?;
    text.lines()
        .map(|line| serde_json::from_str(line).with_context(|| line.to_owned()))
        .collect()
}

/// The tests that pass over rdma_rxe only.
fn behind<'a>(rxe: &'a [Outcome], ferroce: &[Outcome]) -> Vec<&'a str> {
    let passed = |all: &[Outcome], name: &str| {
        all.iter()
            .any(|one| one.name == name && one.verdict == Verdict::Passed)
    };
    rxe.iter()
        .map(|one| one.name.as_str())
        .filter(|name| passed(rxe, name) && !passed(ferroce, name))
        .collect()
}

/// How many tests ended how.
fn sums(rxe: &[Outcome], ferroce: &[Outcome]) -> String {
    let mut text =
        "| | passed | skipped | failed | hung | tests |\n|---|---|---|---|---|---|".to_owned();
    for (name, all) in [("rdma_rxe", rxe), ("ferroce", ferroce)] {
        let count = |verdict| all.iter().filter(|one| one.verdict == verdict).count();
        let _ = write!(
            text,
            "\n| {name} | {} | {} | {} | {} | {} |",
            count(Verdict::Passed),
            count(Verdict::Skipped),
            count(Verdict::Failed),
            count(Verdict::Hung),
            all.len()
        );
    }

    text
}

/// The page.
fn text(rxe: &[Outcome], ferroce: &[Outcome]) -> String {
    let behind = behind(rxe, ferroce);
    let verdict = match behind.len() {
        0 => "Every test that passes over rdma_rxe passes over ferroce.".to_owned(),
        _ => format!(
            "Over rdma_rxe, but not over ferroce, pass: {}.",
            behind.join(", ")
        ),
    };

    let mut page = format!(
        "# rdma-core's suite over rdma_rxe and over ferroce\n\n\
         Written by `cargo xtask pyverbs-rxe`, which runs Debian's pyverbs suite (tests for other vendors' devices left out), test by \
         test, in the guest of\n`tests/interop`: over the kernel's soft-RoCE, Linux 6.1, and over ferroce, both ends on one device. \
         A test that does not end within\n{TEST_LIMIT} s is killed and has hung. Why ferroce skips what it skips is in \
         [pyverbs.md](conformance/pyverbs.md).\n\n{}\n\n{verdict}\n\n\
         | test | rdma_rxe | ferroce |\n|---|---|---|\n",
        sums(rxe, ferroce)
    );

    let mut rows: BTreeMap<&str, [Option<&Outcome>; 2]> = BTreeMap::new();
    for (column, all) in [rxe, ferroce].into_iter().enumerate() {
        for one in all {
            rows.entry(&one.name).or_default()[column] = Some(one);
        }
    }

    for (name, cells) in rows {
        let [a, b] = cells.map(cell);
        let _ = writeln!(page, "| `{name}` | {a} | {b} |");
    }

    page
}

fn cell(outcome: Option<&Outcome>) -> String {
    const LONGEST: usize = 90;

    let Some(outcome) = outcome else {
        return "no such test".to_owned();
    };

    let word = match outcome.verdict {
        Verdict::Passed => return "passed".to_owned(),
        Verdict::Skipped => "skipped",
        Verdict::Failed => "failed",
        Verdict::Hung => return "hung".to_owned(),
    };

    let words: String = outcome
        .words
        .split_whitespace()
        .collect::<Vec<_>>()
        .join(" ")
        .replace('|', "/");

    match words.char_indices().nth(LONGEST) {
        Some((end, _)) => format!("{word}: {}…", &words[..end]),
        None => format!("{word}: {words}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn outcome(name: &str, verdict: Verdict) -> Outcome {
        Outcome {
            name: name.to_owned(),
            verdict,
            words: "a | b".to_owned(),
        }
    }

    #[test]
    fn what_passes_on_one_side_only_is_found() {
        use Verdict::{Failed, Hung, Passed, Skipped};
        let rxe = [("a", Passed), ("b", Passed), ("c", Hung), ("d", Passed)];
        let ferroce = [("a", Passed), ("b", Failed), ("c", Skipped)];
        let [rxe, ferroce] = [&rxe[..], &ferroce[..]].map(|all| {
            all.iter()
                .map(|(name, verdict)| outcome(name, *verdict))
                .collect::<Vec<_>>()
        });
        assert_eq!(behind(&rxe, &ferroce), ["b", "d"]);
        let page = text(&rxe, &ferroce);
        assert!(page.contains("| rdma_rxe | 3 | 0 | 0 | 1 | 4 |"));
        assert!(page.contains("| `b` | passed | failed: a / b |"));
        assert!(page.contains("| `c` | hung | skipped: a / b |"));
        assert!(page.contains("| `d` | passed | no such test |"));
    }

    #[test]
    fn lines_of_the_runner_are_read() {
        let line = r#"{"name": "test_x.T.test_a", "verdict": "hung", "words": ""}"#;
        let read: Outcome = serde_json::from_str(line).unwrap();
        assert_eq!(read.verdict, Verdict::Hung);
    }
}
