//! Sockets that packets leave by, and those of multicast groups: made by a program for itself, or
//! by the daemon for a program in another network namespace, where the addresses and interfaces
//! are.

use std::net::{IpAddr, Ipv4Addr, SocketAddr, SocketAddrV6};
use std::os::fd::{AsFd, OwnedFd};

use ferroce_wire::ROCE_V2_PORT;
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketFlags, SocketType, sockopt as options};

use crate::{ControlError, GidEntry, routes, udp};

/// RoCEv2's source ports carry path entropy in the dynamic range.
pub const FIRST_PORT: u16 = 0xc000;
/// How many they are.
pub const PORTS: u16 = 0x4000;

/// Where a socket's packets come from and go to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Outlet {
    from: SocketAddr,
    to: IpAddr,
    /// Its index; 0: the host's routes say by which one.
    interface: u32,
}

impl Outlet {
    /// From a GID's address to another, or to a group. From IPv6's loopback address a group of IPv4
    /// is reached from 127.0.0.1.
    pub fn of_gid(gid: &GidEntry, to: IpAddr) -> Self {
        let from = match gid.addr {
            IpAddr::V6(ip) if ip.is_loopback() && to.is_ipv4() && to.is_multicast() => {
                SocketAddr::new(Ipv4Addr::LOCALHOST.into(), 0)
            }
            IpAddr::V6(ip) => SocketAddrV6::new(ip, 0, 0, gid.scope_id).into(),
            IpAddr::V4(_) => SocketAddr::new(gid.addr, 0),
        };
        Self {
            from,
            to,
            interface: gid.ifindex,
        }
    }

    /// From an InfiniBand port's end of its cable.
    pub fn of_cable(from: IpAddr, to: IpAddr) -> Self {
        Self {
            from: SocketAddr::new(from, 0),
            to,
            interface: 0,
        }
    }

    /// The socket, bound to the first source port that is free from `first` on, of so many. Errors:
    /// `EAFNOSUPPORT` (the addresses are of two families), what [`way_out`](Self::way_out) says,
    /// `ENOMEM` (no port is free), the kernel's.
    pub fn open(&self, first: u16, tries: u16) -> Result<OwnedFd, ControlError> {
        if self.from.is_ipv4() != self.to.is_ipv4() {
            let what = "source and destination GID are of different families";
            return Err(ControlError::io(what)(Errno::AFNOSUPPORT));
        }
        let socket = datagrams(self.to).map_err(ControlError::io("creating a send socket"))?;

        if self.interface != 0 {
            match self.to.is_multicast() {
                true => self.leave_by(&socket, None)?,
                // Else packets leave as the host's routes say.
                false => drop(self.leave_by(&socket, self.way_out()?)),
            }
            self.try_group()?;
        }

        let mut port = FIRST_PORT + first % PORTS;
        for _ in 0..tries {
            let mut from = self.from;
            from.set_port(port);
            match rustix::net::bind(&socket, &from) {
                Ok(()) => return Ok(socket),
                Err(Errno::ADDRINUSE) => port = FIRST_PORT + (port - FIRST_PORT + 1) % PORTS,
                Err(errno) => {
                    let what = "binding a send socket to the GID's address";
                    return Err(ControlError::io(what)(errno));
                }
            }
        }
        Err(ControlError::io("UDP source ports 49152-65535")(
            Errno::NOMEM,
        ))
    }

    /// The interface by which packets should leave, if it is that of the GID; not for groups. An
    /// error where there is no route by any (`ENETUNREACH`, `EHOSTUNREACH`).
    pub fn way_out(&self) -> Result<Option<u32>, ControlError> {
        routes::way_out(self.from.ip(), self.to, self.interface).map_err(|source| {
            ControlError::Io {
                what: "finding a route to the destination GID",
                source,
            }
        })
    }

    /// Multicast leaves through the GID's interface; it comes back to this host's own members by
    /// default. What goes to other hosts does so, too, if there is a route by it (`out`): two
    /// interfaces may be in one subnet, and the peer expects either address where it is. May be
    /// said again when the GID is on another interface. Interfaces are those of the socket's
    /// network, whoever says it.
    pub fn leave_by(&self, socket: impl AsFd, out: Option<u32>) -> Result<(), ControlError> {
        let chosen = match self.from.ip() {
            _ if !self.to.is_multicast() => {
                udp::leave_through(socket, self.to.is_ipv4(), out.unwrap_or(0))
            }
            // By the address alone it would be whichever interface has that first.
            IpAddr::V4(own) => {
                let any = Ipv4Addr::UNSPECIFIED;
                options::set_ip_multicast_if_with_ifindex(socket, &any, &own, self.interface)
            }
            IpAddr::V6(_) => options::set_ipv6_multicast_if(socket, self.interface),
        };
        chosen.map_err(ControlError::io("choosing the interface of a send socket"))
    }

    /// Linux has no route for IPv6 multicast through a loopback. Better known now than with every
    /// packet.
    fn try_group(&self) -> Result<(), ControlError> {
        let IpAddr::V6(group) = self.to else {
            return Ok(());
        };
        if !group.is_multicast() {
            return Ok(());
        }
        let to = SocketAddrV6::new(group, ROCE_V2_PORT, 0, self.interface);
        let probe = datagrams(self.to).and_then(|probe| {
            options::set_ipv6_multicast_if(&probe, self.interface)?;
            rustix::net::connect(&probe, &to)
        });
        probe.map_err(ControlError::io("choosing the interface of multicast"))
    }
}

/// Whether a group is another one on each link, so that its members need a socket for each (RFC
/// 4291, 2.7: scopes 1 and 2).
pub fn is_of_a_link(group: IpAddr) -> bool {
    matches!(group, IpAddr::V6(ip) if ip.is_multicast() && matches!(ip.octets()[1] & 15, 1 | 2))
}

/// A socket that receives what comes for a group through any of these interfaces; of one that is
/// [of a link](is_of_a_link), through the first. `buffer`: bytes of a slot's socket, which the
/// kernel reports at twice the size asked for.
pub fn member(group: IpAddr, interfaces: &[u32], buffer: u32) -> Result<OwnedFd, ControlError> {
    let socket = datagrams(group).map_err(ControlError::io("creating a multicast socket"))?;
    options::set_socket_reuseaddr(&socket, true)
        .map_err(ControlError::io("sharing a multicast group"))?;

    // As large as the slots' sockets, if this process may.
    let _ = udp::enlarge(&socket, buffer as usize / 2);
    let first = interfaces.first().copied().unwrap_or(0);
    let address = match group {
        IpAddr::V4(_) => SocketAddr::new(group, ROCE_V2_PORT),
        IpAddr::V6(ip) => SocketAddrV6::new(ip, ROCE_V2_PORT, 0, first).into(),
    };

    // What others on this host have joined is none of our business.
    let _ = match group {
        IpAddr::V4(_) => udp::set(&socket, (libc::IPPROTO_IP, libc::IP_MULTICAST_ALL), 0),
        IpAddr::V6(_) => options::set_ipv6_v6only(&socket, true)
            .and_then(|()| udp::set(&socket, (libc::IPPROTO_IPV6, IPV6_MULTICAST_ALL), 0)),
    };
    if group.is_ipv6() {
        let _ = udp::take_without_checksum(&socket);
    }

    rustix::net::bind(&socket, &address)
        .map_err(ControlError::io("binding to a multicast group"))?;
    for &interface in interfaces {
        match group {
            IpAddr::V4(ip) => join(&socket, ip, interface),
            IpAddr::V6(ip) => options::set_ipv6_add_membership(&socket, &ip, interface),
        }
        .map_err(ControlError::io("joining a multicast group"))?;
    }
    Ok(socket)
}

/// Not known to the C library of every target.
const IPV6_MULTICAST_ALL: libc::c_int = 29;

fn join(socket: &OwnedFd, group: Ipv4Addr, interface: u32) -> Result<(), Errno> {
    let any = Ipv4Addr::UNSPECIFIED;
    options::set_ip_add_membership_with_ifindex(socket, &group, &any, interface)
}

fn datagrams(of: IpAddr) -> Result<OwnedFd, Errno> {
    let family = match of {
        IpAddr::V4(_) => AddressFamily::INET,
        IpAddr::V6(_) => AddressFamily::INET6,
    };
    rustix::net::socket_with(family, SocketType::DGRAM, SocketFlags::CLOEXEC, None)
}
