//! The general services interface of the device: whatever comes to QP0 or QP1 of its ports, RoCE's and InfiniBand's, goes by one way to
//! whom it is for (`ferroce_fabric::gsi`), and whatever goes out leaves by [`Daemon::send_mad`]. RoCE ports have a QP1 and no QP0, and
//! their packets are `qp1`'s business; InfiniBand ports' are `ib`'s. What a MAD means to its owner is nothing to this module.

use std::time::{Duration, Instant};

use ferroce_fabric::gsi::{self, Services};
use ferroce_fabric::pma::Pma;
use ferroce_fabric::sma::Port;
use ferroce_wire::MadHeader;
use ferroce_wire::mad::{Gid, Mad, QP0, QP1, method};

use crate::daemon::Daemon;
use crate::mads::{Incoming, Outgoing};
use crate::performance::Shown;
use crate::qp1::{self, Qp1};
use crate::umad::{Server, Surroundings};

/// How many MADs are carried before others have their turn. Two agents of one port can keep each other busy.
const TURN: usize = 4096;

/// What the interface has of its own.
#[derive(Debug)]
pub(crate) struct Gsi {
    /// Who answers questions about performance.
    pub(crate) pma: Pma,
    /// QP1 of a RoCE port.
    pub(crate) roce: Qp1,
    started: Instant,
}

impl Gsi {
    /// The interface of a device with so many ports.
    pub(crate) fn new(ports: u8, now: Instant) -> Self {
        Self {
            pma: Pma::new(1, ports),
            roce: Qp1::default(),
            started: now,
        }
    }

    /// The agents' clock.
    fn clock(&self) -> u64 {
        self.started.elapsed().as_nanos() as u64
    }

    /// When the performance management agent has something to do.
    pub(crate) fn next_timeout(&self) -> Option<Instant> {
        let at = self.pma.next_timeout()?;
        Some(self.started + Duration::from_nanos(at))
    }

    /// Does what is due.
    pub(crate) fn handle_timeout(&mut self, shown: &Shown) {
        let now = self.clock();
        self.pma.handle_timeout(now, shown);
    }
}

/// Those whom the daemon asks about a MAD.
struct Served<'a> {
    daemon: &'a mut Daemon,
    came: &'a Incoming,
}

impl Services for Served<'_> {
    fn connection(&mut self) {
        let came = self.came;
        self.daemon
            .with_rdma_cm(|server, around| server.message_came(came, around));
    }

    fn performance(&mut self, header: &MadHeader) -> Option<Mad> {
        let mad = &self.came.mad;
        if header.method == method::SET && !self.daemon.is_administrator(self.came) {
            // Class and method there are, and Get of the same attribute (section 13.4.7, status 3).
            return gsi::refuse(mad);
        }
        let shown = self.daemon.performance();
        let gsi = &mut self.daemon.gsi;
        gsi.pma.receive(gsi.clock(), mad, &shown)
    }

    fn agent(&mut self, header: &MadHeader) -> bool {
        let came = self.came;
        let asked = |daemon: &mut Daemon| {
            daemon.with_rdma_cm(|server, around| server.answer_came(came, around))
        };
        if header.is_response() && asked(self.daemon) {
            return true;
        }
        let around = Surroundings {
            poller: &self.daemon.poller,
            first: self.daemon.first_umad,
            ports: self.daemon.info.ib_ports.max(1),
            smi: self.daemon.ib.fabric.is_some(),
        };
        self.daemon.umad.receive(came, header, &around)
    }
}

impl Daemon {
    /// A MAD has come to a port, or from itself. Of QP0 only what the subnet management agent leaves to programs comes here.
    pub(crate) fn mad_came(&mut self, came: &Incoming) {
        let mut served = Served { daemon: self, came };
        if let Some(mad) = gsi::serve(came.qpn, &came.mad, &mut served) {
            self.send_mad(&came.answer(mad));
        }
    }

    /// Handles what came for slot 0 of a group of sockets: QP1's datagrams at an address, or all that comes to an InfiniBand port.
    pub(crate) fn receive_mads(&mut self, group: usize) {
        if self.ib_receive(group) {
            return;
        }
        let Some(group) = self.groups.get(group) else {
            return;
        };
        let Some(socket) = group.existing(0) else {
            return;
        };
        let local = group.ip();
        let own = self.gids.entries().find(|entry| entry.addr == local);
        let own = own.map(|entry| entry.index);
        let came = (self.gsi.roce).receive(socket, (local, own), &self.counting.own);
        self.counting.dirty = true;
        for came in came {
            self.mad_came(&came);
        }
        self.carry_mads();
    }

    /// Sends one MAD. What has no way is lost, as on a wire.
    pub(crate) fn send_mad(&mut self, out: &Outgoing) {
        if self.ib.fabric.is_none() && self.is_own(out) {
            // Nobody but QP1 is there for agents.
            if (out.qpn, out.to.qpn) == (QP1, QP1) {
                self.mad_came(&out.looped());
            }
            return;
        }
        self.put_on_wire(out);
    }

    /// Whether a MAD from a RoCE port is for the port itself. There are no LIDs; without a GRH nobody else can be meant.
    fn is_own(&self, out: &Outgoing) -> bool {
        out.to.grh.is_none_or(|grh| self.has_gid(&grh.gid))
    }

    fn has_gid(&self, gid: &Gid) -> bool {
        self.gids.entries().any(|entry| entry.gid == *gid)
    }

    /// Sends one MAD by the port's link, even if it comes back from there.
    pub(crate) fn put_on_wire(&mut self, out: &Outgoing) {
        if let Some(fabric) = &mut self.ib.fabric {
            match out.qpn {
                QP0 => fabric.send_smp(out),
                _ => fabric.send_gmp(out),
            }
            self.ib_settle();
            return;
        }
        if (out.qpn, out.port) != (QP1, qp1::PORT) {
            return;
        }
        let own = out.to.grh.map(|grh| grh.gid_index.into());
        if let Some(own) = own.and_then(|index| self.gids.entry(index)) {
            self.gsi.roce.send(own, out, &self.counting.own);
        }
    }

    /// Lends the umad server what it needs of the rest, and carries what it has to send.
    pub(crate) fn with_umad<R>(
        &mut self,
        act: impl FnOnce(&mut Server, &Surroundings<'_>) -> R,
    ) -> R {
        let around = Surroundings {
            poller: &self.poller,
            first: self.first_umad,
            ports: self.info.ib_ports.max(1),
            smi: self.ib.fabric.is_some(),
        };
        let result = act(&mut self.umad, &around);
        self.carry_mads();
        result
    }

    /// Sends what the umad server has to send.
    pub(crate) fn carry_mads(&mut self) {
        let mut carried = 0;
        loop {
            let mads = self.umad.outgoing();
            if mads.is_empty() {
                return;
            }
            for mad in mads {
                carried += 1;
                if carried > TURN {
                    tracing::debug!("MADs run in a circle");
                    return;
                }
                self.send_mad(&mad);
            }
        }
    }

    /// Whether a sender may change what the port counts. Who can send to an InfiniBand port is on its fabric, whose administrator expects
    /// `perfquery -R` to work from anywhere. To a RoCE port anybody can send who has an IP address, so there it is the programs of this host.
    fn is_administrator(&self, came: &Incoming) -> bool {
        self.ib.fabric.is_some() || came.from.grh.is_none_or(|grh| self.has_gid(&grh.gid))
    }

    /// What the performance management agent is shown.
    pub(crate) fn performance(&self) -> Shown {
        let ports = self.ib.fabric.iter().flat_map(|fabric| {
            let downed = |port| fabric.node().port(port).map_or(0, Port::link_downed);
            (1..=fabric.ports()).map(move |port| (fabric.counts(port), downed(port)))
        });
        Shown {
            sums: self.totals(),
            ports: ports.collect(),
        }
    }
}

#[cfg(test)]
#[path = "gsi_tests.rs"]
mod tests;
