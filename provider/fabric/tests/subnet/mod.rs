//! A fabric of simulated nodes in virtual time, and a small subnet manager behind port 1 of the
//! first of them.
#![allow(dead_code)]

mod manager;
pub(crate) mod shapes;

use ferroce_fabric::cm::Time;
use ferroce_fabric::sma::{
    Envelope, LinkCommand, Node, NodeConfig, NodeKind, Offer, Output, PortEvent, Route,
};
use ferroce_wire::mad::{Mad, MadHeader};
use ferroce_wire::smp::{self, PERMISSIVE_LID, method};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

/// Time that an SMP takes over a link.
const HOP: Duration = Duration::from_micros(1);

/// A port of a node.
pub(crate) type End = (usize, u8);

/// What nodes have put out, in order.
#[derive(Debug)]
enum Happening {
    Arrives(End, Envelope, Mad),
    Delivered(End, Envelope, Mad),
    Event(End, PortEvent),
    Link(End, LinkCommand),
}

/// The output of one node.
struct Wires<'a> {
    node: usize,
    now: Time,
    cables: &'a BTreeMap<End, End>,
    queue: &'a mut VecDeque<(Time, Happening)>,
}

impl Wires<'_> {
    fn push(&mut self, delay: Duration, what: Happening) {
        // All delays over links are the same, and everything else is at once; so the order is kept.
        self.queue.push_back((self.now + delay, what));
    }
}

impl Output for Wires<'_> {
    fn send(&mut self, port: u8, to: Envelope, smp: &Mad) {
        if let Some(peer) = self.cables.get(&(self.node, port)) {
            self.push(HOP, Happening::Arrives(*peer, to, *smp));
        }
    }

    fn deliver(&mut self, port: u8, from: Envelope, smp: &Mad) {
        self.push(
            Duration::ZERO,
            Happening::Delivered((self.node, port), from, *smp),
        );
    }

    fn event(&mut self, port: u8, event: PortEvent) {
        self.push(Duration::ZERO, Happening::Event((self.node, port), event));
    }

    fn link(&mut self, port: u8, command: LinkCommand) {
        self.push(Duration::ZERO, Happening::Link((self.node, port), command));
    }
}

pub(crate) struct Fabric {
    pub nodes: Vec<Node>,
    pub cables: BTreeMap<End, End>,
    pub now: Time,
    queue: VecDeque<(Time, Happening)>,
    /// What programs got.
    pub delivered: Vec<(End, Envelope, Mad)>,
    pub events: Vec<(End, PortEvent)>,
    next_tid: u64,
    /// Requests that the subnet manager has sent.
    pub asked: usize,
}

impl Fabric {
    pub(crate) fn new(nodes: Vec<Node>, cables: &[(End, End)]) -> Fabric {
        let both = cables.iter().flat_map(|(a, b)| [(*a, *b), (*b, *a)]);
        let mut fabric = Fabric {
            nodes,
            cables: both.collect(),
            now: Time::ZERO,
            queue: VecDeque::new(),
            delivered: Vec::new(),
            events: Vec::new(),
            next_tid: 1,
            asked: 0,
        };

        for (a, _) in cables {
            fabric.train(*a);
        }
        fabric.run();
        fabric
    }

    fn with<R>(&mut self, node: usize, f: impl FnOnce(&mut Node, Time, &mut Wires<'_>) -> R) -> R {
        let mut wires = Wires {
            node,
            now: self.now,
            cables: &self.cables,
            queue: &mut self.queue,
        };
        f(&mut self.nodes[node], self.now, &mut wires)
    }

    /// Both ends of a cable train, if both want to.
    fn train(&mut self, end: End) {
        let Some(peer) = self.cables.get(&end).copied() else {
            return;
        };

        let offer = |fabric: &Fabric, (node, port): End| -> Option<Offer> {
            fabric.nodes[node].port(port)?.offer()
        };
        let (Some(ours), Some(theirs)) = (offer(self, end), offer(self, peer)) else {
            return;
        };

        self.with(end.0, |node, now, out| {
            node.link_up(now, end.1, theirs, out)
        });
        self.with(peer.0, |node, now, out| {
            node.link_up(now, peer.1, ours, out)
        });
    }

    /// Pulls a cable.
    pub(crate) fn pull(&mut self, end: End) {
        let peer = self.cables.remove(&end).expect("there is a cable");
        self.cables.remove(&peer);
        for (node, port) in [end, peer] {
            self.with(node, |node, now, out| node.link_down(now, port, out));
        }
        self.run();
    }

    /// Plugs one in.
    pub(crate) fn plug(&mut self, a: End, b: End) {
        self.cables.insert(a, b);
        self.cables.insert(b, a);
        self.train(a);
        self.run();
    }

    /// Lets everything happen that is under way.
    pub(crate) fn run(&mut self) {
        let mut steps = 0;
        while let Some((time, what)) = self.next() {
            steps += 1;
            assert!(steps < 1_000_000, "something goes round in circles");
            self.now = self.now.max(time);
            match what {
                Happening::Arrives((node, port), from, smp) => {
                    self.with(node, |node, now, out| {
                        node.receive(now, port, from, &smp, out)
                    });
                }
                Happening::Delivered(end, from, smp) => self.delivered.push((end, from, smp)),
                Happening::Event(end, event) => self.events.push((end, event)),
                Happening::Link(end, _) => {
                    if let Some((node, port)) = self.cables.get(&end).copied() {
                        self.with(node, |node, now, out| node.link_down(now, port, out));
                    }
                    self.train(end);
                }
            }
        }
    }

    fn next(&mut self) -> Option<(Time, Happening)> {
        let first = (0..self.queue.len()).min_by_key(|at| (self.queue[*at].0, *at))?;
        self.queue.remove(first)
    }

    /// Lets time pass for all nodes.
    pub(crate) fn wait(&mut self, time: Duration) {
        let end = self.now + time;
        while let Some(due) = self
            .nodes
            .iter()
            .filter_map(Node::next_timeout)
            .min()
            .filter(|due| *due <= end)
        {
            self.now = self.now.max(due);
            for node in 0..self.nodes.len() {
                self.with(node, |node, now, out| node.handle_timeout(now, out));
            }
            self.run();
        }

        self.now = end;
    }

    /// A program behind the first node's port 1 sends something; the answer that comes back to it.
    pub(crate) fn exchange(&mut self, to: Envelope, smp: &Mad) -> Option<Mad> {
        self.asked += 1;
        let before = self.delivered.len();
        self.with(0, |node, now, out| node.send(now, 1, to, smp, out));
        self.run();
        let tid = MadHeader::parse(smp).unwrap().tid;
        let answers: Vec<Mad> = self.delivered[before..]
            .iter()
            .filter(|(end, _, answer)| {
                *end == (0, 1)
                    && answer[3] == method::GET_RESP
                    && answer[8..16] == tid.to_be_bytes()
            })
            .map(|(_, _, answer)| *answer)
            .collect();

        assert!(answers.len() <= 1);
        answers.first().copied()
    }

    /// Follows a data packet from a node through the switches; the nodes that take it.
    pub(crate) fn follow(&self, from: usize, dlid: u16) -> BTreeSet<usize> {
        let mut taken = BTreeSet::new();
        let mut ways = vec![self.cables[&(from, 1)]];
        let mut hops = 0;
        while let Some((node, port)) = ways.pop() {
            hops += 1;
            assert!(hops < 10_000, "the packet goes round in circles");
            let here = &self.nodes[node];
            if here.config().kind == NodeKind::ChannelAdapter {
                if here
                    .port(port)
                    .is_some_and(|port| dlid >= smp::MULTICAST_LID || port.has_lid(dlid))
                {
                    assert!(taken.insert(node), "a copy too many");
                }
                continue;
            }

            match here.forward(port, dlid, false) {
                Route::Local => assert!(taken.insert(node)),
                Route::Port(exit) => ways.push(self.cables[&(node, exit)]),
                Route::Ports(exits) => {
                    ways.extend(exits.iter().map(|exit| self.cables[&(node, exit)]))
                }
                Route::Drop(_) => {}
            }
        }

        taken
    }
}

/// The way that SMPs go before there are LIDs.
pub(crate) const DIRECTED: Envelope = Envelope {
    slid: PERMISSIVE_LID,
    dlid: PERMISSIVE_LID,
    sl: 0,
};

/// An adapter with one port. GUIDs follow the number.
pub(crate) fn adapter(number: usize) -> Node {
    let guid = 0x1000 + number as u64 * 2;
    Node::new(NodeConfig::channel_adapter(guid, &[guid + 1]))
}

/// A switch.
pub(crate) fn switch(number: usize, ports: u8) -> Node {
    Node::new(NodeConfig::switch(0x1000 + number as u64 * 2, ports))
}
