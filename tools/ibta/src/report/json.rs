//! Results for programs: `{"device": …, "tests": [{"id": …, "result": "PASS", "assertions": [{"id":
//! …, "result": …}], …}]}`.

use crate::run::TestResult;
use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};
use std::fs::File;
use std::io::{BufReader, BufWriter, Write};
use std::path::Path;

#[derive(Serialize)]
struct Document<'a> {
    device: &'a str,
    tests: &'a [TestResult],
}

/// Writes the results to a file.
///
/// # Errors
/// The file cannot be written.
pub fn write(path: &Path, device: &str, tests: &[TestResult]) -> Result<()> {
    let context = || format!("{}", path.display());
    let mut out = BufWriter::new(File::create(path).with_context(context)?);
    serde_json::to_writer_pretty(&mut out, &Document { device, tests }).with_context(context)?;
    writeln!(out)
        .and_then(|()| out.flush())
        .with_context(context)
}

/// Results that were kept.
#[derive(Deserialize)]
pub struct Kept {
    /// The device's name.
    pub device: String,
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
