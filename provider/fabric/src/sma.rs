//! The subnet management agent of a node: a channel adapter with one or more ports, or a switch.
//!
//! A [`Node`] takes the SMPs that arrive at a port or come from programs of its own host, and the
//! time. Through an [`Output`] it says what to send by which port, what to hand to local programs,
//! what to do with the link, and which events happened. It has no clock and no sockets, allocates
//! nothing once it is made, and whatever the bytes, it answers as the specification says or not at
//! all.
//!
//! - [`directed`] finds the next hop of a directed route;
//! - `request` checks the M_Key and carries out Get, Set and TrapRepress; `port_info`, `tables` and
//!   `switch_info` are the attributes;
//! - `partition` is what a switch does of P_Keys at its ports;
//! - `link` is the state machine of a port, `notices` sends what a port has to tell, which waits in
//!   `traps`, `forward` finds the way of other packets;
//! - `gate` says which packets QP1 takes.
//!
//! What it never does: random forwarding tables, arbitration between virtual
//! lanes (the tables are kept for whoever sends), notices that wait to be fetched.

pub mod directed;
mod forward;
mod gate;
mod link;
mod m_key;
mod notices;
mod partition;
mod port;
mod port_info;
mod port_set;
mod request;
mod switch;
mod switch_info;
mod tables;
mod traps;
mod types;

pub use forward::{Discard, Route};
pub use gate::Gate;
pub use port::Port;
pub use port_set::PortSet;
pub use types::{
    Envelope, LinkCapabilities, LinkCommand, NodeConfig, NodeKind, Offer, Output, PortEvent,
    SmpCounters, Violation,
};

use crate::cm::Time;
use directed::{Directions, Step};
use ferroce_wire::mad::{Mad, MadHeader};
use ferroce_wire::smp::{self, PERMISSIVE_LID, method};
use switch::Switch;

/// The management agent of one node.
#[derive(Debug)]
pub struct Node {
    config: NodeConfig,
    /// By number, from [`NodeConfig::first_port`] on.
    ports: Vec<Port>,
    switch: Option<Switch>,
    next_tid: u64,
    counters: SmpCounters,
}

impl Node {
    /// A node as it is after power-up: all ports down and polling, no LIDs, no M_Key.
    ///
    /// # Panics
    /// If the configuration has no ports, more than 254, or not a GUID for each port that needs
    /// one.
    pub fn new(config: NodeConfig) -> Node {
        config.check();
        let first = config.first_port();
        let ports = (first..=config.ports)
            .map(|number| Port::new(&config, number))
            .collect();
        let switch = (config.kind == NodeKind::Switch).then(|| Switch::new(&config));
        Node {
            next_tid: config.node_guid,
            config,
            ports,
            switch,
            counters: SmpCounters::default(),
        }
    }

    /// An SMP arrived by the link of a port, on lane 15. Of a switch's `port`, never 0.
    pub fn receive(
        &mut self,
        now: Time,
        port: u8,
        from: Envelope,
        smp: &Mad,
        out: &mut impl Output,
    ) {
        if !self.contains(port) || self.is_internal(port) {
            return;
        }

        self.counters.received += 1;
        self.expire_leases(now);
        let mut smp = *smp;
        if !self.is_for_us(port, from.dlid) {
            if self.switch.is_some() {
                self.pass_on(port, from, &smp, out);
            } else {
                self.counters.dropped += 1;
            }
            return;
        }

        let step = match smp[1] {
            smp::CLASS_LID => Step::Here,
            smp::CLASS_DIRECTED => directed::arrived(&self.directions(port), &mut smp),
            _ => Step::Drop,
        };
        self.carry_out(now, step, port, from, &mut smp, out);
    }

    /// A program of this host sends an SMP by a port (of a switch: port 0). What is for this node
    /// is answered at once.
    pub fn send(&mut self, now: Time, port: u8, to: Envelope, smp: &Mad, out: &mut impl Output) {
        if !self.contains(port) {
            return;
        }

        self.counters.sent_by_programs += 1;
        self.expire_leases(now);
        let mut smp = *smp;
        let step = match smp[1] {
            smp::CLASS_LID if self.is_own_lid(port, to.dlid) => Step::Here,
            smp::CLASS_LID => Step::Lid(to.dlid),
            smp::CLASS_DIRECTED => directed::departing(&self.directions(port), to.dlid, &mut smp),
            _ => Step::Drop,
        };

        let lid = self.lid(port);
        let from = Envelope {
            slid: if lid == 0 { PERMISSIVE_LID } else { lid },
            ..to
        };
        self.carry_out(now, step, port, from, &mut smp, out);
    }

    /// When [`handle_timeout`](Node::handle_timeout) is due next.
    pub fn next_timeout(&self) -> Option<Time> {
        self.ports.iter().filter_map(Port::next_timeout).min()
    }

    /// Time has passed: leases expire, traps are repeated.
    pub fn handle_timeout(&mut self, now: Time, out: &mut impl Output) {
        self.expire_leases(now);
        self.flush_traps(now, out);
    }

    /// A port; of a switch from 0 on, of a channel adapter from 1 on.
    pub fn port(&self, number: u8) -> Option<&Port> {
        let index = number.checked_sub(self.config.first_port())?;
        self.ports.get(usize::from(index))
    }

    /// All ports in order.
    pub fn ports(&self) -> impl Iterator<Item = &Port> {
        self.ports.iter()
    }

    /// What has become of SMPs so far.
    pub fn counters(&self) -> &SmpCounters {
        &self.counters
    }

    /// What the node was made from, with its description as it is now.
    pub fn config(&self) -> &NodeConfig {
        &self.config
    }

    /// Is it a switch?
    pub fn is_switch(&self) -> bool {
        self.switch.is_some()
    }

    fn carry_out(
        &mut self,
        now: Time,
        step: Step,
        port: u8,
        from: Envelope,
        smp: &mut Mad,
        out: &mut impl Output,
    ) {
        match step {
            Step::Here => self.process(now, port, from, smp, out),
            Step::Manager => self.deliver(port, from, smp, out),
            Step::Out(exit) => {
                let has_left = self.send_by_port(exit, Envelope::directed(from.sl), smp, out);
                self.count_passed(has_left);
            }
            Step::Lid(dlid) => {
                let slid = self.lid(self.key_port(port));
                self.pass_on(port, Envelope { slid, dlid, ..from }, smp, out);
            }
            Step::Drop => self.counters.dropped += 1,
        }
    }

    fn pass_on(&mut self, port: u8, to: Envelope, smp: &Mad, out: &mut impl Output) {
        let has_left = self.send_by_lid(port, to, smp, out);
        self.count_passed(has_left);
    }

    fn count_passed(&mut self, has_left: bool) {
        if has_left {
            self.counters.passed_on += 1;
        } else {
            self.counters.dropped += 1;
        }
    }

    fn deliver(&mut self, port: u8, from: Envelope, smp: &Mad, out: &mut impl Output) {
        self.counters.delivered += 1;
        out.deliver(port, from, smp);
    }

    /// Sends the answer to a request that came from `from`: a GetResp with the request's
    /// transaction, attribute and modifier (C14-30), on a directed route with the direction turned
    /// (C14-10) and by the LIDs of the way back (C14-11).
    fn reply(
        &mut self,
        port: u8,
        from: Envelope,
        smp: &mut Mad,
        status: u16,
        out: &mut impl Output,
    ) {
        self.counters.answered += 1;
        self.counters.refused += u64::from(status != 0);
        let mut header = MadHeader::parse(smp).expect("a whole MAD");
        header.method = method::GET_RESP;
        header.status = status;
        let is_directed = header.class == smp::CLASS_DIRECTED;
        if is_directed {
            header.status |= smp::DIRECTION;
        }

        header.emit(smp);
        let step = if is_directed {
            directed::departing(&self.directions(port), from.slid, smp)
        } else if self.is_own_lid(port, from.slid) {
            Step::Manager
        } else {
            Step::Lid(from.slid)
        };

        match step {
            // Answers never lead back into the agent, so this cannot recurse.
            Step::Here | Step::Manager => out.deliver(port, from, smp),
            Step::Out(exit) => {
                self.send_by_port(exit, Envelope::directed(from.sl), smp, out);
            }
            Step::Lid(dlid) => {
                // Section 14.2.1: as the request came to one of several LIDs, so the answer comes
                // from it.
                let slid = if from.dlid == PERMISSIVE_LID || is_directed {
                    self.lid(port)
                } else {
                    from.dlid
                };
                self.send_by_lid(port, Envelope { slid, dlid, ..from }, smp, out);
            }
            Step::Drop => {}
        }
    }

    /// Out by one port, if it has a link; `false` if not.
    fn send_by_port(&self, exit: u8, to: Envelope, smp: &Mad, out: &mut impl Output) -> bool {
        let can = self.port(exit).is_some_and(Port::has_link) && !self.is_internal(exit);
        if can {
            out.send(exit, to, smp);
        }
        can
    }

    /// Out by the port that the forwarding table names; a channel adapter's `port` knows only one
    /// way.
    fn send_by_lid(&self, port: u8, to: Envelope, smp: &Mad, out: &mut impl Output) -> bool {
        let exit = match &self.switch {
            Some(switch) if to.dlid != PERMISSIVE_LID => switch.unicast(to.dlid),
            _ => Some(port),
        };
        exit.is_some_and(|exit| self.send_by_port(exit, to, smp, out))
    }

    fn directions(&self, port: u8) -> Directions {
        Directions {
            is_switch: self.is_switch(),
            port,
            ports: self.config.ports,
        }
    }

    fn contains(&self, port: u8) -> bool {
        self.port(port).is_some()
    }

    /// Port 0 of a switch, which has no link.
    fn is_internal(&self, port: u8) -> bool {
        port == 0
    }

    /// The port whose LID and M_Key count: of a switch, port 0 for all.
    fn key_port(&self, port: u8) -> u8 {
        if self.is_switch() { 0 } else { port }
    }

    fn port_mut(&mut self, number: u8) -> Option<&mut Port> {
        let index = number.checked_sub(self.config.first_port())?;
        self.ports.get_mut(usize::from(index))
    }

    fn key_port_mut(&mut self, port: u8) -> &mut Port {
        let number = self.key_port(port);
        self.port_mut(number).expect("the caller has looked")
    }

    fn lid(&self, port: u8) -> u16 {
        self.port(self.key_port(port)).map_or(0, Port::lid)
    }

    fn is_own_lid(&self, port: u8, lid: u16) -> bool {
        self.port(self.key_port(port))
            .is_some_and(|port| port.has_lid(lid))
    }

    fn is_for_us(&self, port: u8, dlid: u16) -> bool {
        dlid == PERMISSIVE_LID || self.is_own_lid(port, dlid)
    }
}
