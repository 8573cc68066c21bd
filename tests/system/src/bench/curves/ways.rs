//! Which pictures there are, and how a point of each is measured.

use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, bail};
use serde_json::Value;

use super::Stand;
use super::scheme::{Picture, Scheme, Way, number};
use crate::bench::measure::{Bench, LIMIT, successful};
use crate::harness::case::Stop;
use crate::harness::process;
use crate::lab::host::Host;
use crate::lab::{Place, Site, losses};

const IPERF_PORT: u16 = 19_908;
/// What iperf3 makes connections of at most.
const IPERF_STREAMS: u64 = 128;
/// What the yardstick's ping-pong sends at most.
const LARGEST_PING: u64 = 2048;
/// The path MTU, of which the yardstick's packets are, too.
const MTU: u64 = 4096;
/// The link's MTU where packets are lost.
const LINK_MTU: u32 = 9000;

/// A value for an x. `None`: there is none.
pub(super) type Measure = fn(&Stand<'_>, &str) -> Result<Option<f64>>;

const fn way(name: &'static str, measure: Measure) -> Way<Measure> {
    Way { name, measure }
}

const SOCKETS: &str = "ferroce, sockets";
const DEVICE: &str = "ferroce, one device";
const UDP: &str = "raw UDP GSO/GRO";
const TCP: &str = "TCP";

pub(super) static SCHEMES: &[Scheme<Measure>] = &[
    Scheme {
        picture: Picture {
            file: "bandwidth",
            title: "ib_write_bw over the size of a message",
            x: "bytes",
            xs: &[
                "64", "256", "1K", "4K", "8K", "16K", "32K", "64K", "256K", "1M", "4M",
            ],
            y: "bandwidth",
            unit: "Gb/s",
            logarithmic: false,
            falls: false,
        },
        ways: &[
            way(SOCKETS, |stand, x| bandwidth(&stand.bench, x)),
            way(DEVICE, |stand, x| bandwidth(&stand.bench.alone(), x)),
            way(UDP, |stand, x| {
                let payload = number(x)?.min(MTU) as usize;
                let memory = number(x)? as usize;
                Ok(Some(stand.bench.udp_bytes(payload, memory)? * 8.0 / 1e9))
            }),
            way(TCP, |stand, x| {
                let bytes = number(x)?.to_string();
                stand.bench.tcp_bandwidth(&bytes).map(Some)
            }),
        ],
    },
    Scheme {
        picture: Picture {
            file: "latency",
            title: "ib_write_lat over the size of a message, one way",
            x: "bytes",
            xs: &[
                "2", "16", "64", "256", "1K", "4K", "16K", "64K", "256K", "1M",
            ],
            y: "typical latency",
            unit: "us",
            logarithmic: true,
            falls: false,
        },
        ways: &[
            way(SOCKETS, |stand, x| latency(&stand.bench, x)),
            way(DEVICE, |stand, x| latency(&stand.bench.alone(), x)),
            way("raw UDP ping-pong", |stand, x| match number(x)? {
                large if large > LARGEST_PING => Ok(None),
                size => stand.bench.udp_latency(size as usize).map(Some),
            }),
            way(TCP, |stand, x| {
                let bytes = number(x)?.to_string();
                stand.bench.tcp_latency(&bytes).map(Some)
            }),
        ],
    },
    Scheme {
        picture: Picture {
            file: "queue-pairs",
            title: "ib_write_bw 64 KiB over the number of queue pairs",
            x: "queue pairs",
            xs: &["1", "2", "8", "32", "128", "512"],
            y: "bandwidth of all",
            unit: "Gb/s",
            logarithmic: false,
            falls: true,
        },
        ways: &[
            way(SOCKETS, |stand, x| stand.bench.queue_pairs(x).map(Some)),
            way(DEVICE, |stand, x| {
                stand.bench.alone().queue_pairs(x).map(Some)
            }),
            way("raw UDP GSO/GRO, as much memory", |stand, x| {
                let memory = number(x)? as usize * 65_536;
                stand.bench.udp_bandwidth(memory).map(Some)
            }),
            way("two copies, as much memory", |stand, x| {
                let memory = number(x)? as usize * 65_536;
                stand.bench.copies("ring", memory).map(Some)
            }),
            way("TCP, as many connections", |stand, x| match number(x)? {
                many if many > IPERF_STREAMS => Ok(None),
                count => {
                    let host = stand.bench.host;
                    streams(&stand.bench, [host; 2], &["-P", &count.to_string()])
                }
            }),
        ],
    },
    Scheme {
        picture: Picture {
            file: "loss",
            title: "64 KiB where packets are lost both ways (veth, MTU 9000)",
            x: "% lost",
            xs: &["0", "0.01", "0.1", "1", "5"],
            y: "bandwidth",
            unit: "Gb/s",
            logarithmic: true,
            falls: true,
        },
        ways: &[
            way("ib_write_bw, go-back-N", |stand, x| {
                lossy_writes(stand, &stand.go_back_n, x)
            }),
            way("ib_write_bw", |stand, x| {
                lossy_writes(stand, &stand.lossy, x)
            }),
            way("TCP, cubic", |stand, x| lossy_tcp(stand, x, "cubic")),
            way("TCP, bbr", |stand, x| lossy_tcp(stand, x, "bbr")),
        ],
    },
];

fn bandwidth(bench: &Bench<'_>, x: &str) -> Result<Option<f64>> {
    bench
        .bandwidth("ib_write_bw", number(x)? as usize)
        .map(Some)
}

fn latency(bench: &Bench<'_>, x: &str) -> Result<Option<f64>> {
    bench.latency("ib_write_lat", number(x)? as usize).map(Some)
}

fn lossy_writes(stand: &Stand<'_>, between: &Lossy, x: &str) -> Result<Option<f64>> {
    let (server, client) = between.ends(x)?;
    let ends = [server, client];
    let value = stand.bench.transfer(ends, "ib_write_bw", 65_536, &[]);
    value.map(Some)
}

fn lossy_tcp(stand: &Stand<'_>, x: &str, congestion: &str) -> Result<Option<f64>> {
    let known = std::fs::read_to_string("/proc/sys/net/ipv4/tcp_available_congestion_control")?;
    if !known.split_whitespace().any(|name| name == congestion) {
        return Ok(None);
    }
    let (server, client) = stand.lossy.ends(x)?;
    streams(&stand.bench, [server, client], &["-C", congestion])
}

fn streams(bench: &Bench<'_>, ends: [&Host; 2], options: &[&str]) -> Result<Option<f64>> {
    let address = &ends[0].address;
    let commands = ends.map(|host| host.plain("iperf3"));
    iperf(&bench.dir, commands, address, bench.seconds, options).map(Some)
}

/// Gb/s that iperf3, server and client, has received, without what it took to come up to speed.
pub(in crate::bench) fn iperf(
    dir: &Path,
    [mut server, mut client]: [Command; 2],
    address: &str,
    seconds: u32,
    options: &[&str],
) -> Result<f64> {
    let port = IPERF_PORT.to_string();
    server.args(["-s", "-1", "-p", &port]);
    let mut listener = process::spawn(server, dir, "iperf-server")?;
    if !listener.listens(IPERF_PORT, LIMIT) {
        bail!("iperf3 does not come to listen");
    }

    client
        .args(["-c", address, "-p", &port, "-l", "64K", "-J"])
        .args(["-t", &seconds.to_string(), "-O", "1"])
        .args(options);
    let ran = process::run(client, dir, "iperf-client", LIMIT)?;
    let listener = listener.finish_after(&ran, LIMIT);
    successful(&[&ran, &listener])?;

    let said: Value = serde_json::from_str(&ran.out).context("what iperf3 says")?;
    let rate = said["end"]["sum_received"]["bits_per_second"].as_f64();
    Ok(rate.context("what iperf3 says has no rate")? / 1e9)
}

/// Two hosts between which packets are lost.
pub(super) struct Lossy {
    site: Site,
}

impl Lossy {
    /// Whose programs recover from losses by `recovery`.
    pub(super) fn new(programs: &Path, recovery: &'static str) -> Result<Lossy> {
        let mut site = Site::new(Place::Veth(LINK_MTU), programs).map_err(Stop::into_error)?;
        site.recovers_by([recovery; 2]);
        // A packet is lost by itself, as on a wire, and not with the send that it was in.
        site.segment_in_software().map_err(Stop::into_error)?;
        Ok(Lossy { site })
    }

    /// Both ends, that lose so many per cent of what comes.
    fn ends(&self, percent: &str) -> Result<(&Host, &Host)> {
        let share: f64 = percent.parse()?;
        let (server, client) = (self.site.server(), self.site.client());
        for host in [server, client] {
            losses::lose(host, share / 100.0)?;
        }
        Ok((server, client))
    }
}
