//! `cargo xtask bench --rxe --html DIR`: the same pictures beside the kernel's rdma_rxe, in one
//! emulated guest.
//!
//! Outside, this starts the guest and draws; what is run inside is `race-curves`.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Result, bail};
use serde::{Deserialize, Serialize};

use super::page::{self, Conditions};
use super::scheme::{Picture, Scheme, Way, number};
use super::{Plot, iperf};
use crate::bench::measure::first_line;
use crate::bench::race::perftest;
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

/// A value for an x. `None`: there is none.
pub(super) type Measure = fn(&Track, &str) -> Result<Option<f64>>;

const fn way(name: &'static str, measure: Measure) -> Way<Measure> {
    Way { name, measure }
}

const OURS: &str = "ferroce, two hosts";
const OURS_ALONE: &str = "ferroce, one device";
const RXE: &str = "rdma_rxe, two hosts";
const RXE_ALONE: &str = "rdma_rxe, one device";

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
        ways: &[
            way(OURS, |track, x| track.bandwidth(track.ferroce.joined(), x)),
            way(OURS_ALONE, |track, x| {
                track.bandwidth(track.ferroce.alone(), x)
            }),
            way(RXE, |track, x| track.bandwidth(track.rxe.joined(), x)),
            way(RXE_ALONE, |track, x| track.bandwidth(track.rxe.alone(), x)),
        ],
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
        ways: &[
            way(OURS, |track, x| track.latency(track.ferroce.joined(), x)),
            way(OURS_ALONE, |track, x| {
                track.latency(track.ferroce.alone(), x)
            }),
            way(RXE, |track, x| track.latency(track.rxe.joined(), x)),
            way(RXE_ALONE, |track, x| track.latency(track.rxe.alone(), x)),
        ],
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
        ways: &[
            way(OURS, |track, x| {
                track.queue_pairs(track.ferroce.joined(), x)
            }),
            way(OURS_ALONE, |track, x| {
                track.queue_pairs(track.ferroce.alone(), x)
            }),
            way(RXE, |track, x| track.queue_pairs(track.rxe.joined(), x)),
            way(RXE_ALONE, |track, x| {
                track.queue_pairs(track.rxe.alone(), x)
            }),
        ],
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
            way("ferroce, ib_write_bw", |track, x| {
                track.lossy(&track.ferroce, x, |ends| track.queue_pairs(ends, "1"))
            }),
            way("rdma_rxe, ib_write_bw", |track, x| {
                track.lossy(&track.rxe, x, |ends| track.queue_pairs(ends, "1"))
            }),
            way("TCP, cubic", |track, x| {
                track.lossy(&track.ferroce, x, |ends| track.streams(ends))
            }),
        ],
    },
];

impl Track {
    fn bandwidth(&self, ends: [&End; 2], x: &str) -> Result<Option<f64>> {
        let size = number(x)? as usize;
        let seconds = SECONDS.to_string();
        let mut options = vec!["-D", &seconds, "--report_gbits"];
        // As in the race: large messages complete one by one, and few are outstanding, as rdma_rxe
        // gets no further with a hundred of them in the time.
        if size >= 65_536 {
            options.extend(["-Q", "1"]);
        }
        if size > 65_536 {
            options.extend(["-t", "16"]);
        }
        perftest(ends, &self.dir, "ib_write_bw", size, &options, 1).map(Some)
    }

    fn latency(&self, ends: [&End; 2], x: &str) -> Result<Option<f64>> {
        let (size, options) = (number(x)? as usize, ["-n", MESSAGES]);
        perftest(ends, &self.dir, "ib_send_lat", size, &options, 2).map(Some)
    }

    fn queue_pairs(&self, ends: [&End; 2], count: &str) -> Result<Option<f64>> {
        let seconds = SECONDS.to_string();
        let options = ["-D", &seconds, "--report_gbits", "-Q", "1", "-q", count];
        perftest(ends, &self.dir, "ib_write_bw", 65_536, &options, 1).map(Some)
    }

    fn streams(&self, [server, client]: [&End; 2]) -> Result<Option<f64>> {
        let commands = [server, client].map(|end| end.plain("iperf3"));
        let options = ["-C", "cubic"];
        iperf(&self.dir, commands, server.address(), SECONDS, &options).map(Some)
    }

    /// Measures where so many per cent of the packets that come are lost, each by itself.
    fn lossy(
        &self,
        contestant: &Contestant,
        percent: &str,
        measure: impl FnOnce([&End; 2]) -> Result<Option<f64>>,
    ) -> Result<Option<f64>> {
        let share = percent.parse::<f64>()? / 100.0;
        hinder(contestant, "1", share)?;
        let value = measure(contestant.joined());
        hinder(contestant, "65535", 0.0)?;
        value
    }
}

/// How many packets may leave both ends in one piece, and the share of those that come which is
/// lost.
fn hinder(contestant: &Contestant, together: &str, share: f64) -> Result<()> {
    for end in contestant.joined() {
        let words = [
            "link",
            "set",
            "dev",
            end.interface(),
            "gso_max_segs",
            together,
        ];
        done(end.plain("ip").args(words))?;
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
    let mut told = None;
    rxe::in_guest("race-curves", "bench-curves", quick, LIMIT, |text| {
        told = Some(serde_json::from_slice::<Measured>(text)?);
        Ok(())
    })?;
    let Some(measured) = told else {
        bail!("the guest has told nothing");
    };

    let conditions = Conditions::of(measured.rounds, SECONDS, watch.others()?);
    let conditions = conditions.in_guest(measured.kernel.clone());
    page::write(dir, &measured.plots(), &conditions, AROUND)
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
                measure(&track, x).or_else(|error| {
                    println!("round {round}  {}", first_line(&error));
                    Ok(None)
                })
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
