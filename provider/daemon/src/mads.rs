//! The ways of management datagrams: from programs' agents and the daemon's own to the ports, and from the ports to whom they
//! are for. RoCE ports have a QP1 and no QP0; of InfiniBand ports see `ib`. What a MAD means to its owner is nothing to this module.

use std::time::{Duration, Instant};

use ferroce_fabric::sma::Port;
use ferroce_fabric::{Av, gsa};
use ferroce_wire::mad::{self, MadHeader};
use ferroce_wire::pma::CLASS as CLASS_PERFORMANCE;
use ferroce_wire::smp::method;

use crate::daemon::Daemon;
use crate::performance::Shown;
use crate::umad::{Address, Incoming, Outgoing, Route, Server, Surroundings};

/// How many MADs are carried before others have their turn. Two agents of one port can keep each other busy.
const TURN: usize = 4096;
/// The one port of a RoCE device.
const ROCE_PORT: u8 = 1;

impl Daemon {
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

    /// Sends one MAD. What has no way is lost, as on a wire.
    pub(crate) fn send_mad(&mut self, out: &Outgoing) {
        if let Some(fabric) = &mut self.ib.fabric {
            match out.qpn {
                0 => fabric.send_smp(out),
                _ => fabric.send_gmp(out),
            }
            self.ib_settle();
            return;
        }
        if out.qpn != 1 || out.port != ROCE_PORT {
            return;
        }
        let own = |gid: &[u8; 16]| self.gids.entries().any(|entry| entry.gid == *gid);
        // There are no LIDs here; without a GRH nobody else can be meant.
        let to_self = out.to.grh.is_none_or(|grh| own(&grh.gid));
        if to_self {
            if out.to.qpn == 1 {
                self.mad_came(&looped(out));
            }
            return;
        }
        let Some(grh) = out.to.grh else { return };
        let Some(entry) = self.gids.entry(grh.gid_index.into()).cloned() else {
            return;
        };
        let av = Av {
            local_gid: entry.gid,
            remote_gid: grh.gid,
            pkey: mad::DEFAULT_PKEY,
            sl: out.to.sl,
            traffic_class: grh.traffic_class,
            flow_label: grh.flow_label,
            hop_limit: grh.hop_limit,
            local_lid: 0,
            remote_lid: 0,
        };
        let to = (out.to.qpn, out.to.qkey);
        self.with_rdma_cm(|server, around| server.send_mad(&entry, &av, to, &out.mad, around));
    }

    /// A MAD has come to QP1 of a RoCE port from a peer.
    pub(crate) fn gmp_came(&mut self, from: &Av, src_qp: u32, mad: mad::Mad) {
        let index = self
            .gids
            .entries()
            .find(|entry| entry.gid == from.local_gid)
            .map_or(0, |entry| entry.index);
        self.mad_came(&Incoming {
            port: ROCE_PORT,
            qpn: 1,
            from: Address {
                qpn: src_qp,
                qkey: mad::QP1_QKEY,
                lid: 0,
                sl: 0,
                path_bits: 0,
                grh: Some(Route {
                    gid_index: index as u8,
                    hop_limit: from.hop_limit,
                    traffic_class: from.traffic_class,
                    gid: from.remote_gid,
                    flow_label: from.flow_label,
                }),
                pkey_index: 0,
            },
            mad,
        });
        self.carry_mads();
    }

    /// A MAD has come that is not the management agent's, nor the communication manager's.
    pub(crate) fn mad_came(&mut self, came: &Incoming) {
        let Some(header) = MadHeader::parse(&came.mad) else {
            return;
        };
        // QP0's classes are nothing that QP1 takes, and the other way round.
        let of_qp0 = matches!(header.class, 0x01 | 0x81);
        if of_qp0 != (came.qpn == 0) {
            return;
        }
        if header.base_version != mad::BASE_VERSION {
            // It is for no agent; who asks is told why (C13-24).
            if let Some(mad) = gsa::refuse(&came.mad).filter(|_| came.qpn == 1) {
                self.send_mad(&came.answer(mad));
            }
            return;
        }
        if came.qpn == 1 && self.ib.fabric.is_some() {
            let taken =
                self.with_rdma_cm_and_groups(|server, around, _| server.gmp_came(came, around));
            if taken {
                return;
            }
        }
        let is_request = header.method & mad::METHOD_RESPONSE == 0;
        if header.class == CLASS_PERFORMANCE && came.qpn == 1 && is_request {
            if header.method == method::SET && !self.is_administrator(came) {
                // Class and method there are, and Get of the same attribute (section 13.4.7, status 3).
                if let Some(mad) = gsa::refuse(&came.mad) {
                    self.send_mad(&came.answer(mad));
                }
                return;
            }
            let shown = self.performance();
            if let Some(mad) = self.pma.receive(self.clock(), &came.mad, &shown) {
                self.send_mad(&came.answer(mad));
            }
            return;
        }
        let around = Surroundings {
            poller: &self.poller,
            first: self.first_umad,
            ports: self.info.ib_ports.max(1),
            smi: self.ib.fabric.is_some(),
        };
        if self.umad.receive(came, &around) {
            return;
        }
        // Who asks is told that nobody answers this.
        if let Some(mad) = gsa::refuse(&came.mad).filter(|_| came.qpn == 1) {
            self.send_mad(&came.answer(mad));
        }
    }

    /// Whether a sender may change what the port counts. Who can send to an InfiniBand port is on its fabric, whose administrator expects
    /// `perfquery -R` to work from anywhere. To a RoCE port anybody can send who has an IP address, so there it is the programs of this host.
    fn is_administrator(&self, came: &Incoming) -> bool {
        let own = |gid: &mad::Gid| self.gids.entries().any(|entry| entry.gid == *gid);
        self.ib.fabric.is_some() || came.from.grh.is_none_or(|grh| own(&grh.gid))
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

    /// When the performance management agent has something to do.
    pub(crate) fn pma_timeout(&self) -> Option<Instant> {
        let at = self.pma.next_timeout()?;
        Some(self.started + Duration::from_nanos(at))
    }

    /// The agents' clock.
    pub(crate) fn clock(&self) -> u64 {
        self.started.elapsed().as_nanos() as u64
    }
}

/// A MAD that a port sends to itself, as it comes.
fn looped(out: &Outgoing) -> Incoming {
    Incoming {
        port: out.port,
        qpn: out.qpn,
        from: Address {
            qpn: 1,
            qkey: mad::QP1_QKEY,
            ..out.to
        },
        mad: out.mad,
    }
}
