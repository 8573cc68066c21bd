//! `cargo xtask bench --profile`: where the time of a transfer goes, at both ends, by parts of
//! ferroce, of the kernel and of the program.
//!
//! Each end runs under `perf record`. Only the middle half of what was sampled counts: at its
//! beginning programs look how fast the clock goes, and connect. What a thread does for a packet is
//! its share of the samples, times how long the program says that a packet took.

mod parts;
mod samples;
mod symbols;

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use comfy_table::{Table, presets};

use self::parts::Part;
use self::samples::{Frame, Sample};
use self::symbols::Symbols;
use super::measure::{Bench, exs_bw, successful};
use super::report;
use super::table::align_right;
use crate::build;
use crate::harness::case::Stop;
use crate::lab::host::Host;
use crate::lab::load::Watch;
use crate::packages;
use crate::programs::perftest::{self, Pair, Runs};

const LIMIT: Duration = Duration::from_secs(60);
const PORT: u16 = 19_906;
/// The path MTU.
const MTU: u64 = 4096;
/// Samples of a running thread in a second.
const FREQUENCY: u32 = 2500;
/// A thread that runs for less of the time is not shown.
const BUSY: f64 = 0.02;

/// What is profiled where nothing else is asked for: what the benchmark's aims are about.
const LINES: [(Way, &str); 8] = [
    (Way::Sockets, "ib_write_bw -s 65536"),
    (Way::Sockets, "ib_write_bw -s 1048576"),
    (Way::Sockets, "ib_write_bw -s 8192"),
    (Way::Sockets, "ib_write_bw -s 2"),
    (Way::Sockets, "ib_write_bw -s 65536 -q 128"),
    (Way::Sockets, "ib_write_lat -s 2"),
    (Way::Sockets, "exs_bw -s 65536"),
    (Way::Device, "ib_write_bw -s 65536"),
];

/// How the two programs reach each other.
#[derive(Clone, Copy)]
enum Way {
    /// As between machines.
    Sockets,
    /// As processes of one device.
    Device,
}

/// One of the two programs.
struct End {
    name: &'static str,
    samples: Vec<Sample>,
}

impl End {
    fn shows_the_kernel(&self) -> bool {
        let mut frames = self.samples.iter().flat_map(|sample| &sample.frames);
        frames.any(Frame::is_kernel)
    }
}

/// Profiles a program of perftest or `exs_bw`, with its options, over sockets and within a device;
/// without one those that the aims are about.
pub fn run(line: Option<&str>, quick: bool) -> Result<()> {
    packages::ensure(packages::BENCH)?;
    packages::ensure(packages::PROFILE)?;
    let programs = build::product()?;
    build::packages(&["ferroce-baseline"])?;
    build::exs()?;
    let dir = build::scratch("profile")?;
    let mut sockets = Host::new(&programs, "127.0.0.1", None)?.without_loopback();
    let mut device = Host::new(&programs, "127.0.0.2", None)?;
    sockets.up()?;
    device.up()?;

    let lines = match line {
        None => LINES.to_vec(),
        Some(line) => vec![(Way::Sockets, line), (Way::Device, line)],
    };
    let seconds = if quick { 1 } else { 3 };
    let bench = Bench::new(&sockets, &device, dir.clone(), seconds);
    let mut symbols = Symbols::default();
    let watch = Watch::begin()?;
    for (way, line) in lines {
        let (host, place) = match way {
            Way::Sockets => (&sockets, "over sockets"),
            Way::Device => (&device, "one device"),
        };
        // How far the processors are from each other changes meanwhile, and all copies with it.
        let word = bench.word(100_000)?;
        let (per, time, ends) = profile(host, &dir, line, seconds)
            .with_context(|| format!("profiling {line}, {place}"))?;
        println!(
            "\n{line}, {place}: {time:.0} ns a {per}, and what threads did meanwhile; a word of memory took {word:.0} ns there and back"
        );
        println!("{}", table(time, &ends, &mut symbols)?);
        if !ends.iter().any(End::shows_the_kernel) {
            println!(
                "perf shows nothing of the kernel: kernel.perf_event_paranoid has to be 1 or less"
            );
        }
    }
    report::say_load(watch.others()?);
    sockets.down()?;
    device.down()
}

/// Runs both ends, and returns of what one is taken, how many nanoseconds one took, and the
/// samples.
fn profile(
    host: &Host,
    dir: &Path,
    line: &str,
    seconds: u32,
) -> Result<(&'static str, f64, [End; 2])> {
    let mut words = line.split_whitespace();
    let tool = words.next().context("no program")?;
    let time = seconds.to_string();
    let options: Vec<&str> = words.collect();
    let [server, client] = ["server", "client"].map(|end| Recorded {
        host,
        file: dir.join(format!("{end}.data")),
    });

    let finished = if tool == "exs_bw" {
        let options = [&options[..], &["-D", &time]].concat();
        exs_bw([&server, &client], host.programs(), dir, &options)?
    } else {
        let is_perftest =
            tool.starts_with("ib_") && ["_bw", "_lat"].iter().any(|end| tool.ends_with(end));
        ensure!(
            is_perftest,
            "only programs of perftest (ib_…_bw, ib_…_lat) and exs_bw can be profiled"
        );
        let pair = Pair {
            tool: tool.to_owned(),
            options: ["-F", "-m", "4096", "-D", &time]
                .iter()
                .chain(&options)
                .map(|word| (*word).to_owned())
                .collect(),
            port: PORT,
            limit: LIMIT,
        };
        let ends = pair.run(&server, &client, dir).map_err(Stop::into_error)?;
        successful(&[&ends.client, &ends.server])?;
        ends.client
    };

    let rows = perftest::rows_of(&finished.out);
    let row = rows.first().context("the program printed no row")?;
    let (per, time) = cost(tool, row).context("a column is missing")?;
    let end = |name, recorded: &Recorded<'_>| {
        let samples = samples::read(&recorded.file)?;
        Ok::<_, anyhow::Error>(End { name, samples })
    };
    let ends = [end("client", &client)?, end("server", &server)?];
    Ok((per, time, ends))
}

/// A host whose programs are recorded.
struct Recorded<'a> {
    host: &'a Host,
    file: PathBuf,
}

impl Runs for Recorded<'_> {
    /// Under perf, with a sampling clock that every machine has, virtual ones included.
    fn program(&self, name: &str) -> Command {
        let command = self.host.run(name);
        let mut perf = self.host.plain("perf");
        perf.args(["record", "-q", "-g", "-e", "cpu-clock", "-F"])
            .arg(FREQUENCY.to_string())
            .arg("-o")
            .arg(&self.file)
            .arg("--")
            .arg(command.get_program())
            .args(command.get_args());
        perf
    }

    fn address(&self) -> &str {
        &self.host.address
    }
}

/// Of what one is taken, and the nanoseconds of one. A latency is one way, that of READ and atomics
/// to and fro.
fn cost(tool: &str, row: &perftest::Row) -> Option<(&'static str, f64)> {
    if tool.ends_with("_lat") {
        return Some(("message", row.figures.first()? * 1e3));
    }
    // Millions a second.
    let message = 1e3 / row.figures.last()?;
    match row.bytes.div_ceil(MTU) {
        0 | 1 => Some(("message", message)),
        packets => Some(("packet", message / packets as f64)),
    }
}

/// What each thread did, in nanoseconds.
fn table(time: f64, ends: &[End], symbols: &mut Symbols) -> Result<Table> {
    let mut columns = Vec::new();
    for end in ends {
        columns.extend(threads(end, symbols)?);
    }
    ensure!(!columns.is_empty(), "perf has no samples");

    let mut table = Table::new();
    table.load_preset(presets::UTF8_FULL_CONDENSED);
    let names = columns.iter().map(|(name, _)| name.clone());
    table.set_header([String::new()].into_iter().chain(names));
    let cell = |share: f64| match share * time {
        none if none < 0.5 => String::new(),
        some => format!("{some:.0}"),
    };
    let parts: BTreeSet<Part> = columns
        .iter()
        .flat_map(|(_, shares)| shares.keys().copied())
        .collect();
    for part in parts {
        let shares = columns.iter().map(|(_, shares)| shares.get(&part));
        let cells: Vec<String> = shares.map(|share| cell(*share.unwrap_or(&0.0))).collect();
        if cells.iter().any(|cell| !cell.is_empty()) {
            table.add_row([part.name().to_owned()].into_iter().chain(cells));
        }
    }
    let sums = columns
        .iter()
        .map(|(_, shares)| cell(shares.values().sum()));
    table.add_row(["all".to_owned()].into_iter().chain(sums));

    align_right(&mut table, 1..=columns.len());
    Ok(table)
}

/// Of each thread that is busy its name, and which share of the time it spends in which part.
fn threads(end: &End, symbols: &mut Symbols) -> Result<Vec<(String, BTreeMap<Part, f64>)>> {
    let times = || end.samples.iter().map(|sample| sample.time);
    let (first, last) = (
        times().fold(f64::INFINITY, f64::min),
        times().fold(0.0, f64::max),
    );
    let quarter = (last - first) / 4.0;
    let middle = first + quarter..last - quarter;
    let samples: Vec<&Sample> = end
        .samples
        .iter()
        .filter(|sample| middle.contains(&sample.time))
        .collect();
    symbols.look_up(&samples)?;

    let mut threads: BTreeMap<(u32, &str), BTreeMap<Part, f64>> = BTreeMap::new();
    let share = 1.0 / (2.0 * quarter * f64::from(FREQUENCY));
    for sample in samples {
        let part = parts::of(sample, symbols);
        let shares = threads.entry((sample.thread, &sample.name)).or_default();
        *shares.entry(part).or_default() += share;
    }
    let busy = threads
        .into_iter()
        .filter(|(_, shares)| shares.values().sum::<f64>() >= BUSY)
        .map(|((_, name), shares)| (format!("{}:\n{name}", end.name), shares));
    Ok(busy.collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_packet_takes() {
        let row = |bytes, figures: &[f64]| perftest::Row {
            bytes,
            figures: figures.to_vec(),
        };
        let bandwidth = row(65_536, &[0.0, 4096.0, 0.0625]);
        assert_eq!(cost("ib_write_bw", &bandwidth), Some(("packet", 1000.0)));
        let rate = row(2, &[0.0, 4.0, 2.0]);
        assert_eq!(cost("ib_write_bw", &rate), Some(("message", 500.0)));
        let latency = row(2, &[4.5, 111_111.0]);
        assert_eq!(cost("ib_write_lat", &latency), Some(("message", 4500.0)));
    }
}
