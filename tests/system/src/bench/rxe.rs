//! `cargo xtask bench --rxe`: ferroce against the kernel's rdma_rxe, in one emulated guest.
//!
//! Outside, this builds the product and starts the guest; what is run inside is `race`. Nothing
//! measured in an emulated machine means anything but as a ratio of two figures from the same run.

use std::fs;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result, bail};

use super::race::{self, Lap};
use crate::build;
use crate::harness::case::Stop;
use crate::lab::guest;
use crate::packages;

/// Until the guest is ended: a little more than [`race::BUDGET`].
const LIMIT: Duration = Duration::from_secs(640);

/// Runs the race, prints its table and writes the same figures to `json`.
pub fn run(json: Option<&Path>, quick: bool) -> Result<()> {
    packages::ensure(packages::BENCH)?;
    build::product()?;
    let share = build::scratch("bench-rxe")?;
    let results = share.join("laps.json");
    let _ = fs::remove_file(&results);
    let this = std::env::current_exe()?;
    let (this, results_name) = (this.to_string_lossy(), results.to_string_lossy());
    let mut command = vec![&*this, "race-rxe", &results_name];
    if quick {
        command.push("--quick");
    }

    println!(
        "xtask: rdma_rxe and ferroce by turns in a guest, up to {} minutes; please leave the machine alone (load average {})",
        race::BUDGET.as_secs().div_ceil(60) + 1,
        load()
    );

    let ended = guest::run(&command, &share, "race", LIMIT).map_err(Stop::into_error)?;
    print!("{}", ended.out);
    let laps: Vec<Lap> = fs::read(&results)
        .ok()
        .and_then(|text| serde_json::from_slice(&text).ok())
        .unwrap_or_default();
    if laps.is_empty() {
        bail!("no figures: {}\n{}", ended.ending(), ended.err);
    }

    println!("{}\nload average afterwards {}", race::table(&laps), load());
    if let Some(path) = json {
        let text = serde_json::to_string_pretty(&race::json(&laps))?;
        fs::write(path, text + "\n").with_context(|| format!("{}", path.display()))?;
    }

    // What was measured until then is shown all the same.
    if !ended.success() {
        bail!("the race: {}\n{}", ended.ending(), ended.err);
    }

    Ok(())
}

/// Of the last minute and the last five.
fn load() -> String {
    let text = fs::read_to_string("/proc/loadavg").unwrap_or_default();
    text.split_whitespace()
        .take(2)
        .collect::<Vec<_>>()
        .join(" ")
}
