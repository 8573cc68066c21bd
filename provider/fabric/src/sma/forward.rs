//! The way of packets through a switch, by their destination LID.

use super::port_set::PortSet;
use super::{Node, Port};
use ferroce_wire::smp::{MULTICAST_LID, PERMISSIVE_LID};

/// Why a switch does not pass a packet on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Discard {
    /// The port by which it came may not take data.
    NotReceiving,
    /// No LID, or none that the tables know.
    NoRoute,
    /// The port that it should leave by is not active.
    NotSending,
    /// It would leave by the port by which it came.
    Looping,
    /// This node is no switch.
    NoSwitch,
}

/// Where a packet goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Route {
    /// To the switch itself: to [`Node::receive`] if it is an SMP.
    Local,
    /// Out by this port.
    Port(u8),
    /// Out by all of these ports; port 0 is the switch itself.
    Ports(PortSet),
    /// Nowhere.
    Drop(Discard),
}

impl Node {
    /// Where a packet goes that came in by `port` (0: from the switch itself), for `dlid`. On lane
    /// 15 (`is_management`) it needs only links, otherwise active ports. Changes nothing.
    pub fn forward(&self, port: u8, dlid: u16, is_management: bool) -> Route {
        let Some(switch) = &self.switch else {
            return Route::Drop(Discard::NoSwitch);
        };

        let can = |number: u8| {
            self.port(number)
                .is_some_and(|port| port.is_active() || is_management && port.has_link())
        };
        if !can(port) {
            return Route::Drop(Discard::NotReceiving);
        }
        if dlid == PERMISSIVE_LID || self.port(0).is_some_and(|own| Port::has_lid(own, dlid)) {
            return Route::Local;
        }

        if dlid < MULTICAST_LID {
            return match switch.unicast(dlid) {
                None => Route::Drop(Discard::NoRoute),
                Some(0) => Route::Local,
                Some(exit) if exit == port => Route::Drop(Discard::Looping),
                Some(exit) if can(exit) => Route::Port(exit),
                Some(_) => Route::Drop(Discard::NotSending),
            };
        }

        let mut exits = PortSet::default();
        let mut members = false;
        let wanted = match switch.multicast(dlid) {
            Some(ports) if !ports.is_empty() => *ports,
            _ => self.default_multicast(port),
        };

        for exit in wanted.iter().filter(|exit| *exit != port) {
            members = true;
            if can(exit) {
                exits.insert(exit);
            }
        }

        match (exits.is_empty(), members) {
            (false, _) => Route::Ports(exits),
            (true, true) => Route::Drop(Discard::NotSending),
            (true, false) => Route::Drop(Discard::NoRoute),
        }
    }

    /// Where packets go to a multicast LID without members: to the primary port, or if they came by
    /// it to the other.
    fn default_multicast(&self, port: u8) -> PortSet {
        let mut ports = PortSet::default();
        if let Some(switch) = &self.switch {
            let primary = switch.info.default_multicast_primary_port;
            let exit = if port == primary {
                switch.info.default_multicast_not_primary_port
            } else {
                primary
            };
            if self.port(exit).is_some() {
                ports.insert(exit);
            }
        }
        ports
    }
}
