//! Listings of rtnetlink(7), taken apart as far as they are wanted.

use std::io;

use ferroce_control::rtnetlink::{Question, Socket, attributes};
use netlink_packet_core::{parse_ip, parse_mac, parse_u32};
use zerocopy::FromBytes;

use super::{Address, Link};

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

/// Hands every interface to `each`.
pub(super) fn each_link(kernel: &Socket, mut each: impl FnMut(Link)) -> io::Result<()> {
    list::<LinkHeader>(kernel, libc::RTM_GETLINK, |message| {
        link_of(message).into_iter().for_each(&mut each);
    })
}

/// Hands every usable address to `each`.
pub(super) fn each_address(kernel: &Socket, mut each: impl FnMut(Address)) -> io::Result<()> {
    list::<AddressHeader>(kernel, libc::RTM_GETADDR, |message| {
        address_of(message).into_iter().for_each(&mut each);
    })
}

/// Has everything of a kind listed.
fn list<Header>(kernel: &Socket, request: u16, each: impl FnMut(&[u8])) -> io::Result<()> {
    let question = Question {
        request,
        header: &vec![0; size_of::<Header>()],
        attributes: &[],
    };
    kernel.list(&question, each)
}

/// A message of type `RTM_NEWLINK`, from its `struct ifinfomsg` on. Attributes that are not asked
/// for may be what they like: those of a kernel that is newer than this hide no interface.
fn link_of(message: &[u8]) -> Option<Link> {
    let (header, rest) = LinkHeader::read_from_prefix(message).ok()?;
    let up = (libc::IFF_UP | libc::IFF_LOWER_UP) as u32;
    let mut link = Link {
        index: header.index,
        name: String::new(),
        mtu: 0,
        mac: None,
        up: header.flags & up == up,
        loopback: header.flags & libc::IFF_LOOPBACK as u32 != 0,
    };

    for (kind, value) in attributes(rest) {
        match kind {
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
    let (header, rest) = AddressHeader::read_from_prefix(message).ok()?;
    // The header has room for eight flags only; the attribute, where there is one, has them all.
    let mut flags = u32::from(header.flags);
    let (mut address, mut local) = (None, None);
    for (kind, value) in attributes(rest) {
        match kind {
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

#[cfg(test)]
mod tests {
    use std::net::IpAddr;

    use ferroce_control::rtnetlink::{self, Attribute};

    use super::*;

    fn emitted(all: &[(u16, &[u8])]) -> Vec<u8> {
        let attribute = |(kind, value): &(u16, &[u8])| Attribute::new(*kind, value.to_vec());
        rtnetlink::emitted(&all.iter().map(attribute).collect::<Vec<_>>())
    }

    #[test]
    fn a_link_is_known_by_what_is_asked_for_whatever_else_a_newer_kernel_says() {
        let said = |flags: i32, more: &[(u16, &[u8])]| {
            let mut bytes = vec![0, 0, 1, 0, 7, 0, 0, 0];
            bytes.extend(flags.to_ne_bytes());
            bytes.extend([0; 4]);
            bytes.extend(emitted(more));
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
            bytes.extend(emitted(more));
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
}
