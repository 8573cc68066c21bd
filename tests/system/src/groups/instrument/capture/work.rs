//! What stock programs do while they are captured.

use std::path::Path;
use std::process::Command;

use super::LIMIT;
use crate::harness::case::{Ending, Stop};
use crate::harness::process;
use crate::lab::host::Host;
use crate::lab::{Lab, Place, netns};
use crate::programs::perftest::{Pair, Runs};

/// Runs a pair of a program that takes a port and the server's address.
pub(in crate::groups::instrument) fn pair(
    lab: &mut Lab,
    place: Place,
    line: &str,
    dir: &Path,
) -> Ending {
    let pair = Pair::of(line, lab.port(), LIMIT);
    let site = lab.site(place)?;
    let server = Named {
        host: site.server(),
        address: exchange(place, site.server()),
    };
    let ends = pair.run(&server, site.client(), dir)?;
    match ends.client.success() && ends.server.success() {
        true => Ok(()),
        false => Err(Stop::with(line, &[&ends.client, &ends.server])),
    }
}

/// A server's host by the address at which its programs listen by TCP: the pingpongs do so over
/// IPv4 alone.
struct Named<'a> {
    host: &'a Host,
    address: &'a str,
}

impl Runs for Named<'_> {
    fn program(&self, name: &str) -> Command {
        self.host.run(name)
    }

    fn address(&self) -> &str {
        self.address
    }
}

fn exchange(place: Place, host: &Host) -> &str {
    match place {
        Place::Ipv6 => "127.0.0.1",
        Place::VethIpv6(_) => netns::ADDRESSES[0],
        _ => &host.address,
    }
}

/// A connection of rping's.
pub(in crate::groups::instrument) fn rping(lab: &mut Lab, place: Place, dir: &Path) -> Ending {
    let port = lab.port().to_string();
    let site = lab.site(place)?;
    let address = site.server().address.clone();
    let command = |host: &Host, end: &str| {
        let mut command = host.run("rping");
        command.args([end, "-a", &address, "-p", &port, "-C", "2"]);
        command
    };
    let server = process::spawn(command(site.server(), "-s"), dir, "rping-server")?;

    let mut wait = site.server().ferroce();
    wait.args(["wait", &port]);
    let listens = process::run(wait, dir, "wait", LIMIT)?;
    if !listens.success() {
        return Err(Stop::with(
            "rping does not listen",
            &[&listens, &server.kill()],
        ));
    }

    let client = process::run(command(site.client(), "-c"), dir, "rping-client", LIMIT)?;
    let server = server.finish_after(&client, LIMIT);
    if !client.success() || !server.success() {
        return Err(Stop::with("rping", &[&client, &server]));
    }

    // The end of the connection may be on its way still: the one that ends it does not wait for
    // the answer. A daemon that answers has done what came before, and what came while it did.
    for host in [site.server(), site.client()] {
        for _ in 0..2 {
            host.status()?;
        }
    }
    Ok(())
}
