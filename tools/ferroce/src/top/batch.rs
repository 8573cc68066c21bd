//! Samples one after the other, for programs and files.

use std::thread;
use std::time::{Duration, Instant};

use super::report::{Before, Report, report};
use super::sample::Sampler;
use super::tables::{Row, Tab};
use crate::error::Error;
use crate::show;

/// How samples are printed.
#[derive(Clone, Copy, Debug)]
pub(super) struct Batch {
    pub interval: Duration,
    /// How many; none: until whoever reads has had enough.
    pub count: Option<u64>,
    pub json: bool,
}

/// Prints them.
pub(super) fn run(mut sampler: Sampler, batch: Batch) -> Result<(), Error> {
    let mut before: Option<Before> = None;
    let mut next = Instant::now();
    let mut printed = 0;

    loop {
        let sample = sampler.sample()?;
        let (report, kept) = report(&sample, before.as_ref());
        before = Some(kept);

        let text = match batch.json {
            true => line(&report)?,
            false => tables(&report),
        };
        if !show::printed(&text)? {
            return Ok(());
        }

        printed += 1;
        if batch.count.is_some_and(|count| printed >= count) {
            return Ok(());
        }

        // In step with the clock, however long a sample takes; what was missed is left out.
        let now = Instant::now();
        next = (next + batch.interval).max(now);
        thread::sleep(next - now);
    }
}

/// One line of JSON.
fn line(report: &Report) -> Result<String, Error> {
    let text = serde_json::to_string(report);
    let text = text.map_err(|error| Error::io("writing JSON")(error.into()))?;
    Ok(text + "\n")
}

/// All tables that have rows, below a line that says of what and of when.
fn tables(report: &Report) -> String {
    let when = match report.interval {
        Some(interval) => format!("{:.3}, {interval:.3} s after the one before", report.time),
        None => format!("{:.3}, the first", report.time),
    };
    let mut text = format!("{}, sample of {when}\n", report.device);

    for tab in Tab::ALL {
        let rows = tab.rows(report);
        if !rows.is_empty() {
            text += &format!("\n{}:\n{}", tab.title(), table(tab, rows));
        }
    }
    text + "\n"
}

fn table(tab: Tab, rows: Vec<Row>) -> String {
    let columns = tab.columns();
    let titles: Vec<&str> = columns.iter().map(|column| column.title).collect();
    let mut table = show::table(&titles);
    for row in rows {
        table.add_row(row.cells.into_iter().map(|cell| cell.text));
    }
    for (index, column) in columns.iter().enumerate() {
        if column.right
            && let Some(shown) = table.column_mut(index)
        {
            shown.set_cell_alignment(comfy_table::CellAlignment::Right);
        }
    }
    show::trimmed(&table)
}
