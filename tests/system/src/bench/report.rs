//! What every benchmark does with what it has measured.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result};
use serde::Serialize;

/// Writes figures to a file, if one is wanted.
pub(super) fn write(figures: &impl Serialize, file: Option<&Path>) -> Result<()> {
    let Some(file) = file else { return Ok(()) };
    let text = serde_json::to_string_pretty(figures)?;
    fs::write(file, text + "\n").with_context(|| file.display().to_string())
}

/// Says what others used of all processors, 0 to 1, while it was measured.
pub(super) fn say_load(others: f64) {
    println!("others used {:.0} % of the processors", 100.0 * others);
}
