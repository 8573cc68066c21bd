//! Capture files as `ferroce capture --verbs` and tcpdump write them, of a SEND and what comes of
//! it.

use std::time::Duration;

use ferroce_wire::{Aeth, AtomicEth, Bth, CreditCode, Ext, Header, MAX_HEADER, Reth, Syndrome};
use ferroce_wire::{NakCode, opcode};
use pcap_file::pcap::{PcapHeader, PcapPacket, PcapWriter};
use pcap_file::pcapng::PcapNgWriter;
use pcap_file::pcapng::blocks::enhanced_packet::{EnhancedPacketBlock, EnhancedPacketOption};
use pcap_file::pcapng::blocks::interface_description::{
    InterfaceDescriptionBlock, InterfaceDescriptionOption,
};
use pcap_file::pcapng::blocks::systemd_journal_export::SystemdJournalExportBlock;
use pcap_file::{DataLink, Endianness, TsResolution};

use super::Seeds;

const QPS: [u32; 2] = [0x1_0002, 0x2_0003];

/// A part of a capture.
enum Part {
    /// In the journal.
    Said(String),
    /// A packet that queue pair 0 sends, or 1.
    Packet(usize, Vec<u8>),
}
use Part::{Packet, Said};

fn packet(from: usize, opcode: u8, psn: u32, ext: Ext, payload: usize) -> Part {
    let header = Header {
        bth: Bth {
            opcode,
            migreq: true,
            pkey: 0xffff,
            dest_qp: QPS[1 - from],
            ack_req: opcode::info(opcode).is_some_and(|info| info.is_request() && info.ends()),
            psn,
            ..Bth::default()
        },
        ext,
    };
    let mut bytes = vec![0; MAX_HEADER];
    let len = header.emit(&mut bytes);
    bytes.truncate(len);
    bytes.resize(len + payload + 4, 7);

    let mut datagram = vec![0x45, 0, 0, 0, 0, 0, 0, 0, 64, 17, 0, 0];
    datagram.extend([192, 0, 2, 1 + from as u8, 192, 0, 2, 2 - from as u8]);
    for word in [49_152, 4791, bytes.len() as u16 + 8, 0] {
        datagram.extend(u16::to_be_bytes(word));
    }
    datagram.extend(bytes);
    Packet(from, datagram)
}

fn set(of: usize, state: &str) -> Part {
    Said(format!(
        "QP {:#x} set to RC {state}, path_mtu 1024, sq_psn {}, rq_psn {}, dest_qp_num {:#x}, \
         timeout 14, retry_cnt 1, rnr_retry 1, min_rnr_timer 12, max_rd_atomic 1, \
         max_dest_rd_atomic 1, access 0xf, qkey 0x0, stretch 1",
        QPS[of],
        100 * (of + 1),
        100 * (2 - of),
        QPS[1 - of],
    ))
}

fn said(of: usize, what: &str) -> Part {
    Said(format!("QP {:#x} {what}", QPS[of]))
}

fn aeth(syndrome: Syndrome, msn: u32) -> Ext {
    Ext {
        aeth: Some(Aeth::new(syndrome, msn)),
        ..Ext::default()
    }
}

fn story(name: &str) -> Vec<Part> {
    let set_up = ["RESET", "INIT", "RTR", "RTS"];
    let mut parts: Vec<Part> = set_up
        .map(|state| [set(0, state), set(1, state)])
        .into_iter()
        .flatten()
        .collect();
    let none = Ext::default();
    let ack = Syndrome::Ack(CreditCode::for_count(0));
    let reth = Ext {
        reth: Some(Reth {
            va: 0x1000,
            rkey: 7,
            len: 2000,
        }),
        ..none
    };
    let atomic = Ext {
        atomic: Some(AtomicEth {
            va: 0x1000,
            rkey: 7,
            swap_add: 1,
            compare: 0,
        }),
        ..none
    };
    let answer = |msn| Ext {
        atomic_ack: Some(5),
        ..aeth(ack, msn)
    };

    parts.extend(match name {
        "send" => vec![
            said(1, "post_recv, wr_id 0x5, 2000 bytes"),
            said(0, "post_send SEND, wr_id 0x6, 2000 bytes, signaled"),
            packet(0, opcode::RC_SEND_FIRST, 100, none, 1024),
            packet(0, opcode::RC_SEND_LAST, 101, none, 976),
            said(1, "completion RECV, wr_id 0x5, SUCCESS, 2000 bytes"),
            packet(1, opcode::RC_ACKNOWLEDGE, 101, aeth(ack, 1), 0),
            said(0, "completion SEND, wr_id 0x6, SUCCESS, 2000 bytes"),
        ],
        "not-ready" => vec![
            said(0, "post_send SEND, wr_id 0x6, 8 bytes, signaled"),
            packet(0, opcode::RC_SEND_ONLY, 100, none, 8),
            packet(
                1,
                opcode::RC_ACKNOWLEDGE,
                100,
                aeth(Syndrome::RnrNak { timer: 12 }, 0),
                0,
            ),
            packet(0, opcode::RC_SEND_ONLY, 100, none, 8),
            packet(
                1,
                opcode::RC_ACKNOWLEDGE,
                100,
                aeth(Syndrome::RnrNak { timer: 12 }, 0),
                0,
            ),
            said(0, "completion SEND, wr_id 0x6, RNR_RETRY_EXC_ERR, 8 bytes"),
            said(0, "is ERR"),
        ],
        "read" => vec![
            said(0, "post_send RDMA_READ, wr_id 0x6, 2000 bytes, signaled"),
            packet(0, opcode::RC_READ_REQUEST, 100, reth, 0),
            packet(1, opcode::RC_READ_RESPONSE_FIRST, 100, aeth(ack, 1), 1024),
            packet(1, opcode::RC_READ_RESPONSE_LAST, 101, aeth(ack, 1), 976),
            said(
                0,
                "post_send ATOMIC_FETCH_AND_ADD, wr_id 0x7, 8 bytes, signaled, fence",
            ),
            packet(0, opcode::RC_FETCH_ADD, 102, atomic, 0),
            packet(1, opcode::RC_ATOMIC_ACKNOWLEDGE, 102, answer(2), 0),
        ],
        "refused" => vec![
            said(0, "post_send RDMA_WRITE, wr_id 0x6, 2000 bytes, signaled"),
            packet(0, opcode::RC_WRITE_FIRST, 100, reth, 1024),
            said(0, "fault out, opcode 0x08, PSN 101, Lost"),
            packet(
                1,
                opcode::RC_ACKNOWLEDGE,
                100,
                aeth(Syndrome::Nak(NakCode::RemoteAccessError), 0),
                0,
            ),
            said(1, "is ERR"),
            said(
                0,
                "completion RDMA_WRITE, wr_id 0x6, REM_ACCESS_ERR, 2000 bytes",
            ),
            said(0, "is ERR"),
        ],
        _ => vec![
            said(1, "post_recv, wr_id 0x5, 2000 bytes"),
            said(0, "post_send SEND, wr_id 0x6, 8 bytes, signaled"),
            packet(0, opcode::RC_SEND_ONLY, 100, none, 8),
            said(1, "fault in, opcode 0x04, PSN 100, Lost"),
            said(0, "completion SEND, wr_id 0x6, RETRY_EXC_ERR, 8 bytes"),
            said(0, "is ERR"),
        ],
    });
    parts
}

fn time(n: usize) -> Duration {
    Duration::from_millis(200 * n as u64)
}

fn pcapng(parts: &[Part]) -> Vec<u8> {
    let mut out = PcapNgWriter::with_endianness(Vec::new(), Endianness::Little).unwrap();
    let interface = InterfaceDescriptionBlock {
        linktype: DataLink::RAW,
        snaplen: 0,
        options: vec![InterfaceDescriptionOption::IfTsResol(9)],
    };
    out.write_pcapng_block(interface).unwrap();

    for (n, part) in parts.iter().enumerate() {
        match part {
            Said(message) => {
                let micros = time(n).as_micros();
                let entry = format!("__REALTIME_TIMESTAMP={micros}\nMESSAGE={message}\n");
                let block = SystemdJournalExportBlock {
                    journal_entry: entry.into_bytes().into(),
                };
                out.write_pcapng_block(block).unwrap();
            }
            Packet(from, bytes) => {
                for (qp, way) in [(*from, 2), (1 - from, 1)] {
                    let comment = format!("rping[7] QP {:#x}", QPS[qp]);
                    let block = EnhancedPacketBlock {
                        interface_id: 0,
                        timestamp: time(n),
                        original_len: bytes.len() as u32,
                        data: bytes.into(),
                        options: vec![
                            EnhancedPacketOption::Flags(way),
                            EnhancedPacketOption::Comment(comment.into()),
                        ],
                    };
                    out.write_pcapng_block(block).unwrap();
                }
            }
        }
    }
    out.into_inner()
}

fn pcap(parts: &[Part]) -> Vec<u8> {
    let header = PcapHeader {
        datalink: DataLink::RAW,
        ts_resolution: TsResolution::MicroSecond,
        endianness: Endianness::Big,
        ..PcapHeader::default()
    };
    let mut out = PcapWriter::with_header(Vec::new(), header).unwrap();
    for (n, part) in parts.iter().enumerate() {
        if let Packet(_, bytes) = part {
            let packet = PcapPacket::new(time(n), bytes.len() as u32, bytes);
            out.write_packet(&packet).unwrap();
        }
    }
    out.into_writer()
}

pub(crate) fn replay_file() -> Seeds {
    let mut seeds = Seeds::new();
    for name in ["send", "not-ready", "read", "refused", "lost"] {
        let parts = story(name);
        seeds.insert(format!("{name}.pcapng"), pcapng(&parts));
        seeds.insert(format!("{name}.pcap"), pcap(&parts));
    }
    seeds
}
