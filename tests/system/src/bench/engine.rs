//! `cargo xtask bench --engine`: what the engine takes for a packet when no kernel is in the way.

use std::path::Path;
use std::time::Duration;

use anyhow::Result;
use comfy_table::{Table, presets};

use super::baseline::udp_baseline;
use super::measure::{Figure, number, successful};
use super::table::{align_right, amount};
use crate::build;
use crate::harness::process;

const LIMIT: Duration = Duration::from_secs(60);
/// The path MTU that `udp-baseline engine` has.
const MTU: usize = 4096;
/// Messages of these sizes, by their names.
const SIZES: [(&str, usize); 3] = [("64 B", 64), ("4 KiB", 4096), ("1 MiB", 1 << 20)];

/// Measures all sizes by turns, and prints the medians.
pub fn run(quick: bool) -> Result<()> {
    let programs = build::packages(&["ferroce-baseline"])?;
    let dir = build::scratch("bench")?;
    let (rounds, seconds) = if quick { (2, 1) } else { (5, 2) };
    let mut figures = SIZES.map(|(key, _)| Figure::new(key, "ns"));

    for _ in 0..rounds {
        for (figure, (_, size)) in figures.iter_mut().zip(SIZES) {
            figure.values.push(packet(&programs, &dir, size, seconds)?);
        }
    }

    println!("{}", table(&figures));
    Ok(())
}

/// Nanoseconds that a packet of WRITEs of this size takes, at both ends together.
pub(super) fn packet(programs: &Path, dir: &Path, size: usize, seconds: u32) -> Result<f64> {
    let mut command = udp_baseline(programs);
    let (size, seconds) = (size.to_string(), seconds.to_string());
    command.args(["engine", "--size", &size, "--seconds", &seconds]);
    let finished = process::run(command, dir, "engine", LIMIT)?;
    successful(&[&finished])?;
    number(&finished.out)
}

fn table(figures: &[Figure]) -> Table {
    let mut table = Table::new();
    table.load_preset(presets::UTF8_FULL_CONDENSED);
    table.set_header(["WRITE", "a packet", "range", "payload", "messages"]);

    for (figure, (_, size)) in figures.iter().zip(SIZES) {
        let bound = |of: fn(f64, f64) -> f64| figure.values.iter().copied().reduce(of);
        let (low, high) = (bound(f64::min), bound(f64::max));
        let message = figure.median() * size.div_ceil(MTU) as f64;
        table.add_row([
            figure.key.to_owned(),
            format!("{} {}", amount(figure.median()), figure.unit),
            format!(
                "{} – {}",
                amount(low.unwrap_or_default()),
                amount(high.unwrap_or_default())
            ),
            format!("{} Gb/s", amount(size as f64 * 8.0 / message)),
            format!("{} k/s", amount(1e6 / message)),
        ]);
    }

    align_right(&mut table, 1..5);

    table
}
