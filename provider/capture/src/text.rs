//! What was captured in words: a line for each, as tcpdump has it.

use std::fmt;

use ferroce_control::capture::record::{
    Attributes, FaultNote, Medium, Packet, Verbs, VerbsKind, What,
};
use ferroce_wire::cm::attribute;
use ferroce_wire::mad::{self, QP0, QP1};
use ferroce_wire::mtu;
use ferroce_wire::{Bth, Lrh, MadHeader, Packet as Transport, Syndrome, opcode};

use crate::frame::{transport, whole};
use crate::item::Item;
use crate::words::{STATES, STATUSES};

/// An item as a line: the time of day (UTC), whose it is, and what.
pub struct Line<'a>(pub &'a Item);

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
            _ => write!(
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
pub(crate) fn whose(item: &Item) -> String {
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
        write!(f, ", payload {}", packet.content().len())?;
        let filler = packet.filler();
        if filler > 0 {
            write!(f, ", filler {filler}")?;
        }
    }

    match message(packet) {
        Some(message) => write!(f, ", {message}"),
        None => Ok(()),
    }
}

/// A MAD in words; none if the packet has none.
pub(crate) fn message(packet: &Transport<'_>) -> Option<String> {
    let management = matches!(packet.bth.dest_qp, QP0 | QP1) && packet.ext.deth.is_some();
    let header = packet.payload.private().and_then(MadHeader::parse);
    let header = header.filter(|_| management)?;
    let mut names = attribute::NAMES.iter();
    let name = names.find(|(_, id)| *id == header.attribute);
    let name = name.filter(|_| header.class == mad::CLASS_CM);
    Some(match name {
        Some((name, _)) => format!("CM {name}"),
        None => format!(
            "MAD class {:#04x} method {:#04x} attribute {:#06x}",
            header.class, header.method, header.attribute
        ),
    })
}

/// What is no packet: what was done by verbs, what a queue pair is set to, what a fault does. What
/// `ferroce replay` reads is this.
pub(crate) fn done(item: &Item) -> String {
    said(item.record.qpn, &item.record.what)
}

fn said(qpn: u32, what: &What) -> String {
    let verbs = match what {
        What::Verbs(verbs) => verbs,
        What::Attributes(attributes) => return set_to(qpn, attributes),
        What::Fault(note) => return fault(qpn, note),
        What::Packet(_) => return String::new(),
    };
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
            let flags = flags(*status);
            format!("QP {qpn:#x} post_send {name}, wr_id {wr_id:#x}, {bytes} bytes{flags}")
        }
        VerbsKind::PostRecv => format!("QP {qpn:#x} post_recv, wr_id {wr_id:#x}, {bytes} bytes"),
        VerbsKind::Completion => {
            let (status, name) = (named(STATUSES, *status), completed(*opcode));
            format!("QP {qpn:#x} completion {name}, wr_id {wr_id:#x}, {status}, {bytes} bytes")
        }
        VerbsKind::State => format!("QP {qpn:#x} is {}", named(STATES, *status)),
    }
}

/// `enum ibv_send_flags`.
pub(crate) const FLAGS: &[&str] = &["fence", "signaled", "solicited", "inline"];
/// As `ferroce_control` numbers them.
pub(crate) const SERVICES: &[&str] = &["RC", "UC", "UD", "XRC_SEND", "XRC_RECV"];

/// The names of the bits that are set.
pub(crate) fn set<'a>(names: &'a [&'a str], bits: u32) -> impl Iterator<Item = &'a str> {
    let bit = move |n: &usize| bits >> n & 1 == 1;
    let names = names.iter().enumerate();
    names.filter(move |(n, _)| bit(n)).map(|(_, name)| *name)
}

fn flags(bits: u32) -> String {
    set(FLAGS, bits).map(|name| format!(", {name}")).collect()
}

fn set_to(qpn: u32, of: &Attributes) -> String {
    let service = named(SERVICES, of.service.into());
    let state = named(STATES, of.state.into());
    let mtu = mtu::bytes(of.path_mtu).unwrap_or_default();
    let receives = if of.srq { ", srq" } else { "" };
    let all = if of.sq_sig_all { ", sq_sig_all" } else { "" };
    format!(
        "QP {qpn:#x} set to {service} {state}, path_mtu {mtu}, sq_psn {}, rq_psn {}, \
         dest_qp_num {:#x}, timeout {}, retry_cnt {}, rnr_retry {}, min_rnr_timer {}, \
         max_rd_atomic {}, max_dest_rd_atomic {}, access {:#x}, qkey {:#x}, stretch {}{receives}{all}",
        of.sq_psn,
        of.rq_psn,
        of.dest_qp,
        of.timeout,
        of.retry_cnt,
        of.rnr_retry,
        of.min_rnr_timer,
        of.max_rd_atomic,
        of.max_dest_rd_atomic,
        of.access,
        of.qkey,
        of.stretch,
    )
}

fn fault(qpn: u32, note: &FaultNote) -> String {
    let way = if note.incoming { "in" } else { "out" };
    let (opcode, psn, fate) = (note.opcode, note.psn, note.fate);
    format!("QP {qpn:#x} fault {way}, opcode {opcode:#04x}, PSN {psn}, {fate:?}")
}

/// `enum ibv_wc_opcode`, whose values have a gap.
pub(crate) fn completed(opcode: u32) -> String {
    match opcode.checked_sub(128) {
        Some(0) => "RECV".to_owned(),
        Some(1) => "RECV_RDMA_WITH_IMM".to_owned(),
        _ => named(COMPLETIONS, opcode),
    }
}

pub(crate) fn named(names: &[&str], value: u32) -> String {
    let name = usize::try_from(value).ok().and_then(|at| names.get(at));
    name.map_or_else(|| value.to_string(), |name| (*name).to_owned())
}

/// `enum ibv_wr_opcode`.
pub(crate) const REQUESTS: &[&str] = &[
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

#[cfg(test)]
mod tests {
    use ferroce_control::capture::record::Fate;
    use ferroce_replay::journal::{self, Said};

    use super::*;

    fn read(what: What) -> Said {
        let message = said(0x1_0002, &what);
        let (qpn, said) = journal::parse(&message).unwrap_or_else(|| panic!("{message}"));
        assert_eq!(qpn, 0x1_0002);
        said
    }

    fn verbs(kind: VerbsKind, opcode: u32, status: u32) -> Said {
        read(What::Verbs(Verbs {
            kind,
            wr_id: 9,
            opcode,
            status,
            bytes: 4096,
        }))
    }

    #[test]
    fn a_replay_reads_what_is_said() {
        for opcode in (0..=9).chain([14, 15]) {
            let said = verbs(VerbsKind::PostSend, opcode, 0xf);
            let good =
                matches!(said, Said::PostSend(post) if post.wr_id == 9 && post.bytes == 4096);
            assert!(good, "{said:?}");
        }
        for status in 0..22 {
            for (opcode, receive) in [(2, false), (9, false), (128, true), (129, true)] {
                let said = verbs(VerbsKind::Completion, opcode, status);
                let good = matches!(said, Said::Completion(completed)
                    if completed.receive == receive && completed.status as u32 == status);
                assert!(good, "{said:?}");
            }
        }
        for state in 0..7 {
            let said = verbs(VerbsKind::State, 0, state);
            assert!(
                matches!(said, Said::State(of) if of as u32 == state),
                "{said:?}"
            );
        }
        let said = verbs(VerbsKind::PostRecv, 0, 0);
        assert!(
            matches!(
                said,
                Said::PostRecv {
                    wr_id: 9,
                    bytes: 4096
                }
            ),
            "{said:?}"
        );
    }

    #[test]
    fn a_replay_reads_attributes_and_faults() {
        let attributes = Attributes {
            service: 4,
            state: 3,
            path_mtu: 3,
            timeout: 14,
            retry_cnt: 7,
            rnr_retry: 6,
            min_rnr_timer: 12,
            max_rd_atomic: 16,
            max_dest_rd_atomic: 8,
            srq: true,
            sq_sig_all: true,
            access: 0xf,
            sq_psn: 0xff_ffff,
            rq_psn: 1,
            dest_qp: 0x2_0003,
            qkey: 0x8001_0000,
            stretch: 100,
        };
        let Said::SetTo(set) = read(What::Attributes(attributes)) else {
            panic!("no attributes")
        };
        assert_eq!((set.path_mtu, set.sq_psn, set.rq_psn), (1024, 0xff_ffff, 1));
        assert_eq!((set.timeout, set.retry_cnt, set.rnr_retry), (14, 7, 6));
        assert_eq!((set.max_rd_atomic, set.max_dest_rd_atomic), (16, 8));
        assert_eq!(
            (set.dest_qp_num, set.qkey, set.stretch),
            (0x2_0003, 0x8001_0000, 100)
        );
        assert!(set.srq && set.sq_sig_all);

        for fate in [
            Fate::Lost,
            Fate::Held,
            Fate::Arrives,
            Fate::Twice,
            Fate::RemoteOperational,
        ] {
            let note = FaultNote {
                incoming: true,
                opcode: 0x11,
                psn: 77,
                fate,
            };
            let Said::Fault(fault) = read(What::Fault(note)) else {
                panic!("no fault")
            };
            assert_eq!((fault.opcode, fault.psn, fault.incoming), (0x11, 77, true));
            assert_eq!(format!("{:?}", fault.fate), format!("{fate:?}"));
        }
    }
}
