//! Ports of the InfiniBand link layer: their cables, their training, the node's management agent, and the packets of QP0 and QP1.
//!
//! `Fabric` is what a host with such ports and a switch have in common. It reads and writes the ports' sockets and
//! asks [`Node`] what to do; MADs that are for somebody else of this process come out of it. Data packets of queue pairs never come here:
//! the kernel steers them to the processes that own them, or a switch passes them on.

mod end;

use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

use nix::errno::Errno;

use ferroce_control::{Counter, CounterPage, Key, WrongKey};
use ferroce_fabric::link::{self, Cable, Change, Ends, Training, Unfit};
use ferroce_fabric::sma::{
    Envelope, Gate, LinkCommand, Node, NodeConfig, Offer, Output, Port, PortEvent, Route as Way,
    Violation,
};
use ferroce_wire::Lrh;
use ferroce_wire::grh::Grh;
use ferroce_wire::link::{Head, LinkPacket, MANAGEMENT_LANE};
use ferroce_wire::lrh::NextHeader;
use ferroce_wire::mad::{self, Mad};
use ferroce_wire::smp::PERMISSIVE_LID;

use crate::umad::{Address, Incoming, Outgoing, Route};
use end::End;

/// How many datagrams of one port are handled before others have their turn.
const DATAGRAMS: usize = 128;
/// Entries of the P_Key table are matched by these bits; the other is the membership.
const PARTITION: u16 = 0x7fff;

/// What happened that is not the fabric's own business.
#[derive(Debug)]
pub(crate) enum Happened {
    /// A MAD for programs, or for others who answer at QP1.
    Mad(Box<Incoming>),
    /// Something that verbs consumers are told.
    Port(u8, PortEvent),
}

/// What is counted at a port, of packets that came and went here.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Counts {
    pub(crate) rx_packets: u64,
    pub(crate) rx_bytes: u64,
    pub(crate) tx_packets: u64,
    pub(crate) tx_bytes: u64,
    /// Damaged or malformed.
    pub(crate) rx_errors: u64,
    /// What the socket did not take.
    pub(crate) tx_discards: u64,
    /// Management packets that nobody took.
    pub(crate) vl15_dropped: u64,
    /// Packets that a switch could not pass on.
    pub(crate) relay_errors: u64,
    /// Packets with a P_Key of none of our partitions.
    pub(crate) wrong_pkey: u64,
}

/// One port's cable.
#[derive(Debug)]
struct Link {
    cable: Cable,
    end: End,
    training: Training,
    counts: Counts,
}

/// A node with its cables.
#[derive(Debug)]
pub(crate) struct Fabric {
    node: Node,
    /// In the order of ports, from 1.
    links: Vec<Link>,
    out: Actions,
    happened: Vec<Happened>,
    started: Instant,
    psn: u32,
    /// A switch handles a packet that may cross so many switches, this one included.
    hops: Option<u8>,
    /// The sums over all ports.
    sums: CounterPage,
    buffer: Box<[u8]>,
}

/// What the node wants done.
#[derive(Debug)]
enum Action {
    Send(u8, Envelope, Mad),
    Deliver(u8, Envelope, Mad),
    Event(u8, PortEvent),
    Link(u8, LinkCommand),
}

#[derive(Debug, Default)]
struct Actions(Vec<Action>);

impl Output for Actions {
    fn send(&mut self, port: u8, to: Envelope, smp: &Mad) {
        self.0.push(Action::Send(port, to, *smp));
    }

    fn deliver(&mut self, port: u8, from: Envelope, smp: &Mad) {
        self.0.push(Action::Deliver(port, from, *smp));
    }

    fn event(&mut self, port: u8, event: PortEvent) {
        self.0.push(Action::Event(port, event));
    }

    fn link(&mut self, port: u8, command: LinkCommand) {
        self.0.push(Action::Link(port, command));
    }
}

/// What a port offers that is switched off: nothing.
const NO_OFFER: Offer = Offer {
    widths: 0,
    speeds: 0,
    speeds_ext: 0,
};

impl Fabric {
    /// A node whose ports have these cables and sockets, which are bound to the cables' own ends. What comes and goes is counted in
    /// `sums` too.
    pub(crate) fn new(
        config: NodeConfig,
        cables: Vec<(Cable, OwnedFd)>,
        sums: CounterPage,
    ) -> Self {
        let now = Instant::now();
        let link = |(cable, socket)| Link {
            cable,
            end: End::new(socket, cable.remote),
            training: Training::new(now),
            counts: Counts::default(),
        };
        Self {
            node: Node::new(config),
            links: cables.into_iter().map(link).collect(),
            out: Actions::default(),
            happened: Vec::new(),
            started: now,
            psn: 0,
            hops: None,
            sums,
            buffer: vec![0; 8192].into_boxed_slice(),
        }
    }

    /// The node.
    pub(crate) fn node(&self) -> &Node {
        &self.node
    }

    /// How many ports have cables.
    pub(crate) fn ports(&self) -> u8 {
        self.links.len() as u8
    }

    /// A port's cable.
    pub(crate) fn cable(&self, port: u8) -> Option<&Cable> {
        Some(&self.links.get(index(port)?)?.cable)
    }

    /// What was counted at a port.
    pub(crate) fn counts(&self, port: u8) -> Counts {
        index(port)
            .and_then(|index| self.links.get(index))
            .map_or(Counts::default(), |link| link.counts)
    }

    /// Takes what has happened since the last time.
    pub(crate) fn happened(&mut self) -> Vec<Happened> {
        std::mem::take(&mut self.happened)
    }

    /// When [`tick`](Self::tick) has something to do.
    pub(crate) fn next_timeout(&self) -> Option<Instant> {
        let training = self.links.iter().filter_map(|link| link.training.next());
        let node = self.node.next_timeout();
        let node = node.map(|at| self.started + Duration::from_nanos(at));
        training.chain(node).min()
    }

    /// Does what is due.
    pub(crate) fn tick(&mut self) {
        let now = Instant::now();
        for port in 1..=self.ports() {
            // A farewell, a frame and the loss of the link may be due together.
            for _ in 0..3 {
                let offer = self.offer(port);
                let link = &mut self.links[usize::from(port) - 1];
                let (frame, change) = link.training.tick(now, offer);
                if let Some(frame) = &frame {
                    let _ = link.end.send(frame, None);
                }
                if let Some(change) = change {
                    self.link_changed(port, change);
                } else if frame.is_none() {
                    break;
                }
            }
        }
        let time = self.time();
        if self.node.next_timeout().is_some_and(|at| at <= time) {
            self.node.handle_timeout(time, &mut self.out);
            self.settle();
        }
    }

    /// Tells the other ends that this is the end.
    pub(crate) fn leave(&mut self) {
        for port in 1..=self.ports() {
            let offer = self.offer(port);
            let link = &self.links[usize::from(port) - 1];
            if let Some(frame) = link.training.last_word(offer) {
                let _ = link.end.send(&frame, None);
            }
        }
    }

    /// A subnet manager works behind a port, or does no longer.
    pub(crate) fn set_is_sm(&mut self, port: u8, is_sm: bool) {
        let known = self.node.port(port).map(Port::is_sm);
        if known != Some(is_sm) {
            let time = self.time();
            self.node.set_is_sm(time, port, is_sm, &mut self.out);
            self.settle();
        }
    }

    /// Handles what has come to a port.
    pub(crate) fn receive(&mut self, port: u8) {
        let Some(at) = index(port).filter(|at| *at < self.links.len()) else {
            return;
        };
        let mut buffer = std::mem::take(&mut self.buffer);
        for _ in 0..DATAGRAMS {
            match self.links[at].end.receive(&mut buffer) {
                Ok((len, hops)) => match buffer.get(..len) {
                    Some(bytes) => {
                        self.hops = self.node.is_switch().then_some(hops);
                        self.datagram(port, at, bytes);
                        self.hops = None;
                    }
                    None => self.links[at].counts.rx_errors += 1,
                },
                Err(Errno::EAGAIN) => break,
                // What a peer's ICMP left on the socket.
                Err(_) => {}
            }
        }
        self.buffer = buffer;
    }

    fn datagram(&mut self, port: u8, at: usize, bytes: &[u8]) {
        if link::is_frame(bytes) {
            if let Some(change) = self.links[at].training.came(Instant::now(), bytes) {
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
        let link = &mut self.links[at];
        link.training.alive(Instant::now());
        link.counts.rx_packets += 1;
        link.counts.rx_bytes += bytes.len() as u64;
        self.sums.add(Counter::RxPackets, 1);
        self.sums.add(Counter::RxBytes, bytes.len() as u64);
        let management = packet.lrh.vl == MANAGEMENT_LANE;
        if self.node.is_switch() && !management {
            return self.pass_on(port, &packet, bytes);
        }
        self.take(port, &packet);
    }

    /// A data packet at a port of a switch.
    fn pass_on(&mut self, port: u8, packet: &LinkPacket<'_>, bytes: &[u8]) {
        self.node.data_arrived(port, &mut self.out);
        self.settle();
        match self.node.forward(port, packet.lrh.dlid, false) {
            Way::Local => self.take(0, packet),
            Way::Port(exit) => self.pass(exit, bytes),
            Way::Ports(exits) => {
                for exit in exits.iter() {
                    match exit {
                        0 => self.take(0, packet),
                        exit => self.pass(exit, bytes),
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

    /// Sends on what came to a switch, unless it has crossed too many.
    fn pass(&mut self, exit: u8, bytes: &[u8]) {
        match self.hops {
            Some(..=1) => {
                if let Some(link) = index(exit).and_then(|at| self.links.get_mut(at)) {
                    link.counts.tx_discards += 1;
                }
            }
            hops => self.transmit(exit, bytes, hops.map(|hops| hops - 1)),
        }
    }

    /// A packet for QP0 or QP1 of a port.
    fn take(&mut self, port: u8, packet: &LinkPacket<'_>) {
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
        if ends.dest_qp == 0 {
            let time = self.time();
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
            qpn: 1,
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
        let (time, node, out) = (self.time(), &mut self.node, &mut self.out);
        match key {
            Key::Partition => node.p_key_violation(time, port, times, violation, out),
            Key::Queue => node.q_key_violation(time, port, times, violation, out),
        }
        self.settle();
    }

    /// A program sends an SMP.
    pub(crate) fn send_smp(&mut self, out: &Outgoing) {
        let slid = self.node.port(out.port).map_or(0, Port::lid);
        let to = Envelope {
            slid: slid | u16::from(out.to.path_bits),
            dlid: out.to.lid,
            sl: out.to.sl,
        };
        let time = self.time();
        self.node.send(time, out.port, to, &out.mad, &mut self.out);
        self.settle();
    }

    /// Sends a MAD from QP1 of a port. What has no way is lost, as on a wire.
    pub(crate) fn send_gmp(&mut self, out: &Outgoing) {
        let Some(port) = self.node.port(out.port) else {
            return;
        };
        let pkey = port.p_keys().get(usize::from(out.to.pkey_index)).copied();
        let Some(pkey) = pkey.filter(|pkey| pkey & PARTITION != 0) else {
            return;
        };
        let slid = port.lid() | u16::from(out.to.path_bits) & ((1 << port.info().lmc) - 1);
        if port.has_lid(out.to.lid) {
            self.loop_back(out, slid);
            return;
        }
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
                slid,
            },
            grh,
        };
        let ends = Ends {
            pkey,
            dest_qp: out.to.qpn,
            qkey: out.to.qkey,
            src_qp: 1,
            psn: self.next_psn(),
        };
        let packet = link::emit(&head, ends, &out.mad);
        let exit = match self.node.is_switch() {
            false => out.port,
            true => match self.node.forward(0, out.to.lid, false) {
                Way::Port(exit) => exit,
                _ => return,
            },
        };
        self.transmit(exit, &packet, None);
    }

    /// A MAD from QP1 of a port to itself.
    fn loop_back(&mut self, out: &Outgoing, slid: u16) {
        if out.to.qpn != 1 {
            return;
        }
        self.happened.push(Happened::Mad(Box::new(Incoming {
            port: out.port,
            qpn: 1,
            from: Address {
                qpn: 1,
                qkey: mad::QP1_QKEY,
                lid: slid,
                ..out.to
            },
            mad: out.mad,
        })));
    }

    /// Does what the node wants done. That may make it want more.
    fn settle(&mut self) {
        while !self.out.0.is_empty() {
            let mut actions = std::mem::take(&mut self.out.0);
            // What is sent goes out before the link is let go of.
            actions.sort_by_key(|action| matches!(action, Action::Link(..)));
            for action in actions {
                match action {
                    Action::Send(port, to, smp) => self.transmit_smp(port, to, &smp),
                    Action::Deliver(port, from, mad) => {
                        self.happened.push(Happened::Mad(Box::new(Incoming {
                            port,
                            qpn: 0,
                            from: Address {
                                qpn: 0,
                                qkey: 0,
                                lid: from.slid,
                                sl: from.sl,
                                path_bits: 0,
                                grh: None,
                                pkey_index: 0,
                            },
                            mad,
                        })));
                    }
                    Action::Event(port, event) => self.happened.push(Happened::Port(port, event)),
                    Action::Link(port, command) => {
                        if let Some(link) = index(port).and_then(|at| self.links.get_mut(at)) {
                            link.training.command(Instant::now(), command);
                        }
                    }
                }
            }
        }
    }

    fn transmit_smp(&mut self, port: u8, to: Envelope, smp: &Mad) {
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
            dest_qp: 0,
            qkey: 0,
            src_qp: 0,
            psn: self.next_psn(),
        };
        let packet = link::emit(&head, ends, smp);
        // Directed routes have a count of their own; what goes by LID and is not from here is passed on.
        let is_own = self.node.port(0).is_some_and(|own| own.has_lid(to.slid));
        match is_own || to.slid == PERMISSIVE_LID {
            true => self.transmit(port, &packet, None),
            false => self.pass(port, &packet),
        }
    }

    fn transmit(&mut self, port: u8, packet: &[u8], hops: Option<u8>) {
        let Some(link) = index(port).and_then(|at| self.links.get_mut(at)) else {
            return;
        };
        match link.end.send(packet, hops) {
            Ok(()) => {
                link.counts.tx_packets += 1;
                link.counts.tx_bytes += packet.len() as u64;
                self.sums.add(Counter::TxPackets, 1);
                self.sums.add(Counter::TxBytes, packet.len() as u64);
            }
            Err(error) => {
                tracing::debug!(%error, port, "a packet was not sent");
                self.sums.add(Counter::TxErrors, 1);
                link.counts.tx_discards += 1;
            }
        }
    }

    fn link_changed(&mut self, port: u8, change: Change) {
        let time = self.time();
        match change {
            Change::Up(offer) => {
                let good = self.node.link_up(time, port, offer, &mut self.out);
                if !good && let Some(link) = index(port).and_then(|at| self.links.get_mut(at)) {
                    link.training.refused(Instant::now());
                }
                tracing::info!(port, good, "the cable's other end is there");
            }
            Change::Down => {
                tracing::info!(port, "the cable's other end has gone");
                self.node.link_down(time, port, &mut self.out);
                // The node gives no command if it had no link.
                let link = index(port).and_then(|at| self.links.get_mut(at));
                if let Some(link) = link.filter(|_| self.out.0.is_empty()) {
                    link.training.command(Instant::now(), LinkCommand::Poll);
                }
            }
        }
        self.settle();
    }

    fn offer(&self, port: u8) -> Offer {
        self.node
            .port(port)
            .and_then(Port::offer)
            .unwrap_or(NO_OFFER)
    }

    fn next_psn(&mut self) -> u32 {
        self.psn = (self.psn + 1) & 0xff_ffff;
        self.psn
    }

    /// The node's clock.
    fn time(&self) -> u64 {
        self.started.elapsed().as_nanos() as u64
    }
}

/// Where a port's link is; port 0 of a switch has none.
fn index(port: u8) -> Option<usize> {
    usize::from(port).checked_sub(1)
}
