//! A node by itself, and what it puts out.
#![allow(dead_code)]

use ferroce_fabric::cm::Time;
use ferroce_fabric::sma::{Envelope, LinkCommand, Node, NodeConfig, Offer, Output, PortEvent};
use ferroce_wire::mad::{LEN, Mad, MadHeader};
use ferroce_wire::smp::{
    self, CLASS_DIRECTED, CLASS_LID, Data, Directed, PERMISSIVE_LID, PortInfo, attribute, method,
    state,
};

/// What a peer with everything offers.
pub(crate) const OFFER: Offer = Offer {
    widths: 0b11,
    speeds: 0b111,
    speeds_ext: 0b11,
};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Out {
    Send(u8, Envelope, Mad),
    Deliver(u8, Envelope, Mad),
    Event(u8, PortEvent),
    Link(u8, LinkCommand),
}

#[derive(Default)]
pub(crate) struct Recorder(pub Vec<Out>);

impl Output for Recorder {
    fn send(&mut self, port: u8, to: Envelope, smp: &Mad) {
        self.0.push(Out::Send(port, to, *smp));
    }

    fn deliver(&mut self, port: u8, from: Envelope, smp: &Mad) {
        self.0.push(Out::Deliver(port, from, *smp));
    }

    fn event(&mut self, port: u8, event: PortEvent) {
        self.0.push(Out::Event(port, event));
    }

    fn link(&mut self, port: u8, command: LinkCommand) {
        self.0.push(Out::Link(port, command));
    }
}

impl Recorder {
    pub(crate) fn events(&self) -> Vec<(u8, PortEvent)> {
        let events = self.0.iter().filter_map(|out| match out {
            Out::Event(port, event) => Some((*port, *event)),
            _ => None,
        });
        events.collect()
    }

    /// The SMPs sent, traps aside.
    pub(crate) fn sent(&self) -> Vec<(u8, Envelope, Mad)> {
        let sent = self.0.iter().filter_map(|out| match out {
            Out::Send(port, to, smp) if smp[3] != method::TRAP => Some((*port, *to, *smp)),
            _ => None,
        });
        sent.collect()
    }

    pub(crate) fn traps(&self) -> Vec<(u8, Envelope, Mad)> {
        let sent = self.0.iter().filter_map(|out| match out {
            Out::Send(port, to, smp) if smp[3] == method::TRAP => Some((*port, *to, *smp)),
            _ => None,
        });
        sent.collect()
    }
}

/// A request by directed route of one hop.
pub(crate) fn request(method: u8, attribute: u16, modifier: u32, m_key: u64, data: &Data) -> Mad {
    let mut smp = [0; LEN];
    MadHeader {
        base_version: 1,
        class: CLASS_DIRECTED,
        class_version: 1,
        method,
        tid: 0x1234_5678,
        attribute,
        modifier,
        ..MadHeader::default()
    }
    .emit(&mut smp);

    smp::set_m_key(&mut smp, m_key);
    Directed {
        returning: false,
        hop_pointer: 1,
        hop_count: 1,
        dr_slid: PERMISSIVE_LID,
        dr_dlid: PERMISSIVE_LID,
    }
    .emit(&mut smp);

    smp::initial_path_mut(&mut smp)[1] = 1;
    *smp::data_mut(&mut smp) = *data;
    smp
}

pub(crate) const DIRECTED: Envelope = Envelope {
    slid: PERMISSIVE_LID,
    dlid: PERMISSIVE_LID,
    sl: 0,
};

/// A node and whoever is at the other end of its links.
pub(crate) struct Agent {
    pub node: Node,
    pub now: Time,
    pub out: Recorder,
}

impl Agent {
    pub(crate) fn new(config: NodeConfig) -> Agent {
        Agent {
            node: Node::new(config),
            now: Time::ZERO,
            out: Recorder::default(),
        }
    }

    /// A node of which all ports have links.
    pub(crate) fn linked(config: NodeConfig) -> Agent {
        let mut agent = Agent::new(config);
        agent.up();
        agent
    }

    /// A channel adapter.
    pub(crate) fn adapter(ports: u64) -> Agent {
        let guids: Vec<u64> = (0..ports).map(|port| 0x10 + port).collect();
        Agent::linked(NodeConfig::channel_adapter(1, &guids))
    }

    /// A switch.
    pub(crate) fn switch(ports: u8) -> Agent {
        Agent::linked(NodeConfig::switch(2, ports))
    }

    fn up(&mut self) {
        for port in 1..=self.node.config().ports {
            assert!(self.node.link_up(self.now, port, OFFER, &mut self.out));
        }
        self.out.0.clear();
    }

    pub(crate) fn receive(&mut self, port: u8, from: Envelope, smp: &Mad) {
        self.node.receive(self.now, port, from, smp, &mut self.out);
    }

    /// Sends a request by directed route to a port. The status and the attribute of the answer;
    /// `None` if there is none.
    pub(crate) fn ask(&mut self, port: u8, smp: &Mad) -> Option<(u16, Data)> {
        let before = self.out.0.len();
        self.receive(port, DIRECTED, smp);
        let answers: Vec<Mad> = Recorder(self.out.0[before..].to_vec())
            .sent()
            .into_iter()
            .map(|(exit, _, smp)| {
                assert_eq!(exit, port, "answers go back where the request came from");
                smp
            })
            .collect();

        assert!(answers.len() <= 1, "more than one answer");
        let answer = answers.first()?;
        let header = MadHeader::parse(answer).unwrap();
        let asked = MadHeader::parse(smp).unwrap();
        assert_eq!(header.method, method::GET_RESP);
        assert_eq!(
            (header.tid, header.attribute, header.modifier),
            (asked.tid, asked.attribute, asked.modifier)
        );

        let status = match header.class {
            CLASS_LID => header.status,
            _ => {
                assert!(Directed::parse(answer).returning);
                assert_eq!(Directed::parse(answer).hop_pointer, 1);
                header.status & 0x7fff
            }
        };

        Some((status, *smp::data(answer)))
    }

    pub(crate) fn get(&mut self, port: u8, attribute: u16, modifier: u32) -> Option<(u16, Data)> {
        self.ask(
            port,
            &request(method::GET, attribute, modifier, 0, &[0; 64]),
        )
    }

    pub(crate) fn set(
        &mut self,
        port: u8,
        attribute: u16,
        modifier: u32,
        data: &Data,
    ) -> Option<(u16, Data)> {
        self.ask(port, &request(method::SET, attribute, modifier, 0, data))
    }

    /// PortInfo of a port, asked for by another.
    pub(crate) fn port_info_by(&mut self, by: u8, port: u8) -> PortInfo {
        let (status, data) = self.get(by, attribute::PORT_INFO, port.into()).unwrap();
        assert_eq!(status, 0);
        PortInfo::parse(&data)
    }

    /// PortInfo of a port, asked for by itself; of a switch, by port 1.
    pub(crate) fn port_info(&mut self, port: u8) -> PortInfo {
        let by = self.by(port);
        self.port_info_by(by, port)
    }

    /// Sets PortInfo with one thing changed.
    pub(crate) fn change(
        &mut self,
        port: u8,
        change: impl FnOnce(&mut PortInfo),
    ) -> Option<(u16, PortInfo)> {
        let by = self.by(port);
        self.change_by(by, port, change)
    }

    /// The same by way of another port.
    pub(crate) fn change_by(
        &mut self,
        by: u8,
        port: u8,
        change: impl FnOnce(&mut PortInfo),
    ) -> Option<(u16, PortInfo)> {
        let mut info = self.port_info_by(by, port);
        info.port_state = state::NO_CHANGE;
        info.port_physical_state = 0;
        // A port without LIDs does not take back what it showed.
        if info.lid == 0 {
            (info.lid, info.master_sm_lid) = (1, 1);
        }
        let key = info.m_key;
        change(&mut info);
        let mut data = [0; 64];
        info.emit(&mut data);
        let smp = request(method::SET, attribute::PORT_INFO, port.into(), key, &data);
        let (status, data) = self.ask(by, &smp)?;
        Some((status, PortInfo::parse(&data)))
    }

    /// What a subnet manager does to a port.
    pub(crate) fn configure(&mut self, port: u8, lid: u16, sm_lid: u16) {
        for state in [state::NO_CHANGE, state::ARMED, state::ACTIVE] {
            let (status, _) = self
                .change(port, |info| {
                    info.lid = lid;
                    info.master_sm_lid = sm_lid;
                    info.neighbor_mtu = 4;
                    info.port_state = state;
                })
                .unwrap();
            assert_eq!(status, 0);
        }
        self.out.0.clear();
    }

    /// Takes a port with a link to a state; its state then.
    pub(crate) fn bring(&mut self, port: u8, to: u8) -> u8 {
        match to {
            state::DOWN => self.node.link_down(self.now, port, &mut self.out),
            _ => {
                for state in state::ARMED..=to {
                    self.change(port, |info| info.port_state = state).unwrap();
                }
            }
        }
        self.out.0.clear();
        self.node.port(port).unwrap().info().port_state
    }

    fn by(&self, port: u8) -> u8 {
        if self.node.is_switch() { 1 } else { port }
    }
}
