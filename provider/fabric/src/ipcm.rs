//! The RDMA IP CM service: how an IP address and port are said to the communication manager.
//!
//! A service ID holds the port space and the port of the listener; the first 36 bytes of the
//! private data of a REQ or SIDR_REQ hold both addresses and the port of the caller. Which listener
//! that means is the host's to decide.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Bytes of the header in the private data. What is left is the consumer's: 56 bytes of a REQ, 180
/// of a SIDR_REQ.
pub const HEADER_LEN: usize = 36;

/// First private-data byte: version of the header, major (4) and minor (4).
const VERSION: u8 = 0;

/// A port space of `rdma_cm`, by its number there, which is also what stands in the service ID.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u16)]
pub enum PortSpace {
    /// `RDMA_PS_IPOIB`.
    Ipoib = 0x0002,
    /// `RDMA_PS_IB`: native service IDs.
    Ib = 0x013f,
    /// `RDMA_PS_TCP`.
    Tcp = 0x0106,
    /// `RDMA_PS_UDP`.
    Udp = 0x0111,
}

impl PortSpace {
    /// The port space of a number.
    pub fn from_number(number: u16) -> Option<PortSpace> {
        [
            PortSpace::Ipoib,
            PortSpace::Ib,
            PortSpace::Tcp,
            PortSpace::Udp,
        ]
        .into_iter()
        .find(|ps| *ps as u16 == number)
    }
}

/// The service ID of a port, in host byte order.
pub fn service_id(space: PortSpace, port: u16) -> u64 {
    u64::from(space as u16) << 16 | u64::from(port)
}

/// The port that a service ID stands for; `None` if it is none of this service's.
pub fn parse_service_id(service_id: u64) -> Option<(PortSpace, u16)> {
    let space = PortSpace::from_number(u16::try_from(service_id >> 16).ok()?)?;
    Some((space, service_id as u16))
}

/// What stands ahead of the consumer's private data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IpHeader {
    /// The caller's port.
    pub src_port: u16,
    /// The caller's address.
    pub src: IpAddr,
    /// The address that was called; of the same family.
    pub dst: IpAddr,
}

/// Why private data does not begin with the header.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum IpHeaderError {
    /// Fewer than 36 bytes.
    #[error("private data too short for the IP header")]
    Length,
    /// Another major version.
    #[error("version {0:#x} of the IP header is not known")]
    Version(u8),
    /// Neither IPv4 nor IPv6.
    #[error("IP version {0} is not known")]
    IpVersion(u8),
}

impl IpHeader {
    /// Reads the header from the front of the private data.
    ///
    /// # Errors
    /// See [`IpHeaderError`].
    pub fn parse(private: &[u8]) -> Result<IpHeader, IpHeaderError> {
        let header: &[u8; HEADER_LEN] = private.first_chunk().ok_or(IpHeaderError::Length)?;
        if header[0] >> 4 != VERSION >> 4 {
            return Err(IpHeaderError::Version(header[0]));
        }

        let (_, addresses) = header.split_at(4);
        let (src, dst) = addresses.split_at(16);
        let address = match header[1] >> 4 {
            4 => |bytes: &[u8]| IpAddr::V4(Ipv4Addr::from(last4(bytes))),
            6 => |bytes: &[u8]| IpAddr::V6(Ipv6Addr::from(all16(bytes))),
            other => return Err(IpHeaderError::IpVersion(other)),
        };

        Ok(IpHeader {
            src_port: u16::from_be_bytes([header[2], header[3]]),
            src: address(src),
            dst: address(dst),
        })
    }

    /// The header's bytes. Should the families differ, both addresses are written as IPv6.
    pub fn emit(&self) -> [u8; HEADER_LEN] {
        let mut out = [0; HEADER_LEN];
        let [port_high, port_low] = self.src_port.to_be_bytes();
        out[0] = VERSION;
        out[2] = port_high;
        out[3] = port_low;
        match (self.src, self.dst) {
            (IpAddr::V4(src), IpAddr::V4(dst)) => {
                out[1] = 4 << 4;
                out[16..20].copy_from_slice(&src.octets());
                out[32..36].copy_from_slice(&dst.octets());
            }
            (src, dst) => {
                out[1] = 6 << 4;
                out[4..20].copy_from_slice(&v6(src).octets());
                out[20..36].copy_from_slice(&v6(dst).octets());
            }
        }

        out
    }
}

fn v6(address: IpAddr) -> Ipv6Addr {
    match address {
        IpAddr::V4(a) => a.to_ipv6_mapped(),
        IpAddr::V6(a) => a,
    }
}

/// An IPv4 address stands in the last four of its sixteen bytes.
fn last4(bytes: &[u8]) -> [u8; 4] {
    bytes.last_chunk().copied().unwrap_or_default()
}

fn all16(bytes: &[u8]) -> [u8; 16] {
    bytes.first_chunk().copied().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn service_ids_are_those_of_rdma_cm() {
        assert_eq!(service_id(PortSpace::Tcp, 7174), 0x0106_1c06);
        assert_eq!(service_id(PortSpace::Udp, 7174), 0x0111_1c06);
        assert_eq!(parse_service_id(0x0106_1c06), Some((PortSpace::Tcp, 7174)));
        assert_eq!(parse_service_id(0x0000_0001_0106_1c06), None);
        assert_eq!(parse_service_id(0x0107_1c06), None);
    }

    #[test]
    fn the_header_comes_back() {
        for (src, dst) in [("10.0.0.1", "10.0.0.2"), ("fe80::1", "fd00::2")] {
            let header = IpHeader {
                src_port: 0x1234,
                src: src.parse().unwrap(),
                dst: dst.parse().unwrap(),
            };
            let bytes = header.emit();
            assert_eq!(IpHeader::parse(&bytes), Ok(header));
            assert_eq!(IpHeader::parse(&bytes[..35]), Err(IpHeaderError::Length));
        }
    }

    #[test]
    fn what_is_not_known_is_refused() {
        let mut bytes = IpHeader {
            src_port: 1,
            src: IpAddr::V4(Ipv4Addr::LOCALHOST),
            dst: IpAddr::V4(Ipv4Addr::LOCALHOST),
        }
        .emit();
        bytes[1] = 0x50;
        assert_eq!(IpHeader::parse(&bytes), Err(IpHeaderError::IpVersion(5)));
        bytes[0] = 0x10;
        assert_eq!(IpHeader::parse(&bytes), Err(IpHeaderError::Version(0x10)));
    }
}
