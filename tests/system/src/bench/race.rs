//! The race itself, inside the guest: the same commands over rdma_rxe and over ferroce by turns.
//!
//! Every figure has a better direction, and what is shown is how many times better ferroce is.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Result, anyhow, bail};
use comfy_table::{Table, presets};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::events::{EVENTS, Event, Run};
use super::measure::{Figure, cmtime_rate, first_line};
use super::table::{align_right, amount};
use crate::build;
use crate::harness::case::Stop;
use crate::harness::process;
use crate::lab::load::busy_seconds;
use crate::lab::rxe::{Contestant, End};
use crate::programs::perftest::{Pair, Runs};

/// No round is begun that would end after this.
pub(super) const BUDGET: Duration = Duration::from_secs(570);
const ROUNDS: usize = 5;
/// For one run of a pair of programs, however slow.
const LIMIT: Duration = Duration::from_secs(25);
const PORT: u16 = 19_905;
const CMTIME_PORT: u16 = 19_906;
const STREAM_PORT: u16 = 19_908;
/// Transfers of riostream, each way.
const TRANSFERS: &str = "1000";
/// Messages of 64 KiB: the long run and the short one, whose difference tells the processor time.
const MANY: u32 = 1_600;
const FEW: u32 = 100;

use Run::{Bandwidth, Connections, Latency, Processor, Rate, Riostream};

impl Event {
    /// Whether more is better.
    fn rises(&self) -> bool {
        !matches!(self.run, Latency(..) | Processor | Riostream)
    }

    fn take(&self, contestant: &Contestant, dir: &Path) -> Result<f64> {
        let device = match self.wire {
            true => contestant.joined(),
            false => contestant.alone(),
        };

        match self.run {
            Bandwidth(tool, size) => bandwidth(device, dir, tool, size),
            Latency(tool, size) => perftest(device, dir, tool, size, &["-n", "3000"], 2),
            Rate(tool) => Ok(perftest(device, dir, tool, 2, &["-D", "2"], 2)? * 1e3),
            Processor => {
                // What it takes to start, connect and end is in both.
                let busy = |messages: u32| -> Result<f64> {
                    let before = busy_seconds()?;
                    let messages = messages.to_string();
                    let options = ["-e", "-n", &messages];
                    perftest(device, dir, "ib_send_bw", 65_536, &options, 1)?;
                    Ok(busy_seconds()? - before)
                };
                let more = busy(MANY)? - busy(FEW)?;
                Ok(more / (f64::from(MANY - FEW) * 65_536.0 / 1e9))
            }
            Connections => connections(device, dir),
            Riostream => riostream(device, dir),
        }
    }
}

/// The figures of one event: a value a round, none where the run failed.
#[derive(Default, Serialize, Deserialize)]
pub(super) struct Lap {
    key: String,
    rxe: Vec<Option<f64>>,
    ferroce: Vec<Option<f64>>,
}

/// Runs the race, inside the guest; `results` gets all figures after every event.
pub fn inside(results: &Path, quick: bool) -> Result<()> {
    let started = Instant::now();
    let dir = results
        .parent()
        .map_or_else(|| PathBuf::from("."), Path::to_path_buf);
    let rxe = Contestant::rxe()?;
    let ferroce = Contestant::ferroce(&build::release_dir()?)?;
    let mut laps: Vec<Lap> = EVENTS
        .iter()
        .map(|event| Lap {
            key: event.key.to_owned(),
            ..Lap::default()
        })
        .collect();

    // All that the programs printed.
    let mut failures = fs::File::create(dir.join("failures.log"))?;
    let rounds = if quick { 1 } else { ROUNDS };
    let mut longest = Duration::ZERO;
    for round in 0..rounds {
        if started.elapsed() + longest > BUDGET {
            break;
        }

        let begun = Instant::now();
        for (index, event) in EVENTS.iter().enumerate() {
            if started.elapsed() > BUDGET {
                break;
            }

            let lap = &mut laps[index];
            let mut pair = [(&rxe, &mut lap.rxe), (&ferroce, &mut lap.ferroce)];
            if round % 2 == 1 {
                pair.reverse();
            }

            for (contestant, values) in pair {
                let value = event.take(contestant, &dir);
                match &value {
                    Ok(value) => println!(
                        "round {}  {:<16} {:<9} {value:>10.3} {}",
                        round + 1,
                        event.key,
                        contestant.name,
                        event.unit
                    ),
                    Err(error) => {
                        println!(
                            "round {}  {} {}: {}",
                            round + 1,
                            event.key,
                            contestant.name,
                            first_line(error)
                        );
                        writeln!(failures, "{} {}: {error:#}\n", event.key, contestant.name)?;
                    }
                }

                values.push(value.ok());
            }

            fs::write(results, serde_json::to_vec(&laps)?)?;
        }

        longest = longest.max(begun.elapsed());
    }

    for lap in &laps {
        if [&lap.rxe, &lap.ferroce]
            .into_iter()
            .any(|values| values.iter().all(Option::is_none))
        {
            bail!("{} has no figure", lap.key);
        }
    }

    Ok(())
}

/// Gb/s of messages of so many bytes.
pub(super) fn bandwidth(ends: [&End; 2], dir: &Path, tool: &str, size: usize) -> Result<f64> {
    let mut options = vec!["-D", "2", "--report_gbits"];
    if size >= 65_536 {
        // A completion each; by default they come by the hundred, for which 1 MiB takes too long.
        options.extend(["-Q", "1"]);
    }
    if size > 65_536 {
        options.extend(["-t", "16"]);
    }
    perftest(ends, dir, tool, size, &options, 1)
}

/// A column of the row that a program of perftest prints, of one end and another.
pub(super) fn perftest(
    ends: [&End; 2],
    dir: &Path,
    tool: &str,
    size: usize,
    options: &[&str],
    column: usize,
) -> Result<f64> {
    let size = size.to_string();
    let common = ["-m", "4096", "-F", "-s", &size];
    let pair = Pair {
        tool: tool.to_owned(),
        options: common
            .iter()
            .chain(options)
            .map(|word| (*word).to_owned())
            .collect(),
        port: PORT,
        limit: LIMIT,
    };

    let [server, client] = ends;
    let ends = pair.run(server, client, dir).map_err(Stop::into_error)?;
    let table = ends.table(1).map_err(Stop::into_error)?;
    let value = table[0].figures.get(column).copied();
    let value = value.ok_or_else(|| anyhow!("{tool}: a column is missing"))?;
    if value <= 0.0 || !ends.client.success() {
        bail!("{value}, {}", ends.client.ending());
    }

    Ok(value)
}

fn connections([server, client]: [&End; 2], dir: &Path) -> Result<f64> {
    let (port, at) = (CMTIME_PORT.to_string(), server.address());
    let command = |end: &End, options: &[&str]| {
        let mut command = end.program("cmtime");
        command.args(["-p", &port, "-c", "500"]).args(options);
        command
    };
    let mut listener = process::spawn(command(server, &["-b", at]), dir, "cmtime-server")?;
    if !listener.wait_until(LIMIT, |_| server.listens(CMTIME_PORT)) {
        bail!("cmtime does not come to listen");
    }

    let from = client.address();
    let options = ["-s", at, "-b", from];
    let client = process::run(command(client, &options), dir, "cmtime-client", LIMIT)?;
    let listener = listener.kill();
    cmtime_rate(&client, &listener)
}

/// What riostream says of a transfer.
fn riostream([server, client]: [&End; 2], dir: &Path) -> Result<f64> {
    let (port, at) = (STREAM_PORT.to_string(), server.address());
    let command = |end: &End, options: &[&str]| {
        let mut command = end.program("riostream");
        command.args(["-p", &port, "-S", "64", "-I", TRANSFERS, "-C", "1"]);
        command.args(options);
        command
    };
    let listener = command(server, &["-b", at]);
    let mut listener = process::spawn(listener, dir, "riostream-server")?;
    if !listener.wait_until(LIMIT, |_| server.listens(STREAM_PORT)) {
        bail!("riostream does not come to listen");
    }

    let options = ["-s", at, "-b", client.address()];
    let ended = process::run(command(client, &options), dir, "riostream-client", LIMIT)?;
    let listener = listener.kill();
    transfer_time(&ended.out).ok_or_else(|| {
        anyhow!(
            "riostream: {}\n{}\n{}\n{}",
            ended.ending(),
            ended.out,
            ended.err,
            listener.err
        )
    })
}

/// The last column of riostream's table: microseconds for each transfer.
fn transfer_time(output: &str) -> Option<f64> {
    let row = output.lines().find(|line| line.starts_with("custom"))?;
    let time: f64 = row.split_whitespace().next_back()?.parse().ok()?;
    (time > 0.0).then_some(time)
}

/// A lap with its event, the medians, and how many times better ferroce is.
struct Outcome<'a> {
    event: &'static Event,
    lap: &'a Lap,
    rxe: f64,
    ferroce: f64,
    times: f64,
}

fn results(laps: &[Lap]) -> impl Iterator<Item = Outcome<'_>> {
    laps.iter().filter_map(|lap| {
        let event = EVENTS.iter().find(|event| event.key == lap.key)?;
        let median = |values: &[Option<f64>]| {
            let values: Vec<f64> = values.iter().copied().flatten().collect();
            (!values.is_empty()).then(|| {
                Figure {
                    key: event.key,
                    unit: event.unit,
                    values,
                }
                .median()
            })
        };

        let (rxe, ferroce) = (median(&lap.rxe)?, median(&lap.ferroce)?);
        let times = if event.rises() {
            ferroce / rxe
        } else {
            rxe / ferroce
        };

        Some(Outcome {
            event,
            lap,
            rxe,
            ferroce,
            times,
        })
    })
}

/// The table.
pub(super) fn table(laps: &[Lap]) -> Table {
    let mut table = Table::new();
    table.load_preset(presets::UTF8_FULL_CONDENSED);
    table.set_header(["measured", "rdma_rxe", "ferroce", "times better", "aim", ""]);

    for one in results(laps) {
        table.add_row([
            one.event.name.to_owned(),
            format!("{} {}", amount(one.rxe), one.event.unit),
            format!("{} {}", amount(one.ferroce), one.event.unit),
            format!("{:.2}", one.times),
            format!("≥ {:.0}", one.event.aim),
            if one.times >= one.event.aim {
                "met"
            } else {
                "missed"
            }
            .to_owned(),
        ]);
    }

    align_right(&mut table, 1..5);

    table
}

/// The same for programs.
pub(super) fn json(laps: &[Lap]) -> Value {
    let ratios: Vec<Value> = results(laps)
        .map(|one| {
            json!({
                "measured": one.event.name, "key": one.event.key, "unit": one.event.unit,
                "rxe": { "median": one.rxe, "values": one.lap.rxe },
                "ferroce": { "median": one.ferroce, "values": one.lap.ferroce },
                "times_better": one.times, "aim": one.event.aim, "met": one.times >= one.event.aim,
            })
        })
        .collect();
    json!({ "ratios": ratios })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn more_bandwidth_and_less_latency_are_better() {
        let lap = |key: &str, rxe, ferroce| Lap {
            key: key.to_owned(),
            rxe: vec![Some(rxe), None],
            ferroce: vec![Some(ferroce)],
        };

        let mut laps = vec![
            lap("write_64k", 1.0, 3.0),
            lap("send_latency_2", 30.0, 15.0),
            lap("processor", 4.0, 8.0),
        ];
        let times: Vec<f64> = results(&laps).map(|one| one.times).collect();
        assert_eq!(times, [3.0, 2.0, 0.5]);
        let json = json(&laps);
        let met: Vec<_> = json["ratios"]
            .as_array()
            .unwrap()
            .iter()
            .map(|one| &one["met"])
            .collect();
        assert_eq!(met, [false, true, false]);

        // What one of them did not finish is left out.
        laps[0].rxe.clear();
        assert_eq!(results(&laps).count(), 2);
    }

    #[test]
    fn riostream_tells_the_time_of_a_transfer() {
        let said = "name      bytes   xfers   iters   total       time     Gb/sec    usec/xfer\n\
                    custom    64      1       1000    125k        0.41s      0.00     205.33\n";
        assert_eq!(transfer_time(said), Some(205.33));
        assert_eq!(transfer_time("name bytes\n"), None);
    }

    #[test]
    fn every_event_has_a_key_of_its_own() {
        let keys: std::collections::HashSet<_> = EVENTS.iter().map(|event| event.key).collect();
        assert_eq!(keys.len(), EVENTS.len());
    }
}
