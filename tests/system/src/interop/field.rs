//! Where the tests of interoperation happen, inside the guest: rdma_rxe in the initial network namespace (the kernel's soft-RoCE
//! works in no other), ferroce in one of its own, and a veth pair between them.

use std::ffi::OsString;
use std::fs;
use std::path::Path;
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use serde::Deserialize;
use serde_json::Value;

use crate::harness::case::{Ending, Stop};
use crate::harness::process;
use crate::lab::host::{Host, VARIABLES};
use crate::lab::netns::Namespace;

/// Who runs a program.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "lowercase")]
pub enum Side {
    /// The Linux kernel's soft-RoCE.
    Rxe,
    /// Ours.
    Ferroce,
}

/// The address family that carries the traffic.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Family {
    /// IPv4.
    V4,
    /// IPv6.
    V6,
}

impl Side {
    /// The other end of the wire.
    pub fn other(self) -> Side {
        match self {
            Side::Rxe => Side::Ferroce,
            Side::Ferroce => Side::Rxe,
        }
    }

    /// As it is called in results.
    pub fn name(self) -> &'static str {
        match self {
            Side::Rxe => "rxe",
            Side::Ferroce => "ferroce",
        }
    }

    /// The name of its device.
    pub fn device(self) -> &'static str {
        match self {
            Side::Rxe => "rxe0",
            Side::Ferroce => "ferroce0",
        }
    }

    /// Its end of the veth pair.
    pub fn interface(self) -> &'static str {
        match self {
            Side::Rxe => "rveth",
            Side::Ferroce => "fveth",
        }
    }

    /// Its address.
    pub fn address(self, family: Family) -> &'static str {
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
    pub fn name(self) -> &'static str {
        match self {
            Family::V4 => "IPv4",
            Family::V6 => "IPv6",
        }
    }
}

/// An address of the link that nobody has, though both sides are told where it would be.
pub fn nobody(family: Family) -> &'static str {
    match family {
        Family::V4 => "10.78.0.99",
        Family::V6 => "fd78::99",
    }
}

/// What the network does to packets where it is said to be bad, in each direction.
const BAD: &[&str] = &[
    "delay",
    "1ms",
    "loss",
    "1%",
    "duplicate",
    "1%",
    "reorder",
    "3%",
];

/// Datagrams of which some are doubled.
const MANY: u64 = 3000;
/// Sends so many to a host's discard port.
const SEND_MANY: &str = "import socket, sys
out = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
for _ in range(int(sys.argv[2])):
    out.sendto(b'over a bad network', (sys.argv[1], 9))";

/// What a bad network did to a side's packets.
#[derive(Clone, Copy, Debug)]
pub struct Harm {
    /// Packets handed on, doubles included.
    pub passed: u64,
    /// Packets lost.
    pub lost: u64,
    /// Packets that overtook others.
    pub reordered: u64,
    waiting: u64,
}

impl Harm {
    /// What came since.
    pub fn since(self, before: Harm) -> Harm {
        Harm {
            passed: self.passed - before.passed,
            lost: self.lost - before.lost,
            reordered: self.reordered - before.reordered,
            waiting: self.waiting,
        }
    }
}

/// The two devices and the link between them.
pub struct Field {
    /// ferroce's host.
    pub ferroce: Host,
    mtu: u32,
}

impl Field {
    /// Loads the modules and brings both sides up.
    pub fn new(programs: &Path, mtu: u32) -> Result<Field, Stop> {
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
    pub fn command(&self, side: Side, program: impl AsRef<std::ffi::OsStr>) -> Command {
        match side {
            Side::Rxe => Command::new(program),
            Side::Ferroce => self.ferroce.run(program),
        }
    }

    /// The words that run a program on one of the sides, from a process on the other.
    pub fn prefix(&self, side: Side) -> Vec<OsString> {
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
    pub fn plain(&self, side: Side, program: &str) -> Command {
        match side {
            Side::Rxe => Command::new(program),
            Side::Ferroce => self.ferroce.plain(program),
        }
    }

    fn ip(&self, side: Side, arguments: &[&str]) -> Result<(), Stop> {
        let mut command = self.plain(side, "ip");
        command.args(arguments);
        must(command)
    }

    /// The link's MTU.
    pub fn mtu(&self) -> u32 {
        self.mtu
    }

    /// The largest path MTU that both sides take there.
    pub fn path_mtu(&self) -> u32 {
        if self.mtu >= 4096 + 80 { 4096 } else { 1024 }
    }

    /// Gives the link another MTU, which both devices follow.
    pub fn set_mtu(&mut self, mtu: u32) -> Result<(), Stop> {
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

    /// Makes the network lose, double, delay and reorder sends: rdma_rxe's are a packet each, ferroce's up to 64.
    pub fn worsen(&self) -> Result<(), Stop> {
        for side in [Side::Rxe, Side::Ferroce] {
            self.netem(side, BAD)?;
        }
        // netem sees a send whole all the same: the kernel cuts it between the queue and the link.
        self.cut_early(true)
    }

    /// What the network has done to the packets that a side sends, since it was made bad.
    pub fn harm(&self, side: Side) -> Result<Harm, Stop> {
        let mut command = self.plain(side, "tc");
        command.args(["-s", "-j", "qdisc", "show", "dev", side.interface()]);
        let output = command.output().map_err(anyhow::Error::from)?;
        let shown: Value = serde_json::from_slice(&output.stdout).map_err(anyhow::Error::from)?;
        let netem = shown
            .as_array()
            .and_then(|all| all.iter().find(|queue| queue["kind"] == "netem"))
            .ok_or_else(|| Stop::fail(format!("no netem at {}", side.interface())))?;
        let counter = |name: &str| {
            netem[name]
                .as_u64()
                .ok_or_else(|| Stop::fail(format!("tc tells no {name}")))
        };
        Ok(Harm {
            passed: counter("packets")?,
            lost: counter("drops")?,
            // What netem puts in front of the queue counts as put back.
            reordered: counter("requeues")?,
            waiting: counter("qlen")?,
        })
    }

    /// That a bad network does what it is said to do to a side's packets.
    pub fn is_bad_from(&self, side: Side) -> Ending {
        const LIMIT: Duration = Duration::from_secs(30);
        let before = self.harm(side)?;
        let mut command = self.plain(side, "python3");
        let to = side.other().address(Family::V4);
        command.args(["-c", SEND_MANY, to, &MANY.to_string()]);
        must(command)?;
        let deadline = Instant::now() + LIMIT;
        let mut seen = self.harm(side)?;
        while seen.waiting > 0 && Instant::now() < deadline {
            thread::sleep(Duration::from_millis(20));
            seen = self.harm(side)?;
        }
        let seen = seen.since(before);
        // Beside these there may be a packet or two of the kernels' own.
        let doubled = (seen.passed + seen.lost).saturating_sub(MANY);
        if seen.lost == 0 || seen.reordered == 0 || doubled < 5 {
            let what = format!("of {MANY} packets {doubled} were doubled: {seen:?}");
            return Err(Stop::fail(what));
        }
        Ok(())
    }

    /// Makes the network good again.
    pub fn mend(&self) -> Result<(), Stop> {
        for side in [Side::Rxe, Side::Ferroce] {
            let mut command = self.plain(side, "tc");
            command.args(["qdisc", "del", "dev", side.interface(), "root"]);
            must(command)?;
        }
        self.cut_early(false)
    }

    /// Does something to every packet that a side sends.
    pub fn netem(&self, side: Side, what: &[&str]) -> Result<(), Stop> {
        let mut command = self.plain(side, "tc");
        command.args(["qdisc", "replace", "dev", side.interface(), "root", "netem"]);
        command.args(what);
        must(command)
    }

    /// Whether the kernel cuts ferroce's sends into packets before they reach the link, as for a network card, or after it.
    pub fn cut_early(&self, early: bool) -> Result<(), Stop> {
        let segments = if early { "1" } else { "65535" };
        let far = Side::Ferroce.interface();
        self.ip(
            Side::Ferroce,
            &["link", "set", "dev", far, "gso_max_segs", segments],
        )
    }

    /// Where a side's GID of a family is in its table.
    pub fn gid_index(&self, side: Side, family: Family) -> Result<usize, Stop> {
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
    pub fn rxe_counter(&self, name: &str) -> Result<u64, Stop> {
        let path = format!("/sys/class/infiniband/rxe0/ports/1/hw_counters/{name}");
        let text =
            fs::read_to_string(&path).map_err(|error| Stop::fail(format!("{path}: {error}")))?;
        text.trim()
            .parse()
            .map_err(|_| Stop::fail(format!("{path}: {text:?}")))
    }

    /// The counter of ferroce of exactly this name.
    pub fn ferroce_counter(&self, name: &str) -> Result<u64, Stop> {
        let status = self.ferroce.status()?;
        status["counters"]
            .as_array()
            .and_then(|all| all.iter().find(|pair| pair[0] == name))
            .and_then(|pair| pair[1].as_u64())
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
fn must(mut command: Command) -> Result<(), Stop> {
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
