//! The server's MADs at QP1 of InfiniBand ports: whom they are from and where they go. Between two communication managers they
//! always have a GRH, since the GID that it names is who a peer is.

use ferroce_control::IbPort;
use ferroce_fabric::Av;
use ferroce_wire::mad::{self, CLASS_CM, Mad, QP1_QKEY};
use ferroce_wire::pkey;
use ferroce_wire::sa;

use super::host::Host;
use super::route::port_of;
use super::serve::Server;
use super::surroundings::Surroundings as View;
use crate::umad::{Address, Incoming, Outgoing, Route};

impl Server {
    /// The ports have changed, or their subnet manager wants to be told again what is registered with it.
    pub fn ports_changed(&mut self, view: &View<'_>) {
        let host = self.host(view);
        self.ucma.addresses_changed(&host);
        self.ucma.names.publish(&mut self.ucma.questions, &host);
        self.ucma.regroup_soon(&host);
        self.finish(&host, view);
    }

    /// What is to be sent.
    pub fn outgoing(&mut self) -> Vec<Outgoing> {
        std::mem::take(&mut self.outgoing)
    }

    /// Takes a MAD that came to QP1 of an InfiniBand port. `false`: it is for somebody else.
    pub fn gmp_came(&mut self, came: &Incoming, view: &View<'_>) -> bool {
        let host = self.host(view);
        let Some(port) = host.port(came.port) else {
            return false;
        };
        match came.mad[1] {
            CLASS_CM => match sender(came, port) {
                Some(from) => {
                    let out = &mut self.ucma.out;
                    self.ucma.cm.receive(host.now, &from, &came.mad, out);
                }
                None => tracing::debug!(lid = came.from.lid, "a message without a GRH"),
            },
            sa::CLASS
                if came.from.lid == port.sm_lid
                    && self.ucma.questions.awaits(came.port, &came.mad) =>
            {
                self.ucma.sa_answered(came.port, &came.mad, &host);
            }
            _ => return false,
        }
        self.finish(&host, view);
        true
    }

    /// Puts out what is to be sent. What has no way is lost, as on a wire.
    pub(super) fn hand_out(&mut self, host: &Host<'_>) {
        for (to, mad) in std::mem::take(&mut self.ucma.out.mads) {
            self.outgoing.extend(message(&to, mad, host));
        }
        for (port, mad) in self.ucma.questions.outgoing() {
            self.outgoing.extend(question(port, mad, host));
        }
    }
}

/// The way back to who sent a message. `None`: it does not say who.
fn sender(came: &Incoming, port: &IbPort) -> Option<Av> {
    let from = &came.from;
    let grh = from.grh?;
    let own = |(index, _): &&(u16, mad::Gid)| *index == u16::from(grh.gid_index);
    let (_, local_gid) = port.gids.iter().find(own)?;
    Some(Av {
        local_gid: *local_gid,
        remote_gid: grh.gid,
        pkey: *port.p_keys.get(usize::from(from.pkey_index))?,
        sl: from.sl,
        traffic_class: grh.traffic_class,
        flow_label: grh.flow_label,
        hop_limit: grh.hop_limit,
        local_lid: port.lid | u16::from(from.path_bits),
        remote_lid: from.lid,
    })
}

fn message(to: &Av, mad: Mad, host: &Host<'_>) -> Option<Outgoing> {
    // A GID may have gone since.
    let own = host
        .gids
        .entries()
        .find(|entry| entry.gid == to.local_gid)?;
    let number = port_of(own.index);
    let port = host.port(number)?;
    let same = |key: &u16| pkey::is_same_partition(*key, to.pkey);
    Some(Outgoing {
        port: number,
        qpn: 1,
        to: Address {
            qpn: 1,
            qkey: QP1_QKEY,
            lid: to.remote_lid,
            sl: to.sl,
            path_bits: (to.local_lid ^ port.lid) as u8,
            grh: Some(Route {
                gid_index: own.index as u8,
                hop_limit: to.hop_limit.max(1),
                traffic_class: to.traffic_class,
                gid: to.remote_gid,
                flow_label: to.flow_label,
            }),
            pkey_index: port.p_keys.iter().position(same)? as u16,
        },
        mad,
    })
}

fn question(number: u8, mad: Mad, host: &Host<'_>) -> Option<Outgoing> {
    let port = host.port(number).filter(|port| port.sm_lid != 0)?;
    Some(Outgoing {
        port: number,
        qpn: 1,
        to: Address {
            qpn: 1,
            qkey: QP1_QKEY,
            lid: port.sm_lid,
            sl: port.sm_sl,
            ..Address::default()
        },
        mad,
    })
}
