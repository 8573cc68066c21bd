//! The packets of a test as a capture file: RoCEv2 in the Ethernet frames that it would have had, InfiniBand as it was on the
//! cable, in records of the kind (ERF) in which Wireshark takes InfiniBand from a pcap file. It does not know the format's own
//! link type for it.

use crate::trace::{Carrier, Frame, Trace};
use anyhow::{Context, Result};
use etherparse::{IpNumber, PacketBuilder};
use pcap_file::DataLink;
use pcap_file::pcap::{PcapHeader, PcapPacket, PcapWriter};
use std::fs::File;
use std::net::{IpAddr, SocketAddr};
use std::path::Path;
use std::time::Duration;

/// Bytes that are kept of a packet: all.
const SNAP: u32 = 65535;
/// Of the tester and the device, in frames that never had any.
const MAC: [[u8; 6]; 2] = [[2, 0, 0, 0, 0, 1], [2, 0, 0, 0, 0, 2]];
const HOPS: u8 = 64;

/// Writes a capture file.
///
/// # Errors
/// The file cannot be written.
pub fn write(path: &Path, trace: &Trace) -> Result<()> {
    let context = || format!("{}", path.display());
    let on_cable = |frame: &Frame| matches!(frame.carrier, Carrier::Cable { .. });
    let datalink = match trace.frames.first().is_some_and(on_cable) {
        true => DataLink::ERF,
        false => DataLink::ETHERNET,
    };
    let header = PcapHeader {
        datalink,
        snaplen: SNAP,
        ..PcapHeader::default()
    };
    let file = File::create(path).with_context(context)?;
    let mut out = PcapWriter::with_header(file, header).with_context(context)?;
    let mut frames: Vec<&Frame> = trace.frames.iter().collect();
    frames.sort_by_key(|frame| frame.at);
    for frame in frames {
        let bytes = match frame.carrier {
            Carrier::Cable { port } => erf(frame.at, port, &with_vcrc(&frame.bytes)),
            Carrier::Roce { from, to } => ethernet(frame, from, to)?,
        };
        let packet = PcapPacket::new(frame.at, bytes.len() as u32, &bytes);
        out.write_packet(&packet).with_context(context)?;
    }
    Ok(())
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

/// An ERF record: time in 2^-32 s with the least byte first, then kind, flags, lengths with the greatest first.
fn erf(at: Duration, port: u8, packet: &[u8]) -> Vec<u8> {
    const INFINIBAND: u8 = 21;
    const VARIABLE_LENGTH: u8 = 4;
    const HEADER: usize = 16;
    let fraction = (u64::from(at.subsec_nanos()) << 32) / 1_000_000_000;
    let time = at.as_secs() << 32 | fraction;
    let mut bytes = Vec::with_capacity(HEADER + packet.len());
    bytes.extend_from_slice(&time.to_le_bytes());
    // The lowest bits of the flags say which interface, from 0.
    bytes.extend_from_slice(&[INFINIBAND, VARIABLE_LENGTH | port.wrapping_sub(1) & 3]);
    bytes.extend_from_slice(&((HEADER + packet.len()) as u16).to_be_bytes());
    bytes.extend_from_slice(&[0, 0]); // lost before this one
    bytes.extend_from_slice(&(packet.len() as u16).to_be_bytes());
    bytes.extend_from_slice(packet);
    bytes
}

/// An InfiniBand packet with the variant CRC that a cable of ours does not carry and a capture file has.
fn with_vcrc(packet: &[u8]) -> Vec<u8> {
    const VCRC: crc::Crc<u16> = crc::Crc::<u16>::new(&crc::Algorithm {
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
    bytes.extend_from_slice(&VCRC.checksum(packet).to_le_bytes());
    bytes
}
