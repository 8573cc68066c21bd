//! Group `netlink`: what `rdma` of iproute2 shows is what there is, and programs find the device
//! the way that they were written for.

use std::time::Duration;

use serde_json::Value;

use crate::harness::case::{Case, Ending, Stop};
use crate::harness::process::{self, Finished};
use crate::lab::host::Host;
use crate::lab::{Lab, Place};

mod objects;
mod queue_pairs;

const LIMIT: Duration = Duration::from_secs(20);

pub(crate) fn cases() -> Vec<Case> {
    vec![
        Case::new("netlink/device and link", device_and_link),
        Case::new("netlink/what is refused", refused),
        Case::new("netlink/counters", counters),
        Case::new("netlink/counters of queue pairs", queue_pairs::counters),
        Case::new("netlink/objects of a program", objects::of_a_program),
        Case::new("netlink/objects of a connection", objects::of_a_connection),
        Case::new("netlink/found over netlink, and without it", found),
    ]
}

/// `rdma` on a host, with its output.
fn rdma(host: &Host, dir: &std::path::Path, words: &[&str]) -> Result<Finished, Stop> {
    let mut command = host.run("rdma");
    command.args(words);
    command.env("PATH", "/usr/sbin:/sbin:/usr/bin:/bin");
    Ok(process::run(command, dir, "rdma", LIMIT)?)
}

/// `rdma -j`, which must succeed and print one list.
fn listed(host: &Host, dir: &std::path::Path, words: &[&str]) -> Result<Vec<Value>, Stop> {
    let finished = rdma(host, dir, &[&["-j", "-d"], words].concat())?;
    let list = serde_json::from_str(&finished.out).ok();
    match list {
        Some(Value::Array(list)) if finished.success() => Ok(list),
        _ => Err(Stop::with("rdma prints no list", &[&finished])),
    }
}

/// Compares a member of a JSON object.
fn is(object: &Value, member: &str, wanted: impl Into<Value>) -> Ending {
    let wanted = wanted.into();
    match object.get(member) {
        Some(value) if *value == wanted => Ok(()),
        _ => Err(Stop::fail(format!("{member} is not {wanted} in {object}"))),
    }
}

fn only(list: &[Value]) -> Result<&Value, Stop> {
    match list {
        [one] => Ok(one),
        _ => Err(Stop::fail(format!("one is wanted: {list:?}"))),
    }
}

/// The device with its GUID and firmware, its port with state and interface, as JSON and as text.
fn device_and_link(lab: &mut Lab) -> Ending {
    let dir = lab.case_dir()?;
    let site = lab.site(Place::OneDaemon)?;
    let host = site.server();
    let status = host.status()?;
    let guid = status["device"]["node_guid"]
        .as_array()
        .cloned()
        .unwrap_or_default();

    let bytes: Vec<String> = guid
        .iter()
        .map(|byte| format!("{:02x}", byte.as_u64().unwrap_or(0)))
        .collect();
    let quads: Vec<String> = bytes.chunks(2).map(<[String]>::concat).collect();

    let devices = listed(host, &dir, &["dev"])?;
    let device = only(&devices)?;
    is(device, "ifname", "ferroce0")?;
    is(device, "node_type", "ca")?;
    is(device, "node_guid", quads.join(":"))?;
    is(device, "fw", status["device"]["fw_ver"].clone())?;
    let links = listed(host, &dir, &["link", "show", "ferroce0/1"])?;
    let link = only(&links)?;
    is(link, "ifindex", device["ifindex"].clone())?;
    is(link, "port", 1)?;
    is(link, "state", "ACTIVE")?;
    is(link, "physical_state", "LINK_UP")?;
    is(link, "netdev", "lo")?;

    let text = rdma(host, &dir, &["link"])?;
    let wanted = "link ferroce0/1 state ACTIVE physical_state LINK_UP netdev lo";
    if !text.success() || text.out.trim() != wanted {
        return Err(Stop::with("another link", &[&text]));
    }

    let system = rdma(host, &dir, &["system"])?;
    match system.out.trim() {
        "netns shared copy-on-fork on" => Ok(()),
        _ => Err(Stop::with("another system", &[&system])),
    }
}

/// What would change the device, and ports that there are not.
fn refused(lab: &mut Lab) -> Ending {
    let dir = lab.case_dir()?;
    let site = lab.site(Place::OneDaemon)?;
    let host = site.server();
    let root = rustix::process::geteuid().is_root();
    let not_supported = if root {
        "not supported"
    } else {
        "not permitted"
    };

    let invalid = if root {
        "Invalid argument"
    } else {
        "not permitted"
    };

    for (words, why) in [
        (
            &["dev", "set", "ferroce0", "name", "other0"][..],
            not_supported,
        ),
        (&["link", "delete", "ferroce0"], invalid),
        (&["link", "show", "ferroce0/2"], "Wrong device name"),
        (&["dev", "show", "other0"], "Wrong device name"),
    ] {
        let finished = rdma(host, &dir, words)?;
        if finished.success() || !finished.err.contains(why) {
            return Err(Stop::with(
                format!("{words:?} is not refused: {why}"),
                &[&finished],
            ));
        }
    }

    only(&listed(host, &dir, &["dev"])?).map(drop)
}

/// `rdma statistic` has the numbers of the daemon, of counters of which none can be switched.
fn counters(lab: &mut Lab) -> Ending {
    let dir = lab.case_dir()?;
    let port = lab.port();
    let site = lab.site(Place::OneDaemon)?;
    let host = site.server();
    let optional = listed(host, &dir, &["statistic", "mode", "supported"])?;
    if !optional.is_empty() {
        return Err(Stop::fail(format!("optional: {optional:?}")));
    }

    let before = counted(host, &dir)?;
    let command = || {
        let mut command = host.run("ib_write_bw");
        command.args(["-F", "-n", "500", "-p", &port.to_string()]);
        command
    };
    let mut server = process::spawn(command(), &dir, "server")?;
    if !server.listens(port, LIMIT) {
        return Err(Stop::with(
            "the server does not listen",
            &[&server.finish(Duration::ZERO)],
        ));
    }

    let mut client = command();
    client.arg(&host.address);
    let client = process::run(client, &dir, "client", LIMIT)?;
    let server = server.finish_after(&client, LIMIT);
    if !client.success() || !server.success() {
        return Err(Stop::with("ib_write_bw fails", &[&client, &server]));
    }

    let after = counted(host, &dir)?;

    // 500 messages of 64 KiB, each at least a packet and its request counted.
    match after.0 >= before.0 + 500 && after.1 >= before.1 + (500 << 16) {
        true => Ok(()),
        false => Err(Stop::fail(format!("from {before:?} to {after:?}"))),
    }
}

/// WRITE requests and bytes that were received.
fn counted(host: &Host, dir: &std::path::Path) -> Result<(u64, u64), Stop> {
    let links = listed(host, dir, &["statistic", "show", "link", "ferroce0/1"])?;
    let link = only(&links)?;
    let number = |name: &str| {
        let value = link.get(name).and_then(Value::as_u64);
        value.ok_or_else(|| Stop::fail(format!("no {name} in {link}")))
    };
    Ok((number("rx_write_requests")?, number("rcvd_bytes")?))
}

/// libibverbs finds the device over netlink; where there are no such sockets, in sysfs.
fn found(lab: &mut Lab) -> Ending {
    let dir = lab.case_dir()?;
    let site = lab.site(Place::OneDaemon)?;
    let host = site.server();
    let socket = host.runtime_dir().join("netlink.sock");
    let hidden = host.runtime_dir().join("hidden");
    let look = |name: &str| -> Result<String, Stop> {
        let finished = process::run(host.run("ibv_devinfo"), &dir, name, LIMIT)?;
        match finished.success() && finished.out.contains("ferroce0") {
            true => Ok(finished.out),
            false => Err(Stop::with("the device is not found", &[&finished])),
        }
    };
    let over_netlink = look("netlink")?;
    std::fs::rename(&socket, &hidden).map_err(anyhow::Error::from)?;
    let over_sysfs = look("sysfs");
    let absent = rdma(host, &dir, &["dev"]);
    std::fs::rename(&hidden, &socket).map_err(anyhow::Error::from)?;
    let absent = absent?;
    if absent.success() {
        return Err(Stop::with("the way over netlink was not shut", &[&absent]));
    }

    match over_sysfs? == over_netlink {
        true => Ok(()),
        false => Err(Stop::fail("the two ways show different devices")),
    }
}
