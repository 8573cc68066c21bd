//! Where the kernel would send a packet first, and whether it knows the hardware address there.

use std::io;
use std::net::IpAddr;

use ferroce_control::routes::Route;
use ferroce_control::rtnetlink::{Attribute, Question, Socket, address};

/// Bytes of `struct ndmsg` and of `struct ifinfomsg`.
const NEIGHBOUR: usize = 12;
const LINK: usize = 16;

/// States of a neighbour in which packets go to it, or would without its address.
const VALID: u16 = libc::NUD_PERMANENT
    | libc::NUD_NOARP
    | libc::NUD_REACHABLE
    | libc::NUD_PROBE
    | libc::NUD_STALE
    | libc::NUD_DELAY;

/// The other host to which packets go first: their destination, or a gateway.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Hop {
    /// By which interface.
    pub(crate) ifindex: u32,
    /// Its address.
    pub(crate) ip: IpAddr,
}

/// What is known of a neighbour.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Neighbour {
    /// Its hardware address, or that it needs none.
    Known,
    /// Nothing, but somebody has asked for it already.
    Sought,
    /// Nothing.
    Unknown,
}

impl Hop {
    /// The first hop of a route to a destination, if that leads to another host, by one interface.
    pub(crate) fn of(route: &Route, to: IpAddr) -> Option<Self> {
        let ifindex = route.interface.filter(|_| route.is_far())?;
        Some(Self {
            ifindex,
            ip: route.gateway.unwrap_or(to),
        })
    }

    /// What is known of it. Kernels before 5.0 do not tell: an error.
    pub(crate) fn neighbour(&self, kernel: &Socket) -> io::Result<Neighbour> {
        let (family, address) = address(self.ip);
        let mut header = [0; NEIGHBOUR];
        header[0] = family;
        header[4..8].copy_from_slice(&self.ifindex.to_ne_bytes());
        let answer = kernel.ask(&Question {
            request: libc::RTM_GETNEIGH,
            header: &header,
            attributes: &[Attribute::new(libc::NDA_DST, address)],
        });
        match answer {
            Ok(answer) => Ok(neighbour_of(&answer)),
            Err(error) if error.raw_os_error() == Some(libc::ENOENT) => Ok(Neighbour::Unknown),
            Err(error) => Err(error),
        }
    }

    /// Whether its interface asks neighbours for their addresses.
    pub(crate) fn is_asked(&self, kernel: &Socket) -> io::Result<bool> {
        let mut header = [0; LINK];
        header[4..8].copy_from_slice(&self.ifindex.to_ne_bytes());
        let answer = kernel.ask(&Question {
            request: libc::RTM_GETLINK,
            header: &header,
            attributes: &[],
        })?;
        let flags = answer.get(8..).and_then(|flags| flags.first_chunk());
        let flags = flags.map_or(0, |flags| i32::from_ne_bytes(*flags));
        let none = libc::IFF_LOOPBACK | libc::IFF_NOARP | libc::IFF_POINTOPOINT;
        Ok(flags & none == 0)
    }
}

/// A message of type `RTM_NEWNEIGH`, from its `struct ndmsg` on.
fn neighbour_of(message: &[u8]) -> Neighbour {
    let state = message.get(8..).and_then(|state| state.first_chunk());
    match state.map_or(0, |state| u16::from_ne_bytes(*state)) {
        state if state & VALID != 0 => Neighbour::Known,
        state if state & libc::NUD_INCOMPLETE != 0 => Neighbour::Sought,
        _ => Neighbour::Unknown,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_another_host_is_a_hop() {
        let to = IpAddr::from([192, 0, 2, 9]);
        let route = Route {
            kind: libc::RTN_UNICAST,
            prefix_len: 24,
            table: 254,
            interface: Some(7),
            gateway: None,
            source: None,
        };
        let hop = |ip| Some(Hop { ifindex: 7, ip });
        assert_eq!(Hop::of(&route, to), hop(to));
        let at = IpAddr::from([10, 0, 0, 1]);
        let gateway = Some(at);
        assert_eq!(Hop::of(&Route { gateway, ..route }, to), hop(at));
        let interface = None;
        assert_eq!(Hop::of(&Route { interface, ..route }, to), None);
        let kind = libc::RTN_LOCAL;
        assert_eq!(Hop::of(&Route { kind, ..route }, to), None);
    }

    #[test]
    fn the_loopback_asks_nobody() {
        let kernel = Socket::default();
        let hop = Hop {
            ifindex: 1,
            ip: IpAddr::from([127, 0, 0, 1]),
        };
        assert!(!hop.is_asked(&kernel).unwrap());
        // There may be none of them, and never one that is waited for.
        assert_ne!(hop.neighbour(&kernel).unwrap(), Neighbour::Sought);
        let nowhere = Hop {
            ifindex: 0x7fff_fff0,
            ..hop
        };
        assert!(nowhere.is_asked(&kernel).is_err());
    }

    #[test]
    fn a_neighbour_is_known_while_packets_go_to_it() {
        let state = |state: u16| {
            let mut bytes = [0; NEIGHBOUR];
            bytes[8..10].copy_from_slice(&state.to_ne_bytes());
            neighbour_of(&bytes)
        };
        for known in [libc::NUD_REACHABLE, libc::NUD_STALE, libc::NUD_PERMANENT] {
            assert_eq!(state(known), Neighbour::Known);
        }
        assert_eq!(state(libc::NUD_INCOMPLETE), Neighbour::Sought);
        for unknown in [libc::NUD_NONE, libc::NUD_FAILED] {
            assert_eq!(state(unknown), Neighbour::Unknown);
        }
        assert_eq!(neighbour_of(&[]), Neighbour::Unknown);
    }
}
