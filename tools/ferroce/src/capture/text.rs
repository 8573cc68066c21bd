//! What was captured in words: a line for each, as tcpdump has it.

use std::fmt;

use ferroce_control::capture::record::{Medium, Packet, Verbs, VerbsKind, What};
use ferroce_wire::cm::attribute;
use ferroce_wire::mad::{self, QP0, QP1};
use ferroce_wire::{Bth, Lrh, MadHeader, Packet as Transport, Syndrome, opcode};

use super::frame::{transport, whole};
use super::item::Item;
use crate::words::{STATES, STATUSES};

/// An item as a line: the time of day (UTC), whose it is, and what.
pub(super) struct Line<'a>(pub(super) &'a Item);

impl fmt::Display for Line<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (seconds, nanos) = (
            self.0.record.time / 1_000_000_000,
            self.0.record.time % 1_000_000_000,
        );
        let (h, m, s) = (seconds / 3600 % 24, seconds / 60 % 60, seconds % 60);
        write!(f, "{h:02}:{m:02}:{s:02}.{nanos:09} ")?;
        match &self.0.record.what {
            What::Packet(packet) => {
                let way = if packet.incoming { "in" } else { "out" };
                write!(f, "{} {way} ", whose(self.0))?;
                describe(f, packet, &self.0.data)
            }
            What::Verbs(_) => write!(
                f,
                "{}[{}] {}",
                self.0.source.name,
                self.0.source.pid,
                done(self.0)
            ),
        }
    }
}

/// Whose a packet is.
pub(super) fn whose(item: &Item) -> String {
    let (name, pid, qpn) = (&item.source.name, item.source.pid, item.record.qpn);
    match qpn {
        0 => format!("{name}[{pid}]"),
        _ => format!("{name}[{pid}] QP {qpn:#x}"),
    }
}

fn describe(f: &mut fmt::Formatter<'_>, packet: &Packet, data: &[u8]) -> fmt::Result {
    match (packet.medium, Lrh::parse(data)) {
        (Medium::Cable(port), Some((lrh, _))) => {
            write!(f, "port {port} LID {} > LID {}: ", lrh.slid, lrh.dlid)?;
        }
        _ => write!(f, "{} > {}: ", packet.from, packet.to)?,
    }

    let bytes = transport(packet, data);
    let Some(bth) = Bth::parse(bytes) else {
        return write!(f, "no packet, {} bytes", packet.original);
    };
    match opcode::info(bth.opcode) {
        Some(info) => write!(f, "{}", info.name)?,
        None => write!(f, "opcode {:#04x}", bth.opcode)?,
    }
    write!(f, ", QP {:#x}, PSN {}", bth.dest_qp, bth.psn)?;
    if bth.ack_req {
        write!(f, ", ack requested")?;
    }

    if let Ok(parsed) = Transport::parse(&whole(packet, data)) {
        headers(f, &parsed)?;
    }

    if packet.medium == Medium::Memory {
        write!(f, ", through memory")?;
    }
    if packet.refused {
        write!(f, ", dropped")?;
    }
    Ok(())
}

/// What the extended headers say, and the payload of a MAD.
fn headers(f: &mut fmt::Formatter<'_>, packet: &Transport<'_>) -> fmt::Result {
    let ext = &packet.ext;
    if let Some(reth) = &ext.reth {
        let (va, key, len) = (reth.va, reth.rkey, reth.len);
        write!(f, ", {len} bytes at {va:#x} key {key:#x}")?;
    }
    if let Some(aeth) = ext.aeth {
        match aeth.kind() {
            Syndrome::Ack(_) => write!(f, ", ACK of message {}", aeth.msn)?,
            Syndrome::RnrNak { .. } => write!(f, ", RNR NAK")?,
            Syndrome::Nak(code) => write!(f, ", NAK {code:?}")?,
            Syndrome::Reserved(value) => write!(f, ", syndrome {value:#x}")?,
        }
    }
    if let Some(deth) = ext.deth {
        write!(f, ", from QP {:#x}", deth.src_qp)?;
    }
    if !packet.payload.is_empty() {
        write!(f, ", payload {}", packet.payload.len())?;
    }

    match message(packet) {
        Some(message) => write!(f, ", {message}"),
        None => Ok(()),
    }
}

/// A MAD in words; none if the packet has none.
pub(super) fn message(packet: &Transport<'_>) -> Option<String> {
    let management = matches!(packet.bth.dest_qp, QP0 | QP1) && packet.ext.deth.is_some();
    let header = packet.payload.private().and_then(MadHeader::parse);
    let header = header.filter(|_| management)?;
    let names = [
        (attribute::REQ, "REQ"),
        (attribute::MRA, "MRA"),
        (attribute::REJ, "REJ"),
        (attribute::REP, "REP"),
        (attribute::RTU, "RTU"),
        (attribute::DREQ, "DREQ"),
        (attribute::DREP, "DREP"),
        (attribute::SIDR_REQ, "SIDR_REQ"),
        (attribute::SIDR_REP, "SIDR_REP"),
        (attribute::LAP, "LAP"),
        (attribute::APR, "APR"),
    ];
    let name = names.iter().find(|(id, _)| *id == header.attribute);
    let name = name.filter(|_| header.class == mad::CLASS_CM);
    Some(match name {
        Some((_, name)) => format!("CM {name}"),
        None => format!(
            "MAD class {:#04x} method {:#04x} attribute {:#06x}",
            header.class, header.method, header.attribute
        ),
    })
}

/// What was done by verbs.
pub(super) fn done(item: &Item) -> String {
    let What::Verbs(verbs) = &item.record.what else {
        return String::new();
    };
    let qpn = item.record.qpn;
    let Verbs {
        kind,
        wr_id,
        opcode,
        status,
        bytes,
    } = verbs;
    match kind {
        VerbsKind::PostSend => {
            let name = named(REQUESTS, *opcode);
            format!("QP {qpn:#x} post_send {name}, wr_id {wr_id:#x}, {bytes} bytes")
        }
        VerbsKind::PostRecv => format!("QP {qpn:#x} post_recv, wr_id {wr_id:#x}, {bytes} bytes"),
        VerbsKind::Completion => {
            let (status, name) = (named(STATUSES, *status), completed(*opcode));
            format!("QP {qpn:#x} completion {name}, wr_id {wr_id:#x}, {status}, {bytes} bytes")
        }
        VerbsKind::State => format!("QP {qpn:#x} is {}", named(STATES, *status)),
    }
}

/// `enum ibv_wc_opcode`, whose values have a gap.
pub(super) fn completed(opcode: u32) -> String {
    match opcode.checked_sub(128) {
        Some(0) => "RECV".to_owned(),
        Some(1) => "RECV_RDMA_WITH_IMM".to_owned(),
        _ => named(COMPLETIONS, opcode),
    }
}

pub(super) fn named(names: &[&str], value: u32) -> String {
    let name = usize::try_from(value).ok().and_then(|at| names.get(at));
    name.map_or_else(|| value.to_string(), |name| (*name).to_owned())
}

/// `enum ibv_wr_opcode`.
pub(super) const REQUESTS: &[&str] = &[
    "RDMA_WRITE",
    "RDMA_WRITE_WITH_IMM",
    "SEND",
    "SEND_WITH_IMM",
    "RDMA_READ",
    "ATOMIC_CMP_AND_SWP",
    "ATOMIC_FETCH_AND_ADD",
    "LOCAL_INV",
    "BIND_MW",
    "SEND_WITH_INV",
    "TSO",
    "DRIVER1",
    "12",
    "13",
    "FLUSH",
    "ATOMIC_WRITE",
];
/// `enum ibv_wc_opcode`.
const COMPLETIONS: &[&str] = &[
    "SEND",
    "RDMA_WRITE",
    "RDMA_READ",
    "COMP_SWAP",
    "FETCH_ADD",
    "BIND_MW",
    "LOCAL_INV",
    "TSO",
    "FLUSH",
    "ATOMIC_WRITE",
];
