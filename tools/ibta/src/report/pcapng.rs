//! The packets of a test as a capture file (pcapng): RoCEv2 in the Ethernet frames that it would
//! have had, InfiniBand as it was on the cable, in records of the kind (ERF) in which Wireshark
//! takes InfiniBand from a file. It does not know the format's own link type for it. Times are in
//! nanoseconds; what the device sent is inbound; the first packet of a step has the step as its
//! comment.

use crate::run::{Entry, Recorded};
use crate::trace::{Carrier, Frame, Trace};
use anyhow::{Context, Result, bail};
use etherparse::{IpNumber, NetSlice, PacketBuilder, SlicedPacket, TransportSlice};
use pcap_file::DataLink;
use pcap_file::pcapng::blocks::enhanced_packet::{EnhancedPacketBlock, EnhancedPacketOption};
use pcap_file::pcapng::blocks::interface_description::{
    InterfaceDescriptionBlock, InterfaceDescriptionOption,
};
use pcap_file::pcapng::{Block, PcapNgReader, PcapNgWriter};
use std::fs::File;
use std::io::{BufReader, BufWriter, Write};
use std::net::{IpAddr, SocketAddr};
use std::path::Path;
use std::time::Duration;

/// Bytes that are kept of a packet: all.
const SNAP: u32 = 65535;
/// 10^-9 s.
const NANOSECONDS: u8 = 9;
/// Of the tester and the device, in frames that never had any.
const MAC: [[u8; 6]; 2] = [[2, 0, 0, 0, 0, 1], [2, 0, 0, 0, 0, 2]];
const HOPS: u8 = 64;
/// Bits of a packet's flags: which way it went, as the tester sees it.
const DIRECTION: u32 = 3;
const INBOUND: u32 = 1;
const OUTBOUND: u32 = 2;
/// Bytes before the packet in an ERF record, and of the variant CRC behind it.
const ERF_HEADER: usize = 16;
const VCRC: usize = 2;

/// Writes a capture file.
///
/// # Errors
/// The file cannot be written.
pub fn write(path: &Path, trace: &Trace, entries: &[Recorded]) -> Result<()> {
    let context = || format!("{}", path.display());
    let on_cable = |frame: &Frame| matches!(frame.carrier, Carrier::Cable { .. });
    let linktype = match trace.frames.first().is_some_and(on_cable) {
        true => DataLink::ERF,
        false => DataLink::ETHERNET,
    };

    let interface = InterfaceDescriptionBlock {
        linktype,
        snaplen: SNAP,
        options: vec![InterfaceDescriptionOption::IfTsResol(NANOSECONDS)],
    };

    let file = BufWriter::new(File::create(path).with_context(context)?);
    let mut out = PcapNgWriter::new(file).with_context(context)?;
    out.write_pcapng_block(interface).with_context(context)?;
    let mut steps = steps(entries).peekable();
    for (n, frame) in trace.frames.iter().enumerate() {
        let data = match frame.carrier {
            Carrier::Cable { port } => erf(frame.at, port, &with_vcrc(&frame.bytes)),
            Carrier::Roce { from, to } => ethernet(frame, from, to)?,
        };

        let direction = if frame.by_device { INBOUND } else { OUTBOUND };
        let mut options = vec![EnhancedPacketOption::Flags(direction)];
        while let Some((_, step)) = steps.next_if(|(after, _)| *after <= n) {
            options.push(EnhancedPacketOption::Comment(step.into()));
        }
        let block = EnhancedPacketBlock {
            interface_id: 0,
            timestamp: frame.at,
            original_len: data.len() as u32,
            data: data.into(),
            options,
        };
        out.write_pcapng_block(block).with_context(context)?;
    }

    out.into_inner().flush().with_context(context)
}

/// The steps, and behind how many packets each begins.
fn steps(entries: &[Recorded]) -> impl Iterator<Item = (usize, String)> {
    entries.iter().filter_map(|recorded| match &recorded.entry {
        Entry::Step { number, text } => {
            Some((recorded.after_packets, format!("step {number}: {text}")))
        }
        _ => None,
    })
}

/// Reads a capture file that [`write()`] has written.
///
/// # Errors
/// The file cannot be read, or is none of these.
pub fn read(path: &Path) -> Result<Trace> {
    let context = || format!("{}", path.display());
    let file = BufReader::new(File::open(path).with_context(context)?);
    let mut blocks = PcapNgReader::new(file).with_context(context)?;
    let mut linktype = None;
    let mut trace = Trace::default();
    while let Some(block) = blocks.next_block() {
        match block.with_context(context)? {
            Block::InterfaceDescription(interface) => linktype = Some(interface.linktype),
            Block::EnhancedPacket(packet) => {
                let frame = match linktype {
                    Some(DataLink::ERF) => from_erf(&packet),
                    Some(DataLink::ETHERNET) => from_ethernet(&packet),
                    _ => None,
                };
                let frame = frame.context("a packet that is none of this suite's");
                trace.frames.push(frame.with_context(context)?);
            }
            _ => {}
        }
    }

    if linktype.is_none() {
        bail!("{}: there is no interface in it", path.display());
    }

    Ok(trace)
}

fn by_device(packet: &EnhancedPacketBlock<'_>) -> bool {
    let flags = packet.options.iter().find_map(|option| match option {
        EnhancedPacketOption::Flags(flags) => Some(flags & DIRECTION),
        _ => None,
    });
    flags == Some(INBOUND)
}

fn from_ethernet(packet: &EnhancedPacketBlock<'_>) -> Option<Frame> {
    let slices = SlicedPacket::from_ethernet(&packet.data).ok()?;
    let (from, to): (IpAddr, IpAddr) = match slices.net? {
        NetSlice::Ipv4(ip) => (
            ip.header().source_addr().into(),
            ip.header().destination_addr().into(),
        ),
        NetSlice::Ipv6(ip) => {
            let [from, to] = [ip.header().source_addr(), ip.header().destination_addr()];
            (from.to_canonical(), to.to_canonical())
        }
        NetSlice::Arp(_) => return None,
    };

    let Some(TransportSlice::Udp(udp)) = slices.transport else {
        return None;
    };

    Some(Frame {
        at: packet.timestamp,
        by_device: by_device(packet),
        carrier: Carrier::Roce {
            from: SocketAddr::new(from, udp.source_port()),
            to: SocketAddr::new(to, udp.destination_port()),
        },
        bytes: udp.payload().to_vec(),
    })
}

fn from_erf(packet: &EnhancedPacketBlock<'_>) -> Option<Frame> {
    let flags = packet.data.get(9)?;
    let end = packet.data.len().checked_sub(VCRC)?;
    Some(Frame {
        at: packet.timestamp,
        by_device: by_device(packet),
        carrier: Carrier::Cable {
            port: (flags & 3) + 1,
        },
        bytes: packet.data.get(ERF_HEADER..end)?.to_vec(),
    })
}

fn ethernet(frame: &Frame, from: SocketAddr, to: SocketAddr) -> Result<Vec<u8>> {
    let sender = usize::from(frame.by_device);
    let builder = PacketBuilder::ethernet2(MAC[sender], MAC[1 - sender]);
    let builder = match (from.ip(), to.ip()) {
        // The Identification is 0 and DF set, as the ICRC has it.
        (IpAddr::V4(source), IpAddr::V4(destination)) => builder.ip(etherparse::IpHeaders::Ipv4(
            etherparse::Ipv4Header {
                source: source.octets(),
                destination: destination.octets(),
                time_to_live: HOPS,
                protocol: IpNumber::UDP,
                identification: 0,
                dont_fragment: true,
                ..Default::default()
            },
            Default::default(),
        )),
        (source, destination) => {
            builder.ipv6(mapped(source).octets(), mapped(destination).octets(), HOPS)
        }
    };

    let builder = builder.udp(from.port(), to.port());
    let mut bytes = Vec::with_capacity(builder.size(frame.bytes.len()));
    builder.write(&mut bytes, &frame.bytes)?;
    Ok(bytes)
}

fn mapped(ip: IpAddr) -> std::net::Ipv6Addr {
    match ip {
        IpAddr::V4(ip) => ip.to_ipv6_mapped(),
        IpAddr::V6(ip) => ip,
    }
}

/// An ERF record: time in 2^-32 s with the least byte first, then kind, flags, lengths with the
/// greatest first.
fn erf(at: Duration, port: u8, packet: &[u8]) -> Vec<u8> {
    const INFINIBAND: u8 = 21;
    const VARIABLE_LENGTH: u8 = 4;
    let fraction = (u64::from(at.subsec_nanos()) << 32) / 1_000_000_000;
    let time = at.as_secs() << 32 | fraction;
    let mut bytes = Vec::with_capacity(ERF_HEADER + packet.len());
    bytes.extend_from_slice(&time.to_le_bytes());
    // The lowest bits of the flags say which interface, from 0.
    bytes.extend_from_slice(&[INFINIBAND, VARIABLE_LENGTH | port.wrapping_sub(1) & 3]);
    bytes.extend_from_slice(&((ERF_HEADER + packet.len()) as u16).to_be_bytes());
    bytes.extend_from_slice(&[0, 0]); // lost before this one
    bytes.extend_from_slice(&(packet.len() as u16).to_be_bytes());
    bytes.extend_from_slice(packet);
    bytes
}

/// An InfiniBand packet with the variant CRC that a cable of ours does not carry and a capture file
/// has.
fn with_vcrc(packet: &[u8]) -> Vec<u8> {
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
    let mut bytes = packet.to_vec();
    bytes.extend_from_slice(&ALGORITHM.checksum(packet).to_le_bytes());
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame(ms: u64, by_device: bool, carrier: Carrier) -> Frame {
        Frame {
            at: Duration::from_millis(ms) + Duration::from_nanos(1),
            by_device,
            carrier,
            bytes: (0..20).collect(),
        }
    }

    #[test]
    fn what_is_written_is_read() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("x.pcapng");
        let (v4, v6) = (
            ["192.0.2.1:49152", "192.0.2.2:4791"],
            ["[2001:db8::1]:1", "[2001:db8::2]:4791"],
        );

        let roce = |ends: [&str; 2]| Carrier::Roce {
            from: ends[0].parse().unwrap(),
            to: ends[1].parse().unwrap(),
        };

        let cable = |port| Carrier::Cable { port };
        for carriers in [[roce(v4), roce(v6)], [cable(1), cable(2)]] {
            let frames = vec![frame(1, false, carriers[0]), frame(2, true, carriers[1])];
            let trace = Trace { frames };
            write(&path, &trace, &[]).unwrap();
            assert_eq!(read(&path).unwrap().frames, trace.frames);
        }
    }

    #[test]
    fn a_step_is_the_comment_of_its_first_packet() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("x.pcapng");
        let frames = vec![frame(1, false, Carrier::Cable { port: 1 }); 3];
        let step = Recorded {
            at: Duration::ZERO,
            after_packets: 1,
            entry: Entry::Step {
                number: "6.2".to_owned(),
                text: "verify".to_owned(),
            },
        };

        write(&path, &Trace { frames }, &[step]).unwrap();

        let mut blocks = PcapNgReader::new(File::open(&path).unwrap()).unwrap();
        let mut comments = Vec::new();
        while let Some(block) = blocks.next_block() {
            if let Block::EnhancedPacket(packet) = block.unwrap() {
                let comment = packet.options.iter().find_map(|option| match option {
                    EnhancedPacketOption::Comment(text) => Some(text.to_string()),
                    _ => None,
                });
                comments.push(comment);
            }
        }

        assert_eq!(comments, [None, Some("step 6.2: verify".to_owned()), None]);
    }
}
