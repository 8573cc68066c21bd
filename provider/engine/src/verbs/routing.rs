//! From an address vector to a path: which port it leads to, and how a path by that port is opened.

use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;

use ferroce_control::{CongestionControl, GidEntry, Outlet};
use ferroce_transport::AddressVector;

use crate::datapath::path::Path;
use crate::error::{Error, Result};
use crate::hca::Hca;
use crate::port::address::{PathKey, gid_address};
use crate::port::ib::{self, Port};
use crate::port::mgid;
use crate::port::{CableExit, Medium, Ports, RingExit, UdpExit};
use crate::verbs::route::Route;

impl Route {
    /// To the peer of a connected queue pair.
    pub(super) fn to_peer(hca: &Hca, av: &AddressVector) -> Result<Route> {
        match hca.ports() {
            Ports::Infiniband(ports) => by_cable(ports, av),
            Ports::Ethernet(_) if !av.is_global => Err(NO_GRH),
            Ports::Ethernet(_) => {
                let gid = hca.gid(av.sgid_index)?;
                Ok(to_address(gid, gid_address(av.dgid), av))
            }
        }
    }

    /// To where an address handle leads. `to_itself`: without a GRH it may lead back to the port.
    pub(super) fn of_handle(
        hca: &Hca,
        av: &AddressVector,
        to_itself: impl FnOnce() -> bool,
    ) -> Result<Route> {
        match hca.ports() {
            Ports::Infiniband(ports) => {
                let route = by_cable(ports, av)?;
                // What is wrong with it shows now.
                route.key(0)?;
                Ok(route)
            }
            Ports::Ethernet(_) if av.port_num != 1 => {
                Err(Error::Invalid("the device has port 1 only"))
            }
            Ports::Ethernet(_) if av.is_global => {
                let gid = hca.gid(av.sgid_index)?;
                let remote = destination(av.dgid, gid.addr)?;
                Ok(to_address(gid, remote, av))
            }
            Ports::Ethernet(_) if to_itself() => {
                let gid = hca.gid(0)?;
                let own = gid.addr;
                Ok(to_address(gid, own, av))
            }
            Ports::Ethernet(_) => Err(NO_GRH),
        }
    }

    /// Makes sure that answers are received.
    pub(crate) fn listen(&self, hca: &Hca) -> Result<()> {
        match self {
            Route::Address { gid, .. } => hca.listen(gid),
            Route::Cable(port, _) => hca.listen_at(port),
        }
    }

    /// The path to queue pairs of a slot.
    pub(crate) fn path(&self, hca: &Hca, slot: u8) -> Result<Arc<Path>> {
        let key = self.key(slot)?;
        match self {
            Route::Cable(port, _) => hca.path_by_cable(key, port),
            Route::Address { gid, .. } => match hca.path_by_address(key, gid) {
                Err(e) => match around(key, &e) {
                    Some(around) => hca.path_by_address(around, gid),
                    None => Err(e),
                },
                path => path,
            },
        }
    }
}

const NO_GRH: Error = Error::Invalid("RoCE needs a GRH: set is_global and the destination GID");

fn by_cable(ports: &[Arc<Port>], av: &AddressVector) -> Result<Route> {
    let port = ib::find(ports, av.port_num)?;
    Ok(Route::Cable(port.clone(), *av))
}

fn to_address(gid: GidEntry, remote: IpAddr, av: &AddressVector) -> Route {
    Route::Address {
        gid,
        remote,
        traffic_class: av.traffic_class,
        hop_limit: av.hop_limit,
    }
}

/// The address that a GID stands for to a sender at `local`, if it can send there at all.
fn destination(dgid: [u8; 16], local: IpAddr) -> Result<IpAddr> {
    let remote = match mgid::groups(dgid) {
        Some(groups) => groups.of_family(local),
        None => Some(gid_address(dgid)),
    };
    match remote {
        Some(ip) if ip.is_unspecified() => Err(Error::Invalid("the destination GID is zero")),
        Some(ip) if ip.is_ipv4() == local.is_ipv4() => Ok(ip),
        _ => Err(Error::Invalid(
            "source and destination GID are of different families",
        )),
    }
}

/// An IPv6 group that a loopback cannot carry, as Linux has no route for it, is reached through the
/// IPv4 group that stands in for it.
fn around(key: PathKey, error: &Error) -> Option<PathKey> {
    let unreachable = error.errno() == libc::ENETUNREACH;
    match key.remote {
        IpAddr::V6(group) if unreachable && key.local.is_loopback() => Some(PathKey {
            local: Ipv4Addr::LOCALHOST.into(),
            remote: mgid::stand_in(group.octets()).into(),
            ..key
        }),
        _ => None,
    }
}

impl Hca {
    /// An error where the host has no route to an address. That a path is opened shows it, too, but
    /// a datagram's is not before the first one leaves, and that is lost then.
    pub(super) fn leads_somewhere(&self, route: &Route) -> Result<()> {
        match (self.ports(), route) {
            (Ports::Ethernet(Medium::Sockets), Route::Address { gid, remote, .. }) => {
                self.way_out(gid, *remote).map(drop)
            }
            _ => Ok(()),
        }
    }

    /// The path with this key by RoCE, opened if nobody has it yet: through memory if it leads to a
    /// process of this device, else by a socket.
    fn path_by_address(&self, key: PathKey, gid: &GidEntry) -> Result<Arc<Path>> {
        #[cfg(any(test, feature = "in-process"))]
        if let Ports::Ethernet(Medium::InProcess(end)) = self.ports() {
            return self.path_or(key, || Ok(end.exit(key)?.into()));
        }
        if let Some(path) = self.open_path(&key) {
            return Ok(path);
        }
        // Asked for first: the answer of the daemon is not waited for under the lock of the paths.
        let ring = self.ring_to(key);
        let outlet = Outlet::of_gid(gid, key.remote);
        let socket = self.send_socket(key, gid.index, &outlet)?;
        self.path_or(key, || {
            let (info, gso) = (self.info(), self.cuts_runs());
            let ecn = info.congestion == CongestionControl::Dcqcn;
            let udp = UdpExit::open(key, gid, socket, info.rcvbuf, gso, ecn)?;
            Ok(match ring {
                Some(ring) => RingExit::new(key, ring, udp).into(),
                None => udp.into(),
            })
        })
    }

    fn path_by_cable(&self, key: PathKey, port: &Arc<Port>) -> Result<Arc<Path>> {
        if let Some(path) = self.open_path(&key) {
            return Ok(path);
        }
        let outlet = Outlet::of_cable(key.local, key.remote);
        let socket = self.send_socket(key, port.index(), &outlet)?;
        self.path_or(key, || {
            let (buffer, gso) = (self.info().rcvbuf, self.cuts_runs());
            Ok(CableExit::open(key, port, socket, buffer, gso)?.into())
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_families_must_agree_and_groups_have_both() {
        let mapped = |ip: [u8; 4]| Ipv4Addr::from(ip).to_ipv6_mapped().octets();
        let v4 = IpAddr::from([127, 0, 0, 1]);
        let v6: IpAddr = "::1".parse().unwrap();
        assert_eq!(
            destination(mapped([10, 0, 0, 9]), v4).unwrap(),
            IpAddr::from([10, 0, 0, 9])
        );
        assert!(destination(mapped([10, 0, 0, 9]), v6).is_err());
        assert!(destination([0; 16], v6).is_err());
        let mut group = [0; 16];
        (group[0], group[1], group[15]) = (0xff, 1, 3);
        assert!(destination(group, v4).unwrap().is_multicast());
        assert!(destination(group, v6).unwrap().is_multicast());
    }
}
