//! `cargo xtask bench --html DIR`: bandwidth and latency over the size of messages, bandwidth over
//! the number of queue pairs and over loss, beside plain UDP and TCP, as pictures.
//!
//! All ways to a point of a picture are measured by turns in one run, several rounds; a point is
//! the median, its bar the range. Who looks at the pictures is told what else the machine did.

mod draw;
mod emulated;
mod page;
mod scheme;
mod ways;

use std::fs;
use std::path::Path;

use anyhow::{Context, Result};

use super::measure::{Bench, Figure};
use crate::build;
use crate::lab::host::Host;
use crate::lab::load::Watch;
use crate::packages;
use page::Conditions;
use scheme::{Picture, Scheme};
use ways::{Lossy, SCHEMES};

pub use emulated::{inside, run as in_guest};
pub(super) use ways::iperf;

/// What the page says of where it was measured.
const AROUND: &str = "Sockets are those of the loopback interface; one device: two processes \
                      through memory.";

/// What is measured.
pub(super) struct Stand<'a> {
    bench: Bench<'a>,
    /// Hosts between which packets are lost, with go-back-N and with what is the default.
    go_back_n: Lossy,
    lossy: Lossy,
}

/// One way's points.
struct Curve {
    name: &'static str,
    /// One for each x of the scheme; without values where the way has none.
    points: Vec<Figure>,
}

/// A picture's numbers.
struct Plot {
    picture: &'static Picture,
    curves: Vec<Curve>,
}

/// Measures all of it, and writes `index.html`, the pictures and `curves.json` to `dir`.
pub fn run(dir: &Path, quick: bool) -> Result<()> {
    packages::ensure(packages::BENCH)?;
    packages::ensure(packages::CURVES)?;
    fs::create_dir_all(dir).with_context(|| dir.display().to_string())?;
    let programs = build::product()?;
    build::packages(&["ferroce-baseline"])?;

    let mut host = Host::new(&programs, "127.0.0.1", None)?.without_loopback();
    let mut device = Host::new(&programs, "127.0.0.2", None)?;
    host.up()?;
    device.up()?;

    let (rounds, seconds) = if quick { (1, 1) } else { (3, 2) };
    println!(
        "xtask: {rounds} rounds, {seconds} s for each transfer; please leave the machine alone"
    );
    let stand = Stand {
        bench: Bench::new(&host, &device, build::scratch("bench")?, seconds),
        go_back_n: Lossy::new(&programs, "go-back-n")?,
        lossy: Lossy::new(&programs, "automatic")?,
    };

    let watch = Watch::begin()?;
    let plots = measure(&stand, rounds)?;
    drop(stand);
    host.down()?;
    device.down()?;
    let conditions = Conditions::of(rounds, seconds, watch.others()?);
    page::write(dir, &plots, &conditions, AROUND)
}

/// Every picture in each round, every way at each point of it.
fn measure(stand: &Stand<'_>, rounds: usize) -> Result<Vec<Plot>> {
    let mut plots: Vec<Plot> = SCHEMES.iter().map(Plot::new).collect();
    for round in 1..=rounds {
        for (scheme, plot) in SCHEMES.iter().zip(&mut plots) {
            plot.add(scheme, round, |measure, x| measure(stand, x))?;
        }
    }
    Ok(plots)
}

impl Plot {
    /// Nothing measured yet.
    fn new<M>(scheme: &'static Scheme<M>) -> Plot {
        let picture = &scheme.picture;
        let empty = |_: &&str| Figure::new(picture.file, picture.unit);
        let curves = scheme.ways.iter().map(|way| Curve {
            name: way.name,
            points: picture.xs.iter().map(empty).collect(),
        });
        Plot {
            picture,
            curves: curves.collect(),
        }
    }

    /// One more round.
    fn add<M>(
        &mut self,
        scheme: &Scheme<M>,
        round: usize,
        by: impl Fn(&M, &str) -> Result<Option<f64>>,
    ) -> Result<()> {
        let picture = self.picture;
        for (index, x) in picture.xs.iter().enumerate() {
            for (way, curve) in scheme.ways.iter().zip(&mut self.curves) {
                let name = format!("{}, {} {x}", way.name, picture.x);
                let measured = by(&way.measure, x).with_context(|| format!("measuring {name}"))?;
                let Some(value) = measured else {
                    continue;
                };
                println!("round {round}  {name:<60} {value:>10.3} {}", picture.unit);
                curve.points[index].values.push(value);
            }
        }
        Ok(())
    }
}
