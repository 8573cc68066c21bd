//! Socket addresses of the rdma_cm ABI: IPv4, IPv6 and `AF_IB`, as bytes of C structures and as
//! what they mean.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use ferroce_cabi::ucma::{AF_IB, SOCKADDR_STORAGE_LEN, sockaddr_ib};
use ferroce_control::GidEntry;
use zerocopy::{FromBytes, IntoBytes};

pub(super) use crate::gids::{gid_of, ip_of};

/// A GID, in network order.
pub(super) type Gid = [u8; 16];

/// An address, or none yet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Addr {
    /// All zeros.
    #[default]
    None,
    /// A `sockaddr_in` or `sockaddr_in6`.
    Ip {
        /// The address.
        ip: IpAddr,
        /// The port.
        port: u16,
        /// `sin6_flowinfo` as it stands in memory.
        flowinfo: u32,
        /// `sin6_scope_id`.
        scope: u32,
    },
    /// A `sockaddr_ib`.
    Ib(IbAddr),
}

/// An InfiniBand address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct IbAddr {
    /// P_Key.
    pub pkey: u16,
    /// Flow information as it stands in memory.
    pub flowinfo: u32,
    /// The GID; zero: any.
    pub gid: Gid,
    /// Service ID.
    pub sid: u64,
    /// Which bits of it count.
    pub mask: u64,
    /// As it stands in memory.
    pub scope: u64,
}

impl Addr {
    /// An IP address without flow information.
    pub(super) fn ip(ip: IpAddr, port: u16, scope: u32) -> Self {
        Self::Ip {
            ip,
            port,
            flowinfo: 0,
            scope,
        }
    }

    /// The wildcard of a family.
    pub(super) fn any(family: u16) -> Self {
        match i32::from(family) {
            libc::AF_INET => Self::ip(Ipv4Addr::UNSPECIFIED.into(), 0, 0),
            libc::AF_INET6 => Self::ip(Ipv6Addr::UNSPECIFIED.into(), 0, 0),
            _ => Self::None,
        }
    }

    /// Reads a C structure. `None`: too short, or of a family that is not spoken; a family of 0 is
    /// [`Addr::None`].
    pub(super) fn parse(bytes: &[u8]) -> Option<Self> {
        let family = u16::from_ne_bytes(*bytes.first_chunk()?);
        if family == 0 {
            return Some(Self::None);
        }

        let port = u16::from_be_bytes(*bytes.get(2..)?.first_chunk()?);
        if i32::from(family) == libc::AF_INET {
            let ip: [u8; 4] = *bytes.get(4..16)?.first_chunk()?;
            return Some(Self::ip(ip.into(), port, 0));
        }

        if i32::from(family) == libc::AF_INET6 {
            let word = |at: usize| Some(u32::from_ne_bytes(*bytes.get(at..)?.first_chunk()?));
            let ip: [u8; 16] = *bytes.get(8..)?.first_chunk()?;
            return Some(Self::Ip {
                ip: Ipv6Addr::from(ip).into(),
                port,
                flowinfo: word(4)?,
                scope: word(24)?,
            });
        }

        if family == AF_IB {
            let (raw, _) = sockaddr_ib::read_from_prefix(bytes).ok()?;
            return Some(Self::Ib(IbAddr {
                pkey: u16::from_be(raw.sib_pkey_be),
                flowinfo: raw.sib_flowinfo_be,
                gid: raw.sib_addr,
                sid: u64::from_be(raw.sib_sid_be),
                mask: u64::from_be(raw.sib_sid_mask_be),
                scope: raw.sib_scope_id,
            }));
        }

        None
    }

    /// Bytes of the C structure.
    pub(super) fn size(&self) -> u16 {
        match self {
            Self::None => 0,
            Self::Ip { ip, .. } if ip.is_ipv4() => 16,
            Self::Ip { .. } => 28,
            Self::Ib(_) => 48,
        }
    }

    /// The C structure, with zeros behind it.
    pub(super) fn emit(&self) -> [u8; SOCKADDR_STORAGE_LEN] {
        let mut bytes = [0; SOCKADDR_STORAGE_LEN];
        bytes[..2].copy_from_slice(&self.family().to_ne_bytes());
        match *self {
            Self::None => {}
            Self::Ip {
                ip,
                port,
                flowinfo,
                scope,
            } => {
                bytes[2..4].copy_from_slice(&port.to_be_bytes());
                match ip {
                    IpAddr::V4(ip) => bytes[4..8].copy_from_slice(&ip.octets()),
                    IpAddr::V6(ip) => {
                        bytes[4..8].copy_from_slice(&flowinfo.to_ne_bytes());
                        bytes[8..24].copy_from_slice(&ip.octets());
                        bytes[24..28].copy_from_slice(&scope.to_ne_bytes());
                    }
                }
            }
            Self::Ib(ib) => {
                let raw = sockaddr_ib {
                    sib_family: AF_IB,
                    sib_pkey_be: ib.pkey.to_be(),
                    sib_flowinfo_be: ib.flowinfo,
                    sib_addr: ib.gid,
                    sib_sid_be: ib.sid.to_be(),
                    sib_sid_mask_be: ib.mask.to_be(),
                    sib_scope_id: ib.scope,
                };
                bytes[..48].copy_from_slice(raw.as_bytes());
            }
        }

        bytes
    }

    /// `AF_*`, 0 for none.
    pub(super) fn family(&self) -> u16 {
        match self {
            Self::None => 0,
            Self::Ip { ip, .. } if ip.is_ipv4() => libc::AF_INET as u16,
            Self::Ip { .. } => libc::AF_INET6 as u16,
            Self::Ib(_) => AF_IB,
        }
    }

    /// Whether it is an `AF_IB` address.
    pub(super) fn is_ib(&self) -> bool {
        matches!(self, Self::Ib(_))
    }

    /// The port: of an `AF_IB` address those low bits of the service ID that count.
    pub(super) fn port(&self) -> u16 {
        match self {
            Self::None => 0,
            Self::Ip { port, .. } => *port,
            Self::Ib(ib) => (ib.sid & ib.mask) as u16,
        }
    }

    /// Gives it a port.
    pub(super) fn set_port(&mut self, new: u16) {
        match self {
            Self::None => {}
            Self::Ip { port, .. } => *port = new,
            Self::Ib(ib) => {
                ib.sid = ib.sid & ib.mask | u64::from(new);
                ib.mask = !0;
            }
        }
    }

    /// The GID that stands for the address.
    pub(super) fn gid(&self) -> Gid {
        match self {
            Self::None => [0; 16],
            Self::Ip { ip, .. } => gid_of(*ip),
            Self::Ib(ib) => ib.gid,
        }
    }

    /// The IP address that it means: of an IPv6 address that stands for an IPv4 one, the latter.
    pub(super) fn meant(&self) -> IpAddr {
        ip_of(&self.gid())
    }

    /// An IP address of the device's, as a program sees it that speaks this address's family.
    pub(super) fn like(&self, ip: IpAddr, port: u16, scope: u32) -> Self {
        match (self, ip) {
            (
                Self::Ip {
                    ip: IpAddr::V6(_), ..
                },
                IpAddr::V4(v4),
            ) => Self::ip(v4.to_ipv6_mapped().into(), port, 0),
            _ => Self::ip(ip, port, scope),
        }
    }

    /// Whether no host is named.
    pub(super) fn is_zero(&self) -> bool {
        self.meant().is_unspecified()
    }

    /// Whether the host names itself.
    pub(super) fn is_loopback(&self) -> bool {
        self.meant().is_loopback()
    }

    /// Whether it is a multicast group.
    pub(super) fn is_multicast(&self) -> bool {
        self.meant().is_multicast()
    }

    /// Whether both name the same host, whatever the port: a link-local address is one of each
    /// interface.
    pub(super) fn same_host(&self, other: &Self) -> bool {
        let whole = |addr: &Self| (addr.family(), addr.gid(), addr.scope());
        whole(self) == whole(other)
    }

    /// The scope that a link-local address or group needs, else 0.
    pub(super) fn scope(&self) -> u32 {
        match self {
            Self::Ip {
                ip: IpAddr::V6(ip),
                scope,
                ..
            } if ip.is_unicast_link_local() || is_link_local_group(ip) => *scope,
            _ => 0,
        }
    }

    /// Whether it is a link-local address, not of a group.
    pub(super) fn is_link_local(&self) -> bool {
        matches!(self, Self::Ip { ip: IpAddr::V6(ip), .. } if ip.is_unicast_link_local())
    }

    /// Whether it names the host of a GID, by that itself or by the IP address that goes with it.
    pub(super) fn names(&self, entry: &GidEntry) -> bool {
        let named = match self {
            Self::Ib(ib) => entry.gid == ib.gid,
            _ => entry.addr == self.meant(),
        };
        named && (self.scope() == 0 || self.scope() == entry.scope_id)
    }
}

/// Whether it is a group of scope 2 (RFC 4291, 2.7).
fn is_link_local_group(ip: &Ipv6Addr) -> bool {
    ip.segments()[0] & 0xff0f == 0xff02
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn structures_survive() {
        let ib = Addr::Ib(IbAddr {
            pkey: 0xffff,
            flowinfo: 7,
            gid: gid_of("10.0.0.1".parse().unwrap()),
            sid: 0x0106_1234,
            mask: !0,
            scope: 0,
        });

        let v6 = Addr::Ip {
            ip: "fe80::1".parse().unwrap(),
            port: 80,
            flowinfo: 5,
            scope: 3,
        };

        let v4 = Addr::ip("192.0.2.1".parse().unwrap(), 7174, 0);
        for (addr, size) in [(ib, 48), (v6, 28), (v4, 16), (Addr::None, 0)] {
            assert_eq!(Addr::parse(&addr.emit()), Some(addr));
            assert_eq!(addr.size(), size);
        }

        assert_eq!(v4.emit()[..8], [2, 0, 0x1c, 0x06, 192, 0, 2, 1]);
        assert_eq!((ib.port(), v6.port()), (0x1234, 80));
        assert_eq!((v6.scope(), v4.scope()), (3, 0));
        let scope = |ip: &str| Addr::ip(ip.parse().unwrap(), 0, 3).scope();
        assert_eq!((scope("ff02::5"), scope("ff12::5")), (3, 3));
        assert_eq!((scope("ff0e::5"), scope("fd00::5")), (0, 0));
    }

    #[test]
    fn an_ipv4_address_in_the_other_family_means_itself() {
        let mapped = Addr::ip("::ffff:127.0.0.1".parse().unwrap(), 5, 0);
        assert!(mapped.is_loopback() && !mapped.is_zero() && !mapped.is_multicast());
        assert_eq!(mapped.size(), 28);
        assert_eq!(mapped.meant(), "127.0.0.1".parse::<IpAddr>().unwrap());
        assert_eq!(mapped.like(mapped.meant(), 5, 0), mapped);
        let v4 = Addr::ip("10.0.0.1".parse().unwrap(), 5, 0);
        assert_eq!(v4.like(v4.meant(), 6, 0).size(), 16);
    }

    #[test]
    fn what_is_no_address_is_refused() {
        for bytes in [
            &[][..],
            &[2],
            &[2, 0, 1, 2, 3, 4, 5],
            &[10, 0, 0, 0],
            &[27, 0, 1, 1],
            &[99, 0, 0, 0, 0, 0, 0, 0],
        ] {
            assert_eq!(Addr::parse(bytes), None, "{bytes:?}");
        }
    }

    #[test]
    fn a_port_goes_into_the_service_id() {
        let mut addr = Addr::Ib(IbAddr {
            pkey: 0,
            flowinfo: 0,
            gid: [0; 16],
            sid: 0x0106_0000,
            mask: 0xffff_ffff_ffff_0000,
            scope: 0,
        });
        assert_eq!(addr.port(), 0);
        addr.set_port(4242);
        assert_eq!(addr.port(), 4242);
        let Addr::Ib(ib) = addr else { unreachable!() };
        assert_eq!((ib.sid, ib.mask), (0x0106_0000 | 4242, !0));
    }
}
