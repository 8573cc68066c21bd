//! A frame of a capture file, down to the transport packet in it: RoCEv2 in Ethernet, Linux's
//! cooked headers or none, and InfiniBand in ERF records. Whatever the bytes, there is a packet or
//! there is none.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use ferroce_wire::{Lrh, ROCE_V2_PORT, grh, lrh};

const UDP: u8 = 17;
const UDP_HEADER: usize = 8;
const ERF_HEADER: usize = 16;
const ERF_INFINIBAND: u8 = 21;
const VCRC: usize = 2;
const TAGS: [u16; 2] = [0x8100, 0x88a8];

/// Link types, as files have them.
mod link {
    pub(super) const NULL: u32 = 0;
    pub(super) const ETHERNET: u32 = 1;
    pub(super) const RAW_BSD: u32 = 12;
    pub(super) const RAW: u32 = 101;
    pub(super) const LOOP: u32 = 108;
    pub(super) const LINUX_SLL: u32 = 113;
    pub(super) const ERF: u32 = 197;
    pub(super) const IPV4: u32 = 228;
    pub(super) const IPV6: u32 = 229;
    pub(super) const LINUX_SLL2: u32 = 276;
}

/// A transport packet in a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Frame<'a> {
    pub(crate) from: IpAddr,
    pub(crate) to: IpAddr,
    /// From the BTH on, as much as was kept.
    pub(crate) bytes: &'a [u8],
    /// Bytes that it has, the ICRC included.
    pub(crate) len: usize,
}

/// The packet in a frame of this link type, if there is one.
pub(crate) fn open(link_type: u32, frame: &[u8]) -> Option<Frame<'_>> {
    match link_type {
        link::RAW | link::RAW_BSD | link::IPV4 | link::IPV6 => internet(frame),
        link::NULL | link::LOOP => internet(frame.get(4..)?),
        link::ETHERNET => ethernet(frame.get(12..)?),
        link::LINUX_SLL => ethernet(frame.get(14..)?),
        link::LINUX_SLL2 => internet(frame.get(20..)?),
        link::ERF => cable(frame),
        _ => None,
    }
}

/// From the type of Ethernet on.
fn ethernet(mut rest: &[u8]) -> Option<Frame<'_>> {
    while TAGS.contains(&word(rest, 0)?) {
        rest = rest.get(4..)?;
    }
    internet(rest.get(2..)?)
}

fn internet(packet: &[u8]) -> Option<Frame<'_>> {
    let (from, to, datagram) = match packet.first()? >> 4 {
        4 => {
            let fragment = word(packet, 6)? & 0x3fff;
            if *packet.get(9)? != UDP || fragment != 0 {
                return None;
            }
            let address = |at: usize| -> Option<IpAddr> {
                let octets: [u8; 4] = packet.get(at..at + 4)?.try_into().ok()?;
                Some(Ipv4Addr::from(octets).into())
            };
            let header = usize::from(packet[0] & 0xf) * 4;
            (address(12)?, address(16)?, packet.get(header.max(20)..)?)
        }
        6 => {
            if *packet.get(6)? != UDP {
                return None;
            }
            let address = |at: usize| -> Option<IpAddr> {
                let octets: [u8; 16] = packet.get(at..at + 16)?.try_into().ok()?;
                Some(Ipv6Addr::from(octets).into())
            };
            (address(8)?, address(24)?, packet.get(40..)?)
        }
        _ => return None,
    };

    if word(datagram, 2)? != ROCE_V2_PORT {
        return None;
    }
    let len = usize::from(word(datagram, 4)?).checked_sub(UDP_HEADER)?;
    let bytes = datagram.get(UDP_HEADER..)?;
    let bytes = &bytes[..bytes.len().min(len)];
    Some(Frame {
        from,
        to,
        bytes,
        len,
    })
}

/// InfiniBand in a record of the Extensible Record Format.
fn cable(record: &[u8]) -> Option<Frame<'_>> {
    if *record.get(8)? != ERF_INFINIBAND {
        return None;
    }
    let len = usize::from(word(record, 14)?).checked_sub(VCRC)?;
    let packet = record.get(ERF_HEADER..)?;
    let packet = &packet[..packet.len().min(len)];
    let (local, _) = Lrh::parse(packet)?;

    let header = match local.next {
        lrh::NextHeader::Global => lrh::LEN + grh::LEN,
        _ => lrh::LEN,
    };
    let address = |lid: u16| IpAddr::from(Ipv4Addr::from(u32::from(lid)));
    Some(Frame {
        from: address(local.slid),
        to: address(local.dlid),
        bytes: packet.get(header..)?,
        len: len.checked_sub(header)?,
    })
}

/// 16 bits, the greatest byte first.
fn word(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_be_bytes(bytes.get(at..at + 2)?.try_into().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A datagram of IPv4 with so much payload, as it stands in an IP packet.
    fn datagram(payload: usize) -> Vec<u8> {
        let mut bytes = vec![
            0x45, 0, 0, 0, 0, 0, 0, 0, 64, UDP, 0, 0, 192, 0, 2, 1, 192, 0, 2, 2,
        ];
        let len = (payload + UDP_HEADER) as u16;
        for word in [49_152, ROCE_V2_PORT, len, 0] {
            bytes.extend(u16::to_be_bytes(word));
        }
        bytes.resize(bytes.len() + payload, 7);
        bytes
    }

    #[test]
    fn a_packet_is_found_whatever_is_around_it() {
        let inner = datagram(40);
        let wanted = open(link::RAW, &inner).unwrap();
        assert_eq!((wanted.len, wanted.bytes.len()), (40, 40));
        assert_eq!(wanted.from.to_string(), "192.0.2.1");

        let before = [
            (link::ETHERNET, [&[0; 12][..], &[8, 0]].concat()),
            (
                link::ETHERNET,
                [&[0; 12][..], &[0x81, 0, 0, 5, 8, 0]].concat(),
            ),
            (link::LINUX_SLL, [&[0; 14][..], &[8, 0]].concat()),
            (link::LINUX_SLL2, vec![0; 20]),
            (link::NULL, vec![2, 0, 0, 0]),
        ];
        for (kind, mut frame) in before {
            frame.extend(&inner);
            assert_eq!(open(kind, &frame), Some(wanted), "{kind}");
        }
    }

    #[test]
    fn what_is_cut_off_has_its_length_all_the_same() {
        let bytes = datagram(40);
        let cut = open(link::RAW, &bytes[..48]).unwrap();
        assert_eq!((cut.len, cut.bytes.len()), (40, 20));
        for end in 0..28 {
            assert_eq!(open(link::RAW, &bytes[..end]), None, "{end}");
        }
    }

    #[test]
    fn others_are_left_out() {
        let mut other = datagram(40);
        other[22..24].copy_from_slice(&[0, 53]);
        assert_eq!(open(link::RAW, &other), None);
        let mut tcp = datagram(40);
        tcp[9] = 6;
        assert_eq!(open(link::RAW, &tcp), None);
        let mut fragment = datagram(40);
        fragment[7] = 1;
        assert_eq!(open(link::RAW, &fragment), None);
    }
}
