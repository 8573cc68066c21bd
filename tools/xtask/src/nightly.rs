//! `cargo xtask nightly`: what takes hours, one part after the other; how each ended the last time
//! is written into `docs/nightly.md`.
//!
//! Each part is a command of its own, run as a process with its output in `target/xtask/nightly`:
//! one that hangs or crashes is one row.

use std::env;
use std::fs::{self, File};
use std::num::NonZeroUsize;
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread;
use std::time::Instant;

use anyhow::{Context, Result, bail};

use ferroce_system::{build, interrupt};

/// What is to be done.
#[derive(clap::Args)]
pub(crate) struct Scope {
    /// The parts; none: all
    parts: Vec<String>,
    /// How long each fuzz target runs; chaos takes three times as long
    #[arg(long, value_name = "N", default_value_t = 10, value_parser = clap::value_parser!(u32).range(1..=200))]
    minutes: u32,
    /// How many fuzz targets run side by side; without: as many as there are processors
    #[arg(long, value_name = "N")]
    jobs: Option<NonZeroUsize>,
    /// What chaos begins with
    #[arg(long, value_name = "S", default_value_t = 1)]
    seed: u64,
}

/// A command, by the words behind `cargo xtask`.
struct Part {
    name: &'static str,
    words: fn(&Scope) -> String,
}

/// In this order: what says most in the least time comes first.
const PARTS: &[Part] = &[
    Part {
        name: "gates",
        words: |_| "gates".to_owned(),
    },
    Part {
        name: "models",
        words: |_| "models".to_owned(),
    },
    Part {
        name: "tsan",
        words: |_| "tsan".to_owned(),
    },
    Part {
        name: "miri",
        words: |_| "miri".to_owned(),
    },
    Part {
        name: "coverage",
        words: |_| "coverage".to_owned(),
    },
    Part {
        name: "sanitized",
        words: |_| "test sanitized".to_owned(),
    },
    Part {
        name: "memcheck",
        words: |_| "test memcheck".to_owned(),
    },
    Part {
        name: "scale",
        words: |_| "test scale".to_owned(),
    },
    Part {
        name: "applications",
        words: |_| "test applications".to_owned(),
    },
    Part {
        name: "exs-mutants",
        words: |_| "test exs/mutants/whole".to_owned(),
    },
    Part {
        name: "interop",
        words: |_| "test interop".to_owned(),
    },
    Part {
        name: "kernels",
        words: |_| "test kernels".to_owned(),
    },
    Part {
        name: "distributions",
        words: |_| "test distributions".to_owned(),
    },
    Part {
        name: "chaos",
        words: |scope| {
            format!(
                "chaos --minutes {} --seed {}",
                scope.minutes * 3,
                scope.seed
            )
        },
    },
    Part {
        name: "fuzz",
        words: |scope| {
            let jobs = scope.jobs.map(|jobs| format!(" --jobs {jobs}"));
            format!(
                "fuzz --minutes {}{}",
                scope.minutes,
                jobs.unwrap_or_default()
            )
        },
    },
];

/// Where the endings are kept.
const PAGE: &str = "docs/nightly.md";
/// What the table in it begins with.
const HEAD: &str =
    "| part | command | when | commit | minutes | how it ended |\n|---|---|---|---|---|---|\n";

/// Runs the parts; true if none failed.
pub(crate) fn run(scope: &Scope) -> Result<bool> {
    let unknown = |name: &&String| PARTS.iter().all(|part| part.name != **name);
    if let Some(name) = scope.parts.iter().find(unknown) {
        let names: Vec<_> = PARTS.iter().map(|part| part.name).collect();
        bail!("no part {name:?}; there are: {}", names.join(", "));
    }

    let logs = build::scratch("nightly")?;
    let mut failed = Vec::new();
    for part in PARTS {
        if !scope.parts.is_empty() && !scope.parts.iter().any(|name| name == part.name) {
            continue;
        }

        let words = (part.words)(scope);
        let log = logs.join(format!("{}.log", part.name));
        println!("xtask: cargo xtask {words}, into {}", log.display());

        // What is tried, even if the checkout moves on meanwhile.
        let commit = output("git", &["describe", "--always", "--dirty"])?;
        let began = Instant::now();
        let good = carry_out(&words, &log)?;
        interrupt::none_yet()?;
        let row = Row {
            name: part.name,
            words: &words,
            commit: &commit,
            minutes: began.elapsed().as_secs().div_ceil(60),
            ending: ending(&fs::read_to_string(&log)?, good),
        };
        println!("xtask: {}: {}", row.name, row.ending);
        record(&row)?;
        if !good {
            failed.push(part.name);
        }
    }

    if !failed.is_empty() {
        println!("xtask: failed: {}", failed.join(", "));
    }

    Ok(failed.is_empty())
}

/// This program with other words, everything that it says into `log`; whether it ended well.
fn carry_out(words: &str, log: &Path) -> Result<bool> {
    let file = File::create(log).with_context(|| format!("{}", log.display()))?;
    let mut command = Command::new(env::current_exe()?);
    command.current_dir(build::workspace());
    command.args(words.split(' ')).stdin(Stdio::null());
    command.stderr(file.try_clone()?).stdout(file);
    let status = command.status().context(words.to_owned())?;
    Ok(status.success())
}

/// What a part says of itself: the sums of its test programs, or its last line.
fn ending(log: &str, good: bool) -> String {
    let last = log.lines().map(str::trim).rfind(|line| !line.is_empty());
    let said = match sums(log) {
        Some(sums) if good => {
            let words = SUMS.iter().zip(sums);
            let words: Vec<_> = words.map(|(what, sum)| format!("{sum} {what}")).collect();
            words.join(", ")
        }
        _ => last.unwrap_or("nothing was said").replace('|', "/"),
    };
    match good {
        true => said,
        false => format!("**failed**: {said}"),
    }
}

/// What a test program counts.
const SUMS: [&str; 3] = ["passed", "failed", "ignored"];

/// Of all test programs of a log.
fn sums(log: &str) -> Option<[u64; SUMS.len()]> {
    let results = log.lines().filter(|line| line.starts_with("test result: "));
    let count = |line: &str, what: &str| {
        let (before, _) = line.split_once(what)?;
        before.trim_end().rsplit(' ').next()?.parse().ok()
    };
    let counts = results.map(|line| SUMS.map(|what| count(line, what).unwrap_or_default()));
    counts.reduce(|sum, more| std::array::from_fn(|at| sum[at] + more[at]))
}

/// How a part ended.
struct Row<'a> {
    name: &'a str,
    words: &'a str,
    commit: &'a str,
    minutes: u64,
    ending: String,
}

/// What a program says, in the workspace.
fn output(program: &str, words: &[&str]) -> Result<String> {
    let mut command = Command::new(program);
    command.args(words).current_dir(build::workspace());
    let output = command.output().context(program.to_owned())?;
    Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
}

/// Puts the row in the place of the part's last one.
fn record(row: &Row<'_>) -> Result<()> {
    let when = output("date", &["--utc", "+%Y-%m-%d"])?;
    let cores = thread::available_parallelism()?;
    let line = format!(
        "| {} | `cargo xtask {}` | {when} | {} | {}, {cores} cores | {} |",
        row.name, row.words, row.commit, row.minutes, row.ending
    );
    let path = build::workspace().join(PAGE);
    let page = fs::read_to_string(&path).with_context(|| format!("{}", path.display()))?;
    fs::write(&path, with_row(&page, row.name, &line)?)?;
    Ok(())
}

/// The page with a row replaced or added; rows stand in the order of the parts.
fn with_row(page: &str, name: &str, line: &str) -> Result<String> {
    let (before, rest) = page
        .split_once(HEAD)
        .with_context(|| format!("{PAGE} has no table"))?;
    let table = rest.lines().take_while(|line| line.starts_with('|'));
    let mut rows: Vec<&str> = table.collect();
    let after = rest.lines().skip(rows.len());
    let named = |row: &str| {
        row.trim_start_matches("| ")
            .split(' ')
            .next()
            .map(str::to_owned)
    };
    rows.retain(|row| named(row).as_deref() != Some(name));
    rows.push(line);
    rows.sort_by_key(|row| {
        PARTS
            .iter()
            .position(|part| named(row).as_deref() == Some(part.name))
    });

    let lines: Vec<&str> = rows.into_iter().chain(after).collect();
    Ok(format!("{before}{HEAD}{}\n", lines.join("\n")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_has_one_row_and_rows_have_an_order() {
        let page = format!("# Title\n\n{HEAD}| chaos | old |\n\nThe end.\n");
        let page = with_row(&page, "chaos", "| chaos | new |").unwrap();
        let page = with_row(&page, "tsan", "| tsan | first |").unwrap();
        assert_eq!(
            page,
            format!("# Title\n\n{HEAD}| tsan | first |\n| chaos | new |\n\nThe end.\n")
        );
        assert!(with_row("# Title\n", "tsan", "| tsan |").is_err());
    }

    #[test]
    fn the_last_line_is_the_ending() {
        assert_eq!(
            ending("a\n 3 passed | 0 failed\n\n", true),
            "3 passed / 0 failed"
        );
        assert_eq!(ending("", false), "**failed**: nothing was said");
    }

    #[test]
    fn the_sums_of_all_test_programs_are_the_ending() {
        let log = "test result: ok. 67 passed; 0 failed; 1 ignored; 0 measured; 9 filtered out\n\
                   test result: ok. 5 passed; 0 failed; 2 ignored; 0 measured; 0 filtered out\n";
        assert_eq!(ending(log, true), "72 passed, 0 failed, 3 ignored");
        let broken = format!("{log}error: test failed\n");
        assert_eq!(ending(&broken, false), "**failed**: error: test failed");
    }

    #[test]
    fn the_page_has_the_table() {
        let page = fs::read_to_string(build::workspace().join(PAGE)).unwrap();
        assert!(page.contains(HEAD));
    }
}
