//! Group `cm`, continued: which interface an address means, and where there is none.

use std::time::{Duration, Instant};

use crate::groups::cm::{LIMIT, TCP, USUAL_PORT, changes, wait_for_listener};
use crate::groups::verbs::watch::ip;
use crate::harness::case::{Case, Ending, Stop, expect};
use crate::harness::process;
use crate::lab::Lab;
use crate::lab::environment;
use crate::lab::host::Host;
use crate::lab::netns::{ADDRESSES, ADDRESSES_V6, INTERFACES, Namespace};
use crate::programs::mckey;

/// A second link between the two hosts of a pair: its ends.
const SECOND: [&str; 2] = ["fveth2", "fveth3"];
/// Addresses that each host has at both of its interfaces.
const LINK_LOCAL: [&str; 2] = ["fe80::77:1", "fe80::77:2"];

pub(crate) fn cases() -> Vec<Case> {
    vec![
        Case::new("cm/veth/one link-local address at two interfaces", alike),
        Case::new("cm/veth/where routes lead past the device", past),
        Case::new("cm/veth/a host that is not there", absent),
        Case::new("cm/veth/where no datagram goes", nowhere),
        Case::new("cm/veth/where groups are", groups),
    ]
}

/// Two hosts, joined twice, without daemons.
fn joined_twice(lab: &Lab) -> Result<[Host; 2], Stop> {
    let pair = changes::pair()?;
    let far = Namespace::id(&pair.b).to_string();
    let [near, other] = SECOND;
    let host = |address, namespace| Host::new(lab.programs(), address, Some(namespace));
    let hosts = [host(LINK_LOCAL[0], pair.a)?, host(LINK_LOCAL[1], pair.b)?];
    let line = [
        "link", "add", near, "type", "veth", "peer", "name", other, "netns", &far,
    ];
    ip(&hosts[0], &line)?;
    for (host, interface) in hosts.iter().zip(SECOND) {
        ip(host, &["link", "set", interface, "up"])?;
    }
    Ok(hosts)
}

/// The same link-local addresses at both links: a request comes to the one by which it was sent,
/// and only who listens there takes it.
fn alike(lab: &mut Lab) -> Ending {
    let dir = lab.case_dir()?;
    let mut hosts = joined_twice(lab)?;
    let both = [INTERFACES, SECOND];
    for (at, (host, address)) in hosts.iter_mut().zip(LINK_LOCAL).enumerate() {
        let address = |link: [&str; 2]| format!("{address}%{}", link[at]);
        for link in both {
            let prefix = format!("{}/64", host.address);
            ip(host, &["addr", "add", &prefix, "dev", link[at], "nodad"])?;
        }
        let [first, second] = both.map(address);
        host.up_with(&["--addr", &first, "--addr", &second])?;
    }

    let [near, far] = &hosts;
    for (link, other) in [(INTERFACES, SECOND), (SECOND, INTERFACES)] {
        for everywhere in [true, false] {
            let listened = match everywhere {
                true => "::".to_owned(),
                false => format!("{}%{}", LINK_LOCAL[1], link[1]),
            };
            let mut server = far.run("rping");
            server.args(["-s", "-V", "-C", "5", "-a", &listened]);
            let mut server = process::spawn(server, &dir, "server")?;
            if !wait_for_listener(&mut server, far, TCP, USUAL_PORT) {
                return Err(Stop::with("no listener", &[&server.kill()]));
            }

            let ask = |interface: &str| {
                let mut client = near.run("rping");
                let address = format!("{}%{interface}", LINK_LOCAL[1]);
                client.args(["-c", "-V", "-C", "5", "-a", &address]);
                process::run(client, &dir, "client", LIMIT)
            };
            if !everywhere {
                let refused = ask(other[0])?;
                let said = format!("{}{}", refused.out, refused.err);
                expect(said.contains("RDMA_CM_EVENT_REJECTED, error 8"), || {
                    format!("who listens at {listened} heard of {}: {said}", other[0])
                })?;
            }

            let client = ask(link[0])?;
            let server = server.finish_after(&client, Duration::from_secs(10));
            if !client.success() || !server.success() {
                let what = format!("by {}, to {listened}", link[0]);
                return Err(Stop::with(what, &[&client, &server]));
            }
        }
    }
    Ok(())
}

/// Where routes lead by an interface without a device, and the device's addresses are those of
/// another one, there is no device (`-ENODEV`) at once. A service's address, at the loopback
/// interface, is one by whichever interface packets leave.
fn past(lab: &mut Lab) -> Ending {
    const BEYOND: [&str; 2] = ["10.78.0.1", "10.78.0.2"];
    const SERVICE: &str = "10.79.0.1";

    let dir = lab.case_dir()?;
    let mut hosts = joined_twice(lab)?;
    for ((host, interface), address) in hosts.iter().zip(SECOND).zip(BEYOND) {
        let prefix = format!("{address}/24");
        ip(host, &["addr", "add", &prefix, "dev", interface])?;
    }
    let [near, far] = &mut hosts;
    near.up_with(&["--netdev", INTERFACES[0]])?;
    let mut client = near.run("ucmatose");
    client.args(["-s", BEYOND[1]]);
    let client = process::run(client, &dir, "past", LIMIT)?;
    let said = format!("{}{}", client.out, client.err);
    if client.success() || !said.contains("RDMA_CM_EVENT_ADDR_ERROR, error: -19") {
        return Err(Stop::with("not told that there is no device", &[&client]));
    }
    expect(client.elapsed < Duration::from_secs(5), || {
        format!("told after {:?}", client.elapsed)
    })?;
    near.down()?;

    ip(near, &["addr", "add", SERVICE, "dev", "lo"])?;
    ip(far, &["route", "add", SERVICE, "via", BEYOND[0]])?;
    near.up_with(&["--addr", SERVICE, "--netdev", SECOND[0]])?;
    far.up_with(&["--addr", BEYOND[1]])?;
    let mut server = far.run("rping");
    server.args(["-s", "-V", "-C", "5", "-a", "0.0.0.0"]);
    let mut server = process::spawn(server, &dir, "server")?;
    if !wait_for_listener(&mut server, far, TCP, USUAL_PORT) {
        return Err(Stop::with("no listener", &[&server.kill()]));
    }
    let mut client = near.run("rping");
    client.args(["-c", "-V", "-C", "5", "-a", BEYOND[1]]);
    let client = process::run(client, &dir, "client", LIMIT)?;
    let server = server.finish_after(&client, Duration::from_secs(10));
    match client.success() && server.success() {
        true => Ok(()),
        false => Err(Stop::with("from a service's address", &[&client, &server])),
    }
}

/// A host on the link that does not answer when it is asked for its hardware address: no address
/// (`-ETIMEDOUT`) as soon as the program's patience is over. One that comes in time is found, and
/// an id whose program ends meanwhile goes with it.
fn absent(lab: &mut Lab) -> Ending {
    /// What ucmatose gives `rdma_resolve_addr`.
    const PATIENCE: Duration = Duration::from_secs(2);
    const NOBODY: &str = "10.77.0.99";
    const LATE: &str = "10.77.0.98";

    let dir = lab.case_dir()?;
    let pair = changes::pair()?;
    let host = |address, namespace| Host::new(lab.programs(), address, Some(namespace));
    let mut near = host(ADDRESSES[0], pair.a)?;
    let far = host(ADDRESSES[1], pair.b)?;
    let own = format!("{}/64", LINK_LOCAL[0]);
    let line = ["addr", "add", &own, "dev", INTERFACES[0], "nodad"];
    ip(&near, &line)?;
    let link_local = format!("{}%{}", LINK_LOCAL[0], INTERFACES[0]);
    near.up_with(&["--addr", ADDRESSES[0], "--addr", &link_local])?;
    let ask = |address: &str, name: &str| {
        let mut client = near.run("ucmatose");
        client.args(["-s", address]);
        process::spawn(client, &dir, name)
    };

    // Side by side: each is given the whole patience.
    let there = format!("{}%{}", LINK_LOCAL[1], INTERFACES[0]);
    let asking = [ask(NOBODY, "nobody")?, ask(&there, "nobody-link-local")?];
    for nobody in asking.map(|one| one.finish(LIMIT)) {
        let said = format!("{}{}", nobody.out, nobody.err);
        if nobody.success() || !said.contains("RDMA_CM_EVENT_ADDR_ERROR, error: -110") {
            return Err(Stop::with("not told that nobody is there", &[&nobody]));
        }
        let took = nobody.elapsed;
        expect(took >= PATIENCE && took < PATIENCE * 3, || {
            format!("told after {took:?}")
        })?;
    }

    // One that has its address a moment after it was asked for.
    let late = ask(LATE, "late")?;
    let waits = |host: &Host| {
        let status = host.status()?;
        Ok::<_, anyhow::Error>(status["cm"]["ids"] != 0)
    };
    while !waits(&near)? {
        std::thread::sleep(Duration::from_millis(10));
    }
    ip(
        &far,
        &["addr", "add", &format!("{LATE}/24"), "dev", INTERFACES[1]],
    )?;
    let sent = |host: &Host| {
        let status = host.status()?;
        let sent = environment::counter(&status, "cm_tx_msgs/req");
        Ok::<_, anyhow::Error>(sent > 0)
    };
    let deadline = Instant::now() + LIMIT;
    while !sent(&near)? {
        expect(Instant::now() < deadline, || "it was not found".to_owned())?;
        std::thread::sleep(Duration::from_millis(10));
    }
    late.kill();

    ask(NOBODY, "killed")?.kill();
    while waits(&near)? {
        expect(Instant::now() < deadline, || "ids are left".to_owned())?;
        std::thread::sleep(Duration::from_millis(10));
    }
    Ok(())
}

/// Where the host's routes send no datagram a program learns so at once, by the errno that a socket
/// would have, whether it says from which address or not.
fn nowhere(lab: &mut Lab) -> Ending {
    let dir = lab.case_dir()?;
    let pair = changes::pair()?;
    let _far = pair.b;
    let mut near = Host::new(lab.programs(), ADDRESSES[0], Some(pair.a))?;
    for (kind, prefix) in [
        ("prohibit", "10.82.0.0/24"),
        ("unreachable", "10.82.1.0/24"),
    ] {
        ip(&near, &["route", "add", kind, prefix])?;
    }
    let own = format!("{}/64", ADDRESSES_V6[0]);
    ip(&near, &["addr", "add", &own, "dev", INTERFACES[0], "nodad"])?;
    near.up_with(&["--addr", ADDRESSES[0], "--addr", ADDRESSES_V6[0]])?;
    let subnet = ADDRESSES[0]
        .rsplit_once('.')
        .map_or("", |(subnet, _)| subnet);
    let [v4, v6] = [&["", ADDRESSES[0]][..], &["", ADDRESSES_V6[0]]];
    for (to, sources, errno) in [
        ("192.0.2.1", v4, "Network is unreachable"),
        ("10.82.0.1", v4, "Permission denied"),
        ("10.82.1.1", v4, "No route to host"),
        (&format!("{subnet}.255"), v4, "Permission denied"),
        ("2001:db8::1", v6, "Network is unreachable"),
        ("fe80::9", &[""], "Invalid argument"),
    ] {
        for source in sources {
            let mut client = near.run("rping");
            client.args(["-c", "-a", to]);
            if !source.is_empty() {
                client.args(["-I", source]);
            }
            let client = process::run(client, &dir, "nowhere", LIMIT)?;
            if client.success() || !client.err.contains(&format!("rdma_resolve_addr: {errno}")) {
                let what = format!("{to} from `{source}`, not: {errno}");
                return Err(Stop::with(what, &[&client]));
            }
        }
    }
    Ok(())
}

/// A group that is resolved without a source is that of the interface that the host's routes say,
/// or the group's scope, whichever of the device's addresses comes first.
fn groups(lab: &mut Lab) -> Ending {
    const BEYOND: [[&str; 2]; 2] = [["10.78.0.1", "10.78.0.2"], ["fd78::1", "fd78::2"]];
    const GROUP: &str = "239.77.0.2";
    const LINK_LOCAL_GROUP: &str = "ff02::77:2";

    let dir = lab.case_dir()?;
    let mut hosts = joined_twice(lab)?;
    for (at, host) in hosts.iter().enumerate() {
        for own in [
            format!("{}/24", BEYOND[0][at]),
            format!("{}/64", BEYOND[1][at]),
        ] {
            ip(host, &["addr", "add", &own, "dev", SECOND[at], "nodad"])?;
        }
    }
    let [near, far] = &mut hosts;
    let first = format!("{}/64", ADDRESSES_V6[0]);
    ip(
        near,
        &["addr", "add", &first, "dev", INTERFACES[0], "nodad"],
    )?;

    let sender = |near: &Host, group: &str| {
        let mut sender = near.run("mckey");
        sender.args(["-m", group, "-C", "5", "-s"]);
        process::run(sender, &dir, "sender", LIMIT)
    };
    near.up_with(&["--netdev", INTERFACES[0]])?;
    let nowhere = sender(near, GROUP)?;
    expect(nowhere.err.contains("Network is unreachable"), || {
        format!("without a route: {}{}", nowhere.out, nowhere.err)
    })?;
    ip(near, &["route", "add", "239.0.0.0/8", "dev", SECOND[0]])?;
    let past = sender(near, GROUP)?;
    expect(past.out.contains("ADDR_ERROR, error: -19"), || {
        format!("past the device: {}{}", past.out, past.err)
    })?;
    near.down()?;

    let all = [ADDRESSES[0], ADDRESSES_V6[0], BEYOND[0][0], BEYOND[1][0]];
    near.up_with(&all.map(|own| ["--addr", own]).concat())?;
    far.up_with(&["--netdev", SECOND[1]])?;
    for (group, own) in [(GROUP, BEYOND[0][1]), (LINK_LOCAL_GROUP, BEYOND[1][1])] {
        let [here, there] = SECOND.map(|interface| match group {
            GROUP => group.to_owned(),
            _ => format!("{group}%{interface}"),
        });
        let mut member = far.run("stdbuf");
        member.args(["-oL", "mckey", "-m", &there, "-b", own, "-C", "5"]);
        let member = mckey::joined(member, &dir)?;
        let sender = sender(near, &here)?;
        let member = member.finish_after(&sender, Duration::from_secs(10));
        if !member.success() || !member.out.contains("return status 0") {
            return Err(Stop::with(format!("to {here}"), &[&member, &sender]));
        }
    }
    Ok(())
}
