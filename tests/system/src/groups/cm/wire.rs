//! The connection manager's messages on the wire: what tshark makes of ours, and what ours makes of
//! bad ones.

use std::collections::BTreeSet;
use std::net::{SocketAddr, UdpSocket};
use std::time::{Duration, Instant};

use crate::attack::hostile::Random;
use crate::attack::pcap::{self, Packet, ROCE_V2};
use crate::harness::case::expect;
use crate::harness::case::{Case, Ending, Stop};
use crate::harness::process::{self, Finished, Running};
use crate::lab::environment::{self, Capture};
use crate::lab::host::{Host, TCP};
use crate::lab::{Lab, Place};
use rustix::process::Signal;

const LIMIT: Duration = Duration::from_secs(60);
/// Bytes of BTH and DETH ahead of a MAD.
const HEADERS: usize = 20;
const MAD: usize = 256;

pub(crate) fn cases() -> Vec<Case> {
    vec![
        decodes(Place::OneDaemon),
        decodes(Place::Ipv6),
        Case::new("cm/one-daemon/random and mutated messages", hostile),
    ]
}

fn decodes(place: Place) -> Case {
    let name = format!("cm/{}/tshark decodes the messages", place.name());
    Case::new(name, move |lab| decoded(lab, place))
}

/// A pair of rping; the client's end.
fn rping(host: &Host, port: u16, rounds: u32, dir: &std::path::Path) -> Result<Finished, Stop> {
    let mut server = serve(host, &["rping", "-s"], port, rounds, dir)?;
    let client = ping(host, port, rounds, dir, "rping-client")?.finish(LIMIT);
    if !client.success() || !server.ended_within(LIMIT) {
        return Err(Stop::with(client.ending(), &[&client, &server.kill()]));
    }
    Ok(client)
}

/// A server that listens.
fn serve(
    host: &Host,
    words: &[&str],
    port: u16,
    rounds: u32,
    dir: &std::path::Path,
) -> Result<Running, Stop> {
    let mut command = host.run(words[0]);
    command.args(&words[1..]);
    command.args(["-a", &host.address, "-p", &port.to_string()]);
    command.args(["-C", &rounds.to_string()]);
    let mut server = process::spawn(command, dir, "rping-server")?;
    let deadline = Instant::now() + LIMIT;
    while Instant::now() < deadline && !server.ended_within(Duration::from_millis(10)) {
        if host.listens(TCP, port)? {
            return Ok(server);
        }
    }

    Err(Stop::with(
        "the server does not come to listen",
        &[&server.kill()],
    ))
}

fn ping(
    host: &Host,
    port: u16,
    rounds: u32,
    dir: &std::path::Path,
    name: &str,
) -> Result<Running, Stop> {
    let mut command = host.run("rping");
    command.args(["-c", "-V", "-a", &host.address, "-p", &port.to_string()]);
    command.args(["-C", &rounds.to_string()]);
    Ok(process::spawn(command, dir, name)?)
}

/// A resolution, good or bad.
fn datagrams(host: &Host, dir: &std::path::Path) -> Result<(), Stop> {
    let mut command = host.run("udaddy");
    command.args(["-s", &host.address, "-c", "1"]);
    process::run(command, dir, "udaddy", LIMIT)?;
    Ok(())
}

/// A request whose program takes its time: who asks again is told to wait (MRA), and is served in
/// the end.
fn deferred(host: &Host, port: u16, dir: &std::path::Path) -> Ending {
    let acknowledged = || Ok::<_, Stop>(environment::counter(&host.status()?, "cm_tx_msgs/mra"));
    let before = acknowledged()?;
    let server = serve(host, &["rping", "-s"], port, 1, dir)?;
    server.signal(Signal::STOP);
    let client = ping(host, port, 1, dir, "rping-patient")?;
    let deadline = Instant::now() + LIMIT;
    while acknowledged()? == before && Instant::now() < deadline {
        std::thread::sleep(Duration::from_millis(50));
    }
    server.signal(Signal::CONT);
    let client = client.finish(LIMIT);
    let server = server.finish_after(&client, LIMIT);
    match client.success() && server.success() {
        true => Ok(()),
        false => Err(Stop::with(client.ending(), &[&client, &server])),
    }
}

/// Connections that come and go, and that nobody takes: every message is one to tshark, none
/// malformed, each ICRC right.
fn decoded(lab: &mut Lab, place: Place) -> Ending {
    let dir = lab.case_dir()?;
    let (port, patient, nobody) = (lab.port(), lab.port(), lab.port());
    let host = lab.site(place)?.client();
    let capture = Capture::start(host, "lo", 400_000, &dir)?;
    rping(host, port, 3, &dir)?;
    deferred(host, patient, &dir)?;
    ping(host, nobody, 1, &dir, "rping-nobody")?.finish(LIMIT);
    datagrams(host, &dir)?;
    capture.settle();
    let file = capture.finish()?;

    let mut command = std::process::Command::new("tshark");
    command.args(["-n", "-r"]).arg(&file);
    command.args(["-Y", "infiniband.bth.destqp == 1", "-T", "fields"]);

    for field in [
        "infiniband.mad.mgmtclass",
        "infiniband.mad.attributeid",
        "infiniband.deth.q_key",
        "_ws.malformed",
    ] {
        command.args(["-e", field]);
    }

    let finished = process::run(command, &dir, "tshark-read", LIMIT)?;
    if !finished.success() {
        return Err(Stop::with(finished.ending(), &[&finished]));
    }

    let mut kinds = BTreeSet::new();
    for line in finished.out.lines() {
        let fields: Vec<&str> = line.split('\t').collect();
        let (["0x07", attribute, qkey], [malformed]) = fields.split_at(3) else {
            return Err(Stop::fail(format!("not a message of the class: {line}")));
        };
        let qkey = u64::from_str_radix(qkey.trim_start_matches("0x"), 16).ok();
        expect(malformed.is_empty() && qkey == Some(0x8001_0000), || {
            format!("malformed, or with a wrong Q_Key: {line}")
        })?;
        kinds.insert((*attribute).to_owned());
    }

    // REQ, MRA, REJ, REP, RTU, DREQ, DREP, SIDR_REQ, SIDR_REP.
    for wanted in [0x10, 0x11, 0x12, 0x13, 0x14, 0x15, 0x16, 0x17, 0x18] {
        let wanted = format!("{wanted:#06x}");
        expect(kinds.contains(&wanted), || {
            format!("no message {wanted} among {kinds:?}")
        })?;
    }

    let packets = pcap::read(&file)?;
    let messages = packets.iter().filter(|packet| is_message(packet.payload()));
    let icrcs: Vec<bool> = messages.map(Packet::icrc_is_right).collect();

    // The reader knows IPv4 only.
    let enough = place.is_ipv6() || icrcs.len() >= 9;
    expect(enough && icrcs.iter().all(|right| *right), || {
        format!("a wrong ICRC, or {} messages only", icrcs.len())
    })
}

/// BTH to ICRC: is it a MAD for QP1?
fn is_message(bytes: &[u8]) -> bool {
    bytes.len() == HEADERS + MAD + 4 && bytes[5..8] == [0, 0, 1]
}

/// Messages that nobody should send, each in a perfect packet, rain on QP1 while a connection is in
/// use: it goes on, others can be made, and in the end nothing is left of them but counters.
fn hostile(lab: &mut Lab) -> Ending {
    let dir = lab.case_dir()?;
    let (port, busy, other) = (lab.port(), lab.port(), lab.port());
    let host = lab.site(Place::OneDaemon)?.client();
    let capture = Capture::start(host, "lo", 4000, &dir)?;
    rping(host, port, 3, &dir)?;
    datagrams(host, &dir)?;
    capture.settle();
    let packets = pcap::read(&capture.finish()?)?;
    let messages: Vec<&[u8]> = packets
        .iter()
        .map(Packet::payload)
        .filter(|bytes| is_message(bytes))
        .collect();
    expect(messages.len() >= 6, || {
        format!("{} messages were captured", messages.len())
    })?;

    let before = host.status()?;
    let mut server = serve(host, &["rping", "-s", "-V"], busy, 2_000_000, &dir)?;
    let mut client = ping(host, busy, 2_000_000, &dir, "busy")?;
    let rained = rain(host, &messages, Duration::from_secs(3));

    // Not where the rain may still be knocking: rping takes one request only.
    let again = rping(host, other, 3, &dir);

    // Both are still at work: asked before either is killed, as each ends soon after the other.
    let ended = [&mut client, &mut server].map(|end| end.ended_within(Duration::ZERO));
    let (client, server) = (client.finish(Duration::ZERO), server.finish(Duration::ZERO));
    let sent = rained?;
    again?;
    if ended != [false, false] {
        return Err(Stop::with(
            format!("the busy pair ended under the rain of {sent} messages"),
            &[&client, &server],
        ));
    }

    // What the rain began, it cannot keep: all of it ends by itself.
    let deadline = Instant::now() + LIMIT;
    let mut after = host.status()?;
    while after["cm"]["ids"] != 0 && Instant::now() < deadline {
        std::thread::sleep(Duration::from_millis(100));
        after = host.status()?;
    }

    expect(after["cm"]["ids"] == 0, || {
        format!("ids are left: {}", after["cm"])
    })?;
    for counter in ["cm_malformed", "cm_unknown"] {
        let count = |status| environment::counter(status, counter);
        expect(count(&after) > count(&before), || {
            format!("{sent} bad messages, and {counter} shows none")
        })?;
    }

    Ok(())
}

/// Sends for `duration`; how many.
fn rain(host: &Host, messages: &[&[u8]], duration: Duration) -> Result<u64, Stop> {
    let mut random = Random(0x636d_636d);
    let socket = UdpSocket::bind((host.address.as_str(), 0)).map_err(anyhow::Error::from)?;
    let target = SocketAddr::new(host.address.parse().map_err(anyhow::Error::from)?, ROCE_V2);
    let (SocketAddr::V4(from), SocketAddr::V4(to)) =
        (socket.local_addr().map_err(anyhow::Error::from)?, target)
    else {
        return Err(Stop::fail("the host's address is not IPv4"));
    };

    let end = Instant::now() + duration;
    let mut sent = 0;
    while Instant::now() < end {
        for _ in 0..16 {
            let bytes = bad_message(messages, &mut random);
            let datagram = pcap::with_icrc(&bytes, from, *to.ip());
            sent += u64::from(socket.send_to(&datagram, target).is_ok());
        }
        std::thread::sleep(Duration::from_millis(1));
    }

    Ok(sent)
}

/// BTH to MAD: random content behind good headers, or a message that was once sent, as it was or a
/// little changed.
fn bad_message(messages: &[&[u8]], random: &mut Random) -> Vec<u8> {
    let mut bytes = messages[random.below(messages.len())][..HEADERS + MAD].to_vec();
    match random.below(3) {
        0 => {
            let content = HEADERS + [0, 4, 16, 24][random.below(4)];
            bytes[content..].fill_with(|| random.number() as u8);
        }
        1 => {
            for _ in 0..=random.below(4) {
                bytes[HEADERS + random.below(MAD)] = random.number() as u8;
            }
        }
        _ => {}
    }
    bytes
}
