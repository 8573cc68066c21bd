//! A line between the two namespaces of a pair, beside its veth: packets take their time on it and
//! some are lost, also where the kernel has no `sch_netem`. A program passes them on one by one, so
//! that it has the speed of a processor.

use std::path::Path;
use std::time::Duration;

use anyhow::{Result, ensure};

use crate::lab::holder::Holder;
use crate::lab::netns::{Enter, Namespace, Pair};

/// The interface at either end.
pub(crate) const INTERFACE: &str = "line0";
/// The addresses of the two ends.
pub(crate) const ADDRESSES: [&str; 2] = ["10.78.0.1", "10.78.0.2"];
/// Packets that wait for the program: as many as one of the namespaces sends at once.
const QUEUE: &str = "10000";

/// The line, as long as this lives.
pub(crate) struct Line(Holder);

impl Line {
    /// Joins the namespaces; `programs` holds `udp-baseline`. Nothing is delayed or lost yet.
    pub(crate) fn between(pair: &Pair, programs: &Path, mtu: u32) -> Result<Line> {
        let mut command = pair.a.enter();
        command.arg(programs.join("udp-baseline"));
        command.args(["line", &pair.b.id().to_string()]);
        let line = Line(Holder::start(command)?);
        for (space, address) in [&pair.a, &pair.b].into_iter().zip(ADDRESSES) {
            raise(space, address, mtu)?;
        }
        Ok(line)
    }

    /// From now on packets take half of `trip` in either direction, and this share of them, from 0
    /// to 1, is lost.
    pub(crate) fn becomes(&mut self, trip: Duration, lost: f64) -> Result<()> {
        let answer = self.0.ask(&format!("{} {lost}", (trip / 2).as_micros()))?;
        ensure!(answer == "changed", "the line has ended: {answer}");
        Ok(())
    }
}

/// Brings an end up.
fn raise(space: &Namespace, address: &str, mtu: u32) -> Result<()> {
    let address = format!("{address}/24");
    let mtu = mtu.to_string();
    space.ip(&["addr", "add", &address, "dev", INTERFACE])?;
    let queue = ["txqueuelen", QUEUE];
    let up = ["link", "set", INTERFACE, "mtu", &mtu, "up"];
    space.ip(&[&up[..], &queue].concat())
}
