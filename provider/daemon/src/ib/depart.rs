//! What goes out by the ports: MADs of programs and of the node itself, and whatever a switch
//! passes on.

use ferroce_control::Counter;
use ferroce_fabric::link::{self, Ends};
use ferroce_fabric::sma::{Envelope, Route as Way};
use ferroce_wire::Lrh;
use ferroce_wire::grh::Grh;
use ferroce_wire::link::{Head, LinkPacket, MANAGEMENT_LANE};
use ferroce_wire::lrh::NextHeader;
use ferroce_wire::mad::{self, Mad, QP0, QP1};
use ferroce_wire::pkey;
use ferroce_wire::smp::{PERMISSIVE_LID, is_multicast_lid};

use super::{Fabric, index, show};
use crate::mads::Outgoing;

impl Fabric {
    /// A program sends an SMP.
    pub(crate) fn send_smp(&mut self, out: &Outgoing) {
        let port = self.node.port(out.port);
        let to = Envelope {
            slid: port.map_or(0, |port| port.slid(out.to.path_bits)),
            dlid: out.to.lid,
            sl: out.to.sl,
        };
        let time = self.clock.now();
        self.node.send(time, out.port, to, &out.mad, &mut self.out);
        self.settle();
    }

    /// Sends a MAD from QP1 of a port, also to a queue pair of its own. What has no way is lost, as
    /// on a wire.
    pub(crate) fn send_gmp(&mut self, out: &Outgoing) {
        let Some(port) = self.node.port(out.port) else {
            return;
        };

        let pkey = port.p_keys().get(usize::from(out.to.pkey_index)).copied();
        let Some(pkey) = pkey.filter(|key| pkey::is_valid(*key)) else {
            return;
        };

        let own = port.has_lid(out.to.lid);
        let sgid = |index: u8| {
            let found = port.gids().find(|(at, _)| *at == usize::from(index));
            found.map(|(_, gid)| gid)
        };

        let grh = match out.to.grh {
            None => None,
            Some(grh) => match sgid(grh.gid_index) {
                None => return,
                Some(sgid) => Some(Grh {
                    version: 6,
                    traffic_class: grh.traffic_class,
                    flow_label: grh.flow_label,
                    payload_len: 0,
                    next_header: 0,
                    hop_limit: grh.hop_limit,
                    sgid,
                    dgid: grh.gid,
                }),
            },
        };

        let (Some(vl), true) = (port.virtual_lane(0, out.to.sl), port.is_active()) else {
            return;
        };

        let head = Head {
            lrh: Lrh {
                vl,
                version: 0,
                sl: out.to.sl,
                next: NextHeader::Local,
                dlid: out.to.lid,
                words: 0,
                slid: port.slid(out.to.path_bits),
            },
            grh,
        };

        let ends = Ends {
            pkey,
            dest_qp: out.to.qpn,
            qkey: out.to.qkey,
            src_qp: QP1,
            psn: self.next_psn(),
        };
        let packet = link::emit(&head, ends, &out.mad);
        if own {
            return self.loop_back(out.port, ends.dest_qp, &packet);
        }
        let exit = match self.node.is_switch() {
            false => out.port,
            true => match self.node.forward(0, out.to.lid, false) {
                Way::Port(exit) if self.node.lets_out(exit, pkey) => exit,
                _ => return,
            },
        };
        self.transmit(exit, &packet, None);
    }

    /// A packet from QP1 of a port to itself: taken here if it is for QP1, and else steered to the
    /// process that has the queue pair, as if it had come by the cable.
    fn loop_back(&mut self, port: u8, dest_qp: u32, packet: &[u8]) {
        if dest_qp == QP1 {
            if let Some(packet) = LinkPacket::parse(packet) {
                self.take(port, &packet);
            }
            return;
        }
        // The management port of a switch has no queue pairs but QP0 and QP1.
        let link = index(port).and_then(|at| self.links.get(at));
        if let Some(Err(error)) = link.map(|link| link.end.copy_to(link.cable.local, packet)) {
            tracing::debug!(%error, port, "a packet to the port itself was not sent");
        }
    }

    /// Sends on what came to a switch, unless it has crossed too many.
    pub(super) fn pass(&mut self, exit: u8, bytes: &[u8]) {
        match self.hops {
            Some(..=1) => {
                if let Some(link) = index(exit).and_then(|at| self.links.get_mut(at)) {
                    link.counts.tx_discards += 1;
                }
            }
            hops => self.transmit(exit, bytes, hops.map(|hops| hops - 1)),
        }
    }

    pub(super) fn transmit_smp(&mut self, port: u8, to: Envelope, smp: &Mad) {
        let head = Head {
            lrh: Lrh {
                vl: MANAGEMENT_LANE,
                version: 0,
                sl: to.sl,
                next: NextHeader::Local,
                dlid: to.dlid,
                words: 0,
                slid: to.slid,
            },
            grh: None,
        };

        let ends = Ends {
            pkey: mad::DEFAULT_PKEY,
            dest_qp: QP0,
            qkey: 0,
            src_qp: QP0,
            psn: self.next_psn(),
        };
        let packet = link::emit(&head, ends, smp);

        // Directed routes have a count of their own; what goes by LID and is not from here is
        // passed on.
        let is_own = self.node.port(0).is_some_and(|own| own.has_lid(to.slid));
        match is_own || to.slid == PERMISSIVE_LID {
            true => self.transmit(port, &packet, None),
            false => self.pass(port, &packet),
        }
    }

    pub(super) fn transmit(&mut self, port: u8, packet: &[u8], hops: Option<u8>) {
        let Some(link) = index(port).and_then(|at| self.links.get_mut(at)) else {
            return;
        };

        match link.end.send(packet, hops) {
            Ok(()) => {
                show(&self.tap, (port, &link.cable), false, packet);
                link.counts.tx_packets += 1;
                link.counts.tx_bytes += packet.len() as u64;
                let multicast =
                    Lrh::parse(packet).is_some_and(|(lrh, _)| is_multicast_lid(lrh.dlid));
                link.counts.tx_multicast += u64::from(multicast);
                let sum = match multicast {
                    true => Counter::TxMulticast,
                    false => Counter::TxPackets,
                };
                self.sums.add(sum, 1);
                self.sums.add(Counter::TxBytes, packet.len() as u64);
            }
            Err(error) => {
                tracing::debug!(%error, port, "a packet was not sent");
                self.sums.add(Counter::TxErrors, 1);
                link.counts.tx_discards += 1;
            }
        }
    }

    fn next_psn(&mut self) -> u32 {
        self.psn = (self.psn + 1) & 0xff_ffff;
        self.psn
    }
}
