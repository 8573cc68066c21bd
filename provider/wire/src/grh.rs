//! The global route header: IPv6's layout, between LRH and BTH, and the first 40 bytes of a UD
//! receive buffer. With RoCEv2 those 40 bytes hold the IP header: that of IPv6, or 20 zeros and
//! that of IPv4.

use std::net::{IpAddr, Ipv4Addr};

use zerocopy::IntoBytes;

use crate::raw::{RawGrh, RawIpv4, put, take};

/// Bytes of a GRH.
pub const LEN: usize = size_of::<RawGrh>();

/// Next-header value of a GRH that is followed by a BTH.
pub const NEXT_BTH: u8 = 0x1b;

/// Next-header value of UDP, which stands there with RoCEv2.
pub const NEXT_UDP: u8 = 17;

/// Bytes of a UDP header.
const UDP_HEADER: u16 = 8;

/// What the IP header of a RoCEv2 packet said, as far as a socket tells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IpHeader {
    /// Source address.
    pub source: IpAddr,
    /// Destination address, of the same family.
    pub destination: IpAddr,
    /// TOS or traffic class.
    pub traffic_class: u8,
    /// IPv6's flow label, 20 bits.
    pub flow_label: u32,
    /// TTL or hop limit.
    pub hop_limit: u8,
    /// IPv4's identification.
    pub id: u16,
    /// Bytes of the UDP payload, the ICRC included.
    pub payload_len: u16,
}

impl IpHeader {
    /// The 40 bytes that stand for the GRH in a receive buffer. A header checksum of IPv4 is
    /// computed; DF is taken to be set.
    pub fn grh(&self) -> [u8; LEN] {
        let mut out = [0; LEN];
        let udp = self.payload_len.saturating_add(UDP_HEADER);
        match (self.source, self.destination) {
            (IpAddr::V4(source), IpAddr::V4(destination)) => {
                let mut at = LEN - size_of::<RawIpv4>();
                put(&mut out, &mut at, &self.ipv4(source, destination, udp));
            }
            (source, destination) => {
                let grh = Grh {
                    version: 6,
                    traffic_class: self.traffic_class,
                    flow_label: self.flow_label,
                    payload_len: udp,
                    next_header: NEXT_UDP,
                    hop_limit: self.hop_limit,
                    sgid: octets(source),
                    dgid: octets(destination),
                };
                grh.emit(&mut out);
            }
        }

        out
    }

    fn ipv4(&self, source: Ipv4Addr, destination: Ipv4Addr, udp: u16) -> RawIpv4 {
        const DONT_FRAGMENT: u16 = 0x4000;

        let len = udp.saturating_add(size_of::<RawIpv4>() as u16);
        let mut raw = RawIpv4 {
            version_ihl: 0x45,
            tos: self.traffic_class,
            total_len: len.into(),
            id: self.id.into(),
            flags_offset: DONT_FRAGMENT.into(),
            ttl: self.hop_limit,
            protocol: NEXT_UDP,
            checksum: 0.into(),
            source: source.octets(),
            destination: destination.octets(),
        };

        raw.checksum = checksum(raw.as_bytes()).into();
        raw
    }
}

fn octets(ip: IpAddr) -> [u8; 16] {
    match ip {
        IpAddr::V4(ip) => ip.to_ipv6_mapped().octets(),
        IpAddr::V6(ip) => ip.octets(),
    }
}

/// The Internet checksum (RFC 1071) of an even number of bytes.
fn checksum(bytes: &[u8]) -> u16 {
    let words = bytes.chunks_exact(2);
    let sum: u32 = words
        .map(|w| u32::from(u16::from_be_bytes([w[0], w[1]])))
        .sum();
    let folded = (sum & 0xffff) + (sum >> 16);
    !((folded & 0xffff) + (folded >> 16)) as u16
}

/// Global route header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Grh {
    /// Version, 4 bits; 6.
    pub version: u8,
    /// Traffic class.
    pub traffic_class: u8,
    /// Flow label, 20 bits.
    pub flow_label: u32,
    /// Bytes from behind the GRH to the end of the ICRC.
    pub payload_len: u16,
    /// Next header; [`NEXT_BTH`].
    pub next_header: u8,
    /// Hop limit.
    pub hop_limit: u8,
    /// Source GID, network byte order.
    pub sgid: [u8; 16],
    /// Destination GID, network byte order.
    pub dgid: [u8; 16],
}

impl Grh {
    /// Reads a GRH from the front of `bytes` and returns what lies behind it; `None` if they are
    /// too few.
    pub fn parse(mut bytes: &[u8]) -> Option<(Grh, &[u8])> {
        let raw: &RawGrh = take(&mut bytes)?;
        let first = raw.version_class_flow.get();
        let grh = Grh {
            version: (first >> 28) as u8,
            traffic_class: (first >> 20) as u8,
            flow_label: first & 0xf_ffff,
            payload_len: raw.payload_len.get(),
            next_header: raw.next_header,
            hop_limit: raw.hop_limit,
            sgid: raw.sgid,
            dgid: raw.dgid,
        };
        Some((grh, bytes))
    }

    /// Writes the header to the front of `out` and returns its length, 40.
    ///
    /// # Panics
    /// If `out` is too short.
    pub fn emit(&self, out: &mut [u8]) -> usize {
        let first = u32::from(self.version) << 28
            | u32::from(self.traffic_class) << 20
            | self.flow_label & 0xf_ffff;
        let raw = RawGrh {
            version_class_flow: first.into(),
            payload_len: self.payload_len.into(),
            next_header: self.next_header,
            hop_limit: self.hop_limit,
            sgid: self.sgid,
            dgid: self.dgid,
        };
        let mut at = 0;
        put(out, &mut at, &raw);
        at
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ipv4_stands_in_the_last_twenty_bytes_with_its_checksum() {
        // The header of RFC 1071's usual example, with DF.
        let header = IpHeader {
            source: [172, 16, 10, 99].into(),
            destination: [172, 16, 10, 12].into(),
            traffic_class: 0,
            flow_label: 0,
            hop_limit: 64,
            id: 0x1c46,
            payload_len: 0x3c - 28,
        };

        let grh = header.grh();
        assert_eq!(grh[..20], [0; 20]);
        assert_eq!(grh[20..24], [0x45, 0, 0, 0x3c]);
        assert_eq!(grh[32..], [172, 16, 10, 99, 172, 16, 10, 12]);

        // With its checksum in place, a header sums up to all ones.
        assert_eq!(checksum(&grh[20..]), 0);
    }

    #[test]
    fn ipv6_is_the_grh_with_udp_next() {
        let header = IpHeader {
            source: "::1".parse().unwrap(),
            destination: "fe80::2".parse().unwrap(),
            traffic_class: 0x22,
            flow_label: 0xabcde,
            hop_limit: 3,
            id: 0,
            payload_len: 100,
        };

        let bytes = header.grh();
        let (grh, rest) = Grh::parse(&bytes).unwrap();
        assert!(rest.is_empty());
        assert_eq!(
            (grh.version, grh.next_header, grh.payload_len),
            (6, 17, 108)
        );

        assert_eq!(
            (grh.traffic_class, grh.flow_label, grh.hop_limit),
            (0x22, 0xabcde, 3)
        );

        assert_eq!(grh.sgid[15], 1);
    }
}
