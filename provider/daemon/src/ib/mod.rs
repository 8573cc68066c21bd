//! Ports of the InfiniBand link layer: their cables, their training, the node's management agent,
//! and the packets of QP0 and QP1.
//!
//! `Fabric` is what a host with such ports and a switch have in common. It reads and writes the
//! ports' sockets and asks [`Node`] what to do; MADs that are for somebody else of this process
//! come out of it. What comes is handled in `arrive`, what goes out is made in `depart`. Data
//! packets of queue pairs never come here: the kernel steers them to the processes that own them,
//! or a switch passes them on.

mod actions;
mod arrive;
mod depart;
mod end;
mod members;

use std::os::fd::OwnedFd;
use std::time::Instant;

use ferroce_control::CounterPage;
use ferroce_control::capture::record::Medium;
use ferroce_fabric::link::{Cable, Change, Training};
use ferroce_fabric::sma::{LinkCommand, Node, NodeConfig, Offer, Port, PortEvent};

use ferroce_wire::mad::QP0;

use crate::captures::{Tap, Way};
use crate::clock::Clock;
use crate::mads::{Address, Incoming};
use actions::{Action, Actions};
use end::End;

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
    /// Those of them that were for groups.
    pub(crate) rx_multicast: u64,
    pub(crate) tx_multicast: u64,
    pub(crate) tx_bytes: u64,
    /// Damaged or malformed.
    pub(crate) rx_errors: u64,
    /// What the socket did not take.
    pub(crate) tx_discards: u64,
    /// Management packets that nobody took.
    pub(crate) vl15_dropped: u64,
    /// Packets that a switch could not pass on.
    pub(crate) relay_errors: u64,
    /// Packets with a P_Key of none of our partitions, or at a switch with one that may not come
    /// in.
    pub(crate) wrong_pkey: u64,
    /// Packets with a P_Key that may not go out by this port of a switch.
    pub(crate) kept_in: u64,
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
    /// Who sees the packets of the node itself.
    tap: Tap,
    node: Node,
    /// In the order of ports, from 1.
    links: Vec<Link>,
    out: Actions,
    happened: Vec<Happened>,
    members: Vec<members::Member>,
    /// The node's.
    clock: Clock,
    psn: u32,
    /// A switch handles a packet that may cross so many switches, this one included.
    hops: Option<u8>,
    /// The sums over all ports.
    sums: CounterPage,
    buffer: Box<[u8]>,
}

/// What a port offers that is switched off: nothing.
const NO_OFFER: Offer = Offer {
    widths: 0,
    speeds: 0,
    speeds_ext: 0,
};

impl Fabric {
    /// A node whose ports have these cables and sockets, which are bound to the cables' own ends.
    /// What comes and goes is counted in `sums` too.
    pub(crate) fn new(
        config: NodeConfig,
        cables: Vec<(Cable, OwnedFd)>,
        sums: CounterPage,
    ) -> Self {
        let now = Instant::now();
        let link = |(cable, socket)| Link {
            cable,
            end: End::new(socket, cable),
            training: Training::new(now),
            counts: Counts::default(),
        };

        Self {
            tap: Tap::default(),
            node: Node::new(config),
            links: cables.into_iter().map(link).collect(),
            out: Actions::default(),
            happened: Vec::new(),
            members: Vec::new(),
            clock: Clock::at(now),
            psn: 0,
            hops: None,
            sums,
            buffer: vec![0; 8192].into_boxed_slice(),
        }
    }

    /// Shows the packets of the node itself from now on.
    pub(crate) fn watched_by(mut self, tap: Tap) -> Self {
        self.tap = tap;
        self
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

    /// Whether nothing comes and goes by a port's cable any more, as a fault has it. The two ends
    /// notice by themselves.
    pub(crate) fn cut(&mut self, port: u8, cut: bool) {
        if let Some(link) = index(port).and_then(|at| self.links.get_mut(at)) {
            link.end.cut = cut;
        }
    }

    /// Takes what has happened since the last time.
    pub(crate) fn happened(&mut self) -> Vec<Happened> {
        std::mem::take(&mut self.happened)
    }

    /// When [`tick`](Self::tick) has something to do.
    pub(crate) fn next_timeout(&self) -> Option<Instant> {
        let training = self.links.iter().filter_map(|link| link.training.next());
        let node = self.node.next_timeout();
        let node = node.map(|at| self.clock.instant(at));
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

        let time = self.clock.now();
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
            let time = self.clock.now();
            self.node.set_is_sm(time, port, is_sm, &mut self.out);
            self.settle();
        }
    }

    /// The node is called otherwise from now on; its subnet managers are told.
    pub(crate) fn set_description(&mut self, text: &str) {
        let time = self.clock.now();
        self.node.set_description(time, text, &mut self.out);
        self.settle();
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
                            qpn: QP0,
                            from: Address {
                                qpn: QP0,
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

    fn link_changed(&mut self, port: u8, change: Change) {
        let time = self.clock.now();
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
}

/// Shows a packet at a port to who captures.
fn show(tap: &Tap, (port, cable): (u8, &Cable), incoming: bool, packet: &[u8]) {
    let (from, to) = match incoming {
        true => (cable.remote.ip(), cable.local.ip()),
        false => (cable.local.ip(), cable.remote.ip()),
    };
    let way = Way {
        incoming,
        medium: Medium::Cable(port),
        from,
        to,
        traffic_class: 0,
        hop_limit: 0,
        id: 0,
    };
    tap.record(0, way, packet);
}

/// Where a port's link is; port 0 of a switch has none.
fn index(port: u8) -> Option<usize> {
    usize::from(port).checked_sub(1)
}
