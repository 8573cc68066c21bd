//! Group `fabric`, connections: stock programs of librdmacm over LIDs, by IP addresses and by GIDs.

use super::found::{ACTIVE, back_to_back};
use crate::groups::cm::listens;
use crate::harness::case::expect;
use crate::harness::case::{Case, Ending, Stop};
use crate::harness::process::Finished;
use crate::lab::Lab;
use crate::lab::subnet::{LIMIT, Subnet, address};

/// Port spaces.
pub(crate) const TCP: u64 = 0x106;
pub(crate) const UDP: u64 = 0x111;
const IB: u64 = 0x13f;
/// The port at which udaddy listens.
const UDADDY_PORT: u16 = 7174;

pub(crate) fn cases() -> Vec<Case> {
    vec![
        Case::new("fabric/rdma_cm/by IP addresses", by_address),
        Case::new("fabric/rdma_cm/by GIDs", by_gid),
        Case::new("fabric/rdma_cm/nobody there", nobody),
        Case::new("fabric/rdma_cm/subnet manager started again", restarted),
        Case::new("fabric/rdma_cm/address that moves", moved),
        Case::new("fabric/rdma_cm/P_Key that changes", other_pkey),
    ]
}

/// Waits until the subnet administrator of a host knows an address.
pub(crate) fn known(subnet: &mut Subnet, host: usize, address: &str) -> Ending {
    let name = format!("ferroce IP {address}\n");
    subnet.wait_for(host, &["saquery", "-S"], &name)
}

/// Runs a server on a host and a client on another; both must succeed.
pub(crate) fn connect(
    subnet: &mut Subnet,
    hosts: (usize, usize),
    (server, client): (&[&str], &[&str]),
    space: u64,
    port: u16,
) -> Result<[Finished; 2], Stop> {
    // udaddy cannot be told, and has sent -p to another use.
    let number = port.to_string();
    let (option, port) = match space {
        UDP => (&[][..], UDADDY_PORT),
        _ => (&["-p", &number][..], port),
    };
    let mut server = subnet.spawn(hosts.0, &[server, option].concat())?;
    let host = &subnet.hosts[hosts.0];
    if !server.wait_until(LIMIT, |_| listens(host, space, port)) {
        let server = server.kill();
        return Err(Stop::with("the server does not listen", &[&server]));
    }

    let client = subnet.attempt(hosts.1, &[client, option].concat())?;
    let server = server.finish_after(&client, LIMIT);
    match client.success() && server.success() {
        true => Ok([server, client]),
        false => Err(Stop::with("not both ends succeed", &[&server, &client])),
    }
}

/// `rping` between two hosts whose addresses are known.
pub(crate) fn rping(subnet: &mut Subnet, hosts: (usize, usize), port: u16) -> Ending {
    let to = address(hosts.0 + 1);
    known(subnet, hosts.0, &to)?;
    let client = ["rping", "-c", "-a", &to, "-C", "50", "-V"];
    let server = ["rping", "-s", "-a", &to, "-C", "50", "-V"];
    connect(subnet, hosts, (&server, &client), TCP, port)?;
    Ok(())
}

fn by_address(lab: &mut Lab) -> Ending {
    let mut subnet = back_to_back(lab)?;
    let _manager = subnet.manage(0, &[])?;

    // In both directions, and to itself.
    for hosts in [(0, 1), (1, 0), (1, 1)] {
        rping(&mut subnet, hosts, lab.port())?;
    }
    let to = address(1);
    let ucmatose = ["ucmatose", "-c", "8", "-C", "10"];
    let udaddy = ["udaddy", "-c", "4", "-C", "10"];
    for (line, space) in [(&ucmatose[..], TCP), (&udaddy[..], UDP)] {
        let server = [line, &["-b", &to]].concat();
        let client = [line, &["-s", &to]].concat();
        connect(&mut subnet, (0, 1), (&server, &client), space, lab.port())?;
    }

    let lines: (&[&str], &[&str]) = (&["rdma_server"], &["rdma_client", "-s", &to]);
    connect(&mut subnet, (0, 1), lines, TCP, lab.port())?;
    let line = ["ib_write_bw", "-F", "-R", "-n", "200"];
    let client = [&line[..], &[&to]].concat();
    connect(&mut subnet, (0, 1), (&line, &client), TCP, lab.port())?;
    Ok(())
}

/// The port's GID, as `ibaddr` prints it.
fn gid(subnet: &mut Subnet, host: usize) -> Result<String, Stop> {
    let ibaddr = subnet.run(host, &["ibaddr"])?;
    let gid = ibaddr.out.split_whitespace().nth(1).map(str::to_owned);
    gid.ok_or_else(|| Stop::with("no GID", &[&ibaddr]))
}

fn by_gid(lab: &mut Lab) -> Ending {
    let mut subnet = back_to_back(lab)?;
    let _manager = subnet.manage(0, &[])?;
    subnet.wait_for(1, &["ibstat"], ACTIVE)?;
    let to = gid(&mut subnet, 0)?;
    let ucmatose = ["ucmatose", "-f", "gid", "-c", "8", "-C", "10"];
    let of_ib = [&ucmatose[..], &["-P", "ib"]].concat();
    let udaddy = ["udaddy", "-f", "gid", "-c", "4", "-C", "10"];
    for (line, space) in [(&ucmatose[..], TCP), (&of_ib[..], IB), (&udaddy[..], UDP)] {
        let server = [line, &["-b", &to]].concat();
        let client = [line, &["-s", &to]].concat();
        connect(&mut subnet, (0, 1), (&server, &client), space, lab.port())?;
    }
    Ok(())
}

/// A client that must fail, and say why.
fn refused(subnet: &mut Subnet, line: &[&str], wanted: &str) -> Ending {
    let client = subnet.attempt(1, line)?;
    let says = |text: &str| text.contains(wanted);
    match !client.success() && (says(&client.out) || says(&client.err)) {
        true => Ok(()),
        false => Err(Stop::with(
            format!("it does not say {wanted:?}"),
            &[&client],
        )),
    }
}

fn nobody(lab: &mut Lab) -> Ending {
    let mut subnet = back_to_back(lab)?;
    let manager = subnet.manage(0, &[])?;
    known(&mut subnet, 0, &address(1))?;
    let port = lab.port().to_string();

    // Nobody listens: reason 8, invalid service ID.
    let there = address(1);
    let client = ["rping", "-c", "-C", "1", "-p", &port, "-a"];
    let to = |who| [&client[..], &[who]].concat();
    refused(&mut subnet, &to(&there), "RDMA_CM_EVENT_REJECTED, error 8")?;

    // Nobody has the address, nor the GID: EHOSTUNREACH.
    let elsewhere = to("10.9.9.9");
    refused(
        &mut subnet,
        &elsewhere,
        "RDMA_CM_EVENT_ADDR_ERROR, error -113",
    )?;

    let absent = "fe80::5054:ff:fe00:77";
    let client = ["ucmatose", "-f", "gid", "-p", &port, "-s", absent];
    refused(&mut subnet, &client, "RDMA_CM_EVENT_ROUTE_ERROR, error: -")?;

    // Nobody knows: ETIMEDOUT.
    manager.kill();
    refused(
        &mut subnet,
        &to(&there),
        "RDMA_CM_EVENT_ADDR_ERROR, error -110",
    )
}

/// A subnet manager that starts anew knows no address until the ports have told it.
fn restarted(lab: &mut Lab) -> Ending {
    let mut subnet = back_to_back(lab)?;
    let manager = subnet.manage(0, &[])?;
    rping(&mut subnet, (0, 1), lab.port())?;

    // A connection lives on while it is away.
    let (port, to) = (lab.port(), address(1));
    let number = port.to_string();
    let rest = ["-a", &to, "-p", &number];
    let mut server = subnet.spawn(0, &[&["rping", "-s"], &rest[..]].concat())?;
    let listening = server.wait_until(LIMIT, |_| listens(&subnet.hosts[0], TCP, port));
    expect(listening, || "the server does not listen".to_owned())?;
    let client = ["stdbuf", "-oL", "rping", "-c", "-v", "-C", "1000000"];
    let mut client = subnet.spawn(1, &[&client, &rest[..]].concat())?;
    let runs = client.wait_until(LIMIT, |client| client.output().contains("rdma-ping-9:"));
    expect(runs, || client.output())?;
    manager.kill();
    let _manager = subnet.manage(0, &[])?;
    rping(&mut subnet, (0, 1), lab.port())?;
    let before = client.output().len();
    let goes_on = client.wait_until(LIMIT, |client| client.output().len() > before);
    expect(goes_on, || client.output())?;
    client.kill();
    server.kill();
    Ok(())
}

/// How many records the subnet administrator has for an address.
fn records(text: &str, address: &str) -> usize {
    text.matches(&format!("ferroce IP {address}\n")).count()
}

/// An address whose host died, and that another host has now, is the other's at once.
fn moved(lab: &mut Lab) -> Ending {
    lab.vacate();
    let dir = lab.case_dir()?;
    let mut subnet = Subnet::two_switches(lab.programs(), &dir, 4)?;
    let _manager = subnet.manage(0, &[])?;
    let moving = address(3);
    known(&mut subnet, 1, &moving)?;
    subnet.hosts[2].kill_daemon()?;
    subnet.hosts[3].kill_daemon()?;
    subnet.hosts[3].up_with(&[
        "--link-layer",
        "infiniband",
        "--addr",
        &moving,
        "--cable",
        "127.0.0.4:7101=127.0.100.2:7102",
    ])?;
    // The dead host's is there as long as it has asked for.
    subnet.wait_until(1, &["saquery", "-S"], |text| records(text, &moving) == 2)?;
    let server = ["rping", "-s", "-a", &moving, "-C", "50", "-V"];
    let client = ["rping", "-c", "-a", &moving, "-C", "50", "-V"];
    connect(&mut subnet, (3, 1), (&server, &client), TCP, lab.port()).map(drop)
}

/// A port whose first P_Key is another has its address by that one only.
fn other_pkey(lab: &mut Lab) -> Ending {
    let mut subnet = back_to_back(lab)?;
    let file = lab.case_dir()?.join("partitions");
    let members = |text: &str| {
        let text = format!("Default=0x7fff : {text};\n");
        std::fs::write(&file, text).map_err(anyhow::Error::from)
    };
    members("ALL=full")?;
    let path = file.display().to_string();
    let manager = subnet.manage(0, &["-P", &path])?;
    let to = address(2);
    known(&mut subnet, 0, &to)?;
    members("ALL=limited, SELF=full")?;
    manager.reload();
    subnet.wait_until(0, &["saquery", "-S"], |text| {
        let of_limited = text.contains("ServiceP_Key............0x7FFF");
        of_limited && records(text, &to) == 1
    })?;
    rping(&mut subnet, (1, 0), lab.port())
}
