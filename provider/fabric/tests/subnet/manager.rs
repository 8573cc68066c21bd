//! The subnet manager: asks by directed routes and by LID, finds everything, and configures it.

use super::{DIRECTED, Fabric};
use ferroce_fabric::sma::Envelope;
use ferroce_wire::mad::{LEN, Mad, MadHeader};
use ferroce_wire::smp::{
    self, CLASS_DIRECTED, CLASS_LID, Data, Directed, NodeInfo, PERMISSIVE_LID, PortInfo,
    SwitchInfo, attribute, method, state,
};
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// A node as the subnet manager has found it.
#[derive(Clone, Debug)]
pub(crate) struct Found {
    /// The way to it, by the ports to leave by.
    pub path: Vec<u8>,
    pub info: NodeInfo,
    /// By the port of this node: GUID and port at the other end.
    pub links: BTreeMap<u8, (u64, u8)>,
    pub lid: u16,
}

impl Fabric {
    /// A request with a number of its own.
    pub(crate) fn request(
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
    pub(crate) fn ask(
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

    pub(crate) fn directed(
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
    pub(crate) fn ask_lid(
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
    pub(crate) fn discover(&mut self) -> BTreeMap<u64, Found> {
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
    pub(crate) fn configure(&mut self) -> BTreeMap<u64, Found> {
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
}

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
