//! Reads classic pcap files as far as RoCEv2 over IPv4 on Ethernet goes, and computes the ICRC in the plainest
//! way, as a second opinion on the implementation under test.

use std::path::Path;

use anyhow::{Context, Result, bail};

/// The UDP port of RoCEv2.
pub const ROCE_V2: u16 = 4791;

/// One captured RoCEv2 packet: the bytes from the IPv4 header on.
pub struct Packet {
    ip: Vec<u8>,
}

/// The RoCEv2 packets of a capture, in order.
pub fn read(path: &Path) -> Result<Vec<Packet>> {
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
        let whole =
            frame.get(12..14)? == [0x08, 0x00] && ip.first()? == &0x45 && ip.get(9)? == &UDP;
        let length = usize::from(u16::from_be_bytes([*ip.get(2)?, *ip.get(3)?]));
        let ip = ip.get(..length)?;
        (whole && ip.get(22..24)? == ROCE_V2.to_be_bytes() && ip.len() >= 20 + 8 + 16)
            .then(|| Packet { ip: ip.to_vec() })
    }

    /// BTH to ICRC.
    pub fn payload(&self) -> &[u8] {
        &self.ip[28..]
    }

    /// Type of service, ECN bits included.
    pub fn type_of_service(&self) -> u8 {
        self.ip[1]
    }

    /// The queue pair that BTH names.
    pub fn destination_qp(&self) -> u32 {
        let qp = &self.payload()[5..8];
        u32::from_be_bytes([0, qp[0], qp[1], qp[2]])
    }

    /// Where it came from.
    pub fn source(&self) -> std::net::Ipv4Addr {
        [self.ip[12], self.ip[13], self.ip[14], self.ip[15]].into()
    }

    /// The Identification of its IPv4 header.
    pub fn identification(&self) -> u16 {
        u16::from_be_bytes([self.ip[4], self.ip[5]])
    }

    /// Whether the ICRC at the end is the one that belongs there.
    pub fn icrc_is_right(&self) -> bool {
        let (covered, icrc) = self.ip.split_at(self.ip.len() - 4);
        let mut masked = vec![0xff; 8];
        masked.extend_from_slice(covered);
        // TOS, TTL, IP checksum, UDP checksum and the reserved byte of BTH count as ones.
        for offset in [1, 8, 10, 11, 26, 27, 28 + 4] {
            masked[8 + offset] = 0xff;
        }
        crc32(&masked).to_le_bytes() == icrc
    }
}

/// The bytes from BTH to ICRC of a datagram between two IPv4 addresses, from `payload` (BTH to pad), as for an Identification of 0.
pub fn with_icrc(payload: &[u8], from: std::net::SocketAddrV4, to: std::net::Ipv4Addr) -> Vec<u8> {
    let udp = payload.len() + 4 + 8;
    let mut masked = vec![0xff; 8];
    masked.extend([0x45, 0xff]);
    masked.extend(((udp + 20) as u16).to_be_bytes());
    masked.extend([0, 0, 0x40, 0, 0xff, 17, 0xff, 0xff]);
    masked.extend(from.ip().octets());
    masked.extend(to.octets());
    masked.extend(from.port().to_be_bytes());
    masked.extend(ROCE_V2.to_be_bytes());
    masked.extend((udp as u16).to_be_bytes());
    masked.extend([0xff, 0xff]);
    let bth = masked.len();
    masked.extend_from_slice(payload);
    masked[bth + 4] = 0xff;
    let mut bytes = payload.to_vec();
    bytes.extend(crc32(&masked).to_le_bytes());
    bytes
}

fn crc32(bytes: &[u8]) -> u32 {
    let mut crc = u32::MAX;
    for byte in bytes {
        crc ^= u32::from(*byte);
        for _ in 0..8 {
            crc = if crc & 1 == 1 {
                (crc >> 1) ^ 0xedb8_8320
            } else {
                crc >> 1
            };
        }
    }
    !crc
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_icrc_that_was_added_is_right() {
        let (from, to) = ("10.0.0.1:50000".parse().unwrap(), [10, 0, 0, 2].into());
        let bytes = with_icrc(&[7; 276], from, to);
        let mut ip = vec![
            0x45, 0, 1, 52, 0, 0, 0x40, 0, 64, 17, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2,
        ];
        ip.extend([0xc3, 0x50, 0x12, 0xb7, 1, 32, 0, 0]);
        ip.extend(&bytes);
        let mut packet = Packet { ip };
        assert!(packet.icrc_is_right());
        packet.ip[60] ^= 1;
        assert!(!packet.icrc_is_right());
    }

    #[test]
    fn crc_of_the_check_string() {
        assert_eq!(crc32(b"123456789"), 0xcbf4_3926);
    }
}
