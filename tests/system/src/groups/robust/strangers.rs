//! Group `robust`, continued: what a stranger's packets may not do to those whose traffic it is.
//! What they may not do to the counters is in `counters`.

use std::net::{IpAddr, Ipv4Addr, UdpSocket};
use std::path::Path;
use std::time::{Duration, Instant};

use crate::attack::hostile::{Random, Requests};
use crate::attack::pcap::{self, ROCE_V2};
use crate::harness::case::expect;
use crate::harness::case::{Case, Company, Ending, Stop};
use crate::harness::process::{self, Running};
use crate::lab::environment::{Capture, counter};
use crate::lab::host::{Host, TCP};
use crate::lab::{Lab, Place, Site};
use crate::programs::cprogram;
use crate::programs::perftest::odd;
use rustix::process::Signal;

pub(super) const LIMIT: Duration = Duration::from_secs(60);
/// How long a connection, three pings and its end may take beside a flood: a message that is lost
/// in it is repeated after 4.3 s.
const SOON: Duration = Duration::from_secs(10);
/// Who is neither end of anything.
const IMPOSTOR: (Ipv4Addr, u16) = (Ipv4Addr::new(127, 0, 0, 77), 0);
/// Connection requests of a flood: several times as many as a device keeps.
const REQUESTS: u64 = 60_000;
/// More packets of a transfer than this are imitated.
const FORGED: u64 = 1_000;
/// Events that a flooded server may look at before another peer's request: twice as many as its
/// descriptor holds already.
const AHEAD: u64 = 128;

pub(crate) fn cases() -> Vec<Case> {
    let mut cases = Vec::new();
    for place in [Place::Veth(9000), Place::VethIpv6(9000)] {
        let name = format!("robust/{}/forged messages of a small MTU", place.name());
        cases.push(Case::new(name, move |lab| small_mtu(lab, place)));
    }

    // Others must connect in time.
    let flood = Case::new("robust/one-daemon/flood of connection requests", requests);
    cases.push(flood.in_company(Company::Alone));

    cases.push(Case::new(
        "robust/one-daemon/another peer's request to a flooded server",
        crowd,
    ));

    cases.push(Case::new(
        "robust/two-daemons/packets of a transfer from another address",
        impostor,
    ));

    cases
}

/// Requests of sockets that anybody may have, of several addresses, more than there is room for and
/// for ever, to a server that answers none: others connect throughout, and in time.
fn requests(lab: &mut Lab) -> Ending {
    let dir = lab.case_dir()?;
    let (flooded, port) = (lab.port(), lab.port());
    let host = lab.site(Place::OneDaemon)?.server();
    let server = |name: &str, words: &[&str], port: u16| -> Result<Running, Stop> {
        let mut command = host.run(words[0]);
        command.args(&words[1..]).args(["-p", &port.to_string()]);
        let server = process::spawn(command, &dir, name)?;
        listens(host, port)?;
        Ok(server)
    };

    // As many may wait for it as the device allows, and it looks at none.
    let victim = server("victim", &["rdma_server", "-s", &host.address], flooded)?;
    victim.signal(Signal::STOP);
    let listening = ["rping", "-s", "-P", "-a", &host.address];
    let bystander = server("bystander-server", &listening, port)?;
    let flood = Requests::start(&host.address, &[flooded])?;
    let mut rounds = 0;
    let mut failed = None;

    // More than there are places, by far, before anybody connects, and while somebody does.
    while failed.is_none() && (flood.sent() < REQUESTS || rounds < 5) {
        if flood.sent() < REQUESTS / 2 {
            std::thread::sleep(Duration::from_millis(10));
            continue;
        }
        let mut command = host.run("rping");
        command.args(["-c", "-a", &host.address, "-p", &port.to_string()]);
        command.args(["-C", "3"]);
        let client = process::run(command, &dir, &format!("bystander-{rounds}"), SOON)?;
        rounds += 1;
        failed = (!client.success()).then_some(client);
    }

    let sent = flood.stop();
    let evidence = [&victim.kill(), &bystander.kill()];
    if let Some(client) = failed {
        let what = format!("{sent} requests, {rounds} connections: {}", client.ending());
        return Err(Stop::with(what, &[&client, evidence[0], evidence[1]]));
    }

    let status = host.status()?;
    expect(counter(&status, "cm_evicted") > 0, || {
        format!("{sent} requests, and none had to go: {}", status["cm"])
    })
}

/// A server that has got more requests of one address than there is room for, all before it looks
/// at any: who asks last and from elsewhere has his turn before the flood's.
fn crowd(lab: &mut Lab) -> Ending {
    let dir = lab.case_dir()?;
    let port = lab.port();
    let program = cprogram::compile("cm_crowd")?;
    let host = lab.site(Place::OneDaemon)?.server();
    let counted = |word: &str| -> Result<u64, Stop> { Ok(counter(&host.status()?, word)) };
    let asked = || counted("cm_rx_msgs/req");
    let evicted = counted("cm_evicted")?;
    let run = |what: &str| -> Result<Running, Stop> {
        let mut command = host.run(&program);
        command.args([what, &host.address, &port.to_string()]);
        Ok(process::spawn(command, &dir, what)?)
    };
    let mut server = run("server")?;
    listens(host, port)?;
    server.signal(Signal::STOP);
    let flood = Requests::of_one(&host.address, &[port])?;
    while flood.sent() < REQUESTS / 2 {
        std::thread::sleep(Duration::from_millis(10));
    }
    let sent = flood.stop();
    let before = settled(asked)?;
    let mut client = run("client")?;

    // Its request is there as well, behind all the others.
    let arrived = client.wait_until(LIMIT, |_| asked().is_ok_and(|now| now > before));
    server.signal(Signal::CONT);
    let client = client.finish(LIMIT);
    let own = format!("{} asks after ", host.address);
    let told = server.wait_until(LIMIT, |server| server.output().contains(&own));
    let server = server.kill();
    if !arrived || !told || !client.success() {
        let what = format!("{sent} requests; the client: {}", client.ending());
        return Err(Stop::with(what, &[&client, &server]));
    }

    let after = server.out.split(&own).nth(1).unwrap_or_default();
    let events = after.split(' ').next().and_then(|n| n.parse::<u64>().ok());
    expect(events.is_some_and(|events| events <= AHEAD), || {
        format!("{sent} requests of another address; {own}{after}")
    })?;
    expect(counted("cm_evicted")? > evicted, || {
        format!("{sent} requests, and none had to go")
    })
}

/// A number that no longer grows.
fn settled(number: impl Fn() -> Result<u64, Stop>) -> Result<u64, Stop> {
    let mut last = number()?;
    for _ in 0..LIMIT.as_millis() / 100 {
        std::thread::sleep(Duration::from_millis(100));
        let now = number()?;
        if now == last {
            return Ok(now);
        }
        last = now;
    }
    Err(Stop::fail("the counter does not come to rest"))
}

/// Packets that are right in all but their sender's address: the queue pairs' numbers and PSNs of a
/// transfer that is going on, with other bytes and the ICRC that belongs to them. Each is dropped
/// and counted, and the transfer has its own bytes.
fn impostor(lab: &mut Lab) -> Ending {
    let dir = lab.case_dir()?;
    let port = lab.port();
    let site = lab.site(Place::TwoDaemons)?;
    let hosts = [site.server(), site.client()];
    let dropped = || -> Result<u64, Stop> {
        let counted = hosts.map(|host| Ok(counter(&host.status()?, "rx_bad_peer")));
        counted
            .into_iter()
            .sum::<anyhow::Result<u64>>()
            .map_err(Stop::from)
    };
    let before = dropped()?;
    let mut sent = 0;
    let attack = || {
        let capture = Capture::start(hosts[0], "lo", 1000, &dir)?;
        capture.settle();
        let packets = pcap::read(&capture.finish()?)?;
        sent = imitate(&packets, hosts)?;
        Ok(())
    };
    transfer(site, port, "6", &dir, attack)?;
    let counted = dropped()? - before;

    // A full receive buffer takes none of anybody's.
    expect(sent > FORGED && counted > sent / 2, || {
        format!("of {sent} packets {counted} were refused for their sender")
    })
}

/// Sends requests like those of a capture, with PSNs up to 2^12 later: some of them are those that
/// are expected next.
fn imitate(packets: &[pcap::Packet], hosts: [&Host; 2]) -> Result<u64, Stop> {
    let socket = UdpSocket::bind(IMPOSTOR).map_err(anyhow::Error::from)?;
    let from = socket.local_addr().map_err(anyhow::Error::from)?;
    let addresses = hosts.map(|host| host.address.parse::<IpAddr>().unwrap_or(from.ip()));
    let mut random = Random(0x1a2b_3c4d);
    let mut sent = 0;
    let begun = Instant::now();
    let goes_on = |sent| match begun.elapsed() {
        short if short < Duration::from_secs(1) => true,
        // By then the transfer is near its end.
        elapsed => sent <= FORGED && elapsed < Duration::from_secs(4),
    };
    while goes_on(sent) && !packets.is_empty() {
        for _ in 0..32 {
            let packet = &packets[random.below(packets.len())];
            let (packet, source) = (packet.payload(), packet.source());
            let Some(to) = addresses.iter().find(|address| **address != source) else {
                continue;
            };
            let mut forged = packet[..packet.len() - 4].to_vec();
            let later = (random.number() & 0xfff) as u32;
            let psn = u32::from_be_bytes([0, forged[9], forged[10], forged[11]]) + later;
            forged[9..12].copy_from_slice(&psn.to_be_bytes()[1..]);
            // Behind all headers.
            forged.iter_mut().skip(40).for_each(|byte| *byte ^= 0xff);
            let forged = pcap::with_icrc(&forged, from, *to);
            sent += u64::from(socket.send_to(&forged, (*to, ROCE_V2)).is_ok());
        }

        std::thread::sleep(Duration::from_micros(500));
    }

    Ok(sent)
}

/// Waits until somebody listens to connections at a port.
fn listens(host: &Host, port: u16) -> Ending {
    let deadline = Instant::now() + LIMIT;
    while Instant::now() < deadline {
        if host.listens(TCP, port)? {
            return Ok(());
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    Err(Stop::fail("the server does not come to listen"))
}

/// Forged ICMP messages say to one end of a transfer that its packets do not fit. They do: it goes
/// on, and afterwards others reach the peer with as large ones.
fn small_mtu(lab: &mut Lab, place: Place) -> Ending {
    // The least that the kernel believes.
    let mtu = if place.is_ipv6() { "1280" } else { "552" };
    let dir = lab.case_dir()?;
    let ports = [lab.port(), lab.port()];
    let site = lab.site(place)?;
    let attack = || claim(site.server(), site.client(), mtu, &dir);
    transfer(site, ports[0], "5", &dir, attack)?;
    transfer(site, ports[1], "1", &dir, || Ok(()))
}

/// Runs a transfer with data check for some seconds, and something while it runs.
pub(super) fn transfer(
    site: &Site,
    port: u16,
    seconds: &str,
    dir: &Path,
    meanwhile: impl FnOnce() -> Ending,
) -> Ending {
    let program = cprogram::compile("stream")?;
    let (server_host, client_host) = (site.server(), site.client());
    let mut command = server_host.run(&program);
    command.args(["server", &port.to_string()]);
    let mut server = process::spawn(command, dir, &format!("server-{port}"))?;
    if !server.listens(port, LIMIT) {
        let finished = server.finish(Duration::ZERO);
        let what = "the server does not come to listen";
        return Err(Stop::with(what, &[&finished]));
    }

    let mut command = client_host.run(&program);
    command.args(["client", &port.to_string(), &server_host.address, seconds]);
    let mut client = process::spawn(command, dir, &format!("client-{port}"))?;
    let streams = client.wait_until(LIMIT, |running| running.output().contains("streaming"));
    let happened = match streams {
        true => meanwhile(),
        false => Err(Stop::fail("the transfer does not start")),
    };

    let client = client.finish(LIMIT);
    let server = server.finish_after(&client, LIMIT);
    happened?;
    for (end, finished) in [("client", &client), ("server", &server)] {
        let whole = finished.success() && finished.out.contains("all right");
        if !whole || odd(&finished.err).is_some() {
            let what = format!("the {end}: {}", finished.ending());
            return Err(Stop::with(what, &[&client, &server]));
        }
    }

    Ok(())
}

/// Sends the messages from one host to the other, whose kernel believes them.
fn claim(from: &Host, victim: &Host, mtu: &str, dir: &Path) -> Ending {
    let mut command = from.plain(std::env::current_exe().map_err(anyhow::Error::from)?);
    command.args(["attack", "too-long", &victim.address, &from.address, mtu]);
    let sent = process::run(command, dir, "attack", LIMIT)?;
    if !sent.success() {
        return Err(Stop::with(sent.ending(), &[&sent]));
    }
    let mut command = victim.plain("ip");
    command.args(["route", "get", &from.address]);
    command.env("PATH", "/usr/sbin:/sbin:/usr/bin:/bin");
    let route = process::run(command, dir, "route", LIMIT)?;
    expect(route.out.contains(&format!("mtu {mtu}")), || {
        format!("the victim's kernel does not believe it: {}", route.out)
    })
}
