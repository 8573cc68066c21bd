//! What programs are told when a port changes, or its peer, or the subnet manager.

use super::found::{ACTIVE, back_to_back};
use crate::harness::case::{Ending, Stop, expect};
use crate::harness::process::Running;
use crate::lab::Lab;
use crate::lab::subnet::{LIMIT, Subnet};

/// `ibv_asyncwatch` on a host; standard output that is no terminal is held back otherwise.
fn watch(subnet: &mut Subnet, host: usize) -> Result<Running, Stop> {
    let mut watch = subnet.spawn(host, &["stdbuf", "-oL", "ibv_asyncwatch", "-d", "ferroce0"])?;
    event(&mut watch, "async event FD")?;
    Ok(watch)
}

fn event(watch: &mut Running, wanted: &str) -> Ending {
    match watch.wait_until(LIMIT, |watch| watch.output().contains(wanted)) {
        true => Ok(()),
        false => Err(Stop::fail(format!(
            "{wanted:?} does not come; the output is:\n{}",
            watch.output()
        ))),
    }
}

/// A subnet manager that comes back asks clients to register again, and disturbs no traffic.
pub(super) fn reregister(lab: &mut Lab) -> Ending {
    let mut subnet = back_to_back(lab)?;
    let mut watch = watch(&mut subnet, 1)?;
    let manager = subnet.manage(0, &[])?;
    // Of one SubnSet(PortInfo), which is three changes.
    for of_first in [
        "LID_CHANGE (11)",
        "SM_CHANGE (13)",
        "CLIENT_REREGISTER (17)",
    ] {
        event(&mut watch, &format!("IBV_EVENT_{of_first}, port 1"))?;
    }
    watch.kill();
    let mut watch = self::watch(&mut subnet, 1)?;
    let port = lab.port();
    let line = ["ibv_rc_pingpong", "-e", "-n", "1000000000"];
    let server = subnet.server(0, &line, port)?;
    let number = port.to_string();
    let mut client = subnet.spawn(1, &[&line[..], &["-p", &number, "127.0.0.1"]].concat())?;
    goes_on(&mut subnet, &mut client)?;
    manager.kill();

    // What has begun goes on without it, and more can begin.
    goes_on(&mut subnet, &mut client)?;
    subnet.pair((0, 1), &["ibv_rc_pingpong", "-n", "300"], lab.port())?;
    let _manager = subnet.manage(0, &[])?;
    event(&mut watch, "IBV_EVENT_CLIENT_REREGISTER (17), port 1")?;
    goes_on(&mut subnet, &mut client)?;
    client.kill();
    server.kill();
    subnet.pair((0, 1), &["ibv_rc_pingpong", "-n", "300"], lab.port())?;

    // The request is no state of the port.
    subnet.expect(
        0,
        &["smpquery", "PI", "2"],
        &["ClientReregister:................0"],
    )?;

    let events = watch.kill().out;
    expect(!events.contains("PORT_ERR"), || {
        format!("the port went down:\n{events}")
    })
}

/// Host 1 gets packets, many more than management sends, for a client that runs.
fn goes_on(subnet: &mut Subnet, client: &mut Running) -> Ending {
    let line = [
        "cat",
        "/sys/class/infiniband/ferroce0/ports/1/counters/port_rcv_packets",
    ];
    let count = |text: &str| text.trim().parse::<u64>().ok();
    let before = count(&subnet.run(1, &line)?.out);
    let more = |text: &str| {
        count(text)
            .zip(before)
            .is_some_and(|(now, before)| now > before + 500)
    };
    subnet.wait_until(1, &line, more)?;
    expect(!client.ended_within(std::time::Duration::ZERO), || {
        client.output()
    })
}

/// A killed peer takes the link down; when it is back, all is as before.
pub(super) fn peer_killed(lab: &mut Lab) -> Ending {
    let mut subnet = back_to_back(lab)?;
    let _manager = subnet.manage(0, &["-s", "1"])?;
    let mut watch = watch(&mut subnet, 0)?;
    subnet.hosts[1].kill_daemon()?;
    event(&mut watch, "IBV_EVENT_PORT_ERR (10), port 1")?;
    subnet.expect(0, &["ibstat"], &["State: Down", "Physical state: Polling"])?;
    subnet.hosts[1].up_with(&[
        "--link-layer",
        "infiniband",
        "--addr",
        &crate::lab::subnet::address(2),
        "--cable",
        "127.0.0.2:7101=127.0.0.1:7101",
    ])?;
    event(&mut watch, "IBV_EVENT_PORT_ACTIVE (9), port 1")?;
    subnet.wait_for(1, &["ibstat"], ACTIVE)?;
    subnet.pair((0, 1), &["ibv_rc_pingpong", "-n", "300"], lab.port())?;
    Ok(())
}

/// `ibportstate` resets a host's own port, switches it off, and on again.
pub(super) fn disabled(lab: &mut Lab) -> Ending {
    let mut subnet = back_to_back(lab)?;
    let _manager = subnet.manage(0, &["-s", "1"])?;
    subnet.wait_for(1, &["ibstat"], ACTIVE)?;
    let mut watch = watch(&mut subnet, 0)?;
    for (operation, then) in [
        ("reset", ACTIVE),
        ("disable", "Physical state: Disabled"),
        ("enable", ACTIVE),
    ] {
        // By name, as libibumad chooses no port that is down.
        let port = ["-C", "ferroce0", "-P", "1", "-D", "0", "1"];
        let line = [&["ibportstate"], &port[..], &[operation]].concat();
        subnet.expect(1, &line, &["After PortInfo set:"])?;
        subnet.wait_for(1, &["ibstat"], then)?;
        if operation == "disable" {
            subnet.wait_for(0, &["ibstat"], "State: Down")?;
        }
    }
    subnet.wait_for(0, &["ibstat"], ACTIVE)?;
    event(&mut watch, "IBV_EVENT_PORT_ERR (10), port 1")?;
    event(&mut watch, "IBV_EVENT_PORT_ACTIVE (9), port 1")
}
