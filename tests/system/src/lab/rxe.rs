//! The kernel's soft-RoCE, rdma_rxe, and ferroce beside it, in the guest of `tests/interop`: as
//! root, and nowhere else. ferroce alone is a contestant on any machine.
//!
//! Both have the same network: two hosts joined by a veth pair. ferroce's hosts are two network
//! namespaces. rdma_rxe of Linux 6.1 works in the initial namespace only, so both of its devices
//! are there, one on either end of the pair, and routing rules keep what goes from the one to the
//! other on the wire. (Left alone, the kernel would hand the packets over without it, as it does
//! where both ends are on one device: [`Contestant::alone`].)

use std::ffi::OsStr;
use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Result, bail};

use crate::lab::host::{Host, TCP};
use crate::lab::line::{self, Line};
use crate::lab::netns::{self, ADDRESSES, INTERFACES};
use crate::programs::perftest::Runs;

/// Room for a path MTU of 4,096 with all headers.
const MTU: u32 = 9000;

/// A device of a contestant.
pub(crate) struct End {
    device: &'static str,
    interface: &'static str,
    address: &'static str,
    /// None: rdma_rxe, which needs nothing.
    ferroce: Option<Host>,
}

/// Two devices of a kind that reach each other over the wire.
pub(crate) struct Contestant {
    /// `rxe` or `ferroce`.
    pub name: &'static str,
    ends: [End; 2],
}

impl Contestant {
    /// rdma_rxe.
    pub(crate) fn rxe() -> Result<Contestant> {
        // What this does to a machine stays.
        if fs::read_to_string("/proc/sys/kernel/hostname")?.trim() != "guest" {
            bail!("this is for the guest of tests/interop");
        }

        for module in ["rdma_rxe", "rdma_ucm"] {
            netns::done(Command::new("modprobe").arg(module))?;
        }
        wire()?;
        let mut ends = Vec::new();
        for (device, (interface, address)) in ["rxe0", "rxe1"]
            .into_iter()
            .zip(INTERFACES.into_iter().zip(ADDRESSES))
        {
            let words = ["link", "add", device, "type", "rxe", "netdev", interface];
            netns::done(Command::new("rdma").args(words))?;
            ends.push(End {
                device,
                interface,
                address,
                ferroce: None,
            });
        }

        Contestant::new("rxe", ends)
    }

    /// ferroce; `programs` holds the built product.
    pub(crate) fn ferroce(programs: &Path) -> Result<Contestant> {
        let pair = netns::Pair::new(MTU)?;
        Contestant::of(programs, pair, INTERFACES, ADDRESSES)
    }

    /// ferroce, with a line for a wire; `programs` holds `udp-baseline` too.
    pub(crate) fn over_line(programs: &Path) -> Result<(Contestant, Line)> {
        let pair = netns::Pair::new(MTU)?;
        let line = Line::between(&pair, programs, MTU)?;
        let interfaces = [line::INTERFACE; 2];
        let contestant = Contestant::of(programs, pair, interfaces, line::ADDRESSES)?;
        Ok((contestant, line))
    }

    fn of(
        programs: &Path,
        pair: netns::Pair,
        interfaces: [&'static str; 2],
        addresses: [&'static str; 2],
    ) -> Result<Contestant> {
        let mut ends = Vec::new();
        for (space, (interface, address)) in [pair.a, pair.b]
            .into_iter()
            .zip(interfaces.into_iter().zip(addresses))
        {
            let mut host = Host::new(programs, address, Some(space))?;
            host.up_with(&["--netdev", interface])?;
            ends.push(End {
                device: "ferroce0",
                interface,
                address,
                ferroce: Some(host),
            });
        }

        Contestant::new("ferroce", ends)
    }

    fn new(name: &'static str, ends: Vec<End>) -> Result<Contestant> {
        match ends.try_into() {
            Ok(ends) => Ok(Contestant { name, ends }),
            Err(_) => bail!("two ends are wanted"),
        }
    }

    /// Server and client, the wire between them.
    pub(crate) fn joined(&self) -> [&End; 2] {
        let [server, client] = &self.ends;
        [server, client]
    }

    /// One device as both.
    pub(crate) fn alone(&self) -> [&End; 2] {
        [&self.ends[0]; 2]
    }
}

/// A veth pair in the initial namespace that packets cross from one end to the other, both
/// addresses being this host's.
fn wire() -> Result<()> {
    let ip = |arguments: &[&str]| netns::done(Command::new("ip").args(arguments));
    let mtu = MTU.to_string();
    let [a, b] = INTERFACES;
    ip(&[
        "link", "add", a, "mtu", &mtu, "type", "veth", "peer", "name", b, "mtu", &mtu,
    ])?;
    fs::write("/proc/sys/net/ipv4/conf/all/rp_filter", "0")?;

    for (this, other, table) in [(0, 1, "100"), (1, 0, "101")] {
        let (interface, from, to) = (INTERFACES[this], ADDRESSES[this], ADDRESSES[other]);
        for (name, value) in [("accept_local", "1"), ("rp_filter", "0")] {
            fs::write(format!("/proc/sys/net/ipv4/conf/{interface}/{name}"), value)?;
        }
        ip(&["addr", "add", &format!("{from}/32"), "dev", interface])?;
        ip(&["link", "set", interface, "up"])?;
        ip(&["route", "add", to, "dev", interface, "table", table])?;
        ip(&[
            "rule", "add", "pref", table, "oif", interface, "lookup", table,
        ])?;
    }

    // Ours come before the table of this host's own addresses.
    ip(&["rule", "add", "pref", "200", "lookup", "local"])?;
    ip(&["rule", "del", "pref", "0"])
}

impl End {
    /// Its end of the wire.
    pub(crate) fn interface(&self) -> &'static str {
        self.interface
    }

    /// How many packets may leave it in one piece: with one, each is lost by itself, as on a wire.
    pub(crate) fn sends_together(&self, packets: u32) -> Result<()> {
        let packets = packets.to_string();
        let words = [
            "link",
            "set",
            "dev",
            self.interface,
            "gso_max_segs",
            &packets,
        ];
        netns::done(self.plain("ip").args(words))
    }

    /// A program that has nothing to do with the device, where that end is.
    pub(crate) fn plain(&self, program: impl AsRef<OsStr>) -> Command {
        match &self.ferroce {
            Some(host) => host.plain(program),
            None => Command::new(program),
        }
    }

    /// Whether a service of rdma_cm's TCP port space has a listener.
    pub(crate) fn listens(&self, port: u16) -> bool {
        match &self.ferroce {
            Some(host) => host.listens(TCP, port).unwrap_or(false),
            None => {
                let shown = Command::new("rdma")
                    .args(["resource", "show", "cm_id"])
                    .output();
                let shown = shown.map(|output| output.stdout).unwrap_or_default();
                String::from_utf8_lossy(&shown)
                    .lines()
                    .any(|line| line.contains("LISTEN") && line.contains(&format!(":{port} ")))
            }
        }
    }
}

impl Runs for End {
    fn program(&self, name: &str) -> Command {
        match &self.ferroce {
            Some(host) => host.run(name),
            None => Command::new(name),
        }
    }

    fn address(&self) -> &str {
        self.address
    }

    fn device(&self) -> Option<&str> {
        Some(self.device)
    }
}
