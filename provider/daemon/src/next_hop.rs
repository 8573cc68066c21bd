//! Where the kernel would send a packet, and whether it knows the hardware address there: single
//! questions of rtnetlink(7), which anybody may ask. Reads only, and never waits: the kernel
//! answers while it is asked.

use std::io;
use std::net::IpAddr;

use netlink_packet_core::{
    NLA_ALIGNTO, NLM_F_REQUEST, NLMSG_ERROR, NetlinkBuffer, NlasIterator, parse_ip, parse_u32,
};
use netlink_sys::protocols::NETLINK_ROUTE;
use netlink_sys::{Socket, SocketAddr};

/// Bytes of `struct nlmsghdr`, of `struct rtmsg`, of `struct ndmsg` and of `struct ifinfomsg`.
const HEADER: usize = 16;
const ROUTE: usize = 12;
const NEIGHBOUR: usize = 12;
const LINK: usize = 16;
/// `enum rtattr_type_t`; not known to the C library of every target.
const RTA_VIA: u16 = 18;

/// States of a neighbour in which packets go to it, or would without its address.
const VALID: u16 = libc::NUD_PERMANENT
    | libc::NUD_NOARP
    | libc::NUD_REACHABLE
    | libc::NUD_PROBE
    | libc::NUD_STALE
    | libc::NUD_DELAY;

/// Where packets for a destination go first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Hop {
    /// By which interface.
    pub(crate) ifindex: u32,
    /// To whom: the destination, or a gateway.
    pub(crate) ip: IpAddr,
    /// Whether that is another host.
    pub(crate) is_far: bool,
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

/// Whom to ask.
#[derive(Debug)]
pub(crate) struct Kernel {
    socket: Socket,
}

impl Kernel {
    /// Gets ready to ask.
    pub(crate) fn open() -> io::Result<Self> {
        let mut socket = Socket::new(NETLINK_ROUTE)?;
        socket.bind_auto()?;
        socket.connect(&SocketAddr::new(0, 0))?;
        socket.set_non_blocking(true)?;
        Ok(Self { socket })
    }

    /// The first hop to a destination; a link-local one needs its interface.
    pub(crate) fn hop(&self, to: IpAddr, from: Option<IpAddr>, scope: u32) -> io::Result<Hop> {
        let (family, dst) = bytes_of(to);
        let src = from.map(|from| bytes_of(from).1);
        let interface = scope.to_ne_bytes();
        let mut header = [0; ROUTE];
        header[0] = family;
        header[1] = dst.len() as u8 * 8;
        let mut attributes = vec![(libc::RTA_DST, &dst[..])];
        if let Some(src) = &src {
            header[2] = src.len() as u8 * 8;
            attributes.push((libc::RTA_SRC, src));
        }
        if scope != 0 {
            attributes.push((libc::RTA_OIF, &interface));
        }

        let answer = self.ask(libc::RTM_GETROUTE, &header, &attributes, libc::RTM_NEWROUTE)?;
        hop_of(&answer, to).ok_or(io::ErrorKind::InvalidData.into())
    }

    /// What is known of the next hop. Kernels before 5.0 do not tell: an error.
    pub(crate) fn neighbour(&self, hop: &Hop) -> io::Result<Neighbour> {
        let (family, address) = bytes_of(hop.ip);
        let mut header = [0; NEIGHBOUR];
        header[0] = family;
        header[4..8].copy_from_slice(&hop.ifindex.to_ne_bytes());
        let attributes = [(libc::NDA_DST, &address[..])];
        let answer = self.ask(libc::RTM_GETNEIGH, &header, &attributes, libc::RTM_NEWNEIGH);
        match answer {
            Ok(answer) => Ok(neighbour_of(&answer)),
            Err(error) if error.raw_os_error() == Some(libc::ENOENT) => Ok(Neighbour::Unknown),
            Err(error) => Err(error),
        }
    }

    /// Whether an interface asks its neighbours for their addresses.
    pub(crate) fn asks_neighbours(&self, ifindex: u32) -> io::Result<bool> {
        let mut header = [0; LINK];
        header[4..8].copy_from_slice(&ifindex.to_ne_bytes());
        let answer = self.ask(libc::RTM_GETLINK, &header, &[], libc::RTM_NEWLINK)?;
        let flags = answer.get(8..).and_then(|flags| flags.first_chunk());
        let flags = flags.map_or(0, |flags| i32::from_ne_bytes(*flags));
        let none = libc::IFF_LOOPBACK | libc::IFF_NOARP | libc::IFF_POINTOPOINT;
        Ok(flags & none == 0)
    }

    /// What is behind the netlink header of the answer to a question.
    fn ask(
        &self,
        question: u16,
        header: &[u8],
        attributes: &[(u16, &[u8])],
        wanted: u16,
    ) -> io::Result<Vec<u8>> {
        let mut bytes = vec![0; HEADER];
        bytes.extend_from_slice(header);
        for (kind, value) in attributes {
            bytes.extend((value.len() as u16 + 4).to_ne_bytes());
            bytes.extend(kind.to_ne_bytes());
            bytes.extend(*value);
            bytes.resize(bytes.len().next_multiple_of(NLA_ALIGNTO), 0);
        }

        let len = bytes.len() as u32;
        let mut message = NetlinkBuffer::new(&mut bytes);
        message.set_length(len);
        message.set_message_type(question);
        message.set_flags(NLM_F_REQUEST);
        message.set_sequence_number(1);
        self.socket.send(&bytes, 0)?;

        let (bytes, _) = self.socket.recv_from_full()?;
        let unfit = |_| io::Error::from(io::ErrorKind::InvalidData);
        let message = NetlinkBuffer::new_checked(bytes.as_slice()).map_err(unfit)?;
        let body = message.payload();
        match message.message_type() {
            kind if kind == wanted => Ok(body.to_vec()),
            NLMSG_ERROR => {
                let errno = body
                    .first_chunk()
                    .map_or(0, |errno| i32::from_ne_bytes(*errno));
                Err(io::Error::from_raw_os_error(errno.saturating_neg()))
            }
            _ => Err(io::ErrorKind::InvalidData.into()),
        }
    }
}

/// An address as messages have it, with its family.
fn bytes_of(ip: IpAddr) -> (u8, Vec<u8>) {
    match ip {
        IpAddr::V4(ip) => (libc::AF_INET as u8, ip.octets().to_vec()),
        IpAddr::V6(ip) => (libc::AF_INET6 as u8, ip.octets().to_vec()),
    }
}

/// A message of type `RTM_NEWROUTE`, from its `struct rtmsg` on.
fn hop_of(message: &[u8], to: IpAddr) -> Option<Hop> {
    let (header, attributes) = message.split_at_checked(ROUTE)?;
    let (mut ifindex, mut ip) = (None, to);
    for attribute in NlasIterator::new(attributes).map_while(Result::ok) {
        let value = attribute.value();
        match attribute.kind() {
            libc::RTA_OIF => ifindex = parse_u32(value).ok(),
            libc::RTA_GATEWAY => ip = parse_ip(value).ok()?,
            // A gateway of the other family, which stands before it.
            RTA_VIA => ip = parse_ip(value.get(2..)?).ok()?,
            _ => {}
        }
    }

    Some(Hop {
        ifindex: ifindex?,
        ip,
        is_far: header[7] == libc::RTN_UNICAST,
    })
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
    fn what_is_of_this_host_is_not_far() {
        let kernel = Kernel::open().unwrap();
        let hop = kernel.hop("127.0.0.1".parse().unwrap(), None, 0).unwrap();
        assert!(!hop.is_far, "{hop:?}");
        assert!(!kernel.asks_neighbours(hop.ifindex).unwrap());
        // There may be none of them, and never one that is waited for.
        assert_ne!(kernel.neighbour(&hop).unwrap(), Neighbour::Sought);
        assert!(kernel.asks_neighbours(0x7fff_fff0).is_err());
    }

    #[test]
    fn a_gateway_is_the_next_hop_of_either_family() {
        let to = IpAddr::from([192, 0, 2, 9]);
        let said = |kind: u8, more: &[(u16, &[u8])]| {
            let mut bytes = vec![2, 32, 0, 0, 254, 3, 0, kind, 0, 0, 0, 0];
            for (kind, value) in more {
                bytes.extend((value.len() as u16 + 4).to_ne_bytes());
                bytes.extend(kind.to_ne_bytes());
                bytes.extend(*value);
                bytes.resize(bytes.len().next_multiple_of(4), 0);
            }
            hop_of(&bytes, to)
        };
        let by = 7u32.to_ne_bytes();
        let out = (libc::RTA_OIF, &by[..]);
        let hop = |ip, is_far| {
            Some(Hop {
                ifindex: 7,
                ip,
                is_far,
            })
        };
        assert_eq!(said(libc::RTN_UNICAST, &[out]), hop(to, true));
        assert_eq!(said(libc::RTN_LOCAL, &[out]), hop(to, false));
        let gateway = (libc::RTA_GATEWAY, &[10, 0, 0, 1][..]);
        let at = IpAddr::from([10, 0, 0, 1]);
        assert_eq!(said(libc::RTN_UNICAST, &[gateway, out]), hop(at, true));
        let v6: std::net::Ipv6Addr = "fe80::1".parse().unwrap();
        let via = [&(libc::AF_INET6 as u16).to_ne_bytes()[..], &v6.octets()].concat();
        let via = (RTA_VIA, &via[..]);
        assert_eq!(said(libc::RTN_UNICAST, &[out, via]), hop(v6.into(), true));
        assert_eq!(said(libc::RTN_UNICAST, &[gateway]), None);
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
