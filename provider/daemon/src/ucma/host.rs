//! The host as the server sees it while it does something.

use ferroce_control::rtnetlink::Socket;
use ferroce_control::{DeviceInfo, IbPort};
use ferroce_fabric::cm::Time;

use crate::gids::GidTable;
use crate::interfaces::Snapshot;

/// What the server looks at beyond its own.
pub(crate) struct Host<'a> {
    /// The device's addresses.
    pub gids: &'a GidTable,
    /// The device.
    pub info: &'a DeviceInfo,
    /// The host's interfaces.
    pub snapshot: &'a Snapshot,
    /// Who knows the host's routes and neighbours.
    pub kernel: &'a Socket,
    /// Whether its addresses were given, and not an interface, whose addresses they are.
    pub given: bool,
    /// The device's ports, if they are InfiniBand's.
    pub ports: &'a [IbPort],
    /// Now.
    pub now: Time,
}

impl<'a> Host<'a> {
    /// Whether the ports are InfiniBand's.
    pub(super) fn is_ib(&self) -> bool {
        !self.ports.is_empty()
    }

    /// One of these, from 1.
    pub(super) fn port(&self, number: u8) -> Option<&'a IbPort> {
        self.ports.iter().find(|port| port.number == number)
    }
}
