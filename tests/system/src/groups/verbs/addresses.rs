//! What becomes of addresses that come and go while a device and its programs are at them.

use std::time::Duration;

use anyhow::Context;

use crate::groups::cm::{TCP, wait_for_listener};
use crate::groups::verbs::interfaces::{hosts, is_at};
use crate::groups::verbs::watch::{ip, only_ipv4};
use crate::harness::case::{Ending, Stop, expect};
use crate::harness::process::{self, Running};
use crate::lab::Lab;
use crate::lab::host::Host;
use crate::lab::netns::{self, Namespace};
use crate::programs::{mckey, perftest};

const LIMIT: Duration = Duration::from_secs(60);
/// How many addresses come and go.
const CHANGES: usize = 40;
/// Descriptors that may be others' by then: of what a daemon or a program opens once.
const FEW: usize = 8;

/// Adds an address of the hosts' subnet, or removes it.
fn change(host: &Host, what: &str, last: usize, interface: &str) -> Ending {
    let address = format!("10.77.0.{last}/24");
    ip(host, &["addr", what, &address, "dev", interface])
}

fn descriptors(process: u64) -> Result<usize, Stop> {
    let all = std::fs::read_dir(format!("/proc/{process}/fd"));
    Ok(all.context("a process's descriptors")?.count())
}

/// Two hosts whose devices have what addresses of IPv4 their interfaces have.
fn at_interfaces(lab: &mut Lab) -> Result<[Host; 2], Stop> {
    lab.vacate();
    let (mut hosts, _) = hosts(lab)?;
    for (host, interface) in hosts.iter_mut().zip(netns::INTERFACES) {
        only_ipv4(host, interface)?;
        host.up_with(&["--netdev", interface])?;
    }
    Ok(hosts)
}

/// Neither the daemon nor a program that receives datagrams at every address keeps anything of
/// those that have gone; and one that returns is as good as new.
pub(super) fn come_and_go(lab: &mut Lab) -> Ending {
    let dir = lab.case_dir()?;
    let [near, far] = &at_interfaces(lab)?;
    let [interface, there] = netns::INTERFACES;

    let mut command = near.run("stdbuf");
    command.args(["-oL", "mckey", "-m", "239.77.0.2", "-b", &near.address]);
    let member = mckey::joined(command, &dir)?;
    let daemon = near.status()?["pid"].as_u64().unwrap_or_default();
    let both = [daemon, u64::from(member.id())];
    let count = || -> Result<Vec<usize>, Stop> { both.map(descriptors).into_iter().collect() };

    let before = count()?;
    for n in 0..CHANGES {
        change(near, "add", 50 + n, interface)?;
        is_at(near, interface, 2)?;
        change(near, "del", 50 + n, interface)?;
        is_at(near, interface, 1)?;
    }
    let after = count()?;
    let few = after.iter().zip(&before).all(|(a, b)| *a < b + FEW);
    expect(few, || format!("descriptors: {before:?}, then {after:?}"))?;

    change(near, "add", 50, interface)?;
    change(far, "add", 49, there)?;
    is_at(near, interface, 2)?;
    is_at(far, there, 2)?;
    // It has its index again.
    for line in [
        "ib_send_lat -F -n 100 -x 1",
        "ib_send_lat -F -n 100 -c UD -x 1",
    ] {
        let pair = perftest::Pair::of(line, lab.port(), LIMIT);
        pair.run(near, far, &dir)?.clean()?;
    }
    member.kill();
    Ok(())
}

/// A connection goes on when the address that it is from is there again.
pub(super) fn returns(lab: &mut Lab) -> Ending {
    const OWN: &str = "10.77.0.60";

    let dir = lab.case_dir()?;
    let [near, far] = &at_interfaces(lab)?;
    let interface = netns::INTERFACES[0];
    change(near, "add", 60, interface)?;
    is_at(near, interface, 2)?;

    let port = lab.port();
    let line = |host: &Host, end: &str| {
        let mut command = host.run("stdbuf");
        command.args(["-oL", "rping", end, "-v", "-C", "1000000", "-S", "64"]);
        command.args(["-a", OWN, "-p", &port.to_string()]);
        command
    };
    let mut server = process::spawn(line(near, "-s"), &dir, "rping -s")?;
    if !wait_for_listener(&mut server, near, TCP, port) {
        return Err(Stop::with("the server does not listen", &[&server.kill()]));
    }
    let mut client = process::spawn(line(far, "-c"), &dir, "rping -c")?;
    let lines = |client: &Running| client.output().lines().count();
    for _ in 0..3 {
        let had = lines(&client);
        if !client.wait_until(LIMIT, |client| lines(client) > had + 20) {
            let ends = [&client.kill(), &server.kill()];
            return Err(Stop::with("the connection does not go on", &ends));
        }
        change(near, "del", 60, interface)?;
        is_at(near, interface, 1)?;
        change(near, "add", 60, interface)?;
        is_at(near, interface, 2)?;
    }
    client.kill();
    server.kill();
    Ok(())
}

/// Two devices of one network, each at an interface of its own: who has the interface has the
/// address.
pub(super) fn to_another_device(lab: &mut Lab) -> Ending {
    lab.vacate();
    let network = Namespace::new()
        .map_err(|error| Stop::Skip(format!("no network without users: {error:#}")))?;
    let host = |address| Host::new(lab.programs(), address, Some(network.clone()));
    let mut hosts = [host(netns::ADDRESSES[0])?, host(netns::ADDRESSES[1])?];
    let interfaces = netns::INTERFACES;
    let [here, there] = interfaces;
    let words = ["link", "add", here, "type", "veth", "peer", "name", there];
    ip(&hosts[0], &words)?;
    for (last, host) in hosts.iter_mut().enumerate() {
        let interface = interfaces[last];
        only_ipv4(host, interface)?;
        ip(host, &["link", "set", interface, "up"])?;
        change(host, "add", 1 + last, interface)?;
        let name = format!("ferroce{last}");
        host.up_with(&["--netdev", interface, "--name", &name])?;
    }
    change(&hosts[0], "add", 50, here)?;
    is_at(&hosts[0], here, 2)?;
    for (from, to) in [(0, 1), (1, 0)] {
        change(&hosts[from], "del", 50, interfaces[from])?;
        change(&hosts[to], "add", 50, interfaces[to])?;
        is_at(&hosts[to], interfaces[to], 2)?;
        is_at(&hosts[from], interfaces[from], 1)?;
    }
    Ok(())
}
