//! What the kernel's routes say of packets, asked by rtnetlink(7).

use std::io;
use std::net::IpAddr;

use netlink_packet_core::{parse_ip, parse_u32};

use crate::rtnetlink::{Attribute, Question, Socket, address, attributes};

/// Bytes of `struct rtmsg`.
const HEADER: usize = 12;
/// Of `enum rtattr_type_t`, and flags of `struct rtmsg`: not known to every target's C library.
const RTA_VIA: u16 = 18;
const RTM_F_LOOKUP_TABLE: u32 = 0x1000;
const RTM_F_FIB_MATCH: u32 = 0x2000;

/// What the kernel says of the packets of a flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Route {
    /// `RTN_*`: to somebody else (`RTN_UNICAST`), to this host, to all, to nobody.
    pub kind: u8,
    /// Bits of the destination that it goes by, 0 to 128.
    pub prefix_len: u8,
    /// The routing table's number.
    pub table: u32,
    /// The one interface by which it leads.
    pub interface: Option<u32>,
    /// The next hop, where that is not the destination.
    pub gateway: Option<IpAddr>,
    /// The address that packets have which have none yet.
    pub source: Option<IpAddr>,
}

/// Packets that are asked about.
#[derive(Clone, Copy, Debug)]
pub struct Flow {
    /// Where they go.
    pub to: IpAddr,
    /// The address that they have already.
    pub from: Option<IpAddr>,
    /// The interface by which they shall leave, or 0: any.
    pub interface: u32,
}

/// The way of packets from one of an interface's addresses.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Way {
    /// The interface, if what this sends to another host should leave by it: there is a route by
    /// it, and none that is more to the point. `None`, too, where the kernel will not say.
    pub out: Option<u32>,
    /// The entry of the routing tables that they go by then, where that was asked for and said.
    pub entry: Option<Route>,
}

impl Way {
    /// Asks for it; `interface`: its index, or 0, of which nothing is asked.
    pub fn find(kernel: &Socket, from: IpAddr, to: IpAddr, interface: u32) -> Self {
        // Who sends from a link-local address has said by which interface: a socket that is bound
        // to one takes no wish for another (EINVAL).
        let is_said = matches!(from, IpAddr::V6(from) if from.is_unicast_link_local());
        if interface == 0 || is_said || from == to || to.is_loopback() || to.is_multicast() {
            return Self::default();
        }

        let flow = |interface| Flow {
            to,
            from: Some(from),
            interface,
        };
        let own = flow(interface).entry(kernel).ok();
        let Some(own) = own.filter(|own| own.leads_by(interface)) else {
            return Self::default();
        };
        let chosen = flow(0).entry(kernel).ok();
        match own.is_as_good_as(chosen) {
            true => Self {
                out: Some(interface),
                entry: Some(own),
            },
            false => Self {
                out: None,
                entry: chosen,
            },
        }
    }
}

impl Flow {
    /// Where its packets go, by whatever the kernel knows; for a link-local destination the
    /// interface is needed. Errors: the errno with which they would not be sent, and those of
    /// [`Socket::ask`].
    pub fn route(&self, kernel: &Socket) -> io::Result<Route> {
        self.ask(kernel, 0).map(|(route, _)| route)
    }

    /// The entry of the routing tables that they go by; asked in another way, as without an entry
    /// for an interface the kernel makes one up, by which everybody is on its link; and with its
    /// table, which IPv4 otherwise calls the main one. Kernels before 4.13 answer with what they
    /// make of it: `NotFound`.
    fn entry(&self, kernel: &Socket) -> io::Result<Route> {
        match self.ask(kernel, RTM_F_FIB_MATCH | RTM_F_LOOKUP_TABLE)? {
            (entry, flags) if flags & libc::RTM_F_CLONED == 0 => Ok(entry),
            _ => Err(io::ErrorKind::NotFound.into()),
        }
    }

    /// The answer, and the flags that it has.
    fn ask(&self, kernel: &Socket, flags: u32) -> io::Result<(Route, u32)> {
        let (family, to) = address(self.to);
        let mut header = [0; HEADER];
        header[0] = family;
        header[1] = to.len() as u8 * 8;
        header[8..].copy_from_slice(&flags.to_ne_bytes());

        let mut attributes = vec![Attribute::new(libc::RTA_DST, to)];
        if let Some(from) = self.from {
            let (_, from) = address(from);
            header[2] = from.len() as u8 * 8;
            attributes.push(Attribute::new(libc::RTA_SRC, from));
        }
        if self.interface != 0 {
            let interface = self.interface.to_ne_bytes().to_vec();
            attributes.push(Attribute::new(libc::RTA_OIF, interface));
        }

        let answer = kernel.ask(&Question {
            request: libc::RTM_GETROUTE,
            header: &header,
            attributes: &attributes,
        })?;
        parse(&answer).ok_or_else(|| io::ErrorKind::InvalidData.into())
    }
}

impl Route {
    /// Whether packets may leave by an interface as well as by what the kernel would choose. An
    /// address may be on an interface that only holds it, whatever its prefix, or be told by rules
    /// to go elsewhere: then the host's routes stand.
    fn is_as_good_as(&self, chosen: Option<Route>) -> bool {
        chosen.is_none_or(|chosen| {
            chosen.is_far()
                && chosen.interface.is_some()
                && chosen.table == self.table
                && chosen.prefix_len <= self.prefix_len
        })
    }

    /// Of IPv6 an interface that is asked for is no more than a wish.
    fn leads_by(&self, interface: u32) -> bool {
        self.is_far() && self.interface == Some(interface)
    }

    /// Whether it leads to another host.
    pub fn is_far(&self) -> bool {
        self.kind == libc::RTN_UNICAST
    }
}

/// The interface that has an address, if what this sends to another host should leave by it: the
/// [`Way`] of one who asks no more. An error where there is none by any interface: ENETUNREACH, or
/// EHOSTUNREACH where a route says so.
pub fn way_out(from: IpAddr, to: IpAddr, interface: u32) -> io::Result<Option<u32>> {
    let kernel = Socket::default();
    let out = Way::find(&kernel, from, to, interface).out;
    if out.is_some() || from == to || to.is_loopback() || to.is_multicast() {
        return Ok(out);
    }

    let is_linked = matches!(to, IpAddr::V6(to) if to.is_unicast_link_local());
    let flow = Flow {
        to,
        from: Some(from),
        interface: if is_linked { interface } else { 0 },
    };
    // Whoever may not ask can still send.
    let says_no = |e: &io::Error| {
        let errno = e.raw_os_error();
        errno.is_some_and(|errno| [libc::ENETUNREACH, libc::EHOSTUNREACH].contains(&errno))
    };
    match flow.route(&kernel) {
        Err(error) if says_no(&error) => Err(error),
        _ => Ok(out),
    }
}

/// A message of type `RTM_NEWROUTE`, from its `struct rtmsg` on, with the flags of that.
fn parse(message: &[u8]) -> Option<(Route, u32)> {
    let (header, rest) = message.split_first_chunk::<HEADER>()?;
    let [_, prefix_len, _, _, table, _, _, kind, flags @ ..] = *header;
    let mut route = Route {
        kind,
        prefix_len,
        table: table.into(),
        interface: None,
        gateway: None,
        source: None,
    };

    for (attribute, value) in attributes(rest) {
        match attribute {
            libc::RTA_OIF => route.interface = parse_u32(value).ok(),
            libc::RTA_TABLE => route.table = parse_u32(value).ok()?,
            libc::RTA_GATEWAY => route.gateway = Some(parse_ip(value).ok()?),
            // A gateway of the other family, which stands before it.
            RTA_VIA => route.gateway = Some(parse_ip(value.get(2..)?).ok()?),
            libc::RTA_PREFSRC => route.source = parse_ip(value).ok(),
            _ => {}
        }
    }

    Some((route, u32::from_ne_bytes(flags)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rtnetlink;

    fn emitted(all: &[(u16, &[u8])]) -> Vec<u8> {
        let attribute = |(kind, value): &(u16, &[u8])| Attribute::new(*kind, value.to_vec());
        rtnetlink::emitted(&all.iter().map(attribute).collect::<Vec<_>>())
    }

    /// What is made of an answer.
    fn said(header: [u8; 8], flags: u32, more: &[(u16, &[u8])]) -> Option<(Route, u32)> {
        parse(&[&header[..], &flags.to_ne_bytes(), &emitted(more)].concat())
    }

    fn through(interface: u32, prefix_len: u8) -> Route {
        Route {
            kind: libc::RTN_UNICAST,
            prefix_len,
            table: 254,
            interface: Some(interface),
            gateway: None,
            source: None,
        }
    }

    #[test]
    fn an_answer_says_what_is_wanted_whatever_else_a_newer_kernel_says() {
        let header = [2, 24, 0, 0, 254, 2, 0, libc::RTN_UNICAST];
        let interface = (libc::RTA_OIF, &7u32.to_ne_bytes()[..]);
        let odd = (77, &[1, 2, 3, 4, 5][..]);
        let route = |more: &[_]| said(header, 0, more).map(|(route, _)| route);
        assert_eq!(route(&[odd, interface]), Some(through(7, 24)));
        let table = (libc::RTA_TABLE, &1000u32.to_ne_bytes()[..]);
        let found = route(&[table]).unwrap();
        assert_eq!((found.table, found.interface), (1000, None));
        let source = (libc::RTA_PREFSRC, &[10, 0, 0, 9][..]);
        let found = route(&[interface, source]).unwrap();
        assert_eq!(found.source, Some(IpAddr::from([10, 0, 0, 9])));
        // As old kernels answer who asks for an entry.
        let cloned = libc::RTM_F_CLONED;
        assert_eq!(said(header, cloned, &[]).unwrap().1, cloned);

        // Cut anywhere, and with lengths and numbers that are none, it ends.
        let whole = [&header[..], &[0; 4], &emitted(&[odd, table, source])].concat();
        for len in 0..whole.len() {
            assert_eq!(parse(&whole[..len]).is_some(), len >= HEADER);
            for wrong in [0, 1, 3, 0x80, 0xff] {
                let mut bytes = whole.clone();
                bytes[len] = wrong;
                let _ = parse(&bytes);
            }
        }
        for kind in [libc::RTA_TABLE, libc::RTA_GATEWAY, RTA_VIA] {
            assert_eq!(route(&[interface, (kind, &[1])]), None);
        }
    }

    #[test]
    fn a_gateway_is_the_next_hop_of_either_family() {
        let header = |kind| [2, 32, 0, 0, 254, 3, 0, kind];
        let out = (libc::RTA_OIF, &7u32.to_ne_bytes()[..]);
        let hop = |kind, more: &[_]| {
            let (route, _) = said(header(kind), libc::RTM_F_CLONED, more).unwrap();
            (route.gateway, route.is_far())
        };
        assert_eq!(hop(libc::RTN_UNICAST, &[out]), (None, true));
        assert_eq!(hop(libc::RTN_LOCAL, &[out]), (None, false));
        let gateway = (libc::RTA_GATEWAY, &[10, 0, 0, 1][..]);
        let at = IpAddr::from([10, 0, 0, 1]);
        assert_eq!(hop(libc::RTN_UNICAST, &[gateway, out]), (Some(at), true));
        let v6: std::net::Ipv6Addr = "fe80::1".parse().unwrap();
        let via = [&(libc::AF_INET6 as u16).to_ne_bytes()[..], &v6.octets()].concat();
        let via = (RTA_VIA, &via[..]);
        assert_eq!(hop(libc::RTN_UNICAST, &[out, via]), (Some(v6.into()), true));
    }

    #[test]
    fn the_interface_is_gone_by_unless_another_route_is_more_to_the_point() {
        let own = through(7, 24);
        let is_as_good = |own: Route, chosen| own.leads_by(7) && own.is_as_good_as(chosen);
        assert!(is_as_good(own, Some(own)));
        assert!(is_as_good(own, Some(through(6, 24))));
        assert!(is_as_good(own, Some(through(6, 0))));
        assert!(is_as_good(own, None));
        // To a host that is reached otherwise, by several ways, by a rule, or is this one.
        assert!(!is_as_good(own, Some(through(6, 32))));
        let several = Route {
            interface: None,
            ..own
        };
        assert!(!is_as_good(own, Some(several)) && !is_as_good(several, Some(own)));
        assert!(!is_as_good(own, Some(Route { table: 9, ..own })));
        let local = Route {
            kind: libc::RTN_LOCAL,
            ..own
        };
        assert!(!is_as_good(own, Some(local)) && !is_as_good(local, None));
        // Of IPv6, where an interface is no more than a wish.
        assert!(!is_as_good(through(6, 24), Some(own)));
    }

    #[test]
    fn nothing_leads_out_by_the_loopback() {
        let ip = |text: &str| text.parse::<IpAddr>().unwrap();
        let kernel = Socket::default();
        let own = Flow {
            to: ip("127.0.0.2"),
            from: Some(ip("127.0.0.1")),
            interface: 0,
        };
        for said in [own.entry(&kernel).unwrap(), own.route(&kernel).unwrap()] {
            assert!(!said.is_far() && said.interface == Some(1), "{said:?}");
        }
        for (from, to) in [
            ("127.0.0.1", "127.0.0.2"),
            ("127.0.0.1", "192.0.2.1"),
            ("::1", "2001:db8::1"),
            ("127.0.0.1", "224.0.0.9"),
        ] {
            assert_eq!(
                way_out(ip(from), ip(to), 1).ok().flatten(),
                None,
                "{from} to {to}"
            );
        }
    }
}
