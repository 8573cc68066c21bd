//! The account of a test run: a line per case as it ends, the failures with their evidence, the
//! sums.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result};
use comfy_table::{ContentArrangement, Table, presets};
use indicatif::{ProgressBar, ProgressStyle};

use crate::harness::case::{Ending, Failure, Stop};
use crate::harness::junit::Junit;

/// How many lines of a command's output are shown.
const TAIL: usize = 15;
/// How many of the slowest cases are named at the end.
const SLOWEST: usize = 20;

/// Collects endings.
#[derive(Default)]
pub(crate) struct Report {
    passed: usize,
    skipped: Vec<(String, String)>,
    failed: Vec<(String, Failure)>,
    took: Vec<(Duration, String)>,
    /// Where the output of the case that has just ended is.
    logs: PathBuf,
    junit: Junit,
    rounds: Option<Rounds>,
    /// Shown on a terminal only.
    progress: Option<ProgressBar>,
}

/// Where everything is run several times: which round it is, and how often each case failed in
/// those before.
struct Rounds {
    current: u32,
    all: u32,
    failures: BTreeMap<String, u32>,
}

impl Report {
    /// Begins one of several rounds. From the second on only failures are said.
    pub(crate) fn round(&mut self, current: u32, all: u32) {
        println!("round {current} of {all}");
        self.rounds
            .get_or_insert_with(|| Rounds {
                current,
                all,
                failures: BTreeMap::new(),
            })
            .current = current;
    }

    /// Shows from now on how many of so many cases have ended.
    pub(crate) fn expect(&mut self, cases: usize) {
        let style = ProgressStyle::with_template("{elapsed_precise} {wide_bar} {pos} of {len}");
        let bar = ProgressBar::new(cases as u64);
        self.progress = Some(match style {
            Ok(style) => bar.with_style(style),
            Err(_) => bar,
        });
    }

    /// One more case has ended.
    pub(crate) fn step(&self) {
        if let Some(bar) = &self.progress {
            bar.inc(1);
        }
    }

    /// Shows no progress any more.
    pub(crate) fn done(&mut self) {
        if let Some(bar) = self.progress.take() {
            bar.finish_and_clear();
        }
    }

    /// A case has ended, after so long; its endings follow.
    pub(crate) fn ended(&mut self, name: &str, took: Duration, logs: &Path) {
        self.took.push((took, name.to_owned()));
        self.logs = logs.to_owned();
    }

    /// Takes an ending of the case and says it.
    pub(crate) fn record(&mut self, name: &str, ending: Ending, elapsed: Duration) {
        match self.progress.clone() {
            Some(bar) => bar.suspend(|| self.say(name, ending, elapsed)),
            None => self.say(name, ending, elapsed),
        }
    }

    fn say(&mut self, name: &str, ending: Ending, elapsed: Duration) {
        let seconds = elapsed.as_secs_f64();
        let first = self
            .rounds
            .as_ref()
            .is_none_or(|rounds| rounds.current == 1);

        if let (Some(rounds), Err(Stop::Fail(_))) = (&mut self.rounds, &ending) {
            *rounds.failures.entry(name.to_owned()).or_default() += 1;
        }

        self.junit.record(name, &ending, elapsed);
        match ending {
            Ok(()) => {
                if first {
                    println!("ok       {name}  ({seconds:.1} s)");
                }
                self.passed += 1;
            }
            Err(Stop::Skip(reason)) => {
                if first {
                    println!("skipped  {name}: {reason}");
                }
                self.skipped.push((name.to_owned(), reason));
            }
            Err(Stop::Fail(failure)) => {
                println!(
                    "FAILED   {name}  ({seconds:.1} s): {}",
                    first_line(&failure.what)
                );
                print_evidence(&failure);
                println!("   all output: {}", self.logs.display());
                self.failed.push((name.to_owned(), failure));
            }
        }
    }

    /// Writes what has been recorded so far as JUnit's XML.
    pub(crate) fn write_junit(&self, file: &Path) -> Result<()> {
        let text = self.junit.text()?;
        std::fs::write(file, text).with_context(|| format!("writing {}", file.display()))
    }

    /// Prints the slowest cases, failures, skips and sums; true if nothing failed.
    pub(crate) fn conclude(mut self) -> bool {
        self.print_slowest();

        // Once more: of a long log, the end is what is read.
        for (name, failure) in &self.failed {
            println!("\n==== {name}");
            print_evidence(failure);
        }

        if !self.failed.is_empty() {
            let mut table = Table::new();
            table
                .load_preset(presets::UTF8_FULL_CONDENSED)
                .set_content_arrangement(ContentArrangement::Dynamic);
            table.set_header(["failed", "what was seen"]);
            for (name, failure) in &self.failed {
                table.add_row([name.as_str(), first_line(&failure.what)]);
            }
            println!("\n{table}");
        }

        if let Some(rounds) = &self.rounds {
            println!("\nfailures in {} rounds:", rounds.all);
            for (name, times) in &rounds.failures {
                let flake = if *times < rounds.all { ", a flake" } else { "" };
                println!("  {name}: {times}{flake}");
            }
            if rounds.failures.is_empty() {
                println!("  none");
            }
        }

        if !self.skipped.is_empty() {
            println!("\nskipped:");
            // Once, however many rounds there were.
            for (name, reason) in self.skipped.iter().collect::<BTreeSet<_>>() {
                println!("  {name}: {reason}");
            }
        }

        println!(
            "\n{} passed, {} failed, {} skipped",
            self.passed,
            self.failed.len(),
            self.skipped.len()
        );

        self.failed.is_empty()
    }

    fn print_slowest(&mut self) {
        if self.took.len() <= SLOWEST {
            return;
        }
        self.took.sort_by(|one, other| other.cmp(one));
        println!("\nthe slowest:");
        for (took, name) in self.took.iter().take(SLOWEST) {
            println!("  {:6.1} s  {name}", took.as_secs_f64());
        }
    }
}

fn print_evidence(failure: &Failure) {
    println!("{}", failure.what.trim_end());
    for command in &failure.commands {
        println!(
            "-- {}\n   {}, {:.1} s",
            command.line,
            command.ending(),
            command.elapsed.as_secs_f64()
        );
        print_tail("stdout", &command.out);
        print_tail("stderr", &command.err);
    }
}

fn first_line(text: &str) -> &str {
    text.lines().next().unwrap_or_default()
}

fn print_tail(stream: &str, text: &str) {
    let lines: Vec<&str> = text.lines().collect();
    if lines.is_empty() {
        return;
    }
    let from = lines.len().saturating_sub(TAIL);
    println!("   {stream}{}:", if from > 0 { " (end)" } else { "" });
    for line in &lines[from..] {
        println!("   | {line}");
    }
}
