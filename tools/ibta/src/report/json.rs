//! Results for programs: `{"device": …, "run": …, "tests": [{"id": …, "result": "PASS",
//! "assertions": [{"id": …, "result": …}], …}]}`. `run` says what was tested, from where, and by
//! what ([`About`]); `device` has the names of it.

use super::about::About;
use crate::run::TestResult;
use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};
use std::fs::File;
use std::io::{BufReader, BufWriter, Write};
use std::path::Path;

#[derive(Serialize)]
struct Document<'a> {
    device: &'a str,
    run: &'a About,
    tests: &'a [TestResult],
}

/// Writes the results to a file.
///
/// # Errors
/// The file cannot be written.
pub fn write(path: &Path, about: &About, tests: &[TestResult]) -> Result<()> {
    let context = || format!("{}", path.display());
    let mut out = BufWriter::new(File::create(path).with_context(context)?);
    let document = Document {
        device: &about.device(),
        run: about,
        tests,
    };
    serde_json::to_writer_pretty(&mut out, &document).with_context(context)?;
    writeln!(out)
        .and_then(|()| out.flush())
        .with_context(context)
}

/// Results that were kept.
#[derive(Deserialize)]
pub struct Kept {
    /// The device's name.
    pub device: String,
    /// What was tested; of results of earlier versions nothing is known.
    #[serde(default)]
    pub run: About,
    /// The tests.
    pub tests: Vec<TestResult>,
}

/// Reads results that [`write()`] has written.
///
/// # Errors
/// The file cannot be read, or is none of these.
pub fn read(path: &Path) -> Result<Kept> {
    let context = || format!("{}", path.display());
    let file = BufReader::new(File::open(path).with_context(context)?);
    serde_json::from_reader(file).with_context(context)
}
