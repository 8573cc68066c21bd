//! A packet as it is in a capture file: with IP and UDP around it, or off a cable in a record of
//! the kind (ERF) in which Wireshark takes InfiniBand from a file, as it does not know the format's
//! own link type for it.

use std::net::IpAddr;

use ferroce_control::capture::record::{MEMORY_PORT, Medium, Packet};
use ferroce_wire::grh::IpHeader;
use ferroce_wire::{Lrh, ROCE_V2_PORT, grh, lrh};

const IPV4: usize = 20;
const UDP: usize = 8;
/// Bytes before the packet in an ERF record, and of the variant CRC behind it.
const ERF_HEADER: usize = 16;
const VCRC: usize = 2;
const ALGORITHM: crc::Crc<u16> = crc::Crc::<u16>::new(&crc::Algorithm {
    width: 16,
    poly: 0x100b,
    init: 0xffff,
    refin: true,
    refout: true,
    xorout: 0xffff,
    check: 0,
    residue: 0,
});

/// A frame, and how many bytes it has in all: what is there may be the first.
#[derive(Debug)]
pub(super) struct Frame {
    pub(super) bytes: Vec<u8>,
    pub(super) original: u32,
}

/// The frame of a packet, of which `data` is there.
pub(super) fn frame(time: u64, packet: &Packet, data: &[u8]) -> Frame {
    match packet.medium {
        Medium::Cable(port) => erf(time, port, packet, data),
        Medium::Udp(port) => ip(port, packet, data),
        Medium::Memory => ip(MEMORY_PORT, packet, data),
    }
}

/// From the transport header on.
pub(super) fn transport<'a>(packet: &Packet, data: &'a [u8]) -> &'a [u8] {
    let Medium::Cable(_) = packet.medium else {
        return data;
    };
    let global = matches!(Lrh::parse(data), Some((lrh, _)) if lrh.next == lrh::NextHeader::Global);
    let head = lrh::LEN + if global { grh::LEN } else { 0 };
    data.get(head..).unwrap_or_default()
}

/// Likewise, as long as it was: what was not kept is as if it were zeros.
pub(super) fn whole(packet: &Packet, data: &[u8]) -> Vec<u8> {
    let bytes = transport(packet, data);
    let head = data.len() - bytes.len();
    let mut whole = bytes.to_vec();
    whole.resize((packet.original as usize).saturating_sub(head), 0);
    whole
}

fn ip(port: u16, packet: &Packet, data: &[u8]) -> Frame {
    let header = IpHeader {
        source: packet.from,
        destination: packet.to,
        traffic_class: packet.traffic_class,
        flow_label: packet.flow_label,
        hop_limit: packet.hop_limit,
        id: packet.id,
        payload_len: u16::try_from(packet.original).unwrap_or(u16::MAX),
    };
    let header = header.grh();
    let is_v4 = packet.from.is_ipv4() && packet.to.is_ipv4();
    let header = match is_v4 {
        true => &header[grh::LEN - IPV4..],
        false => &header[..],
    };

    let udp_len = u16::try_from(UDP + packet.original as usize).unwrap_or(u16::MAX);
    let mut bytes = Vec::with_capacity(header.len() + UDP + data.len());
    bytes.extend_from_slice(header);
    for word in [port, ROCE_V2_PORT, udp_len, 0] {
        bytes.extend_from_slice(&word.to_be_bytes());
    }
    bytes.extend_from_slice(data);

    // Over IPv6 there must be one; the ICRC does not cover it.
    if !is_v4 && data.len() == packet.original as usize {
        let checksum = checksum(packet, &bytes[header.len()..]);
        let at = header.len() + UDP - 2;
        bytes[at..at + 2].copy_from_slice(&checksum.to_be_bytes());
    }

    Frame {
        original: header.len() as u32 + UDP as u32 + packet.original,
        bytes,
    }
}

/// UDP's, over IPv6.
fn checksum(packet: &Packet, datagram: &[u8]) -> u16 {
    let octets = |ip: IpAddr| match ip {
        IpAddr::V4(ip) => ip.to_ipv6_mapped().octets(),
        IpAddr::V6(ip) => ip.octets(),
    };
    let pseudo = [octets(packet.from), octets(packet.to)].concat();
    let words = |bytes: &[u8]| -> u64 {
        let pairs = bytes.chunks(2);
        let word = |pair: &[u8]| u64::from(pair[0]) << 8 | pair.get(1).map_or(0, |b| u64::from(*b));
        pairs.map(word).sum()
    };
    let mut sum = words(&pseudo) + words(datagram) + datagram.len() as u64 + 17;
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    match !(sum as u16) {
        0 => 0xffff,
        checksum => checksum,
    }
}

/// An ERF record: time in 2^-32 s with the least byte first, then kind, flags, lengths with the
/// greatest first.
fn erf(time: u64, port: u8, packet: &Packet, data: &[u8]) -> Frame {
    const INFINIBAND: u8 = 21;
    const VARIABLE_LENGTH: u8 = 4;
    const SECOND: u64 = 1_000_000_000;

    let whole = data.len() == packet.original as usize;
    let original = packet.original as usize + VCRC;
    let kept = data.len() + if whole { VCRC } else { 0 };
    let seconds = ((time / SECOND) << 32) | (((time % SECOND) << 32) / SECOND);
    let length = |n: usize| u16::try_from(n).unwrap_or(u16::MAX).to_be_bytes();

    let mut bytes = Vec::with_capacity(ERF_HEADER + kept);
    bytes.extend_from_slice(&seconds.to_le_bytes());
    // The lowest bits of the flags say which interface, from 0.
    bytes.extend_from_slice(&[INFINIBAND, VARIABLE_LENGTH | port.wrapping_sub(1) & 3]);
    bytes.extend_from_slice(&length(ERF_HEADER + kept));
    bytes.extend_from_slice(&[0, 0]); // lost before this one
    bytes.extend_from_slice(&length(original));
    bytes.extend_from_slice(data);
    if whole {
        bytes.extend_from_slice(&ALGORITHM.checksum(data).to_le_bytes());
    }

    Frame {
        bytes,
        original: (ERF_HEADER + original) as u32,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn packet(from: &str, to: &str, original: u32) -> Packet {
        Packet {
            incoming: false,
            refused: false,
            medium: Medium::Udp(50_000),
            original,
            from: from.parse().unwrap(),
            to: to.parse().unwrap(),
            traffic_class: 7,
            hop_limit: 64,
            id: 3,
            flow_label: 0,
        }
    }

    #[test]
    fn lengths_are_those_of_the_whole_packet() {
        let frame = frame(0, &packet("192.0.2.1", "192.0.2.2", 100), &[1; 20]);
        assert_eq!((frame.original, frame.bytes.len()), (128, 48));
        let [total, id, udp] = [2, 4, 24].map(|at| &frame.bytes[at..at + 2]);
        assert_eq!(
            (total, id, udp),
            (&[0, 128][..], &[0, 3][..], &[0, 108][..])
        );
        assert_eq!(frame.bytes[20..24], [0xc3, 0x50, 0x12, 0xb7]);
    }

    #[test]
    fn the_checksum_over_ipv6_is_right() {
        let frame = frame(0, &packet("fe80::1", "fe80::2", 5), b"hello");
        assert_eq!(frame.bytes.len(), 40 + 8 + 5);
        // Over all with the checksum in its place the sum is all ones.
        let sum = checksum(&packet("fe80::1", "fe80::2", 5), &frame.bytes[40..]);
        assert_eq!(sum, 0xffff);
    }

    #[test]
    fn a_cable_s_packet_has_its_place_and_time() {
        let cable = Packet {
            medium: Medium::Cable(2),
            ..packet("127.0.0.1", "127.0.0.2", 40)
        };
        let frame = frame(5_500_000_000, &cable, &[0; 40]);
        assert_eq!(frame.bytes.len(), 16 + 40 + 2);
        assert_eq!(frame.original, 58);
        assert_eq!(frame.bytes[..8], [0, 0, 0, 0x80, 5, 0, 0, 0]);
        assert_eq!(frame.bytes[8..10], [21, 5]);
        assert_eq!(transport(&cable, &frame.bytes[16..]).len(), 42 - 8);
    }
}
