//! A run of the command: what is tested, the tests one after the other, a line for each, and the
//! files that were asked for.

use anyhow::{Context, Result};
use clap::Args;
use ferroce_ibta::catalog::Test;
use ferroce_ibta::execute::execute;
use ferroce_ibta::report::about::About;
use ferroce_ibta::report::html::Html;
use ferroce_ibta::report::{Sums, json, junit, pcapng, text};
use ferroce_ibta::rig::Backend;
use ferroce_ibta::run::{Entry, TestResult, Verdict};
use ferroce_ibta::trace::Trace;
use indicatif::{ProgressBar, ProgressStyle};
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Where the packets of tests that fail go, unless the command says.
const CAPTURES: &str = "ferroce-ibta-captures";

/// What is written, and where to.
#[derive(Args)]
pub(crate) struct Output {
    /// Show every step and assertion, not only those of tests that fail
    #[arg(long, short)]
    verbose: bool,
    /// Also write the results to this file, as JUnit XML
    #[arg(long, value_name = "FILE")]
    junit: Option<PathBuf>,
    /// Also write the results to this file, as JSON
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Also write the results to this file, as a page for a browser, and the packets of every test
    /// to a directory beside it
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
    /// Write the packets of every test to this directory, a pcapng file each [default: those of
    /// tests that fail, to ferroce-ibta-captures in the current directory; with --html all, to
    /// report-packets beside report.html]
    #[arg(long, value_name = "DIR")]
    pcap: Option<PathBuf>,
}

impl Output {
    /// Where the packets of every test go, if anywhere.
    fn captures(&self) -> Option<PathBuf> {
        let beside = || self.html.as_deref().map(Html::captures);
        self.pcap.clone().or_else(beside)
    }
}

/// Runs the tests and answers the exit code.
pub(crate) fn run(
    tests: &[Test],
    backend: &mut dyn Backend,
    about: &About,
    output: &Output,
) -> Result<u8> {
    let captures = output.captures();
    if let Some(dir) = &captures {
        create(dir)?;
    }

    // What cannot be written is known before the first test.
    write(&[], about, output)?;
    let device = about.device();
    let mut html = (output.html.as_ref()).map(|path| Html::new(path, &device, about));
    if let Some(html) = &mut html {
        html.write(&[])?;
    }

    crate::say(text::about(about));
    let progress = progress(tests.len());
    let mut results: Vec<TestResult> = Vec::new();
    for test in tests {
        let (mut result, trace) = execute(test, backend, listener(&progress, &test.id));
        result.packets = match keep(&result, &trace, captures.as_deref()) {
            // Nobody asked for them: it is no reason to end the run.
            Err(error) if captures.is_none() => {
                progress.suspend(|| eprintln!("ferroce-ibta: packets are not kept: {error:#}"));
                None
            }
            kept => kept?,
        };

        progress.inc(1);
        progress.suspend(|| show(&result, output.verbose));
        if let Some(html) = &mut html {
            html.add(&result, &trace);
        }

        results.push(result);

        // As they come: whoever ends a long run early keeps what there is.
        write(&results, about, output)?;
        if let Some(html) = &mut html {
            html.write_now_and_then(&results)?;
        }
    }

    if let Some(html) = &mut html {
        html.write(&results)?;
    }

    progress.finish_and_clear();
    let sums = Sums::of(&results);
    crate::say(text::sums(&sums));
    Ok(sums.exit_code())
}

fn write(results: &[TestResult], about: &About, output: &Output) -> Result<()> {
    if let Some(path) = &output.json {
        json::write(path, about, results)?;
    }
    if let Some(path) = &output.junit {
        junit::write(path, about, results)?;
    }
    Ok(())
}

/// A bar where somebody is looking; nothing otherwise.
fn progress(tests: usize) -> ProgressBar {
    let progress = ProgressBar::new(tests as u64);
    if let Ok(style) = ProgressStyle::with_template("{bar:20} {pos}/{len} {elapsed} {wide_msg}") {
        progress.set_style(style);
    }
    progress.enable_steady_tick(Duration::from_millis(250));
    progress
}

/// Shows which step a test is at.
fn listener(progress: &ProgressBar, id: &str) -> Box<dyn FnMut(&Entry)> {
    let (progress, id) = (progress.clone(), id.to_owned());
    progress.set_message(id.clone());
    Box::new(move |entry| {
        if let Entry::Step { number, text } = entry {
            progress.set_message(format!("{id}: {number} {text}"));
        }
    })
}

/// Writes the packets if they were asked for, or tell why the test did not pass.
fn keep(result: &TestResult, trace: &Trace, dir: Option<&Path>) -> Result<Option<PathBuf>> {
    let bad = matches!(
        result.result,
        Verdict::Fail | Verdict::Inconclusive | Verdict::Error
    );
    if trace.frames.is_empty() || dir.is_none() && !bad {
        return Ok(None);
    }
    let dir = dir.unwrap_or(Path::new(CAPTURES));
    create(dir)?;
    let path = dir.join(format!("{}.pcapng", result.id));
    pcapng::write(&path, trace, &result.entries)?;
    Ok(Some(path))
}

fn create(dir: &Path) -> Result<()> {
    fs::create_dir_all(dir).with_context(|| format!("{}", dir.display()))
}

fn show(result: &TestResult, verbose: bool) {
    crate::say(text::line(result));
    if verbose || matches!(result.result, Verdict::Fail | Verdict::Error) {
        crate::say(text::details(result).trim_end());
        if let Some(path) = &result.packets {
            crate::say(format_args!("    packets: {}", path.display()));
        }
    }
}

/// Makes the page of results that were kept as JSON. Packets are where that says, seen from the
/// current directory or from where the file is; without their capture a test has none in the page.
pub(crate) fn page(kept: &Path, html: &Path) -> Result<()> {
    let json::Kept {
        device,
        run,
        mut tests,
    } = json::read(kept)?;
    let beside = kept.parent().unwrap_or(Path::new(""));
    let mut page = Html::new(html, &device, &run);
    for test in &mut tests {
        let found = test.packets.take().and_then(|path| {
            let places = [path.clone(), beside.join(&path)];
            places.into_iter().find(|place| place.is_file())
        });
        let trace = found.as_deref().map(pcapng::read).transpose()?;
        test.packets = found;
        page.add(test, &trace.unwrap_or_default());
    }
    page.write(&tests)
}
