//! Receiving UD: the delivery to one queue pair or to all of a multicast group.

use std::sync::Arc;

use ferroce_control::{Counter, Key};
use ferroce_transport::Time;
use ferroce_wire::Packet;
use ferroce_wire::pkey;

use crate::datapath::arrival::Arrival;
use crate::datapath::qp_host::QpHost;
use crate::hca::Hca;
use crate::memory::keys::KeyTable;
use crate::port::ib::{self, Origin};
use crate::verbs::groups::Members;
use crate::verbs::qp::{Inner, Qp};

/// The queue pair number of multicast (all ones).
const MULTICAST_QP: u32 = 0xff_ffff;

impl Qp {
    /// Gives a UD queue pair a datagram.
    pub(super) fn take_datagram(
        &self,
        inner: &mut Inner,
        packet: &Packet<'_>,
        arrival: &Arrival<'_>,
        keys: &KeyTable,
        now: Time,
    ) {
        self.hca().counters().add(Counter::RxSendRequests, 1);
        let mut host = QpHost::new(self, keys, None, now);
        host.origin = Some(match arrival.port {
            Some((port, packet)) => port.origin(packet),
            None => Origin::of_roce(arrival.datagram.from),
        });

        inner
            .transport
            .receive_datagram(now, packet, &arrival.grh(), &mut host);
        if host.wrong_qkey
            && let Some((port, local)) = arrival.port
        {
            let key = packet.ext.deth.map_or(0, |deth| deth.qkey);
            let report = ib::wrong_key(local, packet, key);
            let counters = self.hca().counters();
            counters.report(port.number, Key::Queue, &report);
        }

        if let Some(failure) = host.failure() {
            self.fails(inner, keys, now, failure);
        }
    }
}

impl Hca {
    /// Gives each member of a multicast group in this process its copy of a datagram. Its sender
    /// gets one too if it is a member, unless it was made not to.
    pub(super) fn deliver_to_group(
        &self,
        members: &Members<Qp>,
        packet: &Packet<'_>,
        arrival: &Arrival<'_>,
        keys: &KeyTable,
        now: Time,
    ) {
        let counters = self.counters();
        if packet.bth.dest_qp != MULTICAST_QP {
            counters.add(Counter::RxMisdirected, 1);
            return;
        }

        let sender = packet.ext.deth.map_or(0, |deth| deth.src_qp);
        let own = || match arrival.port {
            Some((port, packet)) => port.sent(packet),
            None => self.has_address(arrival.datagram.from),
        };

        let list = members.list();
        let here = || list.iter().filter(|qp| qp.is_at(arrival));
        let admits = |qp: &&Arc<Qp>| pkey::matches(qp.p_key(), packet.bth.pkey);
        if here().next().is_some() && !here().any(|qp| admits(&qp)) {
            counters.add(Counter::RxWrongPkey, 1);
        }

        for qp in here().filter(admits) {
            if qp.block_loopback && qp.qp_num() == sender && own() {
                continue;
            }
            let mut inner = qp.inner.lock();
            qp.take_datagram(&mut inner, packet, arrival, keys, now);
            qp.received(&inner, 1, arrival.bytes as u64, now);
        }
    }
}
