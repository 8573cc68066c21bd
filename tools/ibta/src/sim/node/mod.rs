//! A node with its management agents in virtual time: the simulated device of the MAD tester.
//!
//! Subnet management is [`Node`], performance management [`Pma`]; what is here is only what a host
//! adds: packets, the keys of queue pair 1, training (which takes a moment), counters, and what
//! verbs tell of ports.

mod rig;

use super::MadFaults;
use super::clock;
use super::mad_faults::OnCable;
use crate::mad::wire;
use crate::protocol::{AsyncEvent, DeviceInfo};
use crate::rig::Envelope;
use crate::trace::{Carrier, Trace};
use ferroce_fabric::cm::Time;
use ferroce_fabric::gsi;
use ferroce_fabric::pma::{Counter, Counters, Pma, Totals};
use ferroce_fabric::sma::{
    self, Gate, LinkCapabilities, LinkCommand, Node, NodeConfig, Offer, Output, Port, PortEvent,
    Violation,
};
use ferroce_wire::mad::{Mad, MadHeader, QP1, QP1_QKEY};
use ferroce_wire::smp::capability;
use std::collections::VecDeque;
use std::time::Duration;

/// How long a link takes to come up.
const TRAINING: Duration = Duration::from_millis(100);
/// What the tester's ports offer.
const OFFER: Offer = Offer {
    widths: 0b11,
    speeds: 0b111,
    speeds_ext: 0b11,
};
const NODE_GUID: u64 = 0x0002_c903_0000_1000;

/// The simulated device and the tester's ends of its cables.
pub struct MadSim {
    pub(super) node: Node,
    /// What programs are told of it.
    pub(super) identity: DeviceInfo,
    pma: Pma,
    faults: MadFaults,
    pub(super) now: Duration,
    pub(super) links: Vec<Link>,
    pub(super) events: VecDeque<AsyncEvent>,
    trace: Trace,
}

/// A cable.
pub(super) struct Link {
    plugged: bool,
    /// The port looks for a peer, or answers one.
    willing: bool,
    /// When training is over.
    up_at: Option<Duration>,
    totals: Totals,
    /// On the way to the tester, by time.
    pending: VecDeque<(Duration, Envelope, Mad)>,
}

/// What the node wants done.
#[derive(Default)]
pub(super) struct Actions(Vec<Action>);

pub(super) enum Action {
    Send(u8, sma::Envelope, Box<Mad>),
    Event(u8, PortEvent),
    Link(u8, LinkCommand),
}

impl Output for Actions {
    fn send(&mut self, port: u8, to: sma::Envelope, smp: &Mad) {
        self.0.push(Action::Send(port, to, Box::new(*smp)));
    }

    // No program of this host listens.
    fn deliver(&mut self, _: u8, _: sma::Envelope, _: &Mad) {}

    fn event(&mut self, port: u8, event: PortEvent) {
        self.0.push(Action::Event(port, event));
    }

    fn link(&mut self, port: u8, command: LinkCommand) {
        self.0.push(Action::Link(port, command));
    }
}

struct Shown<'a>(&'a [Link]);

impl Counters for Shown<'_> {
    fn totals(&self, port: u8) -> Totals {
        let at = usize::from(port).checked_sub(1);
        at.and_then(|at| self.0.get(at))
            .map_or(Totals::default(), |link| link.totals)
    }
}

impl MadSim {
    /// A device whose ports have just got their links.
    pub fn new(ports: u8, vl_cap: u8, mut faults: MadFaults) -> MadSim {
        let guids: Vec<u64> = (1..=u64::from(ports))
            .map(|port| NODE_GUID + port)
            .collect();
        let mut config = NodeConfig {
            vendor_id: 0x02c9,
            device_id: 0x1003,
            revision: 1,
            description: "simulated adapter".to_owned(),
            link: LinkCapabilities {
                vl_cap,
                ..LinkCapabilities::default()
            },
            capability_mask: capability::IS_COMMUNICATION_MANAGEMENT_SUPPORTED,
            ..NodeConfig::channel_adapter(NODE_GUID, &guids)
        };

        faults.configure(&mut config);
        let link = |_| Link {
            plugged: true,
            willing: true,
            up_at: Some(TRAINING),
            totals: Totals::default(),
            pending: VecDeque::new(),
        };

        let mut sim = MadSim {
            identity: DeviceInfo {
                name: "simulated".to_owned(),
                ports: config.ports,
                node_guid: config.node_guid,
                system_image_guid: config.system_image_guid,
                vendor_id: config.vendor_id,
                hw_ver: config.revision,
                ..DeviceInfo::default()
            },
            pma: Pma::new(1, config.ports),
            links: (1..=config.ports).map(link).collect(),
            node: Node::new(config),
            faults,
            now: Duration::ZERO,
            events: VecDeque::new(),
            trace: Trace::default(),
        };

        sim.advance(TRAINING);
        sim
    }

    /// What the node's clock says now.
    pub(super) fn time(&self) -> Time {
        clock::device_time(self.now, self.faults.speed())
    }

    /// When a moment of the node's clock is due on ours.
    fn due(&self, time: Time) -> Duration {
        clock::tester_time(time, self.faults.speed())
    }

    fn next_timeout(&self) -> Option<Duration> {
        let agents = [self.node.next_timeout(), self.pma.next_timeout()];
        let agents = agents.into_iter().flatten().map(|time| self.due(time));
        let training = self.links.iter().filter_map(|link| link.up_at);
        agents.chain(training).min()
    }

    /// Lets time pass until then.
    pub(super) fn advance(&mut self, until: Duration) {
        while let Some(due) = self.next_timeout().filter(|due| *due <= until) {
            self.now = self.now.max(due);
            self.tick();
        }
        self.now = self.now.max(until);
    }

    fn tick(&mut self) {
        let time = self.time();
        let mut out = Actions::default();
        for port in 1..=self.links.len() as u8 {
            let now = self.now;
            let link = self.link_mut(port);
            if link.up_at.is_some_and(|at| at <= now) {
                link.up_at = None;
                self.node.link_up(time, port, OFFER, &mut out);
            }
        }

        self.node.handle_timeout(time, &mut out);
        self.pma.handle_timeout(time, &Shown(&self.links));
        self.settle(out);
    }

    fn link_mut(&mut self, port: u8) -> &mut Link {
        &mut self.links[usize::from(port) - 1]
    }

    /// Does what the node wants done; what is sent goes out before the link is let go of.
    pub(super) fn settle(&mut self, out: Actions) {
        let mut actions = out.0;
        actions.sort_by_key(|action| matches!(action, Action::Link(..)));

        for action in actions {
            match action {
                Action::Send(port, to, smp) => {
                    let envelope = Envelope {
                        sl: to.sl,
                        ..Envelope::smp(to.slid, to.dlid)
                    };
                    self.leave(OnCable {
                        port,
                        envelope,
                        mad: *smp,
                    });
                }
                Action::Event(port, event) => self.raise(port, event),
                Action::Link(port, command) => {
                    let retrain = self.now + TRAINING;
                    let link = self.link_mut(port);
                    link.willing = command != LinkCommand::Disable;
                    link.up_at = (link.plugged && link.willing).then_some(retrain);
                }
            }
        }
    }

    fn raise(&mut self, port: u8, event: PortEvent) {
        let Some(number) = event.verbs_number() else {
            return;
        };
        let event = AsyncEvent {
            event: number,
            element: port.into(),
        };
        self.events.extend(self.faults.on_event(event));
    }

    /// A MAD leaves the device.
    fn leave(&mut self, mad: OnCable) {
        for (delay, mad) in self.faults.on_tx(&self.node, mad) {
            let packet = wire::packet(&mad.envelope, &mad.mad);
            let at = self.now + delay;
            let link = &mut self.links[usize::from(mad.port) - 1];
            if !link.plugged {
                continue;
            }
            link.totals[Counter::XmitPackets] += 1;
            link.totals[Counter::UnicastXmitPackets] += 1;
            link.totals[Counter::XmitData] += packet.len() as u64 / 4;
            let behind = link.pending.partition_point(|(other, _, _)| *other <= at);
            link.pending.insert(behind, (at, mad.envelope, mad.mad));
            let carrier = Carrier::Cable { port: mad.port };
            self.trace.push(at, true, carrier, &packet);
        }
    }

    /// A packet arrives at the device.
    fn arrive(&mut self, port: u8, packet: &[u8]) {
        let has_link = self.node.port(port).is_some_and(Port::has_link);
        if !has_link {
            return;
        }

        let read = wire::read(packet);
        let totals = &mut self.link_mut(port).totals;
        totals[Counter::RcvPackets] += 1;
        totals[Counter::UnicastRcvPackets] += 1;
        totals[Counter::RcvData] += packet.len() as u64 / 4;
        let Ok((envelope, mad)) = read else {
            totals[Counter::RcvErrors] += 1;
            return;
        };

        let incoming = OnCable {
            port,
            envelope,
            mad,
        };
        self.events.extend(self.faults.raised(&incoming));
        for mad in self.faults.on_rx(&self.node, incoming) {
            self.take(mad);
        }
    }

    /// The MAD of a packet that is whole.
    fn take(&mut self, incoming: OnCable) {
        let (port, envelope) = (incoming.port, incoming.envelope);
        let time = self.time();
        let mut out = Actions::default();
        if envelope.qp == 0 {
            let from = sma::Envelope {
                slid: envelope.slid,
                dlid: envelope.dlid,
                sl: envelope.sl,
            };
            self.node.receive(time, port, from, &incoming.mad, &mut out);
            return self.settle(out);
        }

        let gate = self
            .node
            .gate(port, envelope.dlid, envelope.pkey, envelope.qkey, &mut out);
        let wrong = |key| Violation {
            lid1: envelope.slid,
            lid2: envelope.dlid,
            key,
            sl: envelope.sl,
            qp1: envelope.src_qp,
            qp2: envelope.qp,
            ..Violation::default()
        };

        match gate {
            Gate::Closed => {}
            Gate::WrongPKey => {
                self.links[usize::from(port) - 1].totals[Counter::RcvConstraintErrors] += 1;
                let wrong = wrong(envelope.pkey.into());
                self.node.p_key_violation(time, port, 1, wrong, &mut out);
            }
            Gate::WrongQKey => {
                let wrong = wrong(envelope.qkey);
                self.node.q_key_violation(time, port, 1, wrong, &mut out);
            }
            Gate::Open(_) => self.general_service(time, &incoming),
        }

        self.settle(out);
    }

    fn general_service(&mut self, time: Time, incoming: &OnCable) {
        let mut services = Performance {
            pma: &mut self.pma,
            time,
            mad: &incoming.mad,
            shown: Shown(&self.links),
        };

        if let Some(mad) = gsi::serve(QP1, &incoming.mad, &mut services) {
            let envelope = Envelope {
                slid: incoming.envelope.dlid,
                dlid: incoming.envelope.slid,
                qp: incoming.envelope.src_qp,
                src_qp: 1,
                qkey: QP1_QKEY,
                ..incoming.envelope
            };
            self.leave(OnCable {
                envelope,
                mad,
                port: incoming.port,
            });
        }
    }
}

/// The only one who answers at QP1 of a simulated node.
struct Performance<'a> {
    pma: &'a mut Pma,
    time: Time,
    mad: &'a Mad,
    shown: Shown<'a>,
}

impl gsi::Services for Performance<'_> {
    fn performance(&mut self, _: &MadHeader) -> Option<Mad> {
        self.pma.receive(self.time, self.mad, &self.shown)
    }
}
