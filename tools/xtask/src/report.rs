//! The account of a test run: a line per case as it ends, the failures with their evidence, the sums.

use std::time::Duration;

use comfy_table::{ContentArrangement, Table, presets};

use crate::case::{Ending, Failure, Stop};

/// How many lines of a command's output are shown.
const TAIL: usize = 15;

/// Collects endings.
#[derive(Default)]
pub struct Report {
    passed: usize,
    skipped: Vec<(String, String)>,
    failed: Vec<(String, Failure)>,
}

impl Report {
    /// Takes the ending of one case and says it.
    pub fn record(&mut self, name: &str, ending: Ending, elapsed: Duration) {
        let seconds = elapsed.as_secs_f64();
        match ending {
            Ok(()) => {
                println!("ok       {name}  ({seconds:.1} s)");
                self.passed += 1;
            }
            Err(Stop::Skip(reason)) => {
                println!("skipped  {name}: {reason}");
                self.skipped.push((name.to_owned(), reason));
            }
            Err(Stop::Fail(failure)) => {
                println!(
                    "FAILED   {name}  ({seconds:.1} s): {}",
                    first_line(&failure.what)
                );
                self.failed.push((name.to_owned(), failure));
            }
        }
    }

    /// Prints failures, skips and sums; true if nothing failed.
    pub fn conclude(self) -> bool {
        for (name, failure) in &self.failed {
            println!("\n==== {name}\n{}", failure.what.trim_end());
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
        if !self.skipped.is_empty() {
            println!("\nskipped:");
            for (name, reason) in &self.skipped {
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
