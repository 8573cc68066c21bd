//! How ferroce is measured. Which measurements there are is in `measurements`, what they are
//! compared with in `yardsticks`.

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Error, Result, anyhow, bail};

use super::distance::Distance;
use super::engine;
use super::riostream::{self, riostream};
use crate::groups::cm::{self, cmtime_complaint};
use crate::harness::case::Stop;
use crate::harness::process::{self, Finished};
use crate::lab::host::Host;
use crate::programs::cprogram;
use crate::programs::exs;
use crate::programs::perftest::{Pair, Runs};

pub(super) const LIMIT: Duration = Duration::from_secs(60);
const PERFTEST_PORT: u16 = 19_903;
const CMTIME_PORT: u16 = 19_904;
const EXS_PORT: u16 = 19_905;

/// One measured quantity and its repetitions.
pub(super) struct Figure {
    /// Its name in the JSON file.
    pub key: &'static str,
    /// What it is of.
    pub unit: &'static str,
    /// One value a turn.
    pub values: Vec<f64>,
    /// How far the processors were from each other at each of them, where that was looked at and
    /// stayed the same.
    pub distances: Vec<Option<Distance>>,
}

impl Figure {
    /// One that has yet to be measured.
    pub(super) fn new(key: &'static str, unit: &'static str) -> Figure {
        Figure {
            key,
            unit,
            values: Vec::new(),
            distances: Vec::new(),
        }
    }

    /// The smallest value; infinite without any.
    pub(super) fn least(&self) -> f64 {
        self.values.iter().copied().fold(f64::INFINITY, f64::min)
    }

    /// The largest value.
    pub(super) fn most(&self) -> f64 {
        self.values.iter().copied().fold(0.0, f64::max)
    }

    /// The middle value, or the mean of the two in the middle.
    pub(super) fn median(&self) -> f64 {
        median(self.values.clone())
    }

    /// The medians of this one and another at each distance at which either was measured at least
    /// twice.
    pub(super) fn beside(&self, other: &Figure) -> Vec<(Distance, [f64; 2])> {
        let there = |distance| {
            let both = [self, other].map(|figure| figure.at(distance));
            let enough = both.iter().all(|values| values.len() >= 2);
            enough.then(|| (distance, both.map(median)))
        };
        Distance::ALL.into_iter().filter_map(there).collect()
    }

    /// The values at a distance.
    fn at(&self, distance: Distance) -> Vec<f64> {
        let all = self.values.iter().zip(&self.distances);
        let there = all.filter(|(_, at)| **at == Some(distance));
        there.map(|(value, _)| *value).collect()
    }
}

/// The middle one, or the mean of the two in the middle; of nothing, 0.
pub(super) fn median(mut values: Vec<f64>) -> f64 {
    values.sort_unstable_by(f64::total_cmp);
    let middle = values.len() / 2;
    match values.len() {
        0 => 0.0,
        n if n % 2 == 0 => (values[middle - 1] + values[middle]) / 2.0,
        _ => values[middle],
    }
}

/// Where measurements are taken.
pub(super) struct Bench<'a> {
    /// Programs reach each other over sockets, as over any network.
    pub(super) host: &'a Host,
    /// They are processes of one device.
    device: &'a Host,
    /// Over sockets, without io_uring.
    plain: Option<&'a Host>,
    pub(super) dir: PathBuf,
    pub(super) seconds: u32,
}

impl<'a> Bench<'a> {
    /// Over sockets on `host` and through memory on `device`, for so many seconds each; output goes
    /// to `dir`.
    pub(super) fn new(host: &'a Host, device: &'a Host, dir: PathBuf, seconds: u32) -> Bench<'a> {
        Bench {
            host,
            device,
            plain: None,
            dir,
            seconds,
        }
    }

    /// Also over sockets of a host without io_uring.
    pub(super) fn and_by_poll(self, plain: &'a Host) -> Bench<'a> {
        Bench {
            plain: Some(plain),
            ..self
        }
    }

    /// The same for processes of one device.
    pub(super) fn alone(&self) -> Bench<'a> {
        self.on(self.device)
    }

    /// The same for programs that do without io_uring.
    pub(super) fn by_poll(&self) -> Result<Bench<'a>> {
        Ok(self.on(self.plain.context("no host without io_uring")?))
    }

    fn on(&self, host: &'a Host) -> Bench<'a> {
        Bench {
            host,
            dir: self.dir.clone(),
            ..*self
        }
    }

    /// Average bandwidth in Gb/s.
    pub(super) fn bandwidth(&self, tool: &str, size: usize) -> Result<f64> {
        self.transfer([self.host; 2], tool, size, &[])
    }

    /// Of WRITEs of 64 KiB, so many queue pairs side by side, each with memory of its own.
    pub(super) fn queue_pairs(&self, count: &str) -> Result<f64> {
        self.transfer([self.host; 2], "ib_write_bw", 65_536, &["-q", count])
    }

    /// The same between two hosts, with more options.
    pub(super) fn transfer(
        &self,
        ends: [&Host; 2],
        tool: &str,
        size: usize,
        more: &[&str],
    ) -> Result<f64> {
        let seconds = self.seconds.to_string();
        let options = ["-D", &seconds, "--report_gbits", "-m", "4096"];
        perftest(ends, &self.dir, tool, size, &[&options, more].concat(), 1)
    }

    /// Median latency in microseconds: one way for WRITE and SEND, to and fro for READ and atomics.
    pub(super) fn latency(&self, tool: &str, size: usize) -> Result<f64> {
        // Of large messages fewer: they take their time.
        let count = ((64 << 20) / size).clamp(200, 20_000).to_string();
        self.perftest(tool, size, &["-n", &count, "-m", "4096"], 2)
    }

    /// Median latency in microseconds of 2 bytes where both ends sleep until there is an event.
    pub(super) fn latency_by_events(&self, tool: &str) -> Result<f64> {
        self.perftest(tool, 2, &["-e", "-n", "5000", "-m", "4096"], 2)
    }

    /// Messages of 2 bytes in millions a second.
    pub(super) fn message_rate(&self, tool: &str) -> Result<f64> {
        let seconds = self.seconds.to_string();
        self.perftest(tool, 2, &["-D", &seconds, "-m", "4096"], 2)
    }

    /// Microseconds of a transfer of 64 bytes between programs that look at memory, on average.
    pub(super) fn riostream(&self) -> Result<f64> {
        let listens = || cm::listens(self.host, cm::TCP, riostream::PORT);
        riostream([self.host; 2], listens, &self.dir, LIMIT)
    }

    fn perftest(&self, tool: &str, size: usize, options: &[&str], column: usize) -> Result<f64> {
        perftest([self.host; 2], &self.dir, tool, size, options, column)
    }

    /// Bandwidth in Gb/s from one EXS socket to another, the memory registered at both ends.
    pub(super) fn exs_bandwidth(&self, size: usize, options: &[&str]) -> Result<f64> {
        let (size, seconds) = (size.to_string(), self.seconds.to_string());
        let own = ["-s", &size, "-D", &seconds];
        let options = [&own, options].concat();
        let programs = self.host.programs();
        let client = exs_bw([self.host; 2], programs, &self.dir, &options)?;
        let row = client.out.lines().last().unwrap_or_default();
        number(row.split_whitespace().nth(2).unwrap_or_default())
    }

    /// What a C program of the tests prints behind `label`.
    pub(super) fn program(&self, name: &str, test: &str, label: &str) -> Result<f64> {
        let mut command = self.host.run(cprogram::compile(name)?);
        command.arg(test);
        let finished = process::run(command, &self.dir, name, LIMIT)?;
        let value = finished
            .out
            .lines()
            .find_map(|line| line.strip_prefix(label));
        number(
            value.ok_or_else(|| {
                anyhow!("{}: {}\n{}", finished.line, finished.ending(), finished.err)
            })?,
        )
    }

    pub(super) fn engine(&self, size: usize) -> Result<f64> {
        engine::packet(self.host.programs(), &self.dir, size, self.seconds)
    }

    /// Connections a second, as cmtime makes and ends them: all at once, with their queue pairs.
    pub(super) fn connection_rate(&self) -> Result<f64> {
        let port = CMTIME_PORT.to_string();
        let command = |options: &[&str]| {
            let mut command = self.host.run("cmtime");
            command.args(["-p", &port, "-c", "2000"]).args(options);
            command
        };

        let address = self.host.address.as_str();
        let mut server = process::spawn(command(&["-b", address]), &self.dir, "cmtime-server")?;

        // It says nothing; the daemon knows when it listens.
        if !server.wait_until(LIMIT, |_| cm::listens(self.host, cm::TCP, CMTIME_PORT)) {
            bail!("cmtime does not come to listen");
        }

        let client = command(&["-s", address, "-b", address]);
        let client = process::run(client, &self.dir, "cmtime-client", LIMIT)?;
        let server = server.kill();
        cmtime_rate(&client, &server)
    }
}

/// What went wrong, without what programs printed.
pub(super) fn first_line(error: &Error) -> String {
    let text = format!("{error:#}");
    text.lines().next().unwrap_or_default().to_owned()
}

/// A column of the row that a program of perftest prints, from one host to another.
fn perftest(
    [server, client]: [&Host; 2],
    dir: &Path,
    tool: &str,
    size: usize,
    options: &[&str],
    column: usize,
) -> Result<f64> {
    let mut options: Vec<String> = options.iter().map(|word| (*word).to_owned()).collect();
    options.push("-F".to_owned());
    if !tool.contains("atomic") {
        options.extend(["-s".to_owned(), size.to_string()]);
    }

    let pair = Pair {
        tool: tool.to_owned(),
        options,
        port: PERFTEST_PORT,
        limit: LIMIT,
    };

    let table = pair
        .run(server, client, dir)
        .and_then(|ends| ends.clean().and_then(|()| ends.table(1)))
        .map_err(Stop::into_error)?;

    table[0]
        .figures
        .get(column)
        .copied()
        .ok_or_else(|| anyhow!("{tool}: a column is missing"))
}

/// Runs `exs_bw` from one host to another, the client with these options, and returns the client.
pub(super) fn exs_bw(
    [server, client]: [&dyn Runs; 2],
    programs: &Path,
    dir: &Path,
    options: &[&str],
) -> Result<Finished> {
    let program = exs::example(programs, "exs_bw")?;
    let program = program.to_str().context("a path that is not UTF-8")?;
    let (port, address) = (EXS_PORT.to_string(), server.address());
    let mut command = server.program(program);
    command.args(["-p", &port, "-b", address]);
    let server = process::spawn(command, dir, "exs-server")?;

    // It waits for the server by itself.
    let mut command = client.program(program);
    command.args(["-p", &port]).args(options).arg(address);
    let client = process::run(command, dir, "exs-client", LIMIT)?;
    let server = server.finish_after(&client, LIMIT);
    successful(&[&client, &server])?;
    Ok(client)
}

/// Connections made and ended a second, out of what the client of cmtime prints; an error if one of
/// them failed.
pub(super) fn cmtime_rate(client: &Finished, server: &Finished) -> Result<f64> {
    if let Some(line) = cmtime_complaint([client, server]) {
        bail!("{}: {line}", client.line);
    }
    // Microseconds for each connection stand in the last column.
    let step = |name: &str| -> Result<f64> {
        let mut rows = client.out.lines().filter_map(|line| line.split_once(':'));
        let row = rows.find(|(step, _)| step.trim() == name);
        let (_, numbers) = row.with_context(|| format!("{}: {}", client.line, client.ending()))?;
        number(numbers.split_whitespace().last().unwrap_or_default())
    };
    Ok(1e6 / (step("connect")? + step("disconnect")?))
}

pub(super) fn successful(programs: &[&Finished]) -> Result<()> {
    for finished in programs {
        if !finished.success() {
            bail!("{}: {}\n{}", finished.line, finished.ending(), finished.err);
        }
    }
    Ok(())
}

pub(super) fn number(text: &str) -> Result<f64> {
    text.trim()
        .parse()
        .with_context(|| format!("{text:?} is not a number"))
}
