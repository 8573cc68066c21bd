//! `cargo xtask bench --receives`: what it takes a polling thread to get datagrams from the kernel,
//! by the ways that there are.

use anyhow::Result;
use comfy_table::{Table, presets};

use super::measure::Figure;
use super::report;
use super::table::{align_right, amount};
use super::ways::numbers;
use crate::build;
use crate::lab::load::Watch;

/// The ways of `udp-baseline receives`. The first is what the others are measured by.
const WAYS: [&str; 5] = [
    "recvmsg",
    "recvmmsg",
    "uring",
    "uring-registered",
    "uring-flagged",
];
/// What is measured, its name in the table and its unit.
const MEASURED: [(&str, &str); 3] = [
    ("a look in vain", "ns"),
    ("36 B, one way", "us"),
    ("runs of 15 packets of 4 KiB", "/s"),
];

/// Measures all of them by turns, and prints the medians.
pub fn run(quick: bool) -> Result<()> {
    let programs = build::packages(&["ferroce-baseline"])?;
    let dir = build::scratch("bench")?;
    let (rounds, seconds) = if quick { (2, "1") } else { (5, "4") };
    let figures = || MEASURED.map(|(key, unit)| Figure::new(key, unit));
    let mut ways = WAYS.map(|_| (figures(), None));

    let watch = Watch::begin()?;
    for _ in 0..rounds {
        for (way, (figures, refused)) in WAYS.iter().zip(&mut ways) {
            let arguments = ["receives", "--way", way, "--seconds", seconds];
            match numbers::<{ MEASURED.len() }>(&programs, &dir, &arguments)? {
                Ok(values) => {
                    for (figure, value) in figures.iter_mut().zip(values) {
                        figure.values.push(value);
                    }
                }
                Err(why) => *refused = Some(why),
            }
        }
    }

    let others = watch.others()?;
    println!("{}", table(&ways));
    report::say_load(others);
    Ok(())
}

/// Medians and ranges, and how they are to those of the first way.
fn table(ways: &[([Figure; MEASURED.len()], Option<String>)]) -> Table {
    let mut table = Table::new();
    table.load_preset(presets::UTF8_FULL_CONDENSED);
    let names = MEASURED.iter().map(|(name, _)| *name);
    table.set_header(["received by"].into_iter().chain(names));

    let (first, _) = &ways[0];
    for (name, (figures, refused)) in WAYS.iter().zip(ways) {
        let mut cells = vec![(*name).to_owned()];
        match refused {
            Some(why) => cells.push(why.clone()),
            None => cells.extend(figures.iter().zip(first).map(|(figure, first)| {
                format!(
                    "{} {} ({} to {})\n{:.2}",
                    amount(figure.median()),
                    figure.unit,
                    amount(figure.least()),
                    amount(figure.most()),
                    figure.median() / first.median()
                )
            })),
        }
        table.add_row(cells);
    }

    align_right(&mut table, 1..=MEASURED.len());
    table
}
