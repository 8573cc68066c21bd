//! What becomes of interfaces: several in one subnet, addresses that are on none that leads out,
//! and interfaces that come, are renamed and go while a device is at them.

use std::thread;
use std::time::{Duration, Instant};

use crate::groups::cm::{TCP, wait_for_listener};
use crate::groups::verbs::watch::{ip, only_ipv4};
use crate::harness::case::{Ending, Parts, Stop, expect};
use crate::harness::process;
use crate::lab::Lab;
use crate::lab::host::Host;
use crate::lab::netns::{self, Pair};
use crate::programs::{cprogram, mckey, perftest};

const LIMIT: Duration = Duration::from_secs(60);
/// The second interface of each host, and its addresses, of the first one's subnets.
pub(super) const SECOND: [&str; 2] = ["fveth2", "fveth3"];
const IPV4: [&str; 2] = ["10.77.0.101", "10.77.0.102"];
const IPV6: [&str; 2] = ["fd77::101", "fd77::102"];

/// Two hosts without daemons, joined by one link, and the process that holds the second one.
pub(super) fn hosts(lab: &Lab) -> Result<([Host; 2], u32), Stop> {
    let pair = Pair::new(1500).map_err(|error| {
        Stop::Skip(format!(
            "network namespaces are not allowed here: {error:#}"
        ))
    })?;
    pair.add_ipv6()?;
    let far = pair.b.id();
    let [near_address, far_address] = netns::ADDRESSES;
    let near = Host::new(lab.programs(), near_address, Some(pair.a))?;
    Ok((
        [near, Host::new(lab.programs(), far_address, Some(pair.b))?],
        far,
    ))
}

/// Joins them by a second link.
pub(super) fn join_again(hosts: &[Host; 2], far: u32) -> Ending {
    let [here, there] = SECOND;
    let words = ["link", "add", here, "type", "veth", "peer", "name", there];
    ip(&hosts[0], &words)?;
    ip(
        &hosts[0],
        &["link", "set", there, "netns", &far.to_string()],
    )?;
    for (host, interface) in hosts.iter().zip(SECOND) {
        only_ipv4(host, interface)?;
        ip(host, &["link", "set", interface, "up"])?;
    }
    Ok(())
}

/// Has the second link be in a subnet.
pub(super) fn in_subnet(hosts: &[Host; 2], ipv4: [&str; 2], ipv6: [&str; 2]) -> Ending {
    for (index, host) in hosts.iter().enumerate() {
        let v4 = format!("{}/24", ipv4[index]);
        ip(host, &["addr", "add", &v4, "dev", SECOND[index]])?;
        let v6 = format!("{}/64", ipv6[index]);
        ip(host, &["addr", "add", &v6, "dev", SECOND[index], "nodad"])?;
    }
    Ok(())
}

/// The device is at the second interface, the host's routes prefer the first.
pub(super) fn one_subnet(lab: &mut Lab) -> Ending {
    lab.vacate();
    let dir = lab.case_dir()?;
    let (mut hosts, far) = hosts(lab)?;
    // Each interface answers for its own addresses.
    for host in &hosts {
        let mut sysctl = host.plain("sh");
        sysctl.args([
            "-c",
            "cd /proc/sys/net/ipv4/conf/all; echo 1 > arp_ignore; echo 2 > arp_announce",
        ]);
        netns::done(&mut sysctl)?;
    }
    join_again(&hosts, far)?;
    in_subnet(&hosts, IPV4, IPV6)?;
    for (index, host) in hosts.iter_mut().enumerate() {
        host.up_with(&["--netdev", SECOND[index]])?;
    }

    let transfer = |hosts: &[Host; 2], line: &str| {
        let pair = perftest::Pair::of(line, lab.port(), LIMIT);
        pair.run(&hosts[1], &hosts[0], &dir)?.clean()
    };
    for line in [
        "ib_send_bw -F -n 100 -x 0",
        "ib_send_bw -F -n 100 -x 1",
        "ib_send_bw -F -n 100 -c UD -x 0",
    ] {
        transfer(&hosts, line)?;
    }

    // The connection manager's messages are the daemon's.
    let port = lab.port().to_string();
    let line = |host: &Host, end: &str| {
        let mut command = host.run("rping");
        command.args([end, "-a", IPV4[1], "-p", &port, "-C", "5"]);
        command
    };
    let mut server = process::spawn(line(&hosts[1], "-s"), &dir, "rping -s")?;
    if !wait_for_listener(
        &mut server,
        &hosts[1],
        TCP,
        port.parse().unwrap_or_default(),
    ) {
        let server = server.finish(Duration::ZERO);
        return Err(Stop::with("the server does not come to listen", &[&server]));
    }
    let client = process::run(line(&hosts[0], "-c"), &dir, "rping -c", LIMIT)?;
    match client.success() {
        true => Ok(()),
        false => Err(Stop::with(
            client.ending(),
            &[&client, &server.finish(Duration::ZERO)],
        )),
    }
}

/// Addresses of the loopback interface that routes lead to: the default path MTU fits the link, and
/// packets leave as the routes say.
pub(super) fn service_addresses(lab: &mut Lab) -> Ending {
    const OWN: [&str; 2] = ["10.78.0.1", "10.78.0.2"];

    lab.vacate();
    let dir = lab.case_dir()?;
    let (mut hosts, _) = hosts(lab)?;
    for (index, host) in hosts.iter_mut().enumerate() {
        let (own, peer) = (
            format!("{}/32", OWN[index]),
            format!("{}/32", OWN[1 - index]),
        );
        ip(host, &["addr", "add", &own, "dev", "lo"])?;
        let way = ["dev", netns::INTERFACES[index], "src", OWN[index]];
        ip(host, &[&["route", "add", &peer], &way[..]].concat())?;
        host.up_with(&["--addr", OWN[index]])?;
    }
    let device = hosts[0].status()?["device"].clone();
    expect(device["active_mtu"] == 1024, || format!("{device}"))?;
    let pair = perftest::Pair::of("ib_send_bw -F -n 50 -s 65536", lab.port(), LIMIT);
    pair.run(&hosts[1], &hosts[0], &dir)?.clean()
}

/// Rules have what comes from the device's address leave by another interface: so it does, over
/// both families.
pub(super) fn ruled(lab: &mut Lab) -> Ending {
    const BEYOND: [[&str; 2]; 2] = [["10.79.0.1", "10.79.0.2"], ["fd79::1", "fd79::2"]];
    const MESSAGES: u64 = 500;
    const LINE: &str = "ib_send_lat -F -s 8 -n 500";

    lab.vacate();
    let dir = lab.case_dir()?;
    let (mut hosts, far) = hosts(lab)?;
    join_again(&hosts, far)?;
    in_subnet(&hosts, BEYOND[0], BEYOND[1])?;
    let near = &hosts[0];
    // Without one, nobody asks for neighbours for an address of another interface.
    let link_local = ["addr", "add", "fe80::77:1/64", "dev", SECOND[0], "nodad"];
    ip(near, &link_local)?;
    for (option, own, subnet, hop) in [
        ("-4", netns::ADDRESSES[0], "10.77.0.0/24", BEYOND[0][1]),
        ("-6", netns::ADDRESSES_V6[0], "fd77::/64", BEYOND[1][1]),
    ] {
        ip(near, &[option, "rule", "add", "from", own, "table", "100"])?;
        let way = ["via", hop, "dev", SECOND[0], "table", "100"];
        ip(
            near,
            &[&[option, "route", "add", subnet], &way[..]].concat(),
        )?;
    }
    for (index, host) in hosts.iter_mut().enumerate() {
        host.up_with(&["--netdev", netns::INTERFACES[index]])?;
    }

    let [there, ruled] = [netns::INTERFACES[0], SECOND[0]];
    for gid in ["-x 0", "-x 1"] {
        let before = [sent(&hosts[0], there)?, sent(&hosts[0], ruled)?];
        let pair = perftest::Pair::of(&format!("{LINE} {gid}"), lab.port(), LIMIT);
        pair.run(&hosts[1], &hosts[0], &dir)?.clean()?;
        let by_it = sent(&hosts[0], ruled)? - before[1];
        let past = sent(&hosts[0], there)? - before[0];
        expect(by_it >= MESSAGES && past < MESSAGES, || {
            format!("{gid}: {by_it} packets by {ruled}, {past} by {there}")
        })?;
    }
    Ok(())
}

/// How many packets a host has sent by an interface.
fn sent(host: &Host, interface: &str) -> Result<u64, Stop> {
    let mut command = host.plain("cat");
    let output = command.arg("/proc/net/dev").output();
    let text = output.map(|output| String::from_utf8_lossy(&output.stdout).into_owned());
    let text = text.unwrap_or_default();
    let line = text
        .lines()
        .find_map(|line| line.trim().strip_prefix(interface));
    // Behind the name and eight numbers of what has come: bytes, packets.
    let packets = line.and_then(|line| line.split_whitespace().nth(10));
    let packets = packets.and_then(|number| number.parse().ok());
    packets.ok_or_else(|| Stop::fail(format!("no {interface} in {text}")))
}

/// Whose programs those of a device are that need not be in its network: if they are `apart`, their
/// own has nothing.
pub(super) fn programs(host: &Host, apart: bool) -> Result<Option<Host>, Stop> {
    apart.then(|| host.apart()).transpose()
}

/// The tests of `routes.c`, which gets a route when it is ready for that.
pub(super) fn without_route(lab: &mut Lab, apart: bool) -> Parts {
    lab.vacate();
    let program = cprogram::compile("routes")?;
    let dir = lab.case_dir()?;
    let (mut hosts, _) = hosts(lab)?;
    let [near, _] = &mut hosts;
    let interface = netns::INTERFACES[0];
    only_ipv4(near, interface)?;
    ip(near, &["route", "add", "unreachable", "10.82.1.0/24"])?;
    near.up_with(&["--netdev", interface])?;
    let aside = programs(near, apart)?;
    let line = aside.as_ref().unwrap_or(near).run(program);
    cprogram::run_through_change(line, &dir, LIMIT, || {
        ip(near, &["route", "add", "192.0.2.0/24", "dev", interface])
    })
}

/// A device at an interface without addresses comes up and gets those that come. It follows the
/// interface where it is renamed, and where it is deleted and made again, and so does who has
/// joined a group.
pub(super) fn comes_and_goes(lab: &mut Lab, apart: bool) -> Ending {
    const GROUP: &str = "239.77.0.1";

    lab.vacate();
    let dir = lab.case_dir()?;
    let (mut hosts, far) = hosts(lab)?;
    let address = |index: usize| format!("{}/24", netns::ADDRESSES[index]);
    for (index, host) in hosts.iter_mut().enumerate() {
        let interface = netns::INTERFACES[index];
        only_ipv4(host, interface)?;
        ip(host, &["addr", "del", &address(index), "dev", interface])?;
        host.up_with(&["--netdev", interface])?;
        is_at(host, interface, 0)?;
        ip(host, &["addr", "add", &address(index), "dev", interface])?;
        is_at(host, interface, 1)?;
    }

    let [near, there] = netns::INTERFACES;
    ip(&hosts[0], &["link", "set", near, "name", "renamed"])?;
    is_at(&hosts[0], "renamed", 1)?;

    let line = |host: &Host, more: &[&str]| {
        let mut command = host.run("stdbuf");
        command.args(["-oL", "mckey", "-m", GROUP, "-b", &host.address, "-C", "5"]);
        command.args(more);
        command
    };
    let aside = programs(&hosts[0], apart)?;
    let line_of_member = line(aside.as_ref().unwrap_or(&hosts[0]), &[]);
    let mut member = mckey::joined(line_of_member, &dir)?;

    ip(&hosts[0], &["link", "del", "renamed"])?;
    is_at(&hosts[0], "renamed", 0)?;
    let words = [
        "link", "add", "renamed", "type", "veth", "peer", "name", there,
    ];
    ip(&hosts[0], &words)?;
    ip(
        &hosts[0],
        &["link", "set", there, "netns", &far.to_string()],
    )?;
    let names = ["renamed", there];
    for (index, name) in names.into_iter().enumerate() {
        only_ipv4(&hosts[index], name)?;
        ip(&hosts[index], &["link", "set", name, "up"])?;
        ip(
            &hosts[index],
            &["addr", "add", &address(index), "dev", name],
        )?;
    }
    for (host, name) in hosts.iter().zip(names) {
        is_at(host, name, 1)?;
    }

    // The program's own helper learns of it a moment after the daemon.
    let joined = |host: &Host| {
        let output = host.plain("cat").arg("/proc/net/igmp").output().ok();
        let text = output.map(|output| String::from_utf8_lossy(&output.stdout).into_owned());
        text.is_some_and(|text| text.contains("01004DEF"))
    };
    if !member.wait_until(LIMIT, |_| joined(&hosts[0])) {
        return Err(Stop::with(
            "the group is not joined again",
            &[&member.kill()],
        ));
    }
    let sender = process::run(line(&hosts[1], &["-s"]), &dir, "sender", LIMIT)?;
    let member = member.finish(LIMIT);
    match member.success() && member.out.contains("return status 0") {
        true => Ok(()),
        false => Err(Stop::with("not all of it came", &[&member, &sender])),
    }
}

/// A given address moves to another interface, and the one that had it goes: the port is where the
/// address is.
pub(super) fn address_moves(lab: &mut Lab) -> Ending {
    lab.vacate();
    let dir = lab.case_dir()?;
    let (mut hosts, far) = hosts(lab)?;
    join_again(&hosts, far)?;
    for (index, host) in hosts.iter_mut().enumerate() {
        let (from, to) = (netns::INTERFACES[index], SECOND[index]);
        host.up_with(&["--addr", netns::ADDRESSES[index]])?;
        is_at(host, from, 1)?;
        let address = format!("{}/24", netns::ADDRESSES[index]);
        ip(host, &["addr", "del", &address, "dev", from])?;
        ip(host, &["addr", "add", &address, "dev", to])?;
    }
    ip(&hosts[0], &["link", "del", netns::INTERFACES[0]])?;
    for (host, interface) in hosts.iter().zip(SECOND) {
        is_at(host, interface, 1)?;
    }
    let pair = perftest::Pair::of("ib_send_lat -F -n 100", lab.port(), LIMIT);
    pair.run(&hosts[1], &hosts[0], &dir)?.clean()
}

/// Waits until a device is active, by an interface of that name and with so many addresses, or, of
/// an interface that is gone, without.
pub(super) fn is_at(host: &Host, interface: &str, addresses: usize) -> Ending {
    let end = Instant::now() + LIMIT;
    loop {
        let status = host.status()?;
        let device = &status["device"];
        let gids = status["gids"].as_array().map_or(0, Vec::len);
        let there = addresses == 0 || device["port_active"] == true;
        if device["netdev"] == interface && gids == addresses && there {
            return Ok(());
        }
        if Instant::now() > end {
            let (gids, device) = (&status["gids"], &status["device"]);
            return Err(Stop::fail(format!("not at {interface}: {device}, {gids}")));
        }
        thread::sleep(Duration::from_millis(20));
    }
}
