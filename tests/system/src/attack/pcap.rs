//! Reads classic pcap files as far as RoCEv2 on Ethernet goes, and computes the ICRC by
//! other code than the product's, as a second opinion on it.

use std::net::{IpAddr, SocketAddr};
use std::path::Path;

use anyhow::{Context, Result, bail};
use crc::{CRC_32_ISO_HDLC, Crc};

/// The UDP port of RoCEv2.
pub(crate) const ROCE_V2: u16 = 4791;

/// One captured RoCEv2 packet: the bytes from the IP header on.
pub(crate) struct Packet {
    ip: Vec<u8>,
}

/// The RoCEv2 packets of a capture, in order.
pub(crate) fn read(path: &Path) -> Result<Vec<Packet>> {
    let file = std::fs::read(path).with_context(|| format!("{}", path.display()))?;
    let magic = file
        .get(..4)
        .context("a pcap file is at least 24 bytes long")?;
    if magic != 0xa1b2_c3d4_u32.to_le_bytes() && magic != 0xa1b2_3c4d_u32.to_le_bytes() {
        bail!("{}: not a little-endian pcap file", path.display());
    }

    let mut packets = Vec::new();
    let mut rest = file.get(24..).unwrap_or_default();
    while let (Some(length), Some(body)) = (rest.get(8..12), rest.get(16..)) {
        let length = u32::from_le_bytes([length[0], length[1], length[2], length[3]]) as usize;
        let Some(frame) = body.get(..length) else {
            break;
        };
        rest = &body[length..];
        packets.extend(Packet::from_ethernet(frame));
    }

    Ok(packets)
}

impl Packet {
    fn from_ethernet(frame: &[u8]) -> Option<Packet> {
        const ETHERNET: usize = 14;
        const UDP: u8 = 17;

        let ip = frame.get(ETHERNET..)?;
        let word = |at: usize| {
            Some(usize::from(u16::from_be_bytes([
                *ip.get(at)?,
                *ip.get(at + 1)?,
            ])))
        };

        // Without options and extension headers, as RoCEv2 has it.
        let (protocol, length) = match (frame.get(12..14)?, ip.first()?) {
            ([0x08, 0x00], 0x45) => (ip.get(9)?, word(2)?),
            ([0x86, 0xdd], 0x60..=0x6f) => (ip.get(6)?, IPV6 + word(4)?),
            _ => return None,
        };
        let ip = ip.get(..length)?;
        let udp = udp_of(ip);
        (*protocol == UDP
            && ip.get(udp + 2..udp + 4)? == ROCE_V2.to_be_bytes()
            && ip.len() >= udp + 8 + 16)
            .then(|| Packet { ip: ip.to_vec() })
    }

    /// BTH to ICRC.
    pub(crate) fn payload(&self) -> &[u8] {
        &self.ip[udp_of(&self.ip) + 8..]
    }

    /// Type of service, or traffic class: ECN bits included.
    pub(crate) fn type_of_service(&self) -> u8 {
        match udp_of(&self.ip) {
            IPV6 => self.ip[0] << 4 | self.ip[1] >> 4,
            _ => self.ip[1],
        }
    }

    /// The queue pair that BTH names.
    pub(crate) fn destination_qp(&self) -> u32 {
        let qp = &self.payload()[5..8];
        u32::from_be_bytes([0, qp[0], qp[1], qp[2]])
    }

    /// Where it came from.
    pub(crate) fn source(&self) -> IpAddr {
        let ip = &self.ip;
        match udp_of(ip) {
            IPV6 => <[u8; 16]>::try_from(&ip[8..24]).map(IpAddr::from),
            _ => <[u8; 4]>::try_from(&ip[12..16]).map(IpAddr::from),
        }
        .unwrap_or_else(|_| unreachable!())
    }

    /// The Identification of its IPv4 header; none over IPv6.
    pub(crate) fn identification(&self) -> Option<u16> {
        (udp_of(&self.ip) == IPV4).then(|| u16::from_be_bytes([self.ip[4], self.ip[5]]))
    }

    /// Whether the ICRC at the end is the one that belongs there.
    pub(crate) fn icrc_is_right(&self) -> bool {
        let (covered, icrc) = self.ip.split_at(self.ip.len() - 4);
        icrc_of(covered) == icrc
    }
}

/// Bytes of the headers.
const IPV4: usize = 20;
const IPV6: usize = 40;

/// Where UDP begins in a packet.
fn udp_of(ip: &[u8]) -> usize {
    match ip.first() {
        Some(first) if first >> 4 == 6 => IPV6,
        _ => IPV4,
    }
}

static CRC: Crc<u32> = Crc::<u32>::new(&CRC_32_ISO_HDLC);

/// The ICRC of what is in front of it, from the IP header on.
fn icrc_of(covered: &[u8]) -> [u8; 4] {
    let udp = udp_of(covered);
    let mut masked = vec![0xff; 8];
    masked.extend_from_slice(covered);
    let ip = &mut masked[8..];

    // What routers may change counts as ones, and so do the UDP checksum and the reserved byte of
    // BTH.
    let changed: &[usize] = match udp {
        // Traffic class and flow label, hop limit.
        IPV6 => {
            ip[0] |= 0x0f;
            &[1, 2, 3, 7]
        }
        // TOS, TTL, checksum.
        _ => &[1, 8, 10, 11],
    };

    for offset in changed
        .iter()
        .copied()
        .chain([udp + 6, udp + 7, udp + 8 + 4])
    {
        ip[offset] = 0xff;
    }

    CRC.checksum(&masked).to_le_bytes()
}

/// The bytes from BTH to ICRC of a datagram between two addresses of one family, from `payload`
/// (BTH to pad); over IPv4 as for an Identification of 0.
pub(crate) fn with_icrc(
    payload: &[u8],
    from: impl Into<SocketAddr>,
    to: impl Into<IpAddr>,
) -> Vec<u8> {
    let (from, to) = (from.into(), to.into());
    let udp = ((payload.len() + 4 + 8) as u16).to_be_bytes();
    let mut covered = Vec::new();
    match to {
        IpAddr::V4(_) => {
            let whole = (IPV4 + payload.len() + 4 + 8) as u16;
            covered.extend([0x45, 0]);
            covered.extend(whole.to_be_bytes());
            covered.extend([0, 0, 0x40, 0, 0, 17, 0, 0]);
        }
        IpAddr::V6(_) => {
            covered.extend([0x60, 0, 0, 0]);
            covered.extend(udp);
            covered.extend([17, 0]);
        }
    }

    for address in [from.ip(), to] {
        match address {
            IpAddr::V4(address) => covered.extend(address.octets()),
            IpAddr::V6(address) => covered.extend(address.octets()),
        }
    }

    covered.extend(from.port().to_be_bytes());
    covered.extend(ROCE_V2.to_be_bytes());
    covered.extend(udp);
    covered.extend([0, 0]);
    covered.extend_from_slice(payload);
    let mut bytes = payload.to_vec();
    bytes.extend(icrc_of(&covered));
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A packet that was sent so is right, also with what routers change in it, and wrong with
    /// another bit flipped.
    fn added_and_checked(header: &[u8], from: &str, to: &str, changed: &[usize]) {
        let (from, to): (SocketAddr, IpAddr) = (from.parse().unwrap(), to.parse().unwrap());
        let bytes = with_icrc(&[7; 276], from, to);
        let mut frame = vec![0; 12];
        frame.extend(if from.is_ipv4() {
            [0x08, 0]
        } else {
            [0x86, 0xdd]
        });

        frame.extend(header);
        frame.extend([0xc3, 0x50, 0x12, 0xb7, 1, 32, 0, 0]);
        frame.extend(&bytes);

        // Ethernet pads what is short.
        frame.extend([0; 3]);
        let mut packet = Packet::from_ethernet(&frame).unwrap();
        assert_eq!(packet.source(), from.ip());
        assert_eq!(packet.payload(), bytes);
        assert_eq!(packet.type_of_service(), 0);
        for at in changed {
            packet.ip[*at] ^= 0x0f;
        }
        assert!(packet.icrc_is_right());
        for at in [header.len() - 1, header.len(), packet.ip.len() - 1] {
            packet.ip[at] ^= 1;
            assert!(!packet.icrc_is_right());
            packet.ip[at] ^= 1;
        }
    }

    #[test]
    fn an_icrc_that_was_added_is_right() {
        let v4 = [
            0x45, 0, 1, 52, 0, 0, 0x40, 0, 64, 17, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2,
        ];
        added_and_checked(&v4, "10.0.0.1:50000", "10.0.0.2", &[1, 8, 10, 11, 26, 27]);
        let mut v6 = vec![0x60, 0, 0, 0, 1, 32, 17, 64];
        for last in [1, 2] {
            v6.extend([0xfd, 0x78, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, last]);
        }
        added_and_checked(&v6, "[fd78::1]:50000", "fd78::2", &[0, 1, 2, 3, 7, 46, 47]);
    }
}
