//! A capture file, as bytes: pcapng, of `ferroce capture` or others, or pcap. Nothing in it is
//! believed; what makes no sense ends the reading, and what was read until then is there.

use std::borrow::Cow;
use std::net::IpAddr;

use ferroce_transport::Time;
use ferroce_wire::{MAX_HEADER, bth};
use pcap_file::pcap::PcapParser;
use pcap_file::pcapng::blocks::enhanced_packet::{EnhancedPacketBlock, EnhancedPacketOption};
use pcap_file::pcapng::blocks::interface_description::InterfaceDescriptionOption;
use pcap_file::pcapng::blocks::interface_statistics::{
    InterfaceStatisticsBlock, InterfaceStatisticsOption,
};
use pcap_file::pcapng::{Block, PcapNgParser};
use pcap_file::{PcapError, TsResolution};

use crate::error::Error;
use crate::frame;
use crate::journal::{self, Said};
use crate::runs;

const PCAPNG: [u8; 4] = [0x0a, 0x0d, 0x0d, 0x0a];
const PCAP: [u32; 2] = [0xa1b2_c3d4, 0xa1b2_3c4d];
/// Packets longer than this are none: payload of 4096 bytes at most, and headers.
const LONGEST: usize = 4096 + MAX_HEADER + 64;

/// What a file has of RDMA, in its order.
#[derive(Debug, Default)]
pub struct Capture<'a> {
    /// Packets and messages.
    pub entries: Vec<Entry<'a>>,
    /// Packets in it that are something else.
    pub others: u64,
    /// Records that were dropped while it was captured, as it says itself.
    pub dropped: u64,
    /// Why it was not read to its end, if it was not.
    pub cut: Option<String>,
}

/// Something at a point in time.
#[derive(Debug)]
pub struct Entry<'a> {
    /// Since 1970.
    pub time: Time,
    /// What it is.
    pub what: What<'a>,
}

/// What an entry is.
#[derive(Debug)]
pub enum What<'a> {
    /// A packet.
    Packet(Packet<'a>),
    /// What a program or the device did to a queue pair.
    Said(u32, Said),
}

/// A packet, as it was seen somewhere.
#[derive(Debug)]
pub struct Packet<'a> {
    /// Where it came from.
    pub from: IpAddr,
    /// Where it went to.
    pub to: IpAddr,
    /// Who saw it; `None`: who was between both.
    pub seen: Option<Seen>,
    /// From the BTH to the ICRC. What was not kept is zeros.
    pub bytes: Cow<'a, [u8]>,
}

/// How a program of a device has seen a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Seen {
    /// It came to the program; otherwise the program sent it.
    pub incoming: bool,
    /// The program's queue pair; 0: none, as it was dropped.
    pub qpn: u32,
}

impl<'a> Capture<'a> {
    /// Takes a file apart.
    ///
    /// # Errors
    /// It is no capture.
    pub fn parse(bytes: &'a [u8]) -> Result<Capture<'a>, Error> {
        let Some(magic) = bytes.first_chunk::<4>() else {
            return Err(Error::Short(bytes.len()));
        };
        let word = u32::from_ne_bytes(*magic);
        let known = |known: &u32| word == *known || word == known.swap_bytes();
        let mut capture = Capture::default();
        let ended = match *magic == PCAPNG {
            true => capture.pcapng(bytes),
            false if PCAP.iter().any(known) => capture.pcap(bytes),
            false => return Err(Error::NoCapture),
        };

        if let Err(error) = ended {
            let why = match error {
                PcapError::IncompleteBuffer => "it is cut off".to_owned(),
                other => other.to_string(),
            };
            if capture.entries.is_empty() && capture.others == 0 {
                return Err(Error::Broken(why));
            }
            capture.cut = Some(why);
        }
        Ok(capture)
    }

    fn pcapng(&mut self, bytes: &'a [u8]) -> Result<(), PcapError> {
        let (mut rest, mut parser) = PcapNgParser::new(bytes)?;
        while !rest.is_empty() {
            let (next, block) = parser.next_block(rest)?;
            match block {
                Block::EnhancedPacket(block) => {
                    let interface = parser.packet_interface(&block);
                    let interface =
                        interface.ok_or(PcapError::InvalidInterfaceId(block.interface_id))?;
                    let resolution = interface.options.iter().find_map(|option| match option {
                        InterfaceDescriptionOption::IfTsResol(resolution) => Some(*resolution),
                        _ => None,
                    });
                    let link_type = interface.linktype.into();
                    self.enhanced(link_type, resolution.unwrap_or(6), block);
                }
                Block::SystemdJournalExport(block) => self.journal(&block.journal_entry),
                Block::InterfaceStatistics(block) => self.statistics(&block),
                _ => {}
            }
            rest = next;
        }
        Ok(())
    }

    fn pcap(&mut self, bytes: &'a [u8]) -> Result<(), PcapError> {
        let (mut rest, parser) = PcapParser::new(bytes)?;
        let header = parser.header();
        while !rest.is_empty() {
            let (next, packet) = parser.next_raw_packet(rest)?;
            let unit = match header.ts_resolution {
                TsResolution::MicroSecond => 1000,
                TsResolution::NanoSecond => 1,
            };
            let nanos = u64::from(packet.ts_sec) * 1_000_000_000 + u64::from(packet.ts_frac) * unit;
            if let Cow::Borrowed(data) = packet.data {
                self.frame(Time::from_nanos(nanos), header.datalink.into(), data, None);
            }
            rest = next;
        }
        Ok(())
    }

    fn enhanced(&mut self, link_type: u32, resolution: u8, block: EnhancedPacketBlock<'a>) {
        // The crate takes the number for nanoseconds, whatever the interface says.
        let units = block.timestamp.as_nanos();
        let nanos = match resolution >> 7 {
            0 => match 9_i32 - i32::from(resolution) {
                more @ 0.. => units.saturating_mul(10_u128.pow(more as u32)),
                less => {
                    units
                        / 10_u128
                            .checked_pow(less.unsigned_abs())
                            .unwrap_or(u128::MAX)
                }
            },
            _ => units.saturating_mul(1_000_000_000) >> (resolution & 0x3f),
        };
        let time = Time::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX));

        let (mut way, mut qpn) = (None, None);
        for option in &block.options {
            match option {
                EnhancedPacketOption::Flags(flags) => way = Some(flags & 3),
                EnhancedPacketOption::Comment(comment) => qpn = qpn.or(own(comment)),
                _ => {}
            }
        }
        let seen = match (way, qpn) {
            (Some(way @ 1..=2), Some(qpn)) => Some(Seen {
                incoming: way == 1,
                qpn,
            }),
            _ => None,
        };
        if let Cow::Borrowed(data) = block.data {
            self.frame(time, link_type, data, seen);
        }
    }

    fn frame(&mut self, time: Time, link_type: u32, data: &'a [u8], seen: Option<Seen>) {
        let Some(frame) = frame::open(link_type, data) else {
            self.others += 1;
            return;
        };

        // A program's own are one by one.
        let packets: Vec<_> = match seen {
            None => runs::split(frame.bytes, frame.len).collect(),
            Some(_) => vec![(frame.bytes, frame.len)],
        };
        for (kept, len) in packets {
            if len > LONGEST || kept.len() < bth::LEN {
                self.others += 1;
                continue;
            }
            let mut bytes = Cow::Borrowed(kept);
            if kept.len() < len {
                bytes.to_mut().resize(len, 0);
            }
            let packet = Packet {
                from: frame.from,
                to: frame.to,
                seen,
                bytes,
            };
            self.push(time, What::Packet(packet));
        }
    }

    fn journal(&mut self, entry: &[u8]) {
        let Ok(text) = str::from_utf8(entry) else {
            return;
        };
        let field = |name: &str| text.lines().find_map(|line| line.strip_prefix(name));
        let micros = field("__REALTIME_TIMESTAMP=").and_then(|micros| micros.parse::<u64>().ok());
        let said = field("MESSAGE=").and_then(journal::parse);
        if let (Some(micros), Some((qpn, said))) = (micros, said) {
            // Cut to microseconds, while its place in the file is right.
            let time = Time::from_nanos(micros.saturating_mul(1000));
            let last = self.entries.last().map_or(time, |entry| entry.time);
            self.push(time.max(last), What::Said(qpn, said));
        }
    }

    fn statistics(&mut self, block: &InterfaceStatisticsBlock<'_>) {
        for option in &block.options {
            if let InterfaceStatisticsOption::IsbIfDrop(dropped) = option {
                self.dropped = self.dropped.saturating_add(*dropped);
            }
        }
    }

    fn push(&mut self, time: Time, what: What<'a>) {
        self.entries.push(Entry { time, what });
    }
}

/// The queue pair in a comment of `ferroce capture`'s: `NAME[PID]`, or `NAME[PID] QP 0xN`.
fn own(comment: &str) -> Option<u32> {
    let (_, rest) = comment.rsplit_once('[')?;
    let (pid, rest) = rest.split_once(']')?;
    pid.parse::<u32>().ok()?;
    let Some(digits) = rest.strip_prefix(" QP 0x") else {
        return Some(0);
    };
    let end = digits
        .find(|c: char| !c.is_ascii_hexdigit())
        .unwrap_or(digits.len());
    u32::from_str_radix(&digits[..end], 16)
        .ok()
        .filter(|qpn| *qpn < 1 << 24)
}
