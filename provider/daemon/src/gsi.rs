//! The general services interface of the device: whatever comes to QP0 or QP1 of its ports, RoCE's
//! and InfiniBand's, goes by one way to whom it is for (`ferroce_fabric::gsi`), and whatever goes
//! out leaves by [`Gsi::put_on_wire`]. RoCE ports have a QP1 and no QP0, and their packets are
//! `qp1`'s business; InfiniBand ports' are `ib`'s. What a MAD means to its owner is nothing to this
//! module.

use std::time::Instant;

use ferroce_control::faults::Given;
use ferroce_control::{CounterPage, GidEntry};
use ferroce_fabric::gsi::{self, Services};
use ferroce_fabric::pma::Pma;
use ferroce_wire::MadHeader;
use ferroce_wire::greeting;
use ferroce_wire::mad::{Mad, QP0, QP1, method};

use crate::adapter::Adapter;
use crate::captures::Tap;
use crate::clock::Clock;
use crate::mads::{Incoming, Outgoing};
use crate::message_faults::{MessageFaults, Passing};
use crate::qp1::{self, Qp1};
use crate::service::Service;
use crate::{ucma, umad};

/// The service of performance management, and the way of all MADs.
#[derive(Debug)]
pub(crate) struct Gsi {
    /// Who answers questions about performance.
    pub(crate) pma: Pma,
    /// QP1 of a RoCE port.
    roce: Qp1,
    /// What a RoCE port has sent to itself.
    looped: Vec<Incoming>,
    /// What goes wrong with QP1's messages.
    faults: MessageFaults,
    /// The agents'.
    clock: Clock,
}

impl Service for Gsi {
    fn next_timeout(&self) -> Option<Instant> {
        let sampled = self.pma.next_timeout();
        let sampled = sampled.map(|at| self.clock.instant(at));
        sampled.into_iter().chain(self.faults.next()).min()
    }
}

impl Gsi {
    /// The interface of a device with so many ports.
    pub(crate) fn new(ports: u8, now: Instant) -> Self {
        Self {
            pma: Pma::new(1, ports),
            roce: Qp1::default(),
            looped: Vec::new(),
            faults: MessageFaults::default(),
            clock: Clock::at(now),
        }
    }

    /// Who sees what a RoCE port sends and receives.
    pub(crate) fn watched_by(&mut self, tap: Tap) {
        self.roce.tap = tap;
    }

    /// Does what is due.
    pub(crate) fn handle_timeout(&mut self, adapter: &Adapter) {
        let now = self.clock.now();
        self.pma.handle_timeout(now, &adapter.performance());
    }

    /// Takes the MADs that came to a RoCE port at the address of a group of sockets.
    pub(crate) fn receive(&mut self, group: usize, adapter: &mut Adapter) -> Vec<Incoming> {
        let Some(group) = adapter.groups.get(group) else {
            return Vec::new();
        };
        let Some(socket) = group.existing(0) else {
            return Vec::new();
        };
        let local = group.ip();
        let is_own = |entry: &&GidEntry| group.serves(entry.addr, entry.scope_id);
        let own = adapter.gids.entries().find(is_own);
        let own = own.map(|entry| entry.index);
        adapter.counting.dirty = true;
        self.roce
            .receive(socket, (local, own), &adapter.counting.own)
    }

    /// Takes what a RoCE port has sent to itself.
    pub(crate) fn looped(&mut self) -> Vec<Incoming> {
        std::mem::take(&mut self.looped)
    }

    /// From now on the faults of messages are these.
    pub(crate) fn take_faults(&mut self, given: Vec<Given>, page: &CounterPage) {
        self.faults.replace(given, page);
    }

    /// Takes the messages that faults have kept back until now.
    pub(crate) fn late(&mut self) -> Vec<Passing> {
        self.faults.due(Instant::now())
    }

    /// Sends one MAD of an agent's, if faults let it go. What has no way is lost, as on a wire.
    pub(crate) fn send(&mut self, out: &Outgoing, adapter: &mut Adapter) {
        for out in self.faults.leave(out, false) {
            self.send_now(&out, adapter);
        }
    }

    /// Sends one MAD by the port's link, even if it comes back from there; if faults let it go.
    pub(crate) fn put_on_wire(&mut self, out: &Outgoing, adapter: &mut Adapter) {
        for out in self.faults.leave(out, true) {
            self.put_on_wire_now(&out, adapter);
        }
    }

    fn send_now(&mut self, out: &Outgoing, adapter: &mut Adapter) {
        // There are no LIDs over RoCE; without a GRH nobody else can be meant.
        let own = |adapter: &Adapter| out.to.grh.is_none_or(|grh| adapter.has_gid(&grh.gid));
        if adapter.is_ib() || !own(adapter) {
            return self.put_on_wire_now(out, adapter);
        }
        // Nobody but QP1 is there for agents.
        if (out.qpn, out.to.qpn) == (QP1, QP1) {
            self.looped.push(out.looped());
        }
    }

    fn put_on_wire_now(&mut self, out: &Outgoing, adapter: &mut Adapter) {
        if let Some(fabric) = &mut adapter.ib.fabric {
            match out.qpn {
                QP0 => fabric.send_smp(out),
                _ => fabric.send_gmp(out),
            }
            return;
        }
        if (out.qpn, out.port) != (QP1, qp1::PORT) {
            return;
        }
        let own = out.to.grh.map(|grh| grh.gid_index.into());
        if let Some(own) = own.and_then(|index| adapter.gids.entry(index)) {
            self.roce
                .send(own, out, &adapter.kernel, &adapter.counting.own);
        }
    }
}

/// Those who are asked about a MAD that has come to a port, or from itself. Of QP0 only what the
/// subnet management agent leaves to programs gets here.
pub(crate) struct Served<'a> {
    pub(crate) gsi: &'a mut Gsi,
    pub(crate) rdma_cm: &'a mut ucma::Server,
    pub(crate) umad: &'a mut umad::Server,
    pub(crate) adapter: &'a mut Adapter,
}

impl Served<'_> {
    /// Gives a MAD to whom it is for, if faults let it come, and sends what is answered.
    pub(crate) fn serve(&mut self, incoming: &Incoming) {
        for incoming in self.gsi.faults.come(incoming) {
            self.serve_now(&incoming);
        }
    }

    /// Has a message go on that faults have kept back.
    pub(crate) fn go_on(&mut self, late: Passing) {
        match late {
            Passing::Leaving { out, by_wire: true } => {
                self.gsi.put_on_wire_now(&out, self.adapter);
            }
            Passing::Leaving { out, .. } => self.gsi.send_now(&out, self.adapter),
            Passing::Coming(incoming) => self.serve_now(&incoming),
        }
    }

    fn serve_now(&mut self, incoming: &Incoming) {
        if let Some(mad) = self.answer(incoming) {
            self.gsi.send(&incoming.answer(mad), self.adapter);
        }
    }

    fn answer(&mut self, incoming: &Incoming) -> Option<Mad> {
        gsi::serve(
            incoming.qpn,
            &incoming.mad,
            &mut Dispatch { to: self, incoming },
        )
    }

    /// Whether a sender may change what the port counts. Who can send to an InfiniBand port is on
    /// its fabric, whose administrator expects `perfquery -R` to work from anywhere. To a RoCE port
    /// anybody can send who has an IP address, so there it is the programs of this host.
    fn is_administrator(&self, incoming: &Incoming) -> bool {
        let own = |adapter: &Adapter| {
            incoming
                .from
                .grh
                .is_none_or(|grh| adapter.has_gid(&grh.gid))
        };
        self.adapter.is_ib() || own(self.adapter)
    }
}

/// A MAD that has come, and to whom.
struct Dispatch<'a, 'b> {
    to: &'a mut Served<'b>,
    incoming: &'a Incoming,
}

impl Services for Dispatch<'_, '_> {
    fn connection(&mut self) {
        let around = self.to.adapter.for_rdma_cm();
        self.to.rdma_cm.receive_message(self.incoming, &around);
    }

    fn performance(&mut self, header: &MadHeader) -> Option<Mad> {
        let mad = &self.incoming.mad;
        if header.method == method::SET && !self.to.is_administrator(self.incoming) {
            // Class and method there are, and Get of the same attribute (section 13.4.7, status 3).
            return gsi::refuse(mad);
        }
        let shown = self.to.adapter.performance();
        let now = self.to.gsi.clock.now();
        self.to.gsi.pma.receive(now, mad, &shown)
    }

    fn agent(&mut self, header: &MadHeader) -> bool {
        if header.class == greeting::CLASS && !self.to.adapter.is_ib() && self.greeting(header) {
            return true;
        }

        let Served {
            rdma_cm,
            umad,
            adapter,
            ..
        } = &mut *self.to;
        let asked =
            header.is_response() && rdma_cm.receive_answer(self.incoming, &adapter.for_rdma_cm());
        asked || umad.receive(self.incoming, header, &adapter.for_umad())
    }
}

impl Dispatch<'_, '_> {
    /// Takes what another host's daemon asks or answers. `false`: it may be a program's as well.
    fn greeting(&mut self, header: &MadHeader) -> bool {
        let Served { gsi, adapter, .. } = &mut *self.to;
        if header.is_response() {
            adapter.hosts.receive(self.incoming);
            return false;
        }
        let answer = adapter.hosts.answer(&self.incoming.mad);
        let Some(answer) = answer else { return false };
        gsi.send(&self.incoming.answer(answer), adapter);
        true
    }
}

#[cfg(test)]
#[path = "gsi_tests.rs"]
mod tests;
