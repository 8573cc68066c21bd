//! What must not break a fabric: floods of management packets, forwarding tables that lead in a
//! circle, partitions that change under traffic.

use std::fs;
use std::io::ErrorKind;
use std::net::{Ipv4Addr, SocketAddrV4, UdpSocket};
use std::path::Path;
use std::time::Duration;

use super::found::{ACTIVE, back_to_back, number_after};
use crate::attack::flood::{Flood, data, frame};
use crate::harness::case::expect;
use crate::harness::case::{Case, Ending, Stop};
use crate::harness::process::Running;
use crate::lab::Lab;
use crate::lab::environment::counter;
use crate::lab::subnet::{LIMIT, Subnet};

/// The ends of the cable between two hosts.
const NEAR_END: SocketAddrV4 = SocketAddrV4::new(Ipv4Addr::new(127, 0, 0, 1), 7101);
const FAR_END: SocketAddrV4 = SocketAddrV4::new(Ipv4Addr::new(127, 0, 0, 2), 7101);
/// An address that is neither's.
const STRANGER: Ipv4Addr = Ipv4Addr::new(127, 0, 0, 3);

pub(crate) fn cases() -> Vec<Case> {
    vec![
        Case::new("fabric/robust/flood of management packets", flood),
        Case::new("fabric/robust/strangers at a cable's end", strangers),
        Case::new("fabric/robust/forwarding tables in a circle", circle),
        Case::new("fabric/robust/partitions change under traffic", |lab| {
            partitions(lab, "off")
        }),
        Case::new("fabric/robust/partitions enforced by switches", |lab| {
            partitions(lab, "both")
        }),
        Case::new("fabric/robust/OpenSM outlives its daemon", outlived),
    ]
}

/// OpenSM reads on whatever a read comes to, and writes a line each time. It is not to fill a disk,
/// and to leave when it is asked to: its thread that reads is cancelled then, where it waits.
fn outlived(lab: &mut Lab) -> Ending {
    /// A line about a read that failed.
    const LINE: &str = "ERR 5404";
    /// Reads that take their time bring some four in two seconds, others thousands.
    const MOST: usize = 20;

    let mut subnet = back_to_back(lab)?;
    let mut manager = subnet.manage(1, &[])?;
    subnet.hosts[1].kill_daemon()?;
    manager.wait_for(LINE)?;
    std::thread::sleep(Duration::from_secs(2));
    let lines = manager.count(LINE);
    expect(lines <= MOST, || format!("{lines} lines in two seconds"))?;
    manager.stop()
}

/// Data goes on while QP0 and QP1 of one end are flooded; neither does the port go down, nor do its
/// agents stop answering.
fn flood(lab: &mut Lab) -> Ending {
    let mut subnet = back_to_back(lab)?;

    // A flood may crowd out what OpenSM sends, which gives a node up for lost when it has heard
    // nothing four times.
    let mut manager = subnet.manage(1, &["--retries", "20"])?;
    let before = subnet.run(1, &["perfquery", "2", "1"])?;
    let flood = flood_from(FAR_END)?;

    // Perftest says what its measurement's time brought, and fails if any completion has an error.
    for program in ["ib_write_bw", "ib_send_bw"] {
        let line = [program, "-F", "-D", "2"];
        subnet.pair((0, 1), &line, lab.port())?;
    }

    let sent = flood.sent();

    // Still under the flood.
    subnet.wait_for(1, &["smpquery", "NI", "2"], "Channel Adapter")?;
    drop(flood);
    expect(sent > 20_000, || format!("only {sent} packets were sent"))?;
    let after = subnet.run(1, &["perfquery", "2", "1"])?;
    let count = |text: &str, label| number_after(text, label).unwrap_or_default();
    let grown = |label| count(&after.out, label).wrapping_sub(count(&before.out, label));

    // Those that were damaged or cut off were counted.
    expect(
        grown("PortRcvErrors:") > 1000 && grown("LinkDownedCounter:") == 0,
        || after.out.clone(),
    )?;

    subnet.expect(0, &["ibstat"], &[ACTIVE, "Base lid: 2"])?;

    // Some had a wrong Q_Key. The subnet manager is told of one now and then, not of each.
    manager.wait_for("num:258")?;
    let info = subnet.run(1, &["smpquery", "PI", "2", "1"])?;
    expect(count(&info.out, "QkeyViolations:") > 100, || {
        info.out.clone()
    })
}

/// A flood at the end of host 0, whose port has LID 2, from an endpoint.
fn flood_from(from: SocketAddrV4) -> Result<Flood, Stop> {
    Flood::start(from, NEAR_END, 1, 2).map_err(|error| match error.kind() {
        ErrorKind::PermissionDenied => Stop::Skip("raw sockets are not allowed here".to_owned()),
        _ => Stop::from(anyhow::Error::from(error)),
    })
}

/// The same flood, and frames that would take the link down, from an address that is at neither
/// end: the port knows nothing of it.
fn strangers(lab: &mut Lab) -> Ending {
    let mut subnet = back_to_back(lab)?;
    let manager = subnet.manage(1, &[])?;
    let before = subnet.run(1, &["perfquery", "2", "1"])?;
    let refused = |subnet: &Subnet| -> Result<u64, Stop> {
        Ok(counter(&subnet.hosts[0].status()?, "rx_bad_peer"))
    };
    let already = refused(&subnet)?;
    let stranger = UdpSocket::bind("127.0.0.3:0").map_err(anyhow::Error::from)?;
    let flood = flood_from(SocketAddrV4::new(STRANGER, FAR_END.port()))?;
    for _ in 0..20 {
        stranger
            .send_to(&frame(), NEAR_END)
            .map_err(anyhow::Error::from)?;
    }

    let line = ["ib_write_bw", "-F", "-D", "1"];
    subnet.pair((0, 1), &line, lab.port())?;
    let sent = flood.sent();
    drop(flood);
    let after = subnet.run(1, &["perfquery", "2", "1"])?;
    let count = |text: &str, label| number_after(text, label).unwrap_or_default();
    for label in ["PortRcvErrors:", "LinkDownedCounter:"] {
        expect(
            count(&before.out, label) == count(&after.out, label),
            || format!("{sent} packets later: {}", after.out),
        )?;
    }

    let dropped = refused(&subnet)? - already;
    expect(sent > 1000 && dropped > sent / 2, || {
        format!("of {sent} packets {dropped} were refused")
    })?;
    subnet.expect(0, &["ibstat"], &[ACTIVE, "Base lid: 2"])?;
    strangers_data(&mut subnet, &stranger, lab.port())?;
    manager.stop()
}

/// The same with packets for the queue pair of a transfer that is going on: it is the program's
/// process that knows nothing of them.
fn strangers_data(subnet: &mut Subnet, stranger: &UdpSocket, port: u16) -> Ending {
    let number = port.to_string();
    let line = ["ib_write_bw", "-F", "-D", "4"];
    let server = subnet.server(0, &line, port)?;
    let client = [&line[..], &["-p", &number, "127.0.0.1"]].concat();
    let client = subnet.spawn(1, &client)?;

    // The server of perftest does not send, and needs no more than RTR.
    let connected = "type RC state RT";
    subnet.wait_for(0, &["rdma", "resource", "show", "qp"], connected)?;
    let shown = subnet.run(0, &["rdma", "resource", "show", "qp"])?.out;
    let numbered = shown.lines().find(|line| line.contains(connected));
    let qp = numbered.and_then(|line| line.split("lqpn ").nth(1)?.split(' ').next()?.parse().ok());
    let Some(qp) = qp else {
        return Err(Stop::fail(format!("no queue pair in {shown}")));
    };

    let refused = |subnet: &Subnet| -> Result<u64, Stop> {
        Ok(counter(&subnet.hosts[0].status()?, "rx_bad_peer"))
    };
    let already = refused(subnet)?;
    const SENT: u32 = 2_000;

    for psn in 0..SENT {
        stranger
            .send_to(&data([1, 2], qp, psn), NEAR_END)
            .map_err(anyhow::Error::from)?;
        if psn % 32 == 0 {
            std::thread::sleep(Duration::from_micros(500));
        }
    }

    let (client, server) = (client.finish(LIMIT), server.finish(LIMIT));
    if !client.success() || !server.success() {
        return Err(Stop::with("not both ends succeed", &[&server, &client]));
    }

    let dropped = refused(subnet)? - already;
    expect(dropped > u64::from(SENT) / 2, || {
        format!("of {SENT} packets for queue pair {qp:#x} {dropped} were refused")
    })
}

/// What all ports of a switch have sent, and dropped.
fn sent_and_dropped(subnet: &mut Subnet, lid: &str) -> Result<[u64; 2], Stop> {
    let sent = subnet.run(0, &["perfquery", "-x", "-a", lid])?;
    let dropped = subnet.run(0, &["perfquery", "-a", lid])?;
    let sent = number_after(&sent.out, "PortXmitPkts:");
    let dropped = number_after(&dropped.out, "PortXmitDiscards:");
    Ok([sent.unwrap_or_default(), dropped.unwrap_or_default()])
}

/// The switches' LIDs.
fn switches(subnet: &mut Subnet) -> Result<Vec<String>, Stop> {
    let said = subnet.run(0, &["ibswitches"])?;
    let lids = (said.out.lines()).filter_map(|l| l.split(" lid ").nth(1)?.split(' ').next());
    Ok(lids.map(str::to_owned).collect())
}

/// A packet that two switches send each other is dropped after as many hops as the datagram around
/// it may have.
fn circle(lab: &mut Lab) -> Ending {
    lab.vacate();
    let dir = lab.case_dir()?;
    let mut subnet = Subnet::two_switches(lab.programs(), &dir, 4)?;
    for host in 0..4 {
        subnet.wait_for(host, &["ibstat"], "Physical state: LinkUp")?;
    }
    let manager = subnet.manage(0, &[])?;
    let tables = subnet.run(0, &["dump_fts"])?.out;
    let stat = subnet.run(3, &["ibstat"])?;
    let lid = stat
        .out
        .lines()
        .find_map(|l| l.trim().strip_prefix("Base lid: "));
    let lid: u16 = lid.and_then(|lid| lid.parse().ok()).unwrap_or_default();
    manager.stop()?;

    // Ports 3 and 4 of both switches are cabled to each other: out by 3, back by 4.
    let (key, mut exit) = (format!("0x{lid:04x} "), "");
    let mut lines = Vec::new();
    for line in tables.lines() {
        if line.starts_with("Unicast lids") {
            exit = if line.contains("(switch 1)") {
                "003"
            } else {
                "004"
            };
        }
        lines.push(match line.strip_prefix(&key) {
            Some(rest) => format!("{key}{exit}{}", &rest[3..]),
            None => line.to_owned(),
        });
    }

    let file = dir.join("tables");
    fs::write(&file, lines.join("\n")).map_err(anyhow::Error::from)?;
    let file = file.display().to_string();
    let _manager = subnet.manage(0, &["-R", "file", "-U", &file])?;
    let lids = switches(&mut subnet)?;
    let mut before = [0; 2];
    for lid in &lids {
        subnet.expect(0, &["ibroute", lid], &[&format!("{key}00")])?;
        let [sent, dropped] = sent_and_dropped(&mut subnet, lid)?;
        before = [before[0] + sent, before[1] + dropped];
    }

    // An SMP and a packet of QP1, each sent once.
    let lid = lid.to_string();
    for line in [
        ["smpquery", "-t", "200", "NI", &lid],
        ["perfquery", "-t", "200", "-x", &lid],
    ] {
        let said = subnet.attempt(0, &line)?;
        expect(!said.success(), || {
            "the packets do not go in a circle".to_owned()
        })?;
    }

    let mut after = [0; 2];
    for lid in &lids {
        let [sent, dropped] = sent_and_dropped(&mut subnet, lid)?;
        after = [after[0] + sent, after[1] + dropped];
    }

    let grown = [after[0] - before[0], after[1] - before[1]];

    // Linux sends datagrams with a TTL of 64.
    let good = (60..1000).contains(&grown[0]) && grown[1] >= 2;
    expect(good, || format!("{grown:?} packets were sent and dropped"))
}

/// Limited members of a partition do not talk with each other. Made such while they do, they stop;
/// the port counts it and tells the subnet manager, or if the switches are told to enforce
/// partitions, a port of theirs counts it, and it comes to no host. With a full member they go on.
fn partitions(lab: &mut Lab, enforcement: &str) -> Ending {
    lab.vacate();
    let dir = lab.case_dir()?;
    let mut subnet = Subnet::two_switches(lab.programs(), &dir, 4)?;
    for host in 0..4 {
        subnet.wait_for(host, &["ibstat"], "Physical state: LinkUp")?;
    }
    let file = dir.join("partitions");
    let members = |file: &Path, text: &str| {
        fs::write(file, format!("Default=0x7fff : {text};\n")).map_err(anyhow::Error::from)
    };
    members(&file, "ALL=full")?;
    let path = file.display().to_string();
    let mut manager = subnet.manage(0, &["-P", &path, "-Z", enforcement])?;
    subnet.pair((1, 2), &["ibv_rc_pingpong", "-n", "300"], lab.port())?;
    let port = lab.port();
    let line = ["ibv_rc_pingpong", "-n", "1000000000"];
    let server = subnet.server(1, &line, port)?;
    let number = port.to_string();
    let mut client = subnet.spawn(2, &[&line[..], &["-p", &number, "127.0.0.1"]].concat())?;
    let file_of = "/sys/class/infiniband/ferroce0/ports/1/counters/port_rcv_packets";
    let many = |text: &str| text.trim().parse().is_ok_and(|n: u64| n > 2000);
    subnet.wait_until(2, &["cat", file_of], many)?;
    members(&file, "ALL=limited, SELF=full")?;
    manager.reload();

    // Whoever has a request on its way is told. The other may have nothing on its way, and then
    // waits for a message in vain.
    let wanted = "transport retry counter exceeded";
    let gave_up = |end: &Running| end.errors().contains(wanted);
    client.wait_until(LIMIT, |client| gave_up(client) || gave_up(&server));
    let ends = [client.kill(), server.kill()];
    if !ends.iter().any(|end| end.err.contains(wanted)) {
        let [client, server] = &ends;
        return Err(Stop::with(
            "limited members go on talking",
            &[client, server],
        ));
    }

    let enforced = enforcement != "off";
    if !enforced {
        manager.wait_for("num:257")?;
    }

    let said = subnet.run(1, &["ibv_devinfo", "-v"])?;
    let other = subnet.run(2, &["ibv_devinfo", "-v"])?;
    let bad = |text: &str| {
        let count = text
            .lines()
            .find_map(|l| l.trim().strip_prefix("bad_pkey_cntr:"));
        count.and_then(|n| n.trim().trim_start_matches("0x").parse::<u64>().ok())
    };
    let counts = [bad(&said.out), bad(&other.out)];
    let at_hosts = counts.iter().flatten().any(|n| *n > 0);

    // Both switches have ports to hosts; host 1 is at the first, host 2 at the second.
    let mut at_switches = 0;
    for lid in switches(&mut subnet)? {
        let said = subnet.run(0, &["perfquery", "-a", &lid])?;
        let errors = number_after(&said.out, "PortXmitConstraintErrors:");
        at_switches += errors.unwrap_or_default();
    }

    expect(
        at_hosts != enforced && (at_switches > 0) == enforced,
        || format!("{counts:?} at hosts, {at_switches} at switches"),
    )?;

    // The subnet manager's host is a full member.
    subnet.pair((0, 1), &["ibv_rc_pingpong", "-n", "300"], lab.port())?;
    members(&file, "ALL=full")?;
    manager.reload();
    for host in 1..=2 {
        let full = |text: &str| text.trim() == "0xffff";
        let line = ["cat", "/sys/class/infiniband/ferroce0/ports/1/pkeys/0"];
        subnet.wait_until(host, &line, full)?;
    }

    subnet.pair((1, 2), &["ibv_rc_pingpong", "-n", "300"], lab.port())?;
    Ok(())
}
