//! `cargo xtask bench --rxe`: ferroce against the kernel's rdma_rxe, in one emulated guest.
//!
//! Outside, this builds the product and starts the guest; what is run inside is `race`. Nothing
//! measured in an emulated machine means anything but as a ratio of two figures from the same run.

use std::fs;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result, bail};

use super::race::{self, Lap};
use super::report;
use crate::build;
use crate::harness::case::Stop;
use crate::lab::guest;
use crate::packages;

/// Until the guest is ended: a little more than [`race::BUDGET`].
const LIMIT: Duration = Duration::from_secs(730);

/// Runs the race, prints its table and writes the same figures to `json`.
pub fn run(json: Option<&Path>, quick: bool) -> Result<()> {
    in_guest("race-rxe", "bench-rxe", quick, LIMIT, |text| {
        let laps: Vec<Lap> = serde_json::from_slice(text)?;
        println!("{}", race::table(&laps));
        report::write(&race::json(&laps), json)
    })
}

/// Has this program measure in a guest, by a subcommand that writes to the file that it is given,
/// again and again, and shows what is in it, also where the guest came to no good end.
pub(super) fn in_guest(
    subcommand: &str,
    name: &str,
    quick: bool,
    limit: Duration,
    show: impl FnOnce(&[u8]) -> Result<()>,
) -> Result<()> {
    packages::ensure(packages::BENCH)?;
    build::product()?;
    build::packages(&["ferroce-baseline"])?;
    let share = build::scratch(name)?;
    let results = share.join("results.json");
    let _ = fs::remove_file(&results);
    let this = std::env::current_exe()?;
    let (this, results_name) = (this.to_string_lossy(), results.to_string_lossy());
    let mut command = vec![&*this, subcommand, &results_name];
    if quick {
        command.push("--quick");
    }

    println!(
        "xtask: rdma_rxe and ferroce by turns in a guest, up to {} minutes; please leave the machine alone (load average {})",
        limit.as_secs().div_ceil(60),
        load()
    );

    let ended = guest::run(&command, &share, "race", limit).map_err(Stop::into_error)?;
    print!("{}", ended.out);
    let ending = format!("the guest: {}\n{}", ended.ending(), ended.err);
    let text = fs::read(&results).with_context(|| format!("no figures: {ending}"))?;
    show(&text)?;
    println!("load average afterwards {}", load());
    if !ended.success() {
        bail!("{ending}");
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
