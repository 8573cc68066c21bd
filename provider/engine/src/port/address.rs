//! What names a path: the two endpoints and what its packets say of the way.

use std::net::{IpAddr, Ipv4Addr};

use ferroce_wire::link::LinkPacket;
use ferroce_wire::smp::is_multicast_lid;

use crate::port::ib::{Lids, Port};

/// What makes two QPs share a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct PathKey {
    pub(crate) local: IpAddr,
    pub(crate) remote: IpAddr,
    /// Top byte of the destination QPN.
    pub(crate) slot: u8,
    pub(crate) traffic_class: u8,
    pub(crate) hop_limit: u8,
    /// Of an InfiniBand port, whose cable's ends the addresses are.
    pub(crate) lids: Option<Lids>,
}

impl PathKey {
    /// Whether it leads to a group.
    pub(crate) fn is_multicast(&self) -> bool {
        match &self.lids {
            None => self.remote.is_multicast(),
            Some(lids) => is_multicast_lid(lids.dlid),
        }
    }

    /// Whether a packet is from the other end. `port`: the port off whose cable it came, and all of
    /// it.
    #[inline]
    pub(crate) fn is_from_peer(
        &self,
        from: IpAddr,
        to: IpAddr,
        port: Option<(&Port, &LinkPacket<'_>)>,
    ) -> bool {
        match (&self.lids, port) {
            (Some(lids), Some((port, packet))) => lids.is_from_peer(port.number, packet),
            (None, None) => self.remote == from && self.local == to,
            _ => false,
        }
    }
}

/// Only link-local addresses need an interface (a multicast group's is an option of the socket).
pub(crate) fn scope(ip: IpAddr, scope_id: u32) -> u32 {
    match ip {
        IpAddr::V6(ip) if ip.is_unicast_link_local() => scope_id,
        _ => 0,
    }
}

/// The GID that stands for an IP address.
pub(super) fn address_gid(ip: IpAddr) -> [u8; 16] {
    match ip {
        IpAddr::V4(ip) => ip.to_ipv6_mapped().octets(),
        IpAddr::V6(ip) => ip.octets(),
    }
}

/// The IP address that a GID stands for.
pub(crate) fn gid_address(gid: [u8; 16]) -> IpAddr {
    match gid {
        [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, a, b, c, d] => Ipv4Addr::new(a, b, c, d).into(),
        _ => std::net::Ipv6Addr::from(gid).into(),
    }
}
