//! `cargo xtask bench --sends`: what it takes to hand messages to the kernel, by the ways that
//! there are.

use std::fmt::Write;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result};
use comfy_table::{Table, presets};

use super::baseline::udp_baseline;
use super::measure::{Figure, successful};
use super::report;
use super::table::{align_right, amount};
use crate::build;
use crate::harness::process;
use crate::lab::load::Watch;

const LIMIT: Duration = Duration::from_secs(60);
/// The ways of `udp-baseline ways`. The first is what the others are measured by.
const WAYS: [&str; 6] = [
    "sendmsg",
    "sendmmsg",
    "uring",
    "uring-registered",
    "uring-zero-copy",
    "uring-polled",
];
/// Messages by their names: bytes, receivers, and how many are ready at once.
const SHAPES: [(&str, [u32; 3]); 7] = [
    ("2 B, one at a time", [2, 1, 1]),
    ("2 B, 16 at once, 1 path", [2, 1, 16]),
    ("2 B, 16 at once, 16 paths", [2, 16, 16]),
    ("4 KiB, 16 at once, 16 paths", [4096, 16, 16]),
    ("8 KiB, one at a time", [8192, 1, 1]),
    ("8 KiB, 8 at once, 1 path", [8192, 1, 8]),
    ("60 KiB, 4 at once, 4 paths", [61_440, 4, 4]),
];

/// Processor time of a message, and how many arrive.
struct Cost {
    time: Figure,
    rate: Figure,
    /// Why there are none.
    refused: Option<String>,
}

/// Measures all of them by turns, and prints the medians.
pub fn run(quick: bool) -> Result<()> {
    let programs = build::packages(&["ferroce-baseline"])?;
    let dir = build::scratch("bench")?;
    let (rounds, seconds) = if quick { (2, 1) } else { (5, 2) };
    let cost = |way| Cost {
        time: Figure::new(way, "ns"),
        rate: Figure::new(way, "/s"),
        refused: None,
    };
    let mut costs = SHAPES.map(|_| WAYS.map(cost));

    let watch = Watch::begin()?;
    for _ in 0..rounds {
        for ((_, shape), costs) in SHAPES.iter().zip(&mut costs) {
            for (way, cost) in WAYS.iter().zip(costs) {
                match measure(&programs, &dir, way, shape, seconds)? {
                    Ok([time, rate]) => {
                        cost.time.values.push(time);
                        cost.rate.values.push(rate);
                    }
                    Err(why) => cost.refused = Some(why),
                }
            }
        }
    }

    let others = watch.others()?;
    println!("{}", table(&costs));
    report::say_load(others);
    Ok(())
}

/// Both numbers, or what the kernel has against it.
fn measure(
    programs: &Path,
    dir: &Path,
    way: &str,
    shape: &[u32; 3],
    seconds: u32,
) -> Result<Result<[f64; 2], String>> {
    let [size, paths, batch] = shape.map(|value| value.to_string());
    let seconds = seconds.to_string();
    let mut arguments = vec!["ways", "--way", way, "--size", &size, "--paths", &paths];
    arguments.extend(["--batch", &batch, "--seconds", &seconds]);
    numbers(programs, dir, &arguments)
}

/// What the yardstick prints, or what the kernel has against it.
pub(super) fn numbers<const COUNT: usize>(
    programs: &Path,
    dir: &Path,
    arguments: &[&str],
) -> Result<Result<[f64; COUNT], String>> {
    let mut command = udp_baseline(programs);
    command.args(arguments).env("RUST_BACKTRACE", "0");
    let finished = process::run(command, dir, "ways", LIMIT)?;
    if let Some((_, why)) = finished.err.split_once("Error: ")
        && why.contains("os error")
    {
        return Ok(Err(why.trim().to_owned()));
    }
    successful(&[&finished])?;
    let numbers = finished.out.split_whitespace().map(str::parse);
    let numbers: Vec<f64> = numbers.collect::<Result<_, _>>().context("no numbers")?;
    match numbers.try_into() {
        Ok(numbers) => Ok(Ok(numbers)),
        Err(_) => anyhow::bail!("not {COUNT} numbers: {}", finished.out),
    }
}

fn table(costs: &[[Cost; WAYS.len()]]) -> Table {
    let mut table = Table::new();
    table.load_preset(presets::UTF8_FULL_CONDENSED);
    table.set_header(["messages"].into_iter().chain(WAYS));

    for ((name, _), costs) in SHAPES.iter().zip(costs) {
        let by = &costs[0];
        let mut cells = vec![(*name).to_owned()];
        for cost in costs {
            if let Some(why) = &cost.refused {
                cells.push(why.clone());
                continue;
            }
            let (time, rate) = (cost.time.median(), cost.rate.median());
            let mut cell = format!("{} ns, {} k/s", amount(time), amount(rate / 1e3));
            if cost.time.key != WAYS[0] {
                let (slower, faster) = (time / by.time.median(), rate / by.rate.median());
                let _ = write!(cell, "\n{slower:.2}, {faster:.2}");
            }
            cells.push(cell);
        }
        table.add_row(cells);
    }

    align_right(&mut table, 1..=WAYS.len());
    table
}
