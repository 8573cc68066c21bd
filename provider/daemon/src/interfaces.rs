//! What the kernel knows of network interfaces and their addresses, by rtnetlink.
//! Reads only; and as notifications can be lost, a change means reading everything anew.

use std::io;
use std::net::IpAddr;
use std::os::fd::{AsFd, BorrowedFd};

use netlink_packet_core::{
    NLA_ALIGNTO, NLM_F_DUMP, NLM_F_REQUEST, NLMSG_DONE, NLMSG_ERROR, NetlinkBuffer, NlasIterator,
    parse_ip, parse_mac, parse_u32,
};
use netlink_sys::protocols::NETLINK_ROUTE;
use netlink_sys::{Socket, SocketAddr};
use zerocopy::FromBytes;

/// Bytes of `struct nlmsghdr`.
const HEADER: usize = 16;

/// `struct ifinfomsg` of rtnetlink(7), in the machine's byte order.
#[derive(FromBytes)]
#[repr(C)]
struct LinkHeader {
    family: u8,
    padding: u8,
    device_type: u16,
    index: u32,
    flags: u32,
    changed: u32,
}

/// `struct ifaddrmsg`, likewise.
#[derive(FromBytes)]
#[repr(C)]
struct AddressHeader {
    family: u8,
    prefix_len: u8,
    flags: u8,
    scope: u8,
    index: u32,
}

/// One network interface.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Link {
    /// Its index.
    pub index: u32,
    /// Its name.
    pub name: String,
    /// Its MTU in bytes.
    pub mtu: u32,
    /// Its hardware address, if it has one of six bytes that is not all zeros.
    pub mac: Option<[u8; 6]>,
    /// Whether it is up and has a carrier.
    pub up: bool,
    /// Whether it is a loopback interface.
    pub loopback: bool,
}

/// One address that can be bound now: IPv6 addresses whose duplicate detection is still running are
/// left out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Address {
    /// The interface's index.
    pub ifindex: u32,
    /// The address.
    pub ip: IpAddr,
    /// Length of its prefix in bits.
    pub prefix_len: u8,
}

impl Address {
    /// Whether `ip` is in this address's prefix.
    fn covers(&self, ip: IpAddr) -> bool {
        let bits = |ip: IpAddr| match ip {
            IpAddr::V4(v4) => u128::from(u32::from(v4)) << 96,
            IpAddr::V6(v6) => u128::from(v6),
        };
        let same_family = self.ip.is_ipv4() == ip.is_ipv4();
        let mask = match self.prefix_len {
            0 => 0,
            len => u128::MAX << (128 - u32::from(len.min(128))),
        };
        same_family && bits(self.ip) & mask == bits(ip) & mask
    }
}

/// Everything at one time.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Snapshot {
    /// All interfaces.
    pub links: Vec<Link>,
    /// All usable addresses.
    pub addresses: Vec<Address>,
}

impl Snapshot {
    /// Asks the kernel.
    pub(crate) fn read() -> io::Result<Self> {
        let mut snapshot = Self::default();
        dump::<LinkHeader>(libc::RTM_GETLINK, libc::RTM_NEWLINK, |message| {
            snapshot.links.extend(link_of(message));
        })?;
        dump::<AddressHeader>(libc::RTM_GETADDR, libc::RTM_NEWADDR, |message| {
            snapshot.addresses.extend(address_of(message));
        })?;
        Ok(snapshot)
    }

    /// The interface of that name.
    pub(crate) fn link(&self, name: &str) -> Option<&Link> {
        self.links.iter().find(|link| link.name == name)
    }

    /// The interfaces that had another hardware address in `old`.
    pub(crate) fn other_hardware(&self, old: &Snapshot) -> Vec<u32> {
        let before = |link: &Link| old.links.iter().find(|other| other.index == link.index);
        let changed = self
            .links
            .iter()
            .filter(|link| before(link).is_some_and(|before| before.mac != link.mac));
        changed.map(|link| link.index).collect()
    }

    /// The interface to which an address belongs: the one that has it, else the loopback interface
    /// whose prefix contains it, as every address of 127.0.0.0/8 is local.
    pub(crate) fn link_of(&self, ip: IpAddr, ifindex: Option<u32>) -> Option<&Link> {
        let by_index = |index: u32| self.links.iter().find(|link| link.index == index);
        if let Some(index) = ifindex {
            return by_index(index);
        }

        let exact = self
            .addresses
            .iter()
            .find(|a| a.ip == ip)
            .and_then(|a| by_index(a.ifindex));

        exact.or_else(|| {
            self.addresses
                .iter()
                .filter(|a| a.covers(ip))
                .filter_map(|a| by_index(a.ifindex))
                .find(|link| link.loopback)
        })
    }
}

/// Tells when links or addresses may have changed.
#[derive(Debug)]
pub(crate) struct Watch {
    socket: Socket,
}

impl Watch {
    /// Begins to watch. What changed before is not told.
    pub(crate) fn new() -> io::Result<Self> {
        let mut socket = Socket::new(NETLINK_ROUTE)?;
        let groups = libc::RTMGRP_LINK | libc::RTMGRP_IPV4_IFADDR | libc::RTMGRP_IPV6_IFADDR;
        socket.bind(&SocketAddr::new(0, groups as u32))?;
        socket.set_non_blocking(true)?;
        Ok(Self { socket })
    }

    /// Takes all notifications. An overrun is one too.
    pub(crate) fn drain(&self) {
        let mut buffer = Vec::with_capacity(16 * 1024);
        for _ in 0..10_000 {
            buffer.clear();
            match self.socket.recv(&mut buffer, 0) {
                Ok(_) => {}
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => return,
                Err(_) => {}
            }
        }
    }
}

impl AsFd for Watch {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

/// A message of type `RTM_NEWLINK`, from its `struct ifinfomsg` on. Attributes that are not asked
/// for may be what they like: those of a kernel that is newer than this hide no interface.
fn link_of(message: &[u8]) -> Option<Link> {
    let (header, attributes) = LinkHeader::read_from_prefix(message).ok()?;
    let up = (libc::IFF_UP | libc::IFF_LOWER_UP) as u32;
    let mut link = Link {
        index: header.index,
        name: String::new(),
        mtu: 0,
        mac: None,
        up: header.flags & up == up,
        loopback: header.flags & libc::IFF_LOOPBACK as u32 != 0,
    };

    for attribute in NlasIterator::new(attributes).map_while(Result::ok) {
        let value = attribute.value();
        match attribute.kind() {
            libc::IFLA_IFNAME => {
                let name = value.strip_suffix(&[0]).unwrap_or(value);
                link.name = String::from_utf8_lossy(name).into_owned();
            }
            libc::IFLA_MTU => link.mtu = parse_u32(value).unwrap_or_default(),
            libc::IFLA_ADDRESS => {
                let mac = parse_mac(value).ok();
                link.mac = mac.filter(|mac| *mac != [0; 6]);
            }
            _ => {}
        }
    }

    Some(link)
}

/// A message of type `RTM_NEWADDR`, from its `struct ifaddrmsg` on, unless the address is not to be
/// used yet, or ever.
fn address_of(message: &[u8]) -> Option<Address> {
    let (header, attributes) = AddressHeader::read_from_prefix(message).ok()?;
    // The header has room for eight flags only; the attribute, where there is one, has them all.
    let mut flags = u32::from(header.flags);
    let (mut address, mut local) = (None, None);
    for attribute in NlasIterator::new(attributes).map_while(Result::ok) {
        let value = attribute.value();
        match attribute.kind() {
            libc::IFA_ADDRESS => address = parse_ip(value).ok(),
            // On point-to-point links the other attribute is the peer's.
            libc::IFA_LOCAL => local = parse_ip(value).ok(),
            libc::IFA_FLAGS => flags |= parse_u32(value).unwrap_or_default(),
            _ => {}
        }
    }

    let ip = local.or(address)?;
    let unusable = flags & (libc::IFA_F_TENTATIVE | libc::IFA_F_DADFAILED) != 0;
    let optimistic = flags & libc::IFA_F_OPTIMISTIC != 0;
    (!unusable || optimistic).then_some(Address {
        ifindex: header.index,
        ip,
        prefix_len: header.prefix_len,
    })
}

/// Asks for a listing, with a header of zeros, and hands what is behind the netlink header of each
/// message of the wanted type to `each`.
fn dump<Header>(request: u16, wanted: u16, mut each: impl FnMut(&[u8])) -> io::Result<()> {
    let mut socket = Socket::new(NETLINK_ROUTE)?;
    socket.bind_auto()?;
    socket.connect(&SocketAddr::new(0, 0))?;
    let mut bytes = vec![0; HEADER + size_of::<Header>()];
    let mut message = NetlinkBuffer::new(&mut bytes);
    message.set_length((HEADER + size_of::<Header>()) as u32);
    message.set_message_type(request);
    message.set_flags(NLM_F_DUMP | NLM_F_REQUEST);
    message.set_sequence_number(1);
    socket.send(&bytes, 0)?;

    loop {
        let (bytes, _) = socket.recv_from_full()?;
        let mut rest = bytes.as_slice();
        while let Ok(message) = NetlinkBuffer::new_checked(rest) {
            let body = message.payload();
            match message.message_type() {
                NLMSG_DONE => return Ok(()),
                // Less than 0, as nothing was asked to be confirmed.
                NLMSG_ERROR => {
                    let errno = body
                        .first_chunk()
                        .map_or(0, |bytes| i32::from_ne_bytes(*bytes));
                    return Err(io::Error::from_raw_os_error(errno.saturating_neg()));
                }
                kind if kind == wanted => each(body),
                _ => {}
            }
            let next = (message.length() as usize).next_multiple_of(NLA_ALIGNTO);
            rest = rest.get(next..).unwrap_or_default();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loopback_is_there_and_owns_its_whole_prefix() {
        let snapshot = Snapshot::read().unwrap();
        let lo = snapshot.links.iter().find(|link| link.loopback).unwrap();
        assert_eq!(lo.name, "lo");
        assert!(lo.mtu >= 1500 && lo.mac.is_none());
        if lo.up {
            let link = snapshot
                .link_of("127.0.7.99".parse().unwrap(), None)
                .unwrap();
            assert_eq!(link.index, lo.index);
        }

        assert!(
            snapshot
                .link_of("203.0.113.77".parse().unwrap(), None)
                .is_none()
        );
    }

    /// Attributes one after the other, each filled up to four bytes.
    fn attributes(all: &[(u16, &[u8])]) -> Vec<u8> {
        let mut bytes = Vec::new();
        for (kind, value) in all {
            bytes.extend((value.len() as u16 + 4).to_ne_bytes());
            bytes.extend(kind.to_ne_bytes());
            bytes.extend(*value);
            bytes.resize(bytes.len().next_multiple_of(4), 0);
        }
        bytes
    }

    #[test]
    fn a_link_is_known_by_what_is_asked_for_whatever_else_a_newer_kernel_says() {
        let said = |flags: i32, more: &[(u16, &[u8])]| {
            let mut bytes = vec![0, 0, 1, 0, 7, 0, 0, 0];
            bytes.extend(flags.to_ne_bytes());
            bytes.extend([0; 4]);
            bytes.extend(attributes(more));
            link_of(&bytes)
        };
        let up = libc::IFF_UP | libc::IFF_LOWER_UP;
        let mac = [2, 0, 0, 1, 2, 3];
        let wanted = [
            (libc::IFLA_IFNAME, &b"veth\0"[..]),
            (0x3fff, &[1, 2, 3]),
            (libc::IFLA_AF_SPEC, &[9; 5]),
            (libc::IFLA_MTU, &9000u32.to_ne_bytes()),
            (libc::IFLA_ADDRESS, &mac),
        ];
        let link = said(up, &wanted).unwrap();
        assert_eq!(
            (link.index, link.name.as_str(), link.mtu),
            (7, "veth", 9000)
        );
        assert_eq!((link.mac, link.up, link.loopback), (Some(mac), true, false));

        let lo = said(
            libc::IFF_UP | libc::IFF_LOOPBACK,
            &[(libc::IFLA_ADDRESS, &[0; 6])],
        );
        let lo = lo.unwrap();
        assert_eq!((lo.mac, lo.up, lo.loopback), (None, false, true));
        // Of InfiniBand, and a number that is none.
        let odd = said(
            up,
            &[(libc::IFLA_ADDRESS, &[7; 20]), (libc::IFLA_MTU, &[1, 2])],
        );
        let odd = odd.unwrap();
        assert_eq!((odd.mac, odd.mtu), (None, 0));
        assert_eq!(link_of(&[0; 15]), None);
    }

    #[test]
    fn an_address_is_usable_unless_it_may_be_somebody_elses() {
        let said = |flags: u8, more: &[(u16, &[u8])]| {
            let mut bytes = vec![10, 64, flags, 0, 3, 0, 0, 0];
            bytes.extend(attributes(more));
            address_of(&bytes)
        };
        let v6: std::net::Ipv6Addr = "fd00::2".parse().unwrap();
        let octets = v6.octets();
        let own = (libc::IFA_ADDRESS, &octets[..]);
        let found = said(0, &[own]).unwrap();
        assert_eq!(
            (found.ifindex, found.ip, found.prefix_len),
            (3, v6.into(), 64)
        );

        // As the header has it, and as the attribute has it.
        let tentative = libc::IFA_F_TENTATIVE;
        let optimistic = tentative | libc::IFA_F_OPTIMISTIC;
        assert_eq!(said(tentative as u8, &[own]), None);
        assert!(said(optimistic as u8, &[own]).is_some());
        let more = |flags: u32| said(0, &[own, (libc::IFA_FLAGS, &flags.to_ne_bytes())]);
        assert_eq!(more(tentative), None);
        assert_eq!(more(libc::IFA_F_DADFAILED), None);
        assert!(more(libc::IFA_F_NOPREFIXROUTE).is_some());

        // A peer's address is the first of two.
        let pair = [
            (libc::IFA_ADDRESS, &[10, 0, 0, 2][..]),
            (libc::IFA_LOCAL, &[10, 0, 0, 1]),
        ];
        assert_eq!(said(0, &pair).unwrap().ip, IpAddr::from([10, 0, 0, 1]));
        assert_eq!(said(0, &[]), None);
        assert_eq!(said(0, &[(libc::IFA_ADDRESS, &[1, 2, 3])]), None);
    }

    #[test]
    fn prefixes_cover_what_they_should() {
        let address = |ip: &str, prefix_len| Address {
            ifindex: 1,
            ip: ip.parse().unwrap(),
            prefix_len,
        };
        assert!(address("127.0.0.1", 8).covers("127.9.9.9".parse().unwrap()));
        assert!(!address("127.0.0.1", 8).covers("128.0.0.1".parse().unwrap()));
        assert!(!address("127.0.0.1", 8).covers("::7f00:1".parse().unwrap()));
        assert!(address("fd00::2", 64).covers("fd00::ffff".parse().unwrap()));
        assert!(!address("::1", 128).covers("::2".parse().unwrap()));
        assert!(address("0.0.0.0", 0).covers("1.2.3.4".parse().unwrap()));
    }
}
