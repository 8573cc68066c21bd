//! `cargo xtask bench --delays`: WRITEs over a path that takes its time and loses packets, beside
//! TCP, by turns; with `--rxe` beside the kernel's rdma_rxe, too, all in one emulated guest.
//!
//! On this machine the path is a [`Line`](crate::lab::line::Line). The guest has the kernel's
//! delays (`sch_netem`), and packets are lost there where they arrive, one by one, after the kernel
//! has cut what was sent together.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::Result;
use comfy_table::{Table, presets};
use serde::{Deserialize, Serialize};

use super::curves::iperf;
use super::measure::{first_line, median};
use super::race::perftest;
use super::report;
use super::rxe::in_guest;
use super::table::{align_right, amount};
use crate::build;
use crate::lab::load::Watch;
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
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
enum Way {
    Ferroce,
    Rxe,
    Cubic,
    Bbr,
}

impl Way {
    fn name(self) -> &'static str {
        match self {
            Way::Ferroce => "ferroce",
            Way::Rxe => "rdma_rxe",
            Way::Cubic => "TCP, cubic",
            Way::Bbr => "TCP, bbr",
        }
    }

    /// What it moves between a contestant's ends, in Gb/s.
    fn moves(self, contestant: &Contestant, dir: &Path) -> Result<f64> {
        match self {
            Way::Ferroce | Way::Rxe => writes(contestant, dir),
            Way::Cubic => streams(contestant, "cubic", dir),
            Way::Bbr => streams(contestant, "bbr", dir),
        }
    }
}

/// What was measured at one delay and share of losses: values in Gb/s of each way, 0 where it came
/// to no end.
#[derive(Serialize, Deserialize)]
struct Spot {
    delay: u32,
    loss: String,
    values: Vec<(Way, Vec<f64>)>,
}

impl Spot {
    /// The median of a way's values, if it was measured.
    fn of(&self, way: Way) -> Option<f64> {
        let (_, values) = self.values.iter().find(|(of, _)| *of == way)?;
        Some(median(values.clone()))
    }
}

/// Runs it, prints the table and writes the figures to `json`. `rxe`: in the guest.
pub fn run(json: Option<&Path>, quick: bool, rxe: bool) -> Result<()> {
    packages::ensure(packages::CURVES)?;
    if rxe {
        return in_guest("race-delays", "bench-delays", quick, LIMIT, |text| {
            show(&serde_json::from_slice::<Vec<Spot>>(text)?, json)
        });
    }

    let programs = build::product()?;
    build::packages(&["ferroce-baseline"])?;
    let dir = build::scratch("bench-delays")?;
    let (ferroce, mut line) = Contestant::over_line(&programs)?;
    let mut spots = spots(&[Way::Ferroce, Way::Cubic, Way::Bbr]);
    let watch = Watch::begin()?;
    for round in 1..=rounds(quick) {
        for spot in &mut spots {
            let trip = Duration::from_millis(spot.delay.into());
            line.becomes(trip, spot.loss.parse::<f64>()? / 100.0)?;
            measure(round, spot, |way| way.moves(&ferroce, &dir));
        }
    }
    drop((ferroce, line));
    let others = watch.others()?;
    show(&spots, json)?;
    report::say_load(others);
    Ok(())
}

fn rounds(quick: bool) -> usize {
    if quick { 1 } else { ROUNDS }
}

fn show(spots: &[Spot], json: Option<&Path>) -> Result<()> {
    println!("{}", table(spots));
    report::write(&spots, json)
}

/// All spots, with nothing measured.
fn spots(ways: &[Way]) -> Vec<Spot> {
    let spot = |delay, loss: &str| Spot {
        delay,
        loss: loss.to_owned(),
        values: ways.iter().map(|way| (*way, Vec::new())).collect(),
    };
    DELAYS
        .iter()
        .flat_map(|delay| LOSSES.map(|loss| spot(*delay, loss)))
        .collect()
}

/// Measures the ways of a spot once.
fn measure(round: usize, spot: &mut Spot, by: impl Fn(Way) -> Result<f64>) {
    let Spot {
        delay,
        loss,
        values,
    } = spot;
    for (way, values) in values {
        let value = by(*way);
        let said = match &value {
            Ok(value) => format!("{value:.4} Gb/s"),
            Err(error) => first_line(error),
        };
        println!(
            "round {round}  {delay} ms, {loss} %  {:<12} {said}",
            way.name()
        );
        values.push(value.unwrap_or_default());
    }
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
        end.sends_together(1)?;
    }

    let mut spots = spots(&[Way::Ferroce, Way::Rxe, Way::Cubic, Way::Bbr]);
    for round in 1..=rounds(quick) {
        for at in 0..spots.len() {
            let spot = &mut spots[at];
            for contestant in [&rxe, &ferroce] {
                hinder(contestant, spot.delay, &spot.loss)?;
            }
            measure(round, spot, |way| match way {
                Way::Rxe => way.moves(&rxe, &dir),
                _ => way.moves(&ferroce, &dir),
            });
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
    let ways = spots.first().map_or(&[][..], |spot| &spot.values);
    let with_rxe = ways.iter().any(|(way, _)| *way == Way::Rxe);
    let mut header = vec!["there and back", "lost"];
    header.extend(ways.iter().map(|(way, _)| way.name()));
    header.push("of TCP");
    header.extend(with_rxe.then_some("of rdma_rxe"));
    let columns = header.len();
    table.set_header(header);
    for spot in spots {
        let mut row = vec![format!("{} ms", spot.delay), format!("{} %", spot.loss)];
        row.extend(
            (spot.values.iter())
                .map(|(_, values)| format!("{} Gb/s", amount(median(values.clone())))),
        );
        let ours = spot.of(Way::Ferroce).unwrap_or_default();
        let tcp = [Way::Cubic, Way::Bbr].map(|way| spot.of(way).unwrap_or_default());
        row.push(times(ours, tcp[0].max(tcp[1])));
        row.extend(spot.of(Way::Rxe).map(|rxe| times(ours, rxe)));
        table.add_row(row);
    }
    align_right(&mut table, 0..columns);
    table
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
            values: vec![
                (Way::Ferroce, vec![1.0, 3.0]),
                (Way::Rxe, vec![0.0, 0.0]),
                (Way::Cubic, vec![0.5]),
                (Way::Bbr, vec![1.0]),
            ],
        };
        let text = table(&[spot]).to_string();
        assert!(text.contains("2.00 ") && text.contains('–'), "{text}");
        assert!(!table(&spots(&[Way::Bbr])).to_string().contains("rxe"));
        assert_eq!(times(2.0, 1.0), "2.00");
        assert_eq!(median(Vec::new()), 0.0);
    }
}
