//! A socket that sends: its source port and its options.

use std::io;
use std::net::{IpAddr, SocketAddr, SocketAddrV6};
use std::os::fd::AsRawFd;

use ferroce_control::udp::leave_through;
use ferroce_control::{GidEntry, routes};
use ferroce_wire::ROCE_V2_PORT;
use socket2::{Domain, Protocol, SockAddr, Socket, Type};

use crate::error::{Error, Result};
use crate::port::address::{PathKey, address_gid, scope};

/// RoCEv2's source ports carry path entropy in the dynamic range.
const FIRST_PORT: u16 = 0xc000;
const PORTS: u16 = 0x4000;

/// Takes the first source port that is free from the flow's own on; returns it.
pub(in crate::port) fn bind(
    socket: &Socket,
    key: PathKey,
    scope_id: u32,
    own_slot: u8,
) -> Result<u16> {
    let mut port = FIRST_PORT + start_port(key, own_slot);
    for _ in 0..PORTS {
        let address = match key.local {
            IpAddr::V4(ip) => SockAddr::from(SocketAddr::new(ip.into(), port)),
            IpAddr::V6(ip) => {
                SockAddr::from(SocketAddrV6::new(ip, port, 0, scope(ip.into(), scope_id)))
            }
        };
        match socket.bind(&address) {
            Ok(()) => return Ok(port),
            Err(e) if e.raw_os_error() == Some(libc::EADDRINUSE) => {
                port = FIRST_PORT + (port - FIRST_PORT + 1) % PORTS;
            }
            Err(e) => return Err(Error::io("binding a send socket to the GID's address", e)),
        }
    }

    Err(Error::Full("UDP source ports 49152-65535"))
}

/// Multicast leaves through the GID's interface; it comes back to this host's own members by
/// default.
pub(super) fn through_interface(socket: &Socket, key: PathKey, gid: &GidEntry) -> Result<()> {
    let io = |e| Error::io("choosing the interface of multicast", e);
    match (key.local, key.remote) {
        (IpAddr::V4(local), _) => socket.set_multicast_if_v4(&local).map_err(io),
        (_, IpAddr::V6(group)) => {
            socket.set_multicast_if_v6(gid.ifindex).map_err(io)?;
            // Linux has no route for IPv6 multicast through a loopback. Better known now than with
            // every packet.
            let probe = Socket::new(Domain::IPV6, Type::DGRAM, Some(Protocol::UDP)).map_err(io)?;
            probe.set_multicast_if_v6(gid.ifindex).map_err(io)?;
            let to = SocketAddrV6::new(group, ROCE_V2_PORT, 0, gid.ifindex);
            probe.connect(&to.into()).map_err(io)
        }
        _ => Ok(()),
    }
}

/// What goes to other hosts leaves through the GID's interface as multicast does, if there is a
/// route by it: two interfaces may be in one subnet, and the peer expects either address where it
/// is. May be said again when the GID is on another interface. An error where there is no route
/// now: packets leave as the host's routes say once there is one.
pub(super) fn leave_by_interface(socket: &Socket, key: PathKey, gid: &GidEntry) -> Result<()> {
    let route = find_route(key.local, key.remote, gid);
    let interface = route.as_ref().map_or(0, |interface| interface.unwrap_or(0));
    if let Err(error) = leave_through(socket, key.local.is_ipv4(), interface) {
        tracing::debug!(%error, interface, "packets leave as the host's routes say");
    }
    route.map(drop)
}

/// The interface by which a GID's packets to an address should leave, if it is that of the GID. An
/// error where there is no route by any.
pub(crate) fn find_route(local: IpAddr, remote: IpAddr, gid: &GidEntry) -> Result<Option<u32>> {
    routes::way_out(local, remote, gid.ifindex)
        .map_err(|e| Error::io("finding a route to the destination GID", e))
}

/// FNV-1a over what distinguishes the flow.
fn start_port(key: PathKey, own_slot: u8) -> u16 {
    let hash = address_gid(key.remote)
        .into_iter()
        .chain([key.slot, own_slot, key.traffic_class])
        .chain(key.lids.map_or([0; 2], |lids| lids.dlid.to_be_bytes()))
        .fold(0x811c_9dc5u32, |h, b| {
            (h ^ u32::from(b)).wrapping_mul(0x0100_0193)
        });
    (hash ^ hash >> 16) as u16 % PORTS
}

pub(super) enum OptionKind {
    /// DF, whatever anybody says of the path's MTU: with `IP_PMTUDISC_DO` one forged ICMP message
    /// has the kernel refuse everything longer to that peer for ten minutes.
    DontFragment,
    TrafficClass,
    HopLimit,
    MulticastHops,
}

pub(super) fn option(
    socket: &Socket,
    family: IpAddr,
    kind: OptionKind,
    value: libc::c_int,
) -> io::Result<()> {
    let v4 = family.is_ipv4();
    let (level, name, value) = match kind {
        OptionKind::DontFragment if v4 => (
            libc::IPPROTO_IP,
            libc::IP_MTU_DISCOVER,
            libc::IP_PMTUDISC_PROBE,
        ),
        OptionKind::DontFragment => (
            libc::IPPROTO_IPV6,
            libc::IPV6_MTU_DISCOVER,
            libc::IPV6_PMTUDISC_PROBE,
        ),
        OptionKind::TrafficClass if v4 => (libc::IPPROTO_IP, libc::IP_TOS, value),
        OptionKind::TrafficClass => (libc::IPPROTO_IPV6, libc::IPV6_TCLASS, value),
        OptionKind::HopLimit if v4 => (libc::IPPROTO_IP, libc::IP_TTL, value),
        OptionKind::HopLimit => (libc::IPPROTO_IPV6, libc::IPV6_UNICAST_HOPS, value),
        OptionKind::MulticastHops if v4 => (libc::IPPROTO_IP, libc::IP_MULTICAST_TTL, value),
        OptionKind::MulticastHops => (libc::IPPROTO_IPV6, libc::IPV6_MULTICAST_HOPS, value),
    };

    // SAFETY: `value` is an int that outlives the call.
    let rc = unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            level,
            name,
            (&raw const value).cast(),
            size_of::<libc::c_int>() as u32,
        )
    };

    if rc == 0 {
        Ok(())
    } else {
        Err(io::Error::last_os_error())
    }
}
