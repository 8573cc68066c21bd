//! The server's MADs at QP1: whom they are from and where they go. Between two communication
//! managers they always have a GRH, since the GID that it names is who a peer is.

use ferroce_control::IbPort;
use ferroce_fabric::Av;
use ferroce_wire::mad::{self, DEFAULT_PKEY, Mad, QP1, QP1_QKEY};
use ferroce_wire::pkey;

use super::host::Host;
use super::route::{NO_LID, index_of, own_end, port_of};
use super::serve::Server;
use super::surroundings::Surroundings as View;
use crate::mads::{Address, Incoming, Outgoing, Route};
use crate::qp1;

impl Server {
    /// The ports have changed, or their subnet manager wants to be told again what is registered
    /// with it.
    pub(crate) fn ports_changed(&mut self, view: &View<'_>) {
        let host = self.host(view);
        self.ucma.addresses_changed(&host);
        self.ucma.names.publish(&mut self.ucma.questions, &host);
        self.ucma.regroup_soon(&host);
        self.finish(&host);
    }

    /// What is to be sent.
    pub(crate) fn outgoing(&mut self) -> Vec<Outgoing> {
        std::mem::take(&mut self.outgoing)
    }

    /// Takes a message that came to QP1 of a port from another communication manager.
    pub(crate) fn receive_message(&mut self, incoming: &Incoming, view: &View<'_>) {
        let host = self.host(view);
        match sender(incoming, &host) {
            Some(from) => {
                let out = &mut self.ucma.out;
                self.ucma.cm.receive(host.now, &from, &incoming.mad, out);
            }
            None => tracing::debug!(lid = incoming.from.lid, "a message without a GRH"),
        }
        self.finish(&host);
    }

    /// Takes the subnet administrator's answer to a question. `false`: nobody here has asked.
    pub(crate) fn receive_answer(&mut self, incoming: &Incoming, view: &View<'_>) -> bool {
        let host = self.host(view);
        let from_administrator = |port: &IbPort| incoming.from.lid == port.sm_lid;
        let is_ours = host.port(incoming.port).is_some_and(from_administrator)
            && self.ucma.questions.awaits(incoming.port, &incoming.mad);
        if is_ours {
            self.ucma.sa_answered(incoming.port, &incoming.mad, &host);
            self.finish(&host);
        }
        is_ours
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

/// The way back to who sent a message. `None`: it does not say who, or came to an address that has
/// gone.
fn sender(incoming: &Incoming, host: &Host<'_>) -> Option<Av> {
    let from = &incoming.from;
    let grh = from.grh?;
    let av = Av {
        local_gid: [0; 16],
        local_index: grh.gid_index.into(),
        remote_gid: grh.gid,
        pkey: DEFAULT_PKEY,
        sl: from.sl,
        traffic_class: grh.traffic_class,
        flow_label: grh.flow_label,
        hop_limit: grh.hop_limit,
        local_lid: NO_LID,
        remote_lid: NO_LID,
    };

    if !host.is_ib() {
        let local_gid = host.gids.entry(av.local_index)?.gid;
        return Some(Av { local_gid, ..av });
    }

    let port = host.port(incoming.port)?;
    let own = |(index, _): &&(u16, mad::Gid)| *index == u16::from(grh.gid_index);
    let (_, local_gid) = port.gids.iter().find(own)?;
    Some(Av {
        local_gid: *local_gid,
        local_index: index_of(incoming.port, grh.gid_index),
        pkey: *port.p_keys.get(usize::from(from.pkey_index))?,
        local_lid: port.lid | u16::from(from.path_bits),
        remote_lid: from.lid,
        ..av
    })
}

fn message(to: &Av, mad: Mad, host: &Host<'_>) -> Option<Outgoing> {
    // A GID may have gone since.
    let own = own_end(to, host)?;
    let far = Address {
        qpn: QP1,
        qkey: QP1_QKEY,
        sl: to.sl,
        grh: Some(Route {
            gid_index: own.index as u8,
            hop_limit: to.hop_limit.max(1),
            traffic_class: to.traffic_class,
            gid: to.remote_gid,
            flow_label: to.flow_label,
        }),
        ..Address::default()
    };

    if !host.is_ib() {
        return Some(Outgoing {
            port: qp1::PORT,
            qpn: QP1,
            to: far,
            mad,
        });
    }

    let number = port_of(own.index);
    let port = host.port(number)?;
    let same = |key: &u16| pkey::is_same_partition(*key, to.pkey);
    Some(Outgoing {
        port: number,
        qpn: QP1,
        to: Address {
            lid: to.remote_lid,
            path_bits: (to.local_lid ^ port.lid) as u8,
            pkey_index: port.p_keys.iter().position(same)? as u16,
            ..far
        },
        mad,
    })
}

fn question(number: u8, mad: Mad, host: &Host<'_>) -> Option<Outgoing> {
    let port = host.port(number).filter(|port| port.sm_lid != 0)?;
    Some(Outgoing {
        port: number,
        qpn: QP1,
        to: Address {
            qpn: QP1,
            qkey: QP1_QKEY,
            lid: port.sm_lid,
            sl: port.sm_sl,
            ..Address::default()
        },
        mad,
    })
}
