//! `cargo xtask bench`: ferroce by stock perftest against what the machine does with plain UDP and
//! TCP.
//!
//! Everything is measured in one run, the ways by turns, several times: over sockets, as between
//! machines, and some of it between processes of one device, too. What counts are ratios of
//! medians, at the same distance of the processors. A time of its own says nothing on a machine
//! that others share.

mod baseline;
mod curves;
mod delays;
mod distance;
mod engine;
mod loaded;
mod measure;
mod measurements;
mod plain_udp;
mod profile;
mod race;
mod receives;
mod report;
mod riostream;
mod rounds;
mod rules;
mod rxe;
mod table;
mod ways;
mod yardsticks;

pub use curves::{in_guest as curves_beside_rxe, inside as curves_inside, run as curves};
pub use delays::{inside as delays_inside, run as delays};
pub use engine::run as engine_alone;
pub use loaded::{STRANGERS, Scope as Loaded, run as beside_others};
pub use profile::run as profile;
pub use race::inside as race_inside;
pub use receives::run as ways_to_receive;
pub use rxe::run as against_rxe;
pub use ways::run as ways_to_send;

use std::path::Path;

use anyhow::Result;

use crate::build;
use crate::lab::host::Host;
use crate::lab::load::Watch;
use crate::packages;

/// Runs all measurements, prints the table and writes the same figures to `json`.
pub fn run(json: Option<&Path>, quick: bool) -> Result<()> {
    packages::ensure(packages::BENCH)?;
    let programs = build::product()?;
    build::packages(&["ferroce-baseline"])?;
    build::exs()?;
    let mut host = Host::new(&programs, "127.0.0.1", None)?.without_loopback();
    let mut device = Host::new(&programs, "127.0.0.2", None)?;
    let plain = Host::new(&programs, "127.0.0.3", None)?;
    let mut plain = plain.without_loopback().without_io_uring();
    host.up()?;
    device.up()?;
    plain.up()?;
    let (repetitions, seconds) = if quick { (2, 1) } else { (5, 2) };
    println!(
        "xtask: {repetitions} rounds of everything, {seconds} s for each transfer; please leave the machine alone"
    );
    let bench = measure::Bench::new(&host, &device, build::scratch("bench")?, seconds);
    let bench = bench.and_by_poll(&plain);
    let watch = Watch::begin()?;
    let figures = rounds::Rounds::new(&bench)?.run(repetitions)?;
    host.down()?;
    device.down()?;
    plain.down()?;

    let others = watch.others()?;
    let comparisons = table::compare(&figures, others);
    println!("{}", table::render(&comparisons));
    report::say_load(others);
    report::write(&table::json(&figures, &comparisons), json)
}
