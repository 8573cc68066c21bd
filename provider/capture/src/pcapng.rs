//! The capture as pcapng: an interface for the port's sockets, one for packets through memory, and
//! one for each cable. A packet's comment says whose it is. What is done by verbs is an entry of a
//! systemd journal, which Wireshark shows among the packets; custom blocks it passes over.

use std::io::{self, Write};
use std::time::Duration;

use ferroce_control::capture::record::{Medium, Packet, What};
use pcap_file::pcapng::PcapNgWriter;
use pcap_file::pcapng::blocks::enhanced_packet::{EnhancedPacketBlock, EnhancedPacketOption};
use pcap_file::pcapng::blocks::interface_description::{
    InterfaceDescriptionBlock, InterfaceDescriptionOption,
};
use pcap_file::pcapng::blocks::interface_statistics::{
    InterfaceStatisticsBlock, InterfaceStatisticsOption,
};
use pcap_file::pcapng::blocks::section_header::{SectionHeaderBlock, SectionHeaderOption};
use pcap_file::pcapng::blocks::systemd_journal_export::SystemdJournalExportBlock;
use pcap_file::{DataLink, Endianness, PcapError};

use crate::error::Error;
use crate::frame::frame;
use crate::item::Item;
use crate::sources::now;
use crate::text;

/// 10^-9 s.
const NANOSECONDS: u8 = 9;
/// Bits of a packet's flags: which way it went.
const INBOUND: u32 = 1;
const OUTBOUND: u32 = 2;
/// `LOG_INFO`.
const PRIORITY: u8 = 6;

/// A file being written.
pub struct Pcapng {
    out: PcapNgWriter<Box<dyn Write + Send>>,
    device: String,
    interfaces: Vec<Interface>,
    /// When it began, in nanoseconds since 1970.
    since: u64,
}

/// What has an interface of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Interface {
    Sockets,
    Memory,
    Cable(u8),
}

impl Pcapng {
    /// Writes what stands at the beginning.
    pub fn begin(out: Box<dyn Write + Send>, device: &str) -> Result<Pcapng, Error> {
        let application = concat!("ferroce ", env!("CARGO_PKG_VERSION"));
        let section = SectionHeaderBlock {
            // Live, tshark takes its own order alone.
            endianness: Endianness::native(),
            options: vec![
                SectionHeaderOption::OS("Linux".into()),
                SectionHeaderOption::UserApplication(application.into()),
            ],
            ..SectionHeaderBlock::default()
        };
        let out = PcapNgWriter::with_section_header(out, section).map_err(failed)?;
        Ok(Pcapng {
            out,
            device: device.to_owned(),
            interfaces: Vec::new(),
            since: now(),
        })
    }

    /// Writes what was captured.
    pub fn put(&mut self, item: &Item) -> Result<(), Error> {
        match &item.record.what {
            What::Packet(packet) => self.packet(item, packet),
            _ => self.event(item),
        }
    }

    fn packet(&mut self, item: &Item, packet: &Packet) -> Result<(), Error> {
        let interface_id = self.interface(packet.medium)?;
        let frame = frame(item.record.time, packet, &item.data);
        let direction = if packet.incoming { INBOUND } else { OUTBOUND };
        let mut comment = text::whose(item);
        if packet.refused {
            comment += "; dropped by its receiver";
        }

        let block = EnhancedPacketBlock {
            interface_id,
            timestamp: Duration::from_nanos(item.record.time),
            original_len: frame.original,
            data: frame.bytes.into(),
            options: vec![
                EnhancedPacketOption::Flags(direction),
                EnhancedPacketOption::Comment(comment.into()),
            ],
        };
        self.out.write_pcapng_block(block).map_err(failed)?;
        Ok(())
    }

    fn event(&mut self, item: &Item) -> Result<(), Error> {
        let micros = item.record.time / 1000;
        let (name, pid) = (&item.source.name, item.source.pid);
        let message = text::done(item);
        let entry = format!(
            "__REALTIME_TIMESTAMP={micros}\nMESSAGE={message}\nPRIORITY={PRIORITY}\n\
             SYSLOG_IDENTIFIER={name}\n_PID={pid}\n"
        );
        let block = SystemdJournalExportBlock {
            journal_entry: entry.into_bytes().into(),
        };
        self.out.write_pcapng_block(block).map_err(failed)?;
        Ok(())
    }

    /// The number of a packet's interface, which is described when it is first used.
    fn interface(&mut self, medium: Medium) -> Result<u32, Error> {
        let interface = match medium {
            Medium::Udp(_) => Interface::Sockets,
            Medium::Memory => Interface::Memory,
            Medium::Cable(port) => Interface::Cable(port),
        };
        let known = self.interfaces.iter().position(|known| *known == interface);
        if let Some(index) = known {
            return Ok(index as u32);
        }

        let device = &self.device;
        let (linktype, name, about) = match interface {
            Interface::Sockets => (DataLink::RAW, format!("{device}/1"), "RoCEv2 by sockets"),
            Interface::Memory => (
                DataLink::RAW,
                format!("{device}/memory"),
                "between programs of the device, through memory: as it would be by sockets",
            ),
            Interface::Cable(port) => (
                DataLink::ERF,
                format!("{device}/{port}"),
                "the cable of an InfiniBand port",
            ),
        };
        let block = InterfaceDescriptionBlock {
            linktype,
            snaplen: 0,
            options: vec![
                InterfaceDescriptionOption::IfName(name.into()),
                InterfaceDescriptionOption::IfDescription(about.into()),
                InterfaceDescriptionOption::IfTsResol(NANOSECONDS),
            ],
        };
        self.out.write_pcapng_block(block).map_err(failed)?;
        self.interfaces.push(interface);
        Ok(self.interfaces.len() as u32 - 1)
    }

    /// Writes what stands at the end: how much was captured, and how much dropped. That belongs to
    /// no interface more than to another, and is said of the first.
    pub fn statistics(&mut self, shown: u64, dropped: u64) -> Result<(), Error> {
        if self.interfaces.is_empty() {
            self.interface(Medium::Udp(0))?;
        }
        let end = now();
        let block = InterfaceStatisticsBlock {
            interface_id: 0,
            timestamp: high_first(end),
            options: vec![
                InterfaceStatisticsOption::IsbStartTime(high_first(self.since)),
                InterfaceStatisticsOption::IsbEndTime(high_first(end)),
                InterfaceStatisticsOption::IsbIfRecv(shown + dropped),
                InterfaceStatisticsOption::IsbIfDrop(dropped),
            ],
        };
        self.out.write_pcapng_block(block).map_err(failed)?;
        Ok(())
    }

    /// Nothing is kept back.
    pub fn flush(&mut self) -> Result<(), Error> {
        Ok(self.out.get_mut().flush()?)
    }
}

/// Times of statistics are two words, of which the upper stands first in files of either order; the
/// crate writes them as one.
fn high_first(time: u64) -> u64 {
    match cfg!(target_endian = "little") {
        true => time.rotate_left(32),
        false => time,
    }
}

fn failed(error: PcapError) -> Error {
    let source = match error {
        PcapError::IoError(source) => source,
        other => io::Error::other(other.to_string()),
    };
    Error::Write(source)
}
