//! What the kernel's routes say of an interface, asked by rtnetlink(7).

use std::io;
use std::net::IpAddr;
use std::os::fd::OwnedFd;

use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType};

/// Bytes of `struct nlmsghdr`, `struct rtmsg` and `struct rtattr`.
const HEADER: usize = 16;
const ROUTE: usize = 12;
const ATTRIBUTE: usize = 4;
/// More than any answer takes.
const ANSWER: usize = 4096;
/// `enum rtattr_type_t`.
const DESTINATION: u16 = 1;
const SOURCE: u16 = 2;
const INTERFACE: u16 = 4;
const TABLE: u16 = 15;
/// The entry of the table is asked for (Linux 4.13), not what is made of it: without an entry for
/// an interface the kernel makes one up, by which everybody is on its link.
const ENTRY: u32 = 0x2000;
/// An answer that is no entry.
const MADE_UP: u32 = 0x200;
/// To somebody else.
const UNICAST: u8 = 1;

/// An entry of the routing tables.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Entry {
    unicast: bool,
    /// Bits of the destination that it goes by.
    prefix_len: u8,
    table: u32,
    /// The one interface by which it leads.
    interface: Option<u32>,
}

/// The interface that has an address, if what this sends to another host should leave by it: there
/// is a route by it, and none that is more to the point. `None`, too, where the kernel will not
/// say.
pub fn way_out(from: IpAddr, to: IpAddr, interface: u32) -> Option<u32> {
    if interface == 0 || from == to || to.is_loopback() || to.is_multicast() {
        return None;
    }
    let kernel = kernel().ok()?;
    let own = entry(&kernel, from, to, Some(interface)).ok()?;
    let chosen = entry(&kernel, from, to, None).ok();
    own.is_as_good(interface, chosen).then_some(interface)
}

impl Entry {
    /// An address may be on an interface that only holds it, whatever its prefix, or be told by
    /// rules to go elsewhere: then the host's routes stand.
    fn is_as_good(self, interface: u32, chosen: Option<Entry>) -> bool {
        let leads = self.unicast && self.interface == Some(interface);
        leads
            && chosen.is_none_or(|chosen| {
                chosen.unicast
                    && chosen.interface.is_some()
                    && chosen.table == self.table
                    && chosen.prefix_len <= self.prefix_len
            })
    }
}

/// Whom to ask.
fn kernel() -> rustix::io::Result<OwnedFd> {
    // The protocol of number 0 is NETLINK_ROUTE.
    rustix::net::socket_with(
        AddressFamily::NETLINK,
        SocketType::RAW,
        SocketFlags::CLOEXEC,
        None,
    )
}

/// The entry by which packets go; `interface`: of those that lead through it.
fn entry(kernel: &OwnedFd, from: IpAddr, to: IpAddr, interface: Option<u32>) -> io::Result<Entry> {
    rustix::net::send(kernel, &question(from, to, interface), SendFlags::empty())?;
    let mut answer = [0; ANSWER];
    // It is there before the question has been sent.
    let (len, _) = rustix::net::recv(kernel, &mut answer[..], RecvFlags::DONTWAIT)?;
    parse(&answer[..len.min(ANSWER)]).ok_or_else(|| io::ErrorKind::NotFound.into())
}

fn question(from: IpAddr, to: IpAddr, interface: Option<u32>) -> Vec<u8> {
    let family = match to {
        IpAddr::V4(_) => libc::AF_INET,
        IpAddr::V6(_) => libc::AF_INET6,
    };
    let octets = |ip: IpAddr| match ip {
        IpAddr::V4(ip) => ip.octets().to_vec(),
        IpAddr::V6(ip) => ip.octets().to_vec(),
    };
    let bits = octets(to).len() as u8 * 8;

    let mut bytes = vec![0; 4];
    bytes.extend(libc::RTM_GETROUTE.to_ne_bytes());
    bytes.extend((libc::NLM_F_REQUEST as u16).to_ne_bytes());
    bytes.extend([0; 8]);
    bytes.extend([family as u8, bits, bits, 0, 0, 0, 0, 0]);
    bytes.extend(ENTRY.to_ne_bytes());

    let mut attribute = |kind: u16, value: &[u8]| {
        bytes.extend(((ATTRIBUTE + value.len()) as u16).to_ne_bytes());
        bytes.extend(kind.to_ne_bytes());
        bytes.extend(value);
    };
    attribute(DESTINATION, &octets(to));
    attribute(SOURCE, &octets(from));
    if let Some(interface) = interface {
        attribute(INTERFACE, &interface.to_ne_bytes());
    }

    let len = bytes.len() as u32;
    bytes[..4].copy_from_slice(&len.to_ne_bytes());
    bytes
}

/// An answer; `None`: an error, or nothing that an entry is found in.
fn parse(bytes: &[u8]) -> Option<Entry> {
    let kind = u16::from_ne_bytes(*bytes.get(4..)?.first_chunk()?);
    if kind != libc::RTM_NEWROUTE {
        return None;
    }
    let route = bytes.get(HEADER..HEADER + ROUTE)?;
    let flags = u32::from_ne_bytes(*route.get(8..)?.first_chunk()?);
    if flags & MADE_UP != 0 {
        return None;
    }

    let mut entry = Entry {
        unicast: route[7] == UNICAST,
        prefix_len: route[1],
        table: route[4].into(),
        interface: None,
    };
    let mut rest = &bytes[HEADER + ROUTE..];
    while let Some((len, kind)) = rest.first_chunk().map(|header: &[u8; ATTRIBUTE]| {
        let [a, b, c, d] = *header;
        (
            usize::from(u16::from_ne_bytes([a, b])),
            u16::from_ne_bytes([c, d]),
        )
    }) {
        let value = rest.get(ATTRIBUTE..len)?;
        let number = value.first_chunk().map(|bytes| u32::from_ne_bytes(*bytes));
        match kind {
            INTERFACE => entry.interface = number,
            TABLE => entry.table = number?,
            _ => {}
        }
        rest = rest.get(len.next_multiple_of(4)..).unwrap_or_default();
    }

    Some(entry)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(kind: u16, route: [u8; 8], flags: u32, attributes: &[(u16, &[u8])]) -> Vec<u8> {
        let mut bytes = vec![0; HEADER];
        bytes[4..6].copy_from_slice(&kind.to_ne_bytes());
        bytes.extend(route);
        bytes.extend(flags.to_ne_bytes());
        for (kind, value) in attributes {
            bytes.extend(((ATTRIBUTE + value.len()) as u16).to_ne_bytes());
            bytes.extend(kind.to_ne_bytes());
            bytes.extend(*value);
            bytes.resize(bytes.len().next_multiple_of(4), 0);
        }
        bytes
    }

    fn through(interface: u32, prefix_len: u8) -> Entry {
        Entry {
            unicast: true,
            prefix_len,
            table: 254,
            interface: Some(interface),
        }
    }

    #[test]
    fn an_answer_is_an_entry_or_nothing() {
        const NEW: u16 = libc::RTM_NEWROUTE;
        let route = [2, 24, 0, 0, 254, 2, 0, UNICAST];
        let interface = (INTERFACE, &7u32.to_ne_bytes()[..]);
        let odd = (77, &[1, 2, 3, 4, 5][..]);
        let found = parse(&answer(NEW, route, 0, &[odd, interface]));
        assert_eq!(found, Some(through(7, 24)));
        let table = (TABLE, &1000u32.to_ne_bytes()[..]);
        let found = parse(&answer(NEW, route, 0, &[table])).unwrap();
        assert_eq!((found.table, found.interface), (1000, None));
        // As old kernels answer, and with an error.
        assert_eq!(parse(&answer(NEW, route, MADE_UP, &[interface])), None);
        assert_eq!(parse(&answer(2, route, 0, &[])), None);
        // Cut anywhere, and with lengths that are none, it ends.
        let whole = answer(NEW, route, 0, &[odd, interface]);
        for len in 0..whole.len() {
            let _ = parse(&whole[..len]);
        }
        let mut zeros = answer(NEW, route, 0, &[]);
        zeros.extend([0; 8]);
        assert_eq!(parse(&zeros), None);
    }

    #[test]
    fn the_interface_is_gone_by_unless_another_route_is_more_to_the_point() {
        let own = through(7, 24);
        assert!(own.is_as_good(7, Some(own)));
        assert!(own.is_as_good(7, Some(through(6, 24))));
        assert!(own.is_as_good(7, Some(through(6, 0))));
        assert!(own.is_as_good(7, None));
        // To a host that is reached otherwise, by several ways, by a rule, or is this one.
        assert!(!own.is_as_good(7, Some(through(6, 32))));
        let several = Entry {
            interface: None,
            ..own
        };
        assert!(!own.is_as_good(7, Some(several)) && !several.is_as_good(7, Some(own)));
        assert!(!own.is_as_good(7, Some(Entry { table: 9, ..own })));
        let local = Entry {
            unicast: false,
            ..through(7, 24)
        };
        assert!(!own.is_as_good(7, Some(local)) && !local.is_as_good(7, None));
        // Of IPv6, where an interface is no more than a wish.
        assert!(!through(6, 24).is_as_good(7, Some(own)));
    }

    #[test]
    fn nothing_leads_out_by_the_loopback() {
        let ip = |text: &str| text.parse::<IpAddr>().unwrap();
        let kernel = kernel().unwrap();
        let own = entry(&kernel, ip("127.0.0.1"), ip("127.0.0.2"), None).unwrap();
        assert!(!own.unicast && own.interface == Some(1));
        for (from, to) in [
            ("127.0.0.1", "127.0.0.2"),
            ("127.0.0.1", "192.0.2.1"),
            ("::1", "2001:db8::1"),
            ("127.0.0.1", "224.0.0.9"),
        ] {
            assert_eq!(way_out(ip(from), ip(to), 1), None, "{from} to {to}");
        }
    }
}
