//! A run as `ferroce capture --verbs --both` would write it, or as a wire has it.

use std::borrow::Cow;

use ferroce_sim::side::{Deed, Side};
use ferroce_sim::world::{QPN, World};
use ferroce_transport::{Completion, Duration, QpAttr, QpType, SendOp, Time, WcStatus};
use ferroce_wire::opcode::{self, Operation};
use pcap_file::pcap::{PcapHeader, PcapPacket, PcapWriter};
use pcap_file::pcapng::PcapNgWriter;
use pcap_file::pcapng::blocks::enhanced_packet::{EnhancedPacketBlock, EnhancedPacketOption};
use pcap_file::pcapng::blocks::interface_description::{
    InterfaceDescriptionBlock, InterfaceDescriptionOption,
};
use pcap_file::pcapng::blocks::systemd_journal_export::SystemdJournalExportBlock;
use pcap_file::{DataLink, TsResolution};

/// What may be changed of a packet that a side sends.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Change {
    Psn,
    MessageNumber,
    Opcode,
    Shorter,
    Missing,
}

/// What both sides did, in the order of time: whose, when, what.
fn deeds(world: &World) -> Vec<(usize, Time, &Deed)> {
    let of = |side: usize| {
        let deeds = world.sides[side].deeds.iter().flatten();
        deeds.map(move |(time, deed)| (side, *time, deed))
    };
    let mut all: Vec<_> = of(0).chain(of(1)).collect();
    all.sort_by_key(|(_, time, _)| *time);
    all
}

/// The whole as a file, in whose messages the first of two is replaced by the other.
pub(crate) fn file(world: &World, replaced: &[(&str, &str)]) -> Vec<u8> {
    written(world, replaced, |_, _, bytes| Some(bytes.to_vec()))
}

/// The same, with one packet of a side's changed; `None`: it sent none for that.
pub(crate) fn changed(world: &World, side: usize, change: Change) -> Option<Vec<u8>> {
    let fits = |deed: &Deed| match deed {
        Deed::Sent(bytes) => change.is_for(bytes),
        _ => false,
    };
    let all = deeds(world);
    let sent = all
        .iter()
        .filter(|(of, _, deed)| *of == side && fits(deed))
        .count();
    let chosen = sent.checked_sub(1)? / 2;
    let mut seen = 0;
    Some(written(world, &[], |of, deed, bytes| {
        let mut bytes = bytes.to_vec();
        if of == side && fits(deed) {
            seen += 1;
            if seen == chosen + 1 {
                return change.made(&mut bytes).then_some(bytes);
            }
        }
        Some(bytes)
    }))
}

impl Change {
    fn is_for(self, bytes: &[u8]) -> bool {
        let Some(info) = opcode::info(bytes[0]) else {
            return false;
        };
        match self {
            Change::Psn | Change::Missing => true,
            Change::MessageNumber => info.operation == Operation::Acknowledge,
            Change::Opcode => info.opcode & 0x1f == opcode::RC_SEND_ONLY,
            Change::Shorter => info.operation == Operation::Write && bytes.len() > 100,
        }
    }

    /// `false`: nothing of it is left.
    fn made(self, bytes: &mut Vec<u8>) -> bool {
        match self {
            // Far enough off that it is no packet before or after it.
            Change::Psn => bytes[9] ^= 0x20,
            Change::MessageNumber => bytes[15] ^= 1,
            // SEND Only becomes SEND Last.
            Change::Opcode => bytes[0] = bytes[0] & 0xe0 | opcode::RC_SEND_LAST,
            Change::Shorter => drop(bytes.drain(60..64)),
            Change::Missing => return false,
        }
        true
    }
}

fn written(
    world: &World,
    replaced: &[(&str, &str)],
    mut sent: impl FnMut(usize, &Deed, &[u8]) -> Option<Vec<u8>>,
) -> Vec<u8> {
    let mut out = PcapNgWriter::new(Vec::new()).expect("a file");
    let interface = InterfaceDescriptionBlock {
        linktype: DataLink::RAW,
        snaplen: 0,
        options: vec![InterfaceDescriptionOption::IfTsResol(9)],
    };
    out.write_pcapng_block(interface).expect("an interface");

    for side in &world.sides {
        let line = set(side, &QpAttr::default());
        journal(&mut out, Time::ZERO, &line);
    }
    for (of, time, deed) in deeds(world) {
        let side = &world.sides[of];
        match deed {
            Deed::Came(bytes) => packet(&mut out, time, of, 1, bytes),
            Deed::Sent(bytes) => {
                if let Some(bytes) = sent(of, deed, bytes) {
                    packet(&mut out, time, of, 2, &bytes);
                }
            }
            other => {
                let mut line = message(side, other);
                for (from, to) in replaced {
                    line = line.replace(from, to);
                }
                journal(&mut out, time, &line);
            }
        }
    }
    out.into_inner()
}

fn packet(out: &mut PcapNgWriter<Vec<u8>>, time: Time, side: usize, way: u32, bytes: &[u8]) {
    let from = if way == 2 { side } else { 1 - side };
    let data = datagram(from, bytes);
    let block = EnhancedPacketBlock {
        interface_id: 0,
        timestamp: Duration::from_nanos(time.as_nanos()),
        original_len: data.len() as u32,
        data: data.into(),
        options: vec![
            EnhancedPacketOption::Flags(way),
            EnhancedPacketOption::Comment(format!("sim[1] QP {:#x}", QPN[side]).into()),
        ],
    };
    out.write_pcapng_block(block).expect("a packet");
}

fn journal(out: &mut PcapNgWriter<Vec<u8>>, time: Time, line: &str) {
    let micros = time.as_nanos() / 1000;
    let entry = format!("__REALTIME_TIMESTAMP={micros}\nMESSAGE={line}\n");
    let block = SystemdJournalExportBlock {
        journal_entry: Cow::Owned(entry.into_bytes()),
    };
    out.write_pcapng_block(block).expect("an entry");
}

/// A datagram from a side to the other.
fn datagram(from: usize, bytes: &[u8]) -> Vec<u8> {
    let end = |side: usize| [192, 0, 2, side as u8 + 1];
    let mut packet = vec![0x45, 0, 0, 0, 0, 0, 0, 0, 64, 17, 0, 0];
    packet.extend(end(from));
    packet.extend(end(1 - from));
    for word in [49_152, 4791, bytes.len() as u16 + 8, 0] {
        packet.extend(u16::to_be_bytes(word));
    }
    packet.extend(bytes);
    packet
}

/// What was sent, as a wire that loses nothing has it; `None`: it lost something. Of XRC it is not
/// told who is who.
pub(crate) fn wire(world: &World) -> Option<Vec<u8>> {
    let lossless = |side: &Side| side.host.losses == 0 && side.host.timeouts == 0;
    let all_came = |from: usize| {
        let count = |side: usize, wanted: fn(&Deed) -> bool| {
            let deeds = world.sides[side].deeds.iter().flatten();
            deeds.filter(|(_, deed)| wanted(deed)).count()
        };
        let sent = count(from, |deed| matches!(deed, Deed::Sent(_)));
        sent == count(1 - from, |deed| matches!(deed, Deed::Came(_)))
    };
    let rc = world.sides[0].options.service == QpType::Rc;
    let told = rc && world.sides.iter().all(lossless) && all_came(0) && all_came(1);
    if !told {
        return None;
    }
    let header = PcapHeader {
        datalink: DataLink::RAW,
        ts_resolution: TsResolution::NanoSecond,
        ..PcapHeader::default()
    };
    let mut out = PcapWriter::with_header(Vec::new(), header).expect("a file");
    for (of, time, deed) in deeds(world) {
        if let Deed::Sent(bytes) = deed {
            let data = datagram(of, bytes);
            let packet = PcapPacket {
                timestamp: Duration::from_nanos(time.as_nanos()),
                orig_len: data.len() as u32,
                data: data.into(),
            };
            out.write_packet(&packet).expect("a packet");
        }
    }
    Some(out.into_writer())
}

fn message(side: &Side, deed: &Deed) -> String {
    let qpn = side.qp.qpn();
    match deed {
        Deed::Set(attr) => set(side, attr),
        Deed::PostSend(index) => {
            let planned = &side.sends[*index];
            let bytes = match &planned.inline {
                Some(bytes) => bytes.len() as u32,
                None => planned.sges.iter().map(|sge| sge.length).sum(),
            };
            let flags = planned.flags.bits();
            let flags = ["fence", "signaled", "solicited"]
                .iter()
                .enumerate()
                .filter(|(n, _)| flags >> n & 1 == 1)
                .map(|(_, name)| format!(", {name}"))
                .collect::<String>();
            let verb = verb(&planned.op);
            format!("QP {qpn:#x} post_send {verb}, wr_id {index:#x}, {bytes} bytes{flags}")
        }
        Deed::PostRecv(index) => {
            let bytes: u64 = side.recvs[*index]
                .iter()
                .map(|sge| u64::from(sge.length))
                .sum();
            format!("QP {qpn:#x} post_recv, wr_id {index:#x}, {bytes} bytes")
        }
        Deed::Completed(receive, completion) => completed(qpn, *receive, completion),
        Deed::Came(_) | Deed::Sent(_) => String::new(),
    }
}

fn completed(qpn: u32, receive: bool, completion: &Completion) -> String {
    let name = if receive { "RECV" } else { "SEND" };
    let status = match completion.status {
        WcStatus::Success => "SUCCESS",
        WcStatus::LocLenErr => "LOC_LEN_ERR",
        WcStatus::LocQpOpErr => "LOC_QP_OP_ERR",
        WcStatus::LocProtErr => "LOC_PROT_ERR",
        WcStatus::WrFlushErr => "WR_FLUSH_ERR",
        WcStatus::MwBindErr => "MW_BIND_ERR",
        WcStatus::LocAccessErr => "LOC_ACCESS_ERR",
        WcStatus::RemInvReqErr => "REM_INV_REQ_ERR",
        WcStatus::RemAccessErr => "REM_ACCESS_ERR",
        WcStatus::RemOpErr => "REM_OP_ERR",
        WcStatus::RetryExcErr => "RETRY_EXC_ERR",
        WcStatus::RnrRetryExcErr => "RNR_RETRY_EXC_ERR",
        other => panic!("{other:?}"),
    };
    let (wr_id, bytes) = (completion.wr_id, completion.byte_len);
    format!("QP {qpn:#x} completion {name}, wr_id {wr_id:#x}, {status}, {bytes} bytes")
}

fn set(side: &Side, attr: &QpAttr) -> String {
    let options = &side.options;
    let service = match options.service {
        QpType::XrcSend => "XRC_SEND",
        QpType::XrcRecv => "XRC_RECV",
        _ => "RC",
    };
    let state = format!("{:?}", attr.qp_state).to_uppercase();
    let srq = if options.srq { ", srq" } else { "" };
    let all = if options.all_signaled {
        ", sq_sig_all"
    } else {
        ""
    };
    format!(
        "QP {:#x} set to {service} {state}, path_mtu {}, sq_psn {}, rq_psn {}, dest_qp_num {:#x}, \
         timeout {}, retry_cnt {}, rnr_retry {}, min_rnr_timer {}, max_rd_atomic {}, \
         max_dest_rd_atomic {}, access {:#x}, qkey 0x0, stretch 1{srq}{all}",
        side.qp.qpn(),
        attr.path_mtu,
        attr.sq_psn,
        attr.rq_psn,
        attr.dest_qp_num,
        attr.timeout,
        attr.retry_cnt,
        attr.rnr_retry,
        attr.min_rnr_timer,
        attr.max_rd_atomic,
        attr.max_dest_rd_atomic,
        attr.qp_access_flags.bits(),
    )
}

fn verb(op: &SendOp) -> &'static str {
    match op {
        SendOp::Write { .. } => "RDMA_WRITE",
        SendOp::WriteWithImm { .. } => "RDMA_WRITE_WITH_IMM",
        SendOp::Send => "SEND",
        SendOp::SendWithImm(_) => "SEND_WITH_IMM",
        SendOp::Read { .. } => "RDMA_READ",
        SendOp::CompareSwap { .. } => "ATOMIC_CMP_AND_SWP",
        SendOp::FetchAdd { .. } => "ATOMIC_FETCH_AND_ADD",
        SendOp::LocalInv(_) => "LOCAL_INV",
        SendOp::BindMw(_) => "BIND_MW",
        SendOp::SendWithInv(_) => "SEND_WITH_INV",
        SendOp::Flush(_) => "FLUSH",
        SendOp::AtomicWrite { .. } => "ATOMIC_WRITE",
    }
}
