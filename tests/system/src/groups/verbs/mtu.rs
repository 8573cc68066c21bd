//! The MTU of an interface changes while programs use the device that is at it.

use std::thread;
use std::time::{Duration, Instant};

use anyhow::Context;

use crate::groups::cm::{TCP, wait_for_listener};
use crate::groups::verbs::interfaces::hosts;
use crate::groups::verbs::watch::ip;
use crate::harness::case::{Ending, Parts, Stop};
use crate::harness::process;
use crate::lab::Lab;
use crate::lab::environment::counter;
use crate::lab::host::Host;
use crate::lab::netns;
use crate::programs::cprogram;

const LIMIT: Duration = Duration::from_secs(60);

/// Sets it, and waits until the device has the path MTU that fits.
fn set(index: usize, host: &Host, mtu: &str, active: u64) -> Ending {
    let interface = netns::INTERFACES[index];
    ip(host, &["link", "set", interface, "mtu", mtu])?;
    wait(|| Ok(host.status()?["device"]["active_mtu"] == active))
}

fn wait(mut done: impl FnMut() -> Result<bool, Stop>) -> Ending {
    let end = Instant::now() + LIMIT;
    while !done()? {
        if Instant::now() > end {
            return Err(Stop::fail(format!("not within {LIMIT:?}")));
        }
        thread::sleep(Duration::from_millis(20));
    }
    Ok(())
}

/// The tests of `port_mtu.c`, which say what it should be.
pub(super) fn of_the_port(lab: &mut Lab) -> Parts {
    lab.vacate();
    let program = cprogram::compile("port_mtu")?;
    let dir = lab.case_dir()?;
    let (mut hosts, _) = hosts(lab)?;
    let [near, _] = &mut hosts;
    let interface = netns::INTERFACES[0];
    ip(near, &["link", "set", interface, "mtu", "9000"])?;
    near.up_with(&["--netdev", interface])?;

    let mut running = process::spawn(near.run(program), &dir, "port_mtu")?;
    for wish in 0..2 {
        let mut mtu = None;
        running.wait_until(LIMIT, |running| {
            let output = running.output();
            let mut wishes = output.lines().filter_map(|line| line.strip_prefix("MTU "));
            mtu = wishes.nth(wish).map(str::to_owned);
            mtu.is_some()
        });
        if let Some(mtu) = mtu {
            ip(near, &["link", "set", interface, "mtu", &mtu])?;
        }
    }
    Ok(cprogram::endings(&running.finish(LIMIT)))
}

/// A server that has been there since before gets connections of the path MTU that the interfaces
/// allow now.
pub(super) fn of_a_server(lab: &mut Lab) -> Ending {
    lab.vacate();
    let dir = lab.case_dir()?;
    let (mut hosts, _) = hosts(lab)?;
    for (index, host) in hosts.iter_mut().enumerate() {
        host.up_with(&["--netdev", netns::INTERFACES[index]])?;
    }

    let port = lab.port();
    let number = port.to_string();
    let line = |host: &Host, words: &[&str]| {
        let mut command = host.run("rping");
        command.args(words);
        command.args(["-S", "4000", "-a", netns::ADDRESSES[1], "-p", &number]);
        command
    };
    let mut server = process::spawn(line(&hosts[1], &["-s", "-P"]), &dir, "server")?;
    if !wait_for_listener(&mut server, &hosts[1], TCP, port) {
        return Err(Stop::with("it does not come to listen", &[&server.kill()]));
    }

    for (mtu, active) in [("1500", 1024), ("9000", 4096), ("1500", 1024)] {
        for (index, host) in hosts.iter().enumerate() {
            set(index, host, mtu, active)?;
        }
        let client = line(&hosts[0], &["-c", "-C", "3", "-V"]);
        let client = process::run(client, &dir, "client", Duration::from_secs(20))?;
        if !client.success() {
            let why = format!("{} at an MTU of {mtu}", client.ending());
            return Err(Stop::with(why, &[&client, &server.kill()]));
        }
    }
    server.kill();
    Ok(())
}

/// While the MTU was too small the kernel took no runs of packets. It takes them again.
pub(super) fn of_a_transfer(lab: &mut Lab) -> Ending {
    lab.vacate();
    let dir = lab.case_dir()?;
    let (mut hosts, _) = hosts(lab)?;
    for (index, host) in hosts.iter_mut().enumerate() {
        let interface = netns::INTERFACES[index];
        ip(host, &["link", "set", interface, "mtu", "9000"])?;
        host.up_with(&["--netdev", interface])?;
    }

    let port = lab.port();
    let line = |host: &Host| {
        let mut command = host.run("ib_write_bw");
        // It shall outlive the time without an MTU, also where the machine is busy.
        command.args(["-F", "-x", "0", "-s", "65536", "-m", "4096", "-D", "100"]);
        command.args(["-u", "17", "-p", &port.to_string()]);
        command
    };
    let mut server = process::spawn(line(&hosts[1]), &dir, "server")?;
    if !server.listens(port, LIMIT) {
        return Err(Stop::with("it does not come to listen", &[&server.kill()]));
    }
    let mut client = line(&hosts[0]);
    client.arg(netns::ADDRESSES[1]);
    let client = process::spawn(client, &dir, "client")?;

    let near = &hosts[0];
    let done = sends_runs(near).and_then(|()| {
        let lost = || -> Result<u64, Stop> { Ok(counter(&near.status()?, "send_err")) };
        set(0, near, "600", 256)?;
        wait(|| Ok(lost()? > 0))?;
        set(0, near, "9000", 4096)?;
        sends_runs(near)
    });
    let (client, server) = (client.kill(), server.kill());
    done.map_err(|stop| match stop {
        Stop::Fail(why) => Stop::with(why.what, &[&client, &server]),
        stop => stop,
    })
}

/// Waits until packets leave by far fewer sends: the kernel counts a run as one datagram. The time
/// over which sends are counted is the longer one.
fn sends_runs(host: &Host) -> Ending {
    const ENOUGH: u64 = 20_000;
    const RUN: u64 = 4;

    let packets = || -> Result<u64, Stop> { Ok(counter(&host.status()?, "sent_pkts")) };
    let mut began = (sent_by_udp(host)?, packets()?);
    wait(|| {
        let sent = packets()? - began.1;
        if sent < ENOUGH {
            return Ok(false);
        }
        let sends = sent_by_udp(host)? - began.0;
        began = (began.0 + sends, packets()?);
        Ok(sent > RUN * sends)
    })
}

/// `OutDatagrams` of the host's network namespace.
fn sent_by_udp(host: &Host) -> Result<u64, Stop> {
    let output = host.plain("cat").arg("/proc/net/snmp").output();
    let text = String::from_utf8(output.context("cat")?.stdout).context("cat")?;
    let mut lines = text.lines().filter_map(|line| line.strip_prefix("Udp: "));
    let (names, values) = (lines.next(), lines.next());
    let mut named = names.into_iter().flat_map(str::split_whitespace).zip(
        values
            .into_iter()
            .flat_map(|values| values.split_whitespace()),
    );
    let (_, sent) = named
        .find(|(name, _)| *name == "OutDatagrams")
        .context("OutDatagrams")?;
    Ok(sent.parse::<u64>().context("OutDatagrams")?)
}
