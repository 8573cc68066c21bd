//! What comes to the ports: training, management packets for this node, and at a switch packets
//! that go on. What is for programs is put where the host finds it.

use std::time::Instant;

use ferroce_control::{Counter, Key, WrongKey};
use ferroce_fabric::link::{self, Unfit};
use ferroce_fabric::sma::{Envelope, Gate, Port, Route as Way, Violation};
use ferroce_wire::Bth;
use ferroce_wire::link::{LinkPacket, MANAGEMENT_LANE};
use ferroce_wire::mad::{self, QP0, QP1};
use ferroce_wire::smp::is_multicast_lid;
use rustix::io::Errno;

use super::end::Source;
use super::{Fabric, Happened, index, show};
use crate::mads::{Address, Incoming, Route};

/// How many datagrams of one port are handled before others have their turn.
const DATAGRAMS: usize = 128;

impl Fabric {
    /// Handles what has come to a port.
    pub(crate) fn receive(&mut self, port: u8) {
        let Some(at) = index(port).filter(|at| *at < self.links.len()) else {
            return;
        };

        let mut buffer = std::mem::take(&mut self.buffer);
        for _ in 0..DATAGRAMS {
            match self.links[at].end.receive(&mut buffer) {
                // Anybody may send to a UDP port.
                Ok(received) if received.source == Source::Stranger => {
                    self.sums.add(Counter::RxBadPeer, 1);
                }
                Ok(received) => match buffer.get(..received.len) {
                    Some(bytes) => {
                        self.hops = self.node.is_switch().then_some(received.hops);
                        self.datagram(port, at, received.source, bytes);
                        self.hops = None;
                    }
                    None => self.links[at].counts.rx_errors += 1,
                },
                Err(Errno::AGAIN) => break,
                // What a peer's ICMP left on the socket.
                Err(_) => {}
            }
        }

        self.buffer = buffer;
    }

    fn datagram(&mut self, port: u8, at: usize, source: Source, bytes: &[u8]) {
        if link::is_frame(bytes) {
            if source != Source::Far {
                return self.sums.add(Counter::RxBadPeer, 1);
            }
            if let Some(change) = self.links[at].training.receive(Instant::now(), bytes) {
                self.link_changed(port, change);
            }
            // An answer may be due at once.
            self.tick();
            return;
        }

        let counts = &mut self.links[at].counts;
        let Some(packet) = LinkPacket::parse(bytes) else {
            counts.rx_errors += 1;
            self.sums.add(Counter::RxParseErrors, 1);
            return;
        };

        if !self.node.port(port).is_some_and(Port::has_link) {
            return;
        }

        let management = packet.lrh.vl == MANAGEMENT_LANE;
        let multicast = is_multicast_lid(packet.lrh.dlid);
        let to_group = !self.node.is_switch() && !management && multicast;
        let own = self
            .node
            .port(port)
            .is_some_and(|own| own.has_lid(packet.lrh.slid));

        let credible = match source {
            Source::Far => true,
            Source::FarHost => !management,
            Source::Own => own && !management,
            Source::Stranger => false,
        };
        if !credible {
            return self.sums.add(Counter::RxBadPeer, 1);
        }

        if to_group && own {
            // It has not come by the cable.
            return self.give_to_members(port, &packet, bytes);
        }

        let link = &mut self.links[at];
        show(&self.tap, (port, &link.cable), true, bytes);
        link.training.alive(Instant::now());
        link.counts.rx_packets += 1;
        link.counts.rx_bytes += bytes.len() as u64;
        link.counts.rx_multicast += u64::from(multicast);
        let sum = match multicast {
            true => Counter::RxMulticast,
            false => Counter::RxPackets,
        };
        self.sums.add(sum, 1);
        self.sums.add(Counter::RxBytes, bytes.len() as u64);
        if self.node.is_switch() && !management {
            return self.pass_on(port, &packet, bytes);
        }

        if to_group {
            self.node.data_arrived(port, &mut self.out);
            self.settle();
            return self.give_to_members(port, &packet, bytes);
        }

        self.take(port, &packet);
    }

    /// A data packet at a port of a switch.
    fn pass_on(&mut self, port: u8, packet: &LinkPacket<'_>, bytes: &[u8]) {
        self.node.data_arrived(port, &mut self.out);
        self.settle();

        // What has no BTH, or a key of none, is of no partition.
        let p_key = Bth::parse(packet.transport).map_or(0, |bth| bth.pkey);
        if !self.node.lets_in(port, p_key) {
            if let Some(link) = index(port).and_then(|at| self.links.get_mut(at)) {
                link.counts.wrong_pkey += 1;
            }
            return;
        }

        match self.node.forward(port, packet.lrh.dlid, false) {
            Way::Local => self.take(0, packet),
            Way::Port(exit) => self.pass_of(exit, p_key, bytes),
            Way::Ports(exits) => {
                for exit in exits.iter() {
                    match exit {
                        0 => self.take(0, packet),
                        exit => self.pass_of(exit, p_key, bytes),
                    }
                }
            }
            Way::Drop(_) => {
                if let Some(link) = index(port).and_then(|at| self.links.get_mut(at)) {
                    link.counts.relay_errors += 1;
                }
            }
        }
    }

    /// Sends on a data packet, if its partition may leave by this port.
    fn pass_of(&mut self, exit: u8, p_key: u16, bytes: &[u8]) {
        if self.node.lets_out(exit, p_key) {
            return self.pass(exit, bytes);
        }
        if let Some(link) = index(exit).and_then(|at| self.links.get_mut(at)) {
            link.counts.kept_in += 1;
        }
    }

    /// A packet for QP0 or QP1 of a port.
    pub(super) fn take(&mut self, port: u8, packet: &LinkPacket<'_>) {
        let (ends, mad) = match link::read(packet) {
            Ok(read) => read,
            Err(why) => {
                let sum = match why {
                    Unfit::Malformed => Counter::RxParseErrors,
                    Unfit::Damaged => Counter::RxIcrcErrors,
                    Unfit::Elsewhere => Counter::RxUnknownQp,
                };
                self.sums.add(sum, 1);
                if let Some(link) = index(port).and_then(|at| self.links.get_mut(at)) {
                    match why {
                        Unfit::Malformed | Unfit::Damaged => link.counts.rx_errors += 1,
                        Unfit::Elsewhere => {
                            link.counts.vl15_dropped += u64::from(packet.lrh.vl == MANAGEMENT_LANE)
                        }
                    }
                }

                return;
            }
        };

        let from = Envelope {
            slid: packet.lrh.slid,
            dlid: packet.lrh.dlid,
            sl: packet.lrh.sl,
        };

        if ends.dest_qp == QP0 {
            let time = self.clock.now();
            self.node.receive(time, port, from, mad, &mut self.out);
            return self.settle();
        }

        let Some(state) = self.node.port(port) else {
            return;
        };

        let lid = state.lid();
        let gid_index = packet.grh.and_then(|grh| {
            let found = state.gids().find(|(_, gid)| *gid == grh.dgid);
            found.map(|(index, _)| index as u8)
        });

        let out = &mut self.out;
        let gate = (self.node).gate(port, from.dlid, ends.pkey, ends.qkey, out);
        self.settle();
        let wrong = |key| WrongKey {
            slid: from.slid,
            dlid: from.dlid,
            key,
            sl: from.sl,
            source_qp: ends.src_qp,
            dest_qp: ends.dest_qp,
            sgid: packet.grh.map_or([0; 16], |grh| grh.sgid),
            dgid: packet.grh.map_or([0; 16], |grh| grh.dgid),
        };

        let pkey_index = match gate {
            Gate::Open(index) => index,
            Gate::Closed => return,
            Gate::WrongPKey => {
                self.sums.add(Counter::RxWrongPkey, 1);
                if let Some(link) = index(port).and_then(|at| self.links.get_mut(at)) {
                    link.counts.wrong_pkey += 1;
                }
                return self.wrong_key(port, Key::Partition, 1, &wrong(ends.pkey.into()));
            }
            Gate::WrongQKey => {
                self.sums.add(Counter::QkeyViolation, 1);
                return self.wrong_key(port, Key::Queue, 1, &wrong(ends.qkey));
            }
        };

        let route = packet.grh.map(|grh| Route {
            gid_index: gid_index.unwrap_or(0),
            hop_limit: grh.hop_limit,
            traffic_class: grh.traffic_class,
            gid: grh.sgid,
            flow_label: grh.flow_label,
        });

        self.happened.push(Happened::Mad(Box::new(Incoming {
            port,
            qpn: QP1,
            from: Address {
                qpn: ends.src_qp,
                qkey: mad::QP1_QKEY,
                lid: from.slid,
                sl: from.sl,
                path_bits: (from.dlid ^ lid) as u8,
                grh: route,
                pkey_index,
            },
            mad: *mad,
        })));
    }

    /// Packets (`times`) had a wrong key, one of them so.
    pub(crate) fn wrong_key(&mut self, port: u8, key: Key, times: u16, report: &WrongKey) {
        let violation = Violation {
            lid1: report.slid,
            lid2: report.dlid,
            key: report.key,
            sl: report.sl,
            qp1: report.source_qp,
            qp2: report.dest_qp,
            gid1: report.sgid,
            gid2: report.dgid,
        };

        let (time, node, out) = (self.clock.now(), &mut self.node, &mut self.out);
        match key {
            Key::Partition => node.p_key_violation(time, port, times, violation, out),
            Key::Queue => node.q_key_violation(time, port, times, violation, out),
        }

        self.settle();
    }
}
