//! `rdma statistic qp`: each queue pair has a counter of its own, and together these are what the
//! device has counted.

use std::path::Path;
use std::time::Duration;

use serde_json::Value;

use super::{LIMIT, is, listed, rdma};
use crate::harness::case::{Ending, Stop};
use crate::harness::process;
use crate::lab::host::Host;
use crate::lab::{Lab, Place};

const SHOW: [&str; 5] = ["statistic", "qp", "show", "link", "ferroce0/1"];

/// Of two programs at work, and of none afterwards.
pub(super) fn counters(lab: &mut Lab) -> Ending {
    let dir = lab.case_dir()?;
    let port = lab.port();
    let site = lab.site(Place::OneDaemon)?;
    let host = site.server();
    let before = of_device(host, &dir)?;
    let command = || {
        let mut command = host.run("ib_write_bw");
        command.args([
            "-F",
            "-n",
            "500",
            "--wait_destroy=3",
            "-p",
            &port.to_string(),
        ]);
        command
    };
    let mut server = process::spawn(command(), &dir, "server")?;
    if !server.listens(port, LIMIT) {
        return Err(Stop::with("no server", &[&server.kill()]));
    }
    let mut client = command();
    client.arg(&host.address);
    let mut client = process::spawn(client, &dir, "client")?;

    // perftest prints its table when all has been sent, and then keeps its queue pairs for a while.
    let done = client.wait_until(LIMIT, |client| client.output().contains(" 500 "));
    let seen = match done {
        true => compare(host, &dir, &before, [client.id(), server.id()]),
        false => Err(Stop::fail("no transfer")),
    };

    let client = client.finish(LIMIT);
    let ended = [server.finish_after(&client, LIMIT), client];
    seen.map_err(|stop| match stop {
        Stop::Fail(failure) => Stop::with(failure.what, &ended.each_ref()),
        skip => skip,
    })?;

    let left = listed(host, &dir, &SHOW)?;
    match left.is_empty() {
        true => refused(host, &dir),
        false => Err(Stop::fail(format!("left behind: {left:?}"))),
    }
}

/// The sums over the queue pairs are what the device's counters have grown by.
fn compare(host: &Host, dir: &Path, before: &Value, owners: [u32; 2]) -> Ending {
    let counters = listed(host, dir, &SHOW)?;
    let device = of_device(host, dir)?;
    for owner in owners {
        let its = counters.iter().find(|counter| counter["pid"] == owner);
        let its = its.ok_or_else(|| Stop::fail(format!("none of {owner}: {counters:?}")))?;
        is(its, "ifname", "ferroce0")?;
        is(its, "comm", "ib_write_bw")?;
        is(its, "lqpn", vec![its["cntn"].clone()])?;

        let pid = owner.to_string();
        let alone = listed(host, dir, &[&SHOW[..], &["pid", &pid]].concat())?;
        if alone.len() != 1 || alone[0]["cntn"] != its["cntn"] {
            return Err(Stop::fail(format!("of {owner} alone: {alone:?}")));
        }
    }

    let value = |of: &Value, name: &str| of[name].as_u64().unwrap_or(u64::MAX);
    for name in ["sent_pkts", "sent_bytes", "roce_retransmits", "rcvd_pkts"] {
        let sum: u64 = counters.iter().map(|counter| value(counter, name)).sum();
        let grown = value(&device, name).wrapping_sub(value(before, name));
        if sum != grown || (name == "sent_pkts" && sum < 500) {
            return Err(Stop::fail(format!(
                "{name}: {sum} of {grown}: {counters:?}"
            )));
        }
    }

    let mode = rdma(
        host,
        dir,
        &["statistic", "qp", "mode", "link", "ferroce0/1"],
    )?;
    match mode.success() && mode.out.trim().ends_with("qp auto off") {
        true => Ok(()),
        false => Err(Stop::with("another mode", &[&mode])),
    }
}

/// What the device has counted, as `rdma statistic` has it.
fn of_device(host: &Host, dir: &Path) -> Result<Value, Stop> {
    let mut links = listed(host, dir, &["statistic", "show", "link", "ferroce0/1"])?;
    links.pop().ok_or_else(|| Stop::fail("no counters"))
}

/// Counters are not given out and not taken away.
fn refused(host: &Host, dir: &Path) -> Ending {
    let link = "ferroce0/1";
    for words in [
        &["statistic", "qp", "set", "link", link, "auto", "type", "on"][..],
        &["statistic", "qp", "bind", "link", link, "lqpn", "65535"],
        &[
            "statistic",
            "qp",
            "unbind",
            "link",
            link,
            "cntn",
            "65535",
            "lqpn",
            "65535",
        ],
    ] {
        let finished = rdma(host, dir, words)?;
        if finished.success() || finished.elapsed > Duration::from_secs(10) {
            return Err(Stop::with(
                format!("{words:?} is not refused"),
                &[&finished],
            ));
        }
    }
    Ok(())
}
