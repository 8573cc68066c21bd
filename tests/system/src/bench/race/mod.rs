//! The race itself, inside the guest: the same commands over rdma_rxe and over ferroce by turns,
//! and plain UDP over ferroce's wire.

mod events;
mod outcome;

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Result, anyhow, bail};
use serde::{Deserialize, Serialize};

use super::baseline::UDP_BASELINE;
use super::measure::{cmtime_rate, first_line};
use super::plain_udp::{Ends, PlainUdp};
use super::riostream::{self, riostream};
use crate::build;
use crate::harness::case::Stop;
use crate::harness::process;
use crate::lab::load::busy_seconds;
use crate::lab::rxe::{Contestant, End};
use crate::programs::perftest::{Pair, Runs};
use events::{EVENTS, Event, Run};

pub(super) use outcome::{json, table};

/// No round is begun that would end after this.
pub(super) const BUDGET: Duration = Duration::from_secs(660);
const ROUNDS: usize = 5;
/// For one run of a pair of programs, however slow.
const LIMIT: Duration = Duration::from_secs(25);
const PORT: u16 = 19_905;
const CMTIME_PORT: u16 = 19_906;
/// BTH, RETH and ICRC of a WRITE, in bytes.
const HEADERS: usize = 32;
/// Messages of 64 KiB: the long run and the short one, whose difference tells the processor time.
const MANY: u32 = 1_600;
const FEW: u32 = 100;

use Run::{Bandwidth, Connections, Latency, Processor, Rate, Riostream};

impl Event {
    /// Whether more is better.
    fn rises(&self) -> bool {
        !matches!(self.run, Latency(..) | Processor | Riostream)
    }

    /// What the same network gives plain UDP by a program: what any device in user space can have
    /// there, before it has done anything. None where no packet crosses it, or a figure is of more
    /// than packets.
    fn yardstick(&self, udp: PlainUdp<'_>) -> Option<Result<f64>> {
        if !self.wire {
            return None;
        }

        match self.run {
            Bandwidth(_, size) => {
                let bytes = udp.bytes(4096, size.max(64 << 10), 2);
                Some(bytes.map(|bytes| bytes * 8.0 / 1e9))
            }
            Latency(tool, size) => {
                // The response of a READ comes after a whole round trip, and the responder's
                // program waits for nothing.
                let (ways, ends) = match tool {
                    "ib_read_lat" => (2.0, Ends::AnswererSleeps),
                    _ => (1.0, Ends::Poll),
                };
                let one = udp.latency(size.next_multiple_of(4) + HEADERS, 3000, ends);
                Some(one.map(|one| one * ways))
            }
            // Packets as long as a WRITE's of 2 bytes, many in a send.
            Rate(_) => Some(udp.bytes(20, 64 << 10, 2).map(|bytes| bytes / 20.0 / 1e3)),
            Riostream => Some(udp.latency(64 + HEADERS, 1000, Ends::LookAtMemory)),
            Processor | Connections => None,
        }
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
            Riostream => {
                let ends = device.map(|end| end as &dyn Runs);
                riostream(ends, || device[0].listens(riostream::PORT), dir, LIMIT)
            }
        }
    }
}

/// The figures of one event: a value a round, none where the run failed.
#[derive(Default, Serialize, Deserialize)]
pub(super) struct Lap {
    key: String,
    rxe: Vec<Option<f64>>,
    ferroce: Vec<Option<f64>>,
    /// Plain UDP, where it is measured.
    udp: Vec<Option<f64>>,
}

/// Runs the race, inside the guest; `results` gets all figures after every event.
pub fn inside(results: &Path, quick: bool) -> Result<()> {
    let started = Instant::now();
    let dir = results
        .parent()
        .map_or_else(|| PathBuf::from("."), Path::to_path_buf);
    let rxe = Contestant::rxe()?;
    let programs = build::release_dir()?;
    let ferroce = Contestant::ferroce(&programs)?;
    let baseline = programs.join(UDP_BASELINE);
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
    for round in 1..=rounds {
        if started.elapsed() + longest > BUDGET {
            break;
        }

        let begun = Instant::now();
        for (index, event) in EVENTS.iter().enumerate() {
            if started.elapsed() > BUDGET {
                break;
            }

            let lap = &mut laps[index];
            let mut told = |name: &str, value: Result<f64>| -> Result<Option<f64>> {
                let key = event.key;
                match &value {
                    Ok(value) => println!(
                        "round {round}  {key:<16} {name:<9} {value:>10.3} {}",
                        event.unit
                    ),
                    Err(error) => {
                        println!("round {round}  {key} {name}: {}", first_line(error));
                        writeln!(failures, "{key} {name}: {error:#}\n")?;
                    }
                }
                Ok(value.ok())
            };

            let mut pair = [(&rxe, &mut lap.rxe), (&ferroce, &mut lap.ferroce)];
            if round % 2 == 0 {
                pair.reverse();
            }
            for (contestant, values) in pair {
                values.push(told(contestant.name, event.take(contestant, &dir))?);
            }

            let ends = ferroce.joined();
            let udp = PlainUdp {
                ends: ends.map(|end| end.plain(&baseline)),
                address: ends[0].address(),
                dir: &dir,
                limit: LIMIT,
            };
            if let Some(value) = event.yardstick(udp) {
                lap.udp.push(told("plain UDP", value)?);
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_event_has_a_key_of_its_own() {
        let keys: std::collections::HashSet<_> = EVENTS.iter().map(|event| event.key).collect();
        assert_eq!(keys.len(), EVENTS.len());
    }
}
