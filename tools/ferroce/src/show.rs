//! `ferroce status` and `ferroce devices`.

use std::io::{self, Write};
use std::net::{IpAddr, Ipv6Addr};
use std::process::ExitCode;

use comfy_table::{Table, presets};
use ferroce_control::link::Rate;
use ferroce_control::{Client, GidEntry, RuntimeDir, Status};
use serde::Serialize;

use crate::error::Error;
use crate::libibverbs::Libibverbs;
use crate::libraries;
use crate::ports::{self, Port};

/// Shows what the daemon says of itself.
pub(crate) fn status(dir: &RuntimeDir, json: bool) -> Result<ExitCode, Error> {
    let status = Client::connect(dir)?.status()?;
    if !json {
        let mut ports = ports::all(dir, &status.device.name)?;
        ports.retain(|port| port.ours);
        return print(describe(&status, &ports, dir));
    }

    // The ports as `ferroce devices --json` has them: the daemon's account has those of a RoCE
    // device alone.
    let ports = ports::all(dir, &status.device.name)?;
    let ports = ports.iter().filter(|port| port.ours).map(Port::json);
    let mut account =
        serde_json::to_value(&status).map_err(|e| Error::io("writing JSON")(e.into()))?;
    account["ports"] = ports.collect();

    // By their names, for programs; the daemon has them as pairs.
    let counters = status.counters.iter();
    account["counters"] = counters
        .map(|(name, value)| (name.clone(), (*value).into()))
        .collect::<serde_json::Map<_, _>>()
        .into();
    print(pretty(&account)?)
}

/// Lists what is in the image, so the host's real devices too.
pub(crate) fn devices(dir: &RuntimeDir, json: bool) -> Result<ExitCode, Error> {
    let ours = Client::connect(dir)?.status()?.device.name;
    let ports = ports::all(dir, &ours)?;
    if json {
        let objects: Vec<_> = ports.iter().map(Port::json).collect();
        return print(pretty(&objects)?);
    }

    let mut table = table(&[
        "DEVICE",
        "PORT",
        "STATE",
        "LINK LAYER",
        "RATE",
        "NETDEV",
        "NODE GUID",
        "",
    ]);

    for port in ports {
        let ours = if port.ours { "ferroce" } else { "" };
        table.add_row([
            port.device,
            port.number.to_string(),
            port.state,
            port.link_layer,
            port.rate,
            port.netdevs.join(" "),
            port.node_guid,
            ours.to_owned(),
        ]);
    }

    print(trimmed(&table))
}

/// Whether programs find the device: which libibverbs they get, and whether there is a driver for
/// it. Needs no daemon.
pub(crate) fn check(dir: &RuntimeDir) -> Result<ExitCode, Error> {
    libraries::find(dir)?;
    let found = Libibverbs::find().map_err(Error::NoLibibverbs)?;
    if found.version.is_err() {
        return Err(Error::Unserved(found));
    }
    print(format!("{found}, which is supported\n"))
}

/// JSON with an end of line.
pub(crate) fn pretty(value: &impl Serialize) -> Result<String, Error> {
    let text = serde_json::to_string_pretty(value);
    let text = text.map_err(|error| Error::io("writing JSON")(error.into()))?;
    Ok(text + "\n")
}

pub(crate) fn table(header: &[&str]) -> Table {
    let mut table = Table::new();
    table
        .load_preset(presets::NOTHING)
        .set_header(header.iter().copied());
    table
}

/// The table's text without the spaces around its lines.
pub(crate) fn trimmed(table: &Table) -> String {
    let bare = |line: String| {
        let line = line.strip_prefix(' ').unwrap_or(&line);
        line.trim_end().to_owned() + "\n"
    };
    table.lines().map(bare).collect()
}

/// Whether others reach an address of the loopback interface by other interfaces.
fn is_service_address(gid: &GidEntry) -> bool {
    gid.ifname == "lo" && !gid.addr.is_loopback()
}

/// A line for each port with a cable.
fn cabled(ports: &[Port]) -> String {
    let lines = ports.iter().map(|port| {
        let Port {
            number,
            state,
            phys_state,
            lid,
            sm_lid,
            rate,
            ..
        } = port;
        format!("port {number}: {state} ({phys_state}), InfiniBand, LID {lid}, subnet manager's LID {sm_lid}, {rate}\n")
    });
    lines.collect()
}

/// The GIDs of ports with cables. An address is one that was given to the port.
fn gids_of_cabled(gids: &[GidEntry]) -> Table {
    let mut rows = table(&["PORT", "INDEX", "GID", "ADDRESS"]);
    for entry in gids {
        let gid = Ipv6Addr::from(entry.gid);
        let address = Some(entry.addr).filter(|addr| *addr != IpAddr::V6(gid));
        rows.add_row([
            (entry.index / 256 + 1).to_string(),
            (entry.index % 256).to_string(),
            gid.to_string(),
            address.map(|addr| addr.to_string()).unwrap_or_default(),
        ]);
    }
    rows
}

/// Those of a RoCE port, which are addresses.
fn gids_of_addresses(gids: &[GidEntry]) -> Table {
    let mut rows = table(&["GID", "ADDRESS", "NETDEV"]);
    for entry in gids {
        rows.add_row([
            entry.index.to_string(),
            entry.addr.to_string(),
            entry.ifname.clone(),
        ]);
    }
    rows
}

fn describe(status: &Status, ports: &[Port], dir: &RuntimeDir) -> String {
    let device = &status.device;
    let guid: Vec<String> = device
        .node_guid
        .chunks(2)
        .map(|pair| format!("{:02x}{:02x}", pair[0], pair[1]))
        .collect();

    let state = if device.port_active { "ACTIVE" } else { "DOWN" };

    // Ports with cables have states and rates each of their own.
    let port = match device.ib_ports {
        0 => format!(
            "port 1: {state}, RoCE v2 ({}, MTU {}{}), path MTU {}, {}\n",
            device.netdev,
            device.netdev_mtu,
            match status.gids.iter().any(is_service_address) {
                true => ", the smallest of the interfaces that lead out",
                false => "",
            },
            device.active_mtu,
            Rate::of_mbps(device.speed_mbps).sysfs(),
        ),
        n => format!(
            "{n} InfiniBand port(s), at best {state}; path MTU {}\n{}",
            device.active_mtu,
            cabled(ports)
        ),
    };

    let mut text = format!(
        "{} ({}), node GUID {}\n\
         {}\
         ferroced {}, process {}, up {}, runtime directory {}\n\
         receive buffer {} KiB, congestion control {}, slots: {} claimed, {} free, {} resting\n",
        device.name,
        device.uverbs,
        guid.join(":"),
        port,
        status.version,
        status.pid,
        duration(status.uptime_seconds),
        dir.path().display(),
        // The kernel doubles what is asked for, for its own data, and says so much.
        device.rcvbuf / 2 / 1024,
        device.congestion,
        status.slots.claimed,
        status.slots.free,
        status.slots.resting,
    );

    let cm = &status.cm;
    if cm.programs > 0 {
        text += &format!(
            "connection manager: {} programs, {} ids, {} connections, {} services listened to\n",
            cm.programs,
            cm.ids,
            cm.connections,
            cm.services.len(),
        );
    }

    text.push('\n');
    let gids = match device.ib_ports {
        0 => gids_of_addresses(&status.gids),
        _ => gids_of_cabled(&status.gids),
    };
    text += &trimmed(&gids);
    text.push('\n');
    let mut clients = table(&["SLOT", "PID", "PROGRAM", "SINCE"]);
    for client in status.clients.iter().filter(|client| client.slot.is_some()) {
        clients.add_row([
            client.slot.map(|slot| slot.to_string()).unwrap_or_default(),
            client.pid.to_string(),
            client.name.clone(),
            duration(client.seconds),
        ]);
    }

    text += &trimmed(&clients);
    text.push('\n');
    let mut counters = table(&["COUNTER", "VALUE"]);
    for (name, value) in status.counters.iter().filter(|(_, value)| *value > 0) {
        counters.add_row([name.clone(), value.to_string()]);
    }
    text += &trimmed(&counters);
    text
}

fn duration(seconds: u64) -> String {
    match (seconds / 3600, seconds / 60 % 60, seconds % 60) {
        (0, 0, s) => format!("{s}s"),
        (0, m, s) => format!("{m}m{s:02}s"),
        (h, m, _) => format!("{h}h{m:02}m"),
    }
}

/// Prints; a reader that has had enough (`| head`) is no error.
pub(crate) fn print(text: impl AsRef<[u8]>) -> Result<ExitCode, Error> {
    printed(text).map(|_| ExitCode::SUCCESS)
}

/// Prints at once; returns whether the reader is still there.
pub(crate) fn printed(text: impl AsRef<[u8]>) -> Result<bool, Error> {
    let mut out = io::stdout().lock();
    match out.write_all(text.as_ref()).and_then(|()| out.flush()) {
        Ok(()) => Ok(true),
        Err(e) if e.kind() == io::ErrorKind::BrokenPipe => Ok(false),
        Err(e) => Err(Error::io("writing to standard output")(e)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cells_that_are_empty_keep_their_place() {
        let mut rows = table(&["PROGRAM", "PID"]);
        rows.add_row(["", "75"]).add_row(["rping", "7"]);
        assert_eq!(trimmed(&rows), "PROGRAM  PID\n         75\nrping    7\n");
    }

    #[test]
    fn durations_are_short() {
        assert_eq!(duration(9), "9s");
        assert_eq!(duration(69), "1m09s");
        assert_eq!(duration(7260), "2h01m");
    }
}
