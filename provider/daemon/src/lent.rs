//! Sockets of this network that a client in another one has been given. They are the client's to
//! close, and nobody tells when it does; what they hold, a port of an address or a membership, is
//! looked at instead.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::os::fd::OwnedFd;

use rustix::io::Errno;

use crate::udp_sockets;

/// The most that a client may have; a path takes one, and so does a group.
const MOST: usize = 4096;
/// How many of the oldest are looked at when another is wanted: more than one, so that those that
/// are closed are found sooner than new ones come.
const LOOKS: usize = 4;

/// The addresses that they are bound to, each once: all of a group count as one, as it is what the
/// interface knows of.
#[derive(Debug, Default)]
pub(crate) struct Lent(VecDeque<SocketAddr>);

impl Lent {
    /// Whether there may be another. Forgets some of those that are closed.
    pub(crate) fn has_room(&mut self) -> bool {
        for _ in 0..LOOKS.min(self.0.len()) {
            let oldest = self.0.pop_front();
            self.0
                .extend(oldest.filter(|address| udp_sockets::is_taken(*address)));
        }
        self.0.len() < MOST
    }

    /// One is handed over.
    pub(crate) fn add(&mut self, socket: &OwnedFd) -> Result<(), Errno> {
        let address = SocketAddr::try_from(rustix::net::getsockname(socket)?)?;
        if !address.ip().is_multicast() || !self.0.contains(&address) {
            self.0.push_back(address);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::{IpAddr, Ipv4Addr};

    use ferroce_control::{Outlet, outlet};

    const OWN: IpAddr = IpAddr::V4(Ipv4Addr::new(127, 0, 7, 46));

    fn sender() -> OwnedFd {
        Outlet::of_cable(OWN, OWN).open(0, 100).unwrap()
    }

    #[test]
    fn there_is_an_end_and_closed_ones_make_room() {
        let mut lent = Lent::default();
        let socket = sender();
        for _ in 0..MOST {
            assert!(lent.has_room());
            lent.add(&socket).unwrap();
        }
        assert!(!lent.has_room());
        drop(socket);
        assert!(lent.has_room());
        // Who has few at a time never comes to the end.
        for _ in 0..MOST {
            assert!(lent.has_room());
            lent.add(&sender()).unwrap();
        }
        assert!(lent.0.len() < MOST);
    }

    #[test]
    fn those_of_a_group_count_once() {
        let group = Ipv4Addr::new(239, 77, 3, 3).into();
        let member = || outlet::member(group, &[], 0).unwrap();
        let (mut lent, members) = (Lent::default(), [member(), member()]);
        for socket in &members {
            lent.add(socket).unwrap();
        }
        assert!(lent.has_room());
        assert_eq!(lent.0.len(), 1);
        drop(members);
        assert!(lent.has_room());
        assert_eq!(lent.0.len(), 0);
    }
}
