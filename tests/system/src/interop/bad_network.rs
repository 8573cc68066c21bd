//! A network that loses, doubles, delays and reorders what both sides of the link send, and what it
//! has done to their packets: netem at both ends of the veth pair.

use std::thread;
use std::time::{Duration, Instant};

use serde_json::Value;

use super::field::{Family, Field, Side, must};
use crate::harness::case::{Ending, Stop};

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
pub(super) struct Harm {
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
    pub(super) fn since(self, before: Harm) -> Harm {
        Harm {
            passed: self.passed - before.passed,
            lost: self.lost - before.lost,
            reordered: self.reordered - before.reordered,
            waiting: self.waiting,
        }
    }
}

impl Field {
    /// Makes the network lose, double, delay and reorder sends: rdma_rxe's are a packet each,
    /// ferroce's up to 64.
    pub(super) fn worsen(&self) -> Result<(), Stop> {
        for side in [Side::Rxe, Side::Ferroce] {
            self.netem(side, BAD)?;
        }
        // netem sees a send whole all the same: the kernel cuts it between the queue and the link.
        self.cut_early(true)
    }

    /// What the network has done to the packets that a side sends, since it was made bad.
    pub(super) fn harm(&self, side: Side) -> Result<Harm, Stop> {
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
    pub(super) fn is_bad_from(&self, side: Side) -> Ending {
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
    pub(super) fn mend(&self) -> Result<(), Stop> {
        for side in [Side::Rxe, Side::Ferroce] {
            let mut command = self.plain(side, "tc");
            command.args(["qdisc", "del", "dev", side.interface(), "root"]);
            must(command)?;
        }
        self.cut_early(false)
    }

    /// Does something to every packet that a side sends.
    pub(super) fn netem(&self, side: Side, what: &[&str]) -> Result<(), Stop> {
        let mut command = self.plain(side, "tc");
        command.args(["qdisc", "replace", "dev", side.interface(), "root", "netem"]);
        command.args(what);
        must(command)
    }

    /// Whether the kernel cuts ferroce's sends into packets before they reach the link, as for a
    /// network card, or after it.
    pub(super) fn cut_early(&self, early: bool) -> Result<(), Stop> {
        let segments = if early { "1" } else { "65535" };
        let far = Side::Ferroce.interface();
        self.ip(
            Side::Ferroce,
            &["link", "set", "dev", far, "gso_max_segs", segments],
        )
    }
}
