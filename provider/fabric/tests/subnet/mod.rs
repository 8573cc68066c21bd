//! A fabric of simulated nodes in virtual time, and a small subnet manager behind port 1 of the first of them.
#![allow(dead_code)]

use ferroce_fabric::cm::Time;
use ferroce_fabric::sma::{
    Envelope, LinkCommand, Node, NodeConfig, NodeKind, Offer, Output, PortEvent, Route,
};
use ferroce_wire::mad::{LEN, Mad, MadHeader};
use ferroce_wire::smp::{
    self, CLASS_DIRECTED, CLASS_LID, Data, Directed, NodeInfo, PERMISSIVE_LID, PortInfo,
    SwitchInfo, attribute, method, state,
};
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// Time that an SMP takes over a link.
const HOP: Time = 1000;

/// A port of a node.
pub type End = (usize, u8);

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
    fn push(&mut self, delay: Time, what: Happening) {
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
        self.push(0, Happening::Delivered((self.node, port), from, *smp));
    }

    fn event(&mut self, port: u8, event: PortEvent) {
        self.push(0, Happening::Event((self.node, port), event));
    }

    fn link(&mut self, port: u8, command: LinkCommand) {
        self.push(0, Happening::Link((self.node, port), command));
    }
}

pub struct Fabric {
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

/// A node as the subnet manager has found it.
#[derive(Clone, Debug)]
pub struct Found {
    /// The way to it, by the ports to leave by.
    pub path: Vec<u8>,
    pub info: NodeInfo,
    /// By the port of this node: GUID and port at the other end.
    pub links: BTreeMap<u8, (u64, u8)>,
    pub lid: u16,
}

impl Fabric {
    pub fn new(nodes: Vec<Node>, cables: &[(End, End)]) -> Fabric {
        let both = cables.iter().flat_map(|(a, b)| [(*a, *b), (*b, *a)]);
        let mut fabric = Fabric {
            nodes,
            cables: both.collect(),
            now: 0,
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
    pub fn pull(&mut self, end: End) {
        let peer = self.cables.remove(&end).expect("there is a cable");
        self.cables.remove(&peer);
        for (node, port) in [end, peer] {
            self.with(node, |node, now, out| node.link_down(now, port, out));
        }
        self.run();
    }

    /// Plugs one in.
    pub fn plug(&mut self, a: End, b: End) {
        self.cables.insert(a, b);
        self.cables.insert(b, a);
        self.train(a);
        self.run();
    }

    /// Lets everything happen that is under way.
    pub fn run(&mut self) {
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
    pub fn wait(&mut self, time: Time) {
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
    pub fn exchange(&mut self, to: Envelope, smp: &Mad) -> Option<Mad> {
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

    /// A request with a number of its own.
    pub fn request(
        &mut self,
        class: u8,
        method: u8,
        attribute: u16,
        modifier: u32,
        data: &Data,
    ) -> Mad {
        let mut smp = [0; LEN];
        self.next_tid += 1;
        MadHeader {
            base_version: 1,
            class,
            class_version: 1,
            method,
            tid: self.next_tid,
            attribute,
            modifier,
            ..MadHeader::default()
        }
        .emit(&mut smp);
        *smp::data_mut(&mut smp) = *data;
        smp
    }

    /// By directed route all the way.
    pub fn ask(
        &mut self,
        path: &[u8],
        method: u8,
        attribute: u16,
        modifier: u32,
        data: &Data,
    ) -> Option<(u16, Data)> {
        let smp = self.directed(path, method, attribute, modifier, data, [PERMISSIVE_LID; 2]);
        self.exchange(DIRECTED, &smp).map(|answer| {
            let header = MadHeader::parse(&answer).unwrap();
            assert_eq!(header.status & smp::DIRECTION, smp::DIRECTION);
            assert_eq!(Directed::parse(&answer).hop_pointer, 0);
            (header.status & 0x7fff, *smp::data(&answer))
        })
    }

    pub fn directed(
        &mut self,
        path: &[u8],
        method: u8,
        attribute: u16,
        modifier: u32,
        data: &Data,
        lids: [u16; 2],
    ) -> Mad {
        let mut smp = self.request(CLASS_DIRECTED, method, attribute, modifier, data);
        Directed {
            returning: false,
            hop_pointer: 0,
            hop_count: path.len() as u8,
            dr_slid: lids[0],
            dr_dlid: lids[1],
        }
        .emit(&mut smp);
        let room = path.len().min(63);
        smp::initial_path_mut(&mut smp)[1..=room].copy_from_slice(&path[..room]);
        smp
    }

    /// By LID all the way.
    pub fn ask_lid(
        &mut self,
        dlid: u16,
        method: u8,
        attribute: u16,
        modifier: u32,
        data: &Data,
    ) -> Option<(u16, Data)> {
        let smp = self.request(CLASS_LID, method, attribute, modifier, data);
        let answer = self.exchange(
            Envelope {
                slid: 0,
                dlid,
                sl: 0,
            },
            &smp,
        )?;
        Some((
            MadHeader::parse(&answer).unwrap().status,
            *smp::data(&answer),
        ))
    }

    fn good(
        &mut self,
        path: &[u8],
        method: u8,
        attribute: u16,
        modifier: u32,
        data: &Data,
    ) -> Data {
        let (status, data) = self
            .ask(path, method, attribute, modifier, data)
            .expect("an answer");
        assert_eq!(status, 0, "{path:?} {method} {attribute:#x} {modifier:#x}");
        data
    }

    fn port_info(&mut self, path: &[u8], port: u8) -> PortInfo {
        PortInfo::parse(&self.good(
            path,
            method::GET,
            attribute::PORT_INFO,
            port.into(),
            &[0; 64],
        ))
    }

    /// Finds everything that can be reached, by directed routes alone.
    pub fn discover(&mut self) -> BTreeMap<u64, Found> {
        let mut found: BTreeMap<u64, Found> = BTreeMap::new();
        let mut ways = VecDeque::from([(Vec::new(), None)]);
        while let Some((path, from)) = ways.pop_front() {
            let info =
                NodeInfo::parse(&self.good(&path, method::GET, attribute::NODE_INFO, 0, &[0; 64]));
            let is_new = !found.contains_key(&info.node_guid);
            if let Some((guid, port)) = from {
                let entry: &mut Found = found.get_mut(&guid).unwrap();
                entry
                    .links
                    .insert(port, (info.node_guid, info.local_port_num));
            }
            if !is_new {
                continue;
            }
            found.insert(
                info.node_guid,
                Found {
                    path: path.clone(),
                    info,
                    links: BTreeMap::new(),
                    lid: 0,
                },
            );
            // The way on leads through switches, and out of the node that one is at.
            let exits = if info.node_type == smp::node_type::SWITCH {
                1..=info.num_ports
            } else if path.is_empty() {
                1..=1
            } else {
                info.local_port_num..=info.local_port_num
            };
            for port in exits {
                let is_adapter = info.node_type != smp::node_type::SWITCH;
                if self.port_info(&path, port).port_state > state::DOWN {
                    if is_adapter && !path.is_empty() {
                        continue;
                    }
                    let mut on = path.clone();
                    on.push(port);
                    ways.push_back((on, Some((info.node_guid, port))));
                }
            }
        }
        // A link has two ends.
        for (guid, node) in found.clone() {
            for (port, (peer, theirs)) in node.links {
                found
                    .get_mut(&peer)
                    .unwrap()
                    .links
                    .insert(theirs, (guid, port));
            }
        }
        found
    }

    /// Gives everything LIDs and routes, and activates all ports.
    pub fn configure(&mut self) -> BTreeMap<u64, Found> {
        let mut found = self.discover();
        for (lid, node) in (1..).zip(found.values_mut()) {
            node.lid = lid;
        }
        let master = found[&self.nodes[0].config().node_guid].lid;
        for node in found.values() {
            let port = if node.info.node_type == smp::node_type::SWITCH {
                0
            } else {
                node.info.local_port_num
            };
            self.set_port(node, port, |info| {
                info.lid = node.lid;
                info.master_sm_lid = master;
            });
            if port == 0 {
                self.set_routes(node, &found);
            }
        }
        for state in [state::ARMED, state::ACTIVE] {
            for node in found.values() {
                for port in node.links.keys() {
                    if self.port_info(&node.path, *port).port_state < state {
                        self.set_port(node, *port, |info| {
                            info.neighbor_mtu = info.mtu_cap;
                            info.port_state = state;
                        });
                    }
                }
            }
        }
        found
    }

    fn set_port(&mut self, node: &Found, port: u8, change: impl FnOnce(&mut PortInfo)) {
        let mut info = self.port_info(&node.path, port);
        info.port_state = 0;
        info.port_physical_state = 0;
        change(&mut info);
        let mut data = [0; 64];
        info.emit(&mut data);
        self.good(
            &node.path,
            method::SET,
            attribute::PORT_INFO,
            port.into(),
            &data,
        );
    }

    fn set_routes(&mut self, node: &Found, found: &BTreeMap<u64, Found>) {
        let data = self.good(&node.path, method::GET, attribute::SWITCH_INFO, 0, &[0; 64]);
        let mut info = SwitchInfo::parse(&data);
        info.linear_fdb_top = found.len() as u16;
        info.port_state_change = true;
        let mut data = [0; 64];
        info.emit(&mut data);
        self.good(&node.path, method::SET, attribute::SWITCH_INFO, 0, &data);
        let mut table = vec![0xff; (found.len() / 64 + 1) * 64];
        table[usize::from(node.lid)] = 0;
        for (port, reached) in nearest(node, found) {
            for guid in reached {
                table[usize::from(found[&guid].lid)] = port;
            }
        }
        for (block, entries) in table.chunks(64).enumerate() {
            self.good(
                &node.path,
                method::SET,
                attribute::LINEAR_FORWARDING,
                block as u32,
                entries.try_into().unwrap(),
            );
        }
    }

    /// Follows a data packet from a node through the switches; the nodes that take it.
    pub fn follow(&self, from: usize, dlid: u16) -> BTreeSet<usize> {
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
pub const DIRECTED: Envelope = Envelope {
    slid: PERMISSIVE_LID,
    dlid: PERMISSIVE_LID,
    sl: 0,
};

/// By the port of `node`: what is nearest by it. Each other node is reached by one port.
fn nearest(node: &Found, found: &BTreeMap<u64, Found>) -> BTreeMap<u8, Vec<u64>> {
    let mut seen = BTreeSet::from([node.info.node_guid]);
    let mut ways: VecDeque<(u8, u64)> = node
        .links
        .iter()
        .map(|(port, (peer, _))| (*port, *peer))
        .collect();
    let mut reached: BTreeMap<u8, Vec<u64>> = BTreeMap::new();
    while let Some((port, guid)) = ways.pop_front() {
        if !seen.insert(guid) {
            continue;
        }
        reached.entry(port).or_default().push(guid);
        // Adapters pass nothing on.
        if found[&guid].info.node_type == smp::node_type::SWITCH {
            ways.extend(found[&guid].links.values().map(|(peer, _)| (port, *peer)));
        }
    }
    reached
}

/// An adapter with one port. GUIDs follow the number.
pub fn adapter(number: usize) -> Node {
    let guid = 0x1000 + number as u64 * 2;
    Node::new(NodeConfig::channel_adapter(guid, &[guid + 1]))
}

/// A switch.
pub fn switch(number: usize, ports: u8) -> Node {
    Node::new(NodeConfig::switch(0x1000 + number as u64 * 2, ports))
}
