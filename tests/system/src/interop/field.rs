//! Where the tests of interoperation happen, inside the guest: rdma_rxe in the initial network
//! namespace (the kernel's soft-RoCE works in no other), ferroce in one of its own, and a veth pair
//! between them.

use std::ffi::OsString;
use std::fs;
use std::path::Path;
use std::process::Command;

use serde::Deserialize;

use crate::harness::case::Stop;
use crate::harness::process;
use crate::lab::host::{Host, VARIABLES};
use crate::lab::netns::Namespace;

/// Who runs a program.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Side {
    /// The Linux kernel's soft-RoCE.
    Rxe,
    /// Ours.
    Ferroce,
}

/// The address family that carries the traffic.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Family {
    /// IPv4.
    V4,
    /// IPv6.
    V6,
}

impl Side {
    /// The other end of the wire.
    pub(crate) fn other(self) -> Side {
        match self {
            Side::Rxe => Side::Ferroce,
            Side::Ferroce => Side::Rxe,
        }
    }

    /// As it is called in results.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Side::Rxe => "rxe",
            Side::Ferroce => "ferroce",
        }
    }

    /// The name of its device.
    pub(crate) fn device(self) -> &'static str {
        match self {
            Side::Rxe => "rxe0",
            Side::Ferroce => "ferroce0",
        }
    }

    /// Its end of the veth pair.
    pub(crate) fn interface(self) -> &'static str {
        match self {
            Side::Rxe => "rveth",
            Side::Ferroce => "fveth",
        }
    }

    /// Its address.
    pub(crate) fn address(self, family: Family) -> &'static str {
        match (self, family) {
            (Side::Rxe, Family::V4) => "10.78.0.1",
            (Side::Ferroce, Family::V4) => "10.78.0.2",
            (Side::Rxe, Family::V6) => "fd78::1",
            (Side::Ferroce, Family::V6) => "fd78::2",
        }
    }

    /// Its GID, as sysfs writes it.
    fn gid(self, family: Family) -> &'static str {
        match (self, family) {
            (Side::Rxe, Family::V4) => "0000:0000:0000:0000:0000:ffff:0a4e:0001",
            (Side::Ferroce, Family::V4) => "0000:0000:0000:0000:0000:ffff:0a4e:0002",
            (Side::Rxe, Family::V6) => "fd78:0000:0000:0000:0000:0000:0000:0001",
            (Side::Ferroce, Family::V6) => "fd78:0000:0000:0000:0000:0000:0000:0002",
        }
    }
}

impl Family {
    /// As it is called in results.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Family::V4 => "IPv4",
            Family::V6 => "IPv6",
        }
    }
}

/// An address of the link that nobody has, though both sides are told where it would be.
pub(super) fn nobody(family: Family) -> &'static str {
    match family {
        Family::V4 => "10.78.0.99",
        Family::V6 => "fd78::99",
    }
}

/// The two devices and the link between them.
pub(super) struct Field {
    /// ferroce's host.
    pub ferroce: Host,
    mtu: u32,
}

impl Field {
    /// Loads the modules and brings both sides up.
    pub(super) fn new(programs: &Path, mtu: u32) -> Result<Field, Stop> {
        for module in [
            "rdma_rxe",
            "rdma_ucm",
            "ib_umad",
            "veth",
            "sch_netem",
            "dummy",
        ] {
            must(words("modprobe", &[module]))?;
        }

        let namespace = Namespace::new()?;
        let (near, far) = (Side::Rxe.interface(), Side::Ferroce.interface());
        let pair = ["link", "add", near, "type", "veth", "peer", "name", far];
        must(words("ip", &pair))?;
        let within = namespace.id().to_string();
        must(words("ip", &["link", "set", far, "netns", &within]))?;
        let mut field = Field {
            ferroce: Host::new(programs, Side::Ferroce.address(Family::V4), Some(namespace))?,
            mtu,
        };

        for side in [Side::Rxe, Side::Ferroce] {
            let interface = side.interface();
            let (v4, v6) = (side.address(Family::V4), side.address(Family::V6));
            field.ip(side, &["link", "set", "lo", "up"])?;
            field.ip(side, &["link", "set", interface, "mtu", &mtu.to_string()])?;
            field.ip(
                side,
                &["addr", "add", &format!("{v4}/24"), "dev", interface],
            )?;

            // Without a search for duplicates, which would take a second.
            let v6 = format!("{v6}/64");
            field.ip(side, &["-6", "addr", "add", &v6, "dev", interface, "nodad"])?;
            field.ip(side, &["link", "set", interface, "up"])?;
            for at in [Family::V4, Family::V6].map(nobody) {
                let far = "02:00:00:00:00:99";
                field.ip(side, &["neigh", "add", at, "lladdr", far, "dev", interface])?;
            }
        }

        let device = Side::Rxe.device();
        must(words(
            "rdma",
            &["link", "add", device, "type", "rxe", "netdev", near],
        ))?;

        field.ferroce.up_with(&["--netdev", far])?;
        Ok(field)
    }

    /// A program on one of the sides.
    pub(super) fn command(&self, side: Side, program: impl AsRef<std::ffi::OsStr>) -> Command {
        match side {
            Side::Rxe => Command::new(program),
            Side::Ferroce => self.ferroce.run(program),
        }
    }

    /// The words that run a program on one of the sides, from a process on the other.
    pub(super) fn prefix(&self, side: Side) -> Vec<OsString> {
        match side {
            Side::Rxe => {
                let enter = ["nsenter", "--net=/proc/1/ns/net", "env"];
                // What ferroce's side has set is not for this one.
                let unset = VARIABLES.iter().flat_map(|name| ["-u", name]);
                enter.into_iter().chain(unset).map(OsString::from).collect()
            }
            Side::Ferroce => self.ferroce.prefix(),
        }
    }

    /// A program on one of the sides that has nothing to do with RDMA.
    pub(super) fn plain(&self, side: Side, program: &str) -> Command {
        match side {
            Side::Rxe => Command::new(program),
            Side::Ferroce => self.ferroce.plain(program),
        }
    }

    pub(super) fn ip(&self, side: Side, arguments: &[&str]) -> Result<(), Stop> {
        let mut command = self.plain(side, "ip");
        command.args(arguments);
        must(command)
    }

    /// The link's MTU.
    pub(super) fn mtu(&self) -> u32 {
        self.mtu
    }

    /// The largest path MTU that both sides take there.
    pub(super) fn path_mtu(&self) -> u32 {
        if self.mtu >= 4096 + 80 { 4096 } else { 1024 }
    }

    /// Gives the link another MTU, which both devices follow.
    pub(super) fn set_mtu(&mut self, mtu: u32) -> Result<(), Stop> {
        if self.mtu == mtu {
            return Ok(());
        }
        self.ferroce.down()?;
        for side in [Side::Rxe, Side::Ferroce] {
            self.ip(
                side,
                &["link", "set", side.interface(), "mtu", &mtu.to_string()],
            )?;
        }
        self.ferroce
            .up_with(&["--netdev", Side::Ferroce.interface()])?;
        self.mtu = mtu;
        Ok(())
    }

    /// Where a side's GID of a family is in its table.
    pub(super) fn gid_index(&self, side: Side, family: Family) -> Result<usize, Stop> {
        let root = match side {
            Side::Rxe => Path::new("/sys").to_path_buf(),
            Side::Ferroce => self.ferroce.runtime_dir().join("sys"),
        };
        let table = root.join(format!("class/infiniband/{}/ports/1/gids", side.device()));
        (0..64)
            .find(|index| {
                fs::read_to_string(table.join(index.to_string()))
                    .is_ok_and(|gid| gid.trim() == side.gid(family))
            })
            .ok_or_else(|| Stop::fail(format!("{} has no GID of {}", side.name(), family.name())))
    }

    /// A counter of rdma_rxe.
    pub(super) fn rxe_counter(&self, name: &str) -> Result<u64, Stop> {
        let path = format!("/sys/class/infiniband/rxe0/ports/1/hw_counters/{name}");
        let text =
            fs::read_to_string(&path).map_err(|error| Stop::fail(format!("{path}: {error}")))?;
        text.trim()
            .parse()
            .map_err(|_| Stop::fail(format!("{path}: {text:?}")))
    }

    /// The counter of ferroce of exactly this name.
    pub(super) fn ferroce_counter(&self, name: &str) -> Result<u64, Stop> {
        let status = self.ferroce.status()?;
        status["counters"][name]
            .as_u64()
            .ok_or_else(|| Stop::fail(format!("ferroce has no counter {name}")))
    }
}

/// A program and its arguments.
fn words(program: &str, arguments: &[&str]) -> Command {
    let mut command = Command::new(program);
    command.args(arguments);
    command
}

/// Runs a command that must succeed.
pub(super) fn must(mut command: Command) -> Result<(), Stop> {
    let line = process::line_of(&command);
    let output = command
        .output()
        .map_err(|error| Stop::fail(format!("{line}: {error}")))?;
    if output.status.success() {
        Ok(())
    } else {
        let text = String::from_utf8_lossy(&output.stderr);
        Err(Stop::fail(format!("{line}: {}", text.trim())))
    }
}
