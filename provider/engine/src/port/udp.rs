//! RoCEv2: UDP datagrams, each with one packet.

mod exit;
mod sender;
mod socket;

use std::net::IpAddr;

use super::flows::{Checks, Flows};
use super::{Incoming, Opened};
use crate::port::Look;

pub(crate) use exit::UdpExit;
pub(super) use sender::Sender;
pub(crate) use socket::first_port;

/// A run of one flow's datagrams.
pub(crate) struct Udp {
    place: usize,
    checks: Checks,
}

impl Udp {
    /// A run from this address and source port to this address. `None`: addresses of two families.
    pub(crate) fn of_flow(flows: &mut Flows, from: IpAddr, port: u16, to: IpAddr) -> Option<Udp> {
        let (place, checks) = flows.find(from, port, to)?;
        Some(Udp { place, checks })
    }

    /// The run has been handled: remembers how its sender numbers packets.
    pub(crate) fn keep(self, flows: &mut Flows) {
        flows.keep(self.place, self.checks);
    }
}

impl Incoming for Udp {
    fn look(&self, source_port: u16) -> Look {
        Look::Udp(source_port)
    }

    /// By the ICRC (section 7.8.1).
    #[inline]
    fn verify(&mut self, opened: &Opened<'_>, place: u16) -> Option<u16> {
        let bytes = opened.transport.private()?;
        self.checks.verify(bytes, place)
    }
}
