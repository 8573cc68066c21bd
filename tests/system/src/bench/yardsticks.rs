//! What the machine does without RDMA, by which ferroce is measured: plain UDP and copies by a
//! program of our own, TCP by qperf.

use std::process::Command;

use anyhow::{Error, Result, anyhow, bail};

use super::baseline::udp_baseline;
use super::measure::{Bench, LIMIT, number};
use super::plain_udp::{Ends, PlainUdp};
use super::ways::numbers;
use crate::harness::process;

const QPERF_PORT: u16 = 19_902;

impl Bench<'_> {
    /// Gb/s of payload of the plain UDP transfer, in packets of the path MTU, out of so many bytes
    /// of memory and into as many.
    pub(super) fn udp_bandwidth(&self, memory: usize) -> Result<f64> {
        Ok(self.udp_bytes(4096, memory)? * 8.0 / 1e9)
    }

    /// Payload bytes per second of the plain UDP transfer, with so many bytes of memory at each
    /// end (64 KiB at least).
    pub(super) fn udp_bytes(&self, payload: usize, memory: usize) -> Result<f64> {
        self.udp().bytes(payload, memory, self.seconds)
    }

    /// One way, of datagrams of so many bytes: both ends poll.
    pub(super) fn udp_latency(&self, size: usize) -> Result<f64> {
        self.udp().latency(size, 50_000, Ends::Poll)
    }

    /// The same where both ends look at memory: the mean.
    pub(super) fn udp_by_memory(&self, size: usize) -> Result<f64> {
        self.udp().latency(size, 5_000, Ends::LookAtMemory)
    }

    fn udp(&self) -> PlainUdp<'_> {
        PlainUdp {
            ends: [(); 2].map(|()| udp_baseline(self.host.programs())),
            address: "127.0.0.1",
            dir: &self.dir,
            limit: LIMIT,
        }
    }

    /// In Gb/s; `size` of a message as qperf reads it.
    pub(super) fn tcp_bandwidth(&self, size: &str) -> Result<f64> {
        // qperf counts in bytes, powers of ten.
        Ok(self.qperf("tcp_bw", &["-m", size])? * 8.0 / 1e9)
    }

    /// One way, in microseconds; likewise.
    pub(super) fn tcp_latency(&self, size: &str) -> Result<f64> {
        Ok(self.qperf("tcp_lat", &["-m", size])? * 1e6)
    }

    /// The test's main figure, in bytes a second or seconds.
    fn qperf(&self, test: &str, options: &[&str]) -> Result<f64> {
        let port = QPERF_PORT.to_string();
        let mut command = Command::new("qperf");
        command.args(["-lp", &port]);
        let mut server = process::spawn(command, &self.dir, "qperf-server")?;
        if !server.listens(QPERF_PORT, LIMIT) {
            bail!("qperf does not come to listen");
        }

        let mut command = Command::new("qperf");
        command
            .args(["127.0.0.1", "-lp", &port, "-t", &self.seconds.to_string()])
            .args(options)
            .arg(test);

        let client = process::run(command, &self.dir, "qperf-client", LIMIT)?;
        server.kill();
        let (_, value) = client
            .out
            .split_once('=')
            .ok_or_else(|| anyhow!("{}: {}\n{}", client.line, client.ending(), client.err))?;
        let mut words = value.split_whitespace();
        let amount = number(words.next().unwrap_or_default())?;
        let unit = words.next().unwrap_or_default();
        let factor = match unit {
            "GB/sec" => 1e9,
            "MB/sec" => 1e6,
            "KB/sec" => 1e3,
            "sec" => 1.0,
            "ms" => 1e-3,
            "us" => 1e-6,
            "ns" => 1e-9,
            _ => bail!("qperf answers in {unit:?}"),
        };

        Ok(amount * factor)
    }

    /// Microseconds from `connect` until the other side has accepted.
    pub(super) fn tcp_connection(&self) -> Result<f64> {
        self.alone_baseline(&["connect", "127.0.0.1:0"])
    }

    /// Copies from so many bytes to as many of another's, in Gb/s. `by`: who copies.
    pub(super) fn copies(&self, by: &str, memory: usize) -> Result<f64> {
        let (memory, seconds) = (memory.to_string(), self.seconds.to_string());
        let copies = [
            "copies",
            "--by",
            by,
            "--memory",
            &memory,
            "--seconds",
            &seconds,
        ];
        Ok(self.alone_baseline(&copies)? * 8.0 / 1e9)
    }

    /// A word of memory from one thread to another and back, in nanoseconds: how far the processors
    /// are from each other.
    pub(super) fn word(&self, rounds: u32) -> Result<f64> {
        let rounds = rounds.to_string();
        let word = ["word", "--rounds", &rounds, "--figure", "median"];
        Ok(self.alone_baseline(&word)? * 1e3)
    }

    /// A yardstick that is one program.
    fn alone_baseline(&self, arguments: &[&str]) -> Result<f64> {
        let said = numbers(self.host.programs(), &self.dir, arguments)?;
        let [number] = said.map_err(Error::msg)?;
        Ok(number)
    }
}
