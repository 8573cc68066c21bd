//! `cargo xtask bench --rxe --html DIR`: the same pictures beside the kernel's rdma_rxe, in one
//! emulated guest.
//!
//! Outside, this starts the guest and draws; what is run inside is `race-curves`.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::Result;
use serde::{Deserialize, Serialize};

use super::page::{self, Conditions};
use super::scheme::{Picture, Scheme, Way, number};
use super::{Plot, iperf};
use crate::bench::measure::first_line;
use crate::bench::race::{bandwidth, perftest};
use crate::bench::rxe;
use crate::build;
use crate::lab::load::Watch;
use crate::lab::losses;
use crate::lab::netns::done;
use crate::lab::rxe::{Contestant, End};
use crate::packages;
use crate::programs::perftest::Runs;

/// Until the guest is ended.
const LIMIT: Duration = Duration::from_secs(1800);
const ROUNDS: usize = 2;
const SECONDS: u32 = 2;
/// Messages of a latency.
const MESSAGES: &str = "1000";

/// Who races, inside the guest.
pub(super) struct Track {
    rxe: Contestant,
    ferroce: Contestant,
    dir: PathBuf,
}

/// Between which ends a value for an x is measured, and how.
pub(super) struct Measure {
    ends: fn(&Track) -> [&End; 2],
    by: By,
}

type By = fn(&Track, [&End; 2], &str) -> Result<f64>;

const fn way(name: &'static str, ends: fn(&Track) -> [&End; 2], by: By) -> Way<Measure> {
    Way {
        name,
        measure: Measure { ends, by },
    }
}

/// Of both contestants, between two hosts and on one device.
const fn all(by: By) -> [Way<Measure>; 4] {
    [
        way("ferroce, two hosts", |track| track.ferroce.joined(), by),
        way("ferroce, one device", |track| track.ferroce.alone(), by),
        way("rdma_rxe, two hosts", |track| track.rxe.joined(), by),
        way("rdma_rxe, one device", |track| track.rxe.alone(), by),
    ]
}

pub(super) static SCHEMES: &[Scheme<Measure>] = &[
    Scheme {
        picture: Picture {
            file: "rxe-bandwidth",
            title: "ib_write_bw over the size of a message, beside rdma_rxe",
            x: "bytes",
            xs: &["64", "1K", "4K", "16K", "64K", "256K", "1M"],
            y: "bandwidth",
            unit: "Gb/s",
            logarithmic: true,
            falls: false,
        },
        ways: &all(Track::bandwidth),
    },
    Scheme {
        picture: Picture {
            file: "rxe-latency",
            title: "ib_send_lat over the size of a message, one way, beside rdma_rxe",
            x: "bytes",
            xs: &["2", "256", "4K", "16K", "64K", "256K"],
            y: "typical latency",
            unit: "us",
            logarithmic: true,
            falls: false,
        },
        ways: &all(Track::latency),
    },
    Scheme {
        picture: Picture {
            file: "rxe-queue-pairs",
            title: "ib_write_bw 64 KiB over the number of queue pairs, beside rdma_rxe",
            x: "queue pairs",
            xs: &["1", "2", "8", "32"],
            y: "bandwidth of all",
            unit: "Gb/s",
            logarithmic: true,
            falls: true,
        },
        ways: &all(Track::queue_pairs),
    },
    Scheme {
        picture: Picture {
            file: "rxe-loss",
            title: "64 KiB where packets are lost both ways, beside rdma_rxe",
            x: "% lost",
            xs: &["0", "0.1", "1", "5"],
            y: "bandwidth",
            unit: "Gb/s",
            logarithmic: true,
            falls: true,
        },
        ways: &[
            way(
                "ferroce, ib_write_bw",
                |track| track.ferroce.joined(),
                Track::lossy_writes,
            ),
            way(
                "rdma_rxe, ib_write_bw",
                |track| track.rxe.joined(),
                Track::lossy_writes,
            ),
            way(
                "TCP, cubic",
                |track| track.ferroce.joined(),
                Track::lossy_streams,
            ),
        ],
    },
];

impl Track {
    fn bandwidth(&self, ends: [&End; 2], x: &str) -> Result<f64> {
        bandwidth(ends, &self.dir, "ib_write_bw", number(x)? as usize)
    }

    fn latency(&self, ends: [&End; 2], x: &str) -> Result<f64> {
        let (size, options) = (number(x)? as usize, ["-n", MESSAGES]);
        perftest(ends, &self.dir, "ib_send_lat", size, &options, 2)
    }

    fn queue_pairs(&self, ends: [&End; 2], count: &str) -> Result<f64> {
        let seconds = SECONDS.to_string();
        let options = ["-D", &seconds, "--report_gbits", "-Q", "1", "-q", count];
        perftest(ends, &self.dir, "ib_write_bw", 65_536, &options, 1)
    }

    fn lossy_writes(&self, ends: [&End; 2], percent: &str) -> Result<f64> {
        lossy(ends, percent, || self.queue_pairs(ends, "1"))
    }

    fn lossy_streams(&self, ends: [&End; 2], percent: &str) -> Result<f64> {
        let commands = ends.map(|end| end.plain("iperf3"));
        let (at, options) = (ends[0].address(), ["-C", "cubic"]);
        lossy(ends, percent, || {
            iperf(&self.dir, commands, at, SECONDS, &options)
        })
    }
}

/// Measures where so many per cent of the packets that come are lost, each by itself.
fn lossy(ends: [&End; 2], percent: &str, measure: impl FnOnce() -> Result<f64>) -> Result<f64> {
    let share = percent.parse::<f64>()? / 100.0;
    hinder(ends, 1, share)?;
    let value = measure();
    hinder(ends, 65_535, 0.0)?;
    value
}

/// How many packets may leave both ends in one piece, and the share of those that come which is
/// lost.
fn hinder(ends: [&End; 2], together: u32, share: f64) -> Result<()> {
    for end in ends {
        end.sends_together(together)?;
        losses::lose_by(end.plain("nft"), share)?;
    }
    Ok(())
}

/// What the guest tells: of each picture, of each of its curves, of each point all values.
#[derive(Serialize, Deserialize)]
struct Measured {
    kernel: String,
    rounds: usize,
    values: Vec<Vec<Vec<Vec<f64>>>>,
}

impl Measured {
    fn of(plots: &[Plot], rounds: usize) -> Measured {
        let curves = |plot: &Plot| {
            let curves = plot.curves.iter();
            let points = curves.map(|curve| curve.points.iter());
            let values = points.map(|points| points.map(|point| point.values.clone()).collect());
            values.collect()
        };
        Measured {
            kernel: page::kernel(),
            rounds,
            values: plots.iter().map(curves).collect(),
        }
    }

    fn plots(self) -> Vec<Plot> {
        let mut plots: Vec<Plot> = SCHEMES.iter().map(Plot::new).collect();
        for (plot, curves) in plots.iter_mut().zip(self.values) {
            for (curve, points) in plot.curves.iter_mut().zip(curves) {
                for (point, values) in curve.points.iter_mut().zip(points) {
                    point.values = values;
                }
            }
        }
        plots
    }
}

/// Measures all of it in a guest, and writes `index.html`, the pictures and `curves.json` to `dir`.
pub fn run(dir: &Path, quick: bool) -> Result<()> {
    packages::ensure(packages::CURVES)?;
    fs::create_dir_all(dir)?;
    let watch = Watch::begin()?;
    rxe::in_guest("race-curves", "bench-curves", quick, LIMIT, |text| {
        let measured: Measured = serde_json::from_slice(text)?;
        let conditions = Conditions::of(measured.rounds, SECONDS, watch.others()?);
        let conditions = conditions.in_guest(measured.kernel.clone());
        page::write(dir, &measured.plots(), &conditions, AROUND)
    })
}

/// What the page says of where it was measured.
const AROUND: &str = "Two hosts are joined by a veth pair of MTU 9000; one device has both ends.";

/// The part inside the guest; `results` gets all values after every picture.
pub fn inside(results: &Path, quick: bool) -> Result<()> {
    done(Command::new("modprobe").arg("nft_numgen"))?;
    let dir = results.parent();
    let track = Track {
        rxe: Contestant::rxe()?,
        ferroce: Contestant::ferroce(&build::release_dir()?)?,
        dir: dir.map_or_else(|| PathBuf::from("."), Path::to_path_buf),
    };

    let mut plots: Vec<Plot> = SCHEMES.iter().map(Plot::new).collect();
    for round in 1..=if quick { 1 } else { ROUNDS } {
        for at in 0..plots.len() {
            plots[at].add(&SCHEMES[at], round, |measure, x| {
                // A point without a value is one that nobody came to the end of.
                let Measure { ends, by } = measure;
                let value = by(&track, ends(&track), x);
                Ok(value
                    .inspect_err(|error| println!("round {round}  {}", first_line(error)))
                    .ok())
            })?;
            fs::write(results, serde_json::to_vec(&Measured::of(&plots, round))?)?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_guest_tells_is_what_is_drawn() {
        let mut plots: Vec<Plot> = SCHEMES.iter().map(Plot::new).collect();
        plots[1].curves[2].points[3].values = vec![1.5, 2.5];
        let told = serde_json::to_vec(&Measured::of(&plots, 2)).unwrap();
        let drawn: Measured = serde_json::from_slice(&told).unwrap();
        assert_eq!(drawn.rounds, 2);
        let drawn = drawn.plots();
        assert_eq!(drawn[1].curves[2].points[3].values, [1.5, 2.5]);
        let values = drawn.iter().flat_map(|plot| &plot.curves);
        let values = values.flat_map(|curve| &curve.points);
        assert_eq!(values.flat_map(|point| &point.values).count(), 2);
    }
}
