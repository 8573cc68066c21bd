//! `cargo xtask bench --delays`: WRITEs over a path that takes its time and loses packets, beside
//! TCP and the kernel's rdma_rxe, all by turns in one emulated guest.
//!
//! Delays are the kernel's (`sch_netem`), which this machine's may not have. Packets are lost where
//! they arrive, one by one, after the kernel has cut what was sent together.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result};
use comfy_table::{CellAlignment, Table, presets};
use serde::{Deserialize, Serialize};

use super::curves::iperf;
use super::measure::{Figure, first_line};
use super::race::perftest;
use super::rxe::in_guest;
use super::table::amount;
use crate::build;
use crate::lab::losses;
use crate::lab::netns::done;
use crate::lab::rxe::{Contestant, End};
use crate::packages;
use crate::programs::perftest::Runs;

/// Until the guest is ended.
const LIMIT: Duration = Duration::from_secs(1500);
const ROUNDS: usize = 2;
/// How long data are sent.
const SECONDS: u32 = 3;
/// Milliseconds there and back.
const DELAYS: [u32; 4] = [0, 1, 10, 50];
/// Of 100 packets.
const LOSSES: [&str; 4] = ["0", "0.1", "1", "5"];
/// Packets that a link has on their way at most: what the fastest sends in the longest delay.
const ON_THE_LINK: &str = "50000";
/// Ours, and what it is measured by.
const WAYS: [&str; 4] = ["ferroce", "rdma_rxe", "TCP, cubic", "TCP, bbr"];

/// What was measured at one delay and share of losses: values in Gb/s of each way, 0 where it came
/// to no end.
#[derive(Serialize, Deserialize)]
struct Spot {
    delay: u32,
    loss: String,
    values: [Vec<f64>; WAYS.len()],
}

/// Runs it, prints the table and writes the figures to `json`.
pub fn run(json: Option<&Path>, quick: bool) -> Result<()> {
    packages::ensure(packages::CURVES)?;
    in_guest("race-delays", "bench-delays", quick, LIMIT, |text| {
        let spots: Vec<Spot> = serde_json::from_slice(text)?;
        println!("{}", table(&spots));
        if let Some(path) = json {
            let text = serde_json::to_string_pretty(&spots)?;
            fs::write(path, text + "\n").with_context(|| path.display().to_string())?;
        }
        Ok(())
    })
}

/// The part inside the guest; `results` gets all figures after every spot.
pub fn inside(results: &Path, quick: bool) -> Result<()> {
    let dir = results
        .parent()
        .map_or_else(|| PathBuf::from("."), Path::to_path_buf);
    for module in ["sch_netem", "tcp_bbr", "nft_numgen"] {
        done(Command::new("modprobe").arg(module))?;
    }
    let rxe = Contestant::rxe()?;
    let ferroce = Contestant::ferroce(&build::release_dir()?)?;
    for end in [&rxe, &ferroce].into_iter().flat_map(Contestant::joined) {
        // A packet is lost by itself, as on a wire.
        let words = ["link", "set", "dev", end.interface(), "gso_max_segs", "1"];
        done(end.plain("ip").args(words))?;
    }

    let mut spots = Vec::new();
    for delay in DELAYS {
        for loss in LOSSES {
            spots.push(Spot {
                delay,
                loss: loss.to_owned(),
                values: Default::default(),
            });
        }
    }

    for round in 1..=if quick { 1 } else { ROUNDS } {
        for at in 0..spots.len() {
            let spot = &mut spots[at];
            let (delay, loss) = (spot.delay, &spot.loss);
            for contestant in [&rxe, &ferroce] {
                hinder(contestant, delay, loss)?;
            }
            let measure: [&dyn Fn() -> Result<f64>; WAYS.len()] = [
                &|| writes(&ferroce, &dir),
                &|| writes(&rxe, &dir),
                &|| streams(&ferroce, "cubic", &dir),
                &|| streams(&ferroce, "bbr", &dir),
            ];
            for ((way, measure), values) in WAYS.iter().zip(measure).zip(&mut spot.values) {
                let value = measure();
                let said = match &value {
                    Ok(value) => format!("{value:.4} Gb/s"),
                    Err(error) => first_line(error),
                };
                println!("round {round}  {delay} ms, {loss} %  {way:<12} {said}");
                values.push(value.unwrap_or_default());
            }
            fs::write(results, serde_json::to_vec(&spots)?)?;
        }
    }
    Ok(())
}

/// Has both ends delay what they send, by half of the time there and back, and lose what comes.
fn hinder(contestant: &Contestant, delay: u32, loss: &str) -> Result<()> {
    let share: f64 = loss.parse()?;
    let delay = format!("{}us", delay * 1000 / 2);
    for end in contestant.joined() {
        let interface = ["dev", end.interface(), "root", "netem"];
        let mut tc = end.plain("tc");
        tc.args(["qdisc", "replace"]).args(interface);
        tc.args(["delay", &delay, "limit", ON_THE_LINK]);
        done(&mut tc)?;
        losses::lose_by(end.plain("nft"), share / 100.0)?;
    }
    Ok(())
}

fn writes(contestant: &Contestant, dir: &Path) -> Result<f64> {
    let seconds = SECONDS.to_string();
    let options = ["-D", &seconds, "--report_gbits", "-Q", "1"];
    perftest(contestant.joined(), dir, "ib_write_bw", 65_536, &options, 1)
}

fn streams(contestant: &Contestant, congestion: &str, dir: &Path) -> Result<f64> {
    let [server, client] = contestant.joined();
    let commands = [server, client].map(|end: &End| end.plain("iperf3"));
    let options = ["-C", congestion];
    iperf(dir, commands, server.address(), SECONDS, &options)
}

/// The table: medians, and what ours is of the better TCP and of rdma_rxe.
fn table(spots: &[Spot]) -> Table {
    let mut table = Table::new();
    table.load_preset(presets::UTF8_FULL_CONDENSED);
    let mut header = vec!["there and back", "lost"];
    header.extend(WAYS);
    header.extend(["of TCP", "of rdma_rxe"]);
    table.set_header(header);
    for spot in spots {
        let [ours, rxe, cubic, bbr] = spot.values.each_ref().map(|values| median(values));
        let mut row = vec![format!("{} ms", spot.delay), format!("{} %", spot.loss)];
        row.extend([ours, rxe, cubic, bbr].map(|value| format!("{} Gb/s", amount(value))));
        row.extend([cubic.max(bbr), rxe].map(|other| times(ours, other)));
        table.add_row(row);
    }
    for column in 0..4 + WAYS.len() {
        if let Some(column) = table.column_mut(column) {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    table
}

fn median(values: &[f64]) -> f64 {
    if values.is_empty() {
        return 0.0;
    }
    let mut figure = Figure::new("", "Gb/s");
    figure.values.extend_from_slice(values);
    figure.median()
}

fn times(ours: f64, other: f64) -> String {
    match other > 0.0 {
        true => format!("{:.2}", ours / other),
        false => "–".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_came_to_no_end_is_no_measure() {
        let spot = Spot {
            delay: 50,
            loss: "5".to_owned(),
            values: [vec![1.0, 3.0], vec![0.0, 0.0], vec![0.5], vec![1.0]],
        };
        let text = table(&[spot]).to_string();
        assert!(text.contains("2.00 ") && text.contains('–'), "{text}");
        assert_eq!(times(2.0, 1.0), "2.00");
        assert_eq!(median(&[]), 0.0);
    }
}
