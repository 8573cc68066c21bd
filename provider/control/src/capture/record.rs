//! What is in a ring: a record for each packet, or for each thing that a program does by its verbs.
//!
//! [`next`] takes records out of bytes that another process wrote. It believes nothing of them but
//! that they are bytes, and has no memory: what it returns is copied or borrowed.

use std::net::{IpAddr, Ipv6Addr};

/// The source port that stands for packets through memory, which have none: the first of those that
/// RoCEv2 has for the entropy of paths. Their ICRC is computed with it.
pub const MEMORY_PORT: u16 = 0xc000;
/// Bytes before a record's data.
pub const HEADER: usize = 72;
/// Records begin at multiples of this.
pub(super) const ALIGN: usize = 8;
/// A record of this span is none: the next is at the start of the ring.
pub(super) const SKIP: u32 = u32::MAX;
/// The longest data: a packet of a cable whose headers are whole is shorter.
pub(super) const MOST: usize = 1 << 17;

/// Something at a point in time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Record {
    /// Nanoseconds since 1970 (`CLOCK_REALTIME`).
    pub time: u64,
    /// The program's own queue pair; 0: it is not known which.
    pub qpn: u32,
    /// What it is.
    pub what: What,
}

/// What a record is of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum What {
    /// A packet, which is the record's data: from the BTH to the ICRC, or from the LRH to the ICRC
    /// of a cable's.
    Packet(Packet),
    /// Something of verbs. There is no data, nor in what follows.
    Verbs(Verbs),
    /// What a queue pair is set to, as a program has done it or when the capture begins.
    Attributes(Attributes),
    /// What a fault makes of a packet.
    Fault(FaultNote),
}

/// A packet on its way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Packet {
    /// It came; otherwise it was sent.
    pub incoming: bool,
    /// Who received it dropped it: it is damaged, or is not for this port or process.
    pub refused: bool,
    /// How it went.
    pub medium: Medium,
    /// Bytes that it has, of which the record's data may be the first.
    pub original: u32,
    /// Where it came from.
    pub from: IpAddr,
    /// Where it went to: an address or a group.
    pub to: IpAddr,
    /// TOS or traffic class.
    pub traffic_class: u8,
    /// TTL or hop limit.
    pub hop_limit: u8,
    /// IPv4's Identification.
    pub id: u16,
    /// IPv6's flow label.
    pub flow_label: u32,
}

/// How a packet goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Medium {
    /// In a datagram from this port.
    Udp(u16),
    /// From one program of the device to another, through memory.
    Memory,
    /// By the cable of this port.
    Cable(u8),
}

/// What a program does by its verbs, or is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Verbs {
    /// What it is.
    pub kind: VerbsKind,
    /// The request's number, as the program gave it.
    pub wr_id: u64,
    /// `enum ibv_wr_opcode` of what is posted, `enum ibv_wc_opcode` of a completion.
    pub opcode: u32,
    /// `enum ibv_wc_status` of a completion, `enum ibv_qp_state` of a state, `enum ibv_send_flags`
    /// of a send request.
    pub status: u32,
    /// Bytes.
    pub bytes: u64,
}

/// Kinds of [`Verbs`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum VerbsKind {
    /// A send request is posted.
    PostSend,
    /// A receive request is posted.
    PostRecv,
    /// A request is completed.
    Completion,
    /// The queue pair has another state.
    State,
}

/// What a queue pair does by: `struct ibv_qp_attr` and what it was created with.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Attributes {
    /// 0 RC, 1 UC, 2 UD, 3 XRC initiator, 4 XRC target.
    pub service: u8,
    /// `enum ibv_qp_state`.
    pub state: u8,
    /// `enum ibv_mtu`.
    pub path_mtu: u8,
    /// Local ACK Timeout, 0 to 31.
    pub timeout: u8,
    /// 0 to 7.
    pub retry_cnt: u8,
    /// 0 to 7.
    pub rnr_retry: u8,
    /// 0 to 31.
    pub min_rnr_timer: u8,
    /// READs and ATOMICs as requester.
    pub max_rd_atomic: u8,
    /// READs and ATOMICs as responder.
    pub max_dest_rd_atomic: u8,
    /// Receives come from a shared receive queue.
    pub srq: bool,
    /// Every send request is signaled.
    pub sq_sig_all: bool,
    /// `enum ibv_access_flags`
    pub access: u32,
    /// First PSN of the send queue.
    pub sq_psn: u32,
    /// First PSN of the receive queue.
    pub rq_psn: u32,
    /// The peer's number.
    pub dest_qp: u32,
    /// Of UD.
    pub qkey: u32,
    /// Local ACK Timeouts are so many times as long.
    pub stretch: u32,
}

/// What a fault makes of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FaultNote {
    /// The packet comes; otherwise it leaves.
    pub incoming: bool,
    /// Its opcode.
    pub opcode: u8,
    /// Its PSN.
    pub psn: u32,
    /// What becomes of it.
    pub fate: Fate,
}

/// What becomes of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// It is lost.
    Lost,
    /// It is kept back.
    Held,
    /// It was kept back, and comes now.
    Arrives,
    /// It comes or leaves twice.
    Twice,
    /// It is refused as if there were no receive request.
    NotReady,
    /// … as if one before it were missing.
    PsnSequence,
    /// … as invalid.
    InvalidRequest,
    /// … for want of a right.
    RemoteAccess,
    /// … for a failure of the responder's.
    RemoteOperational,
}

const FATES: [Fate; 9] = [
    Fate::Lost,
    Fate::Held,
    Fate::Arrives,
    Fate::Twice,
    Fate::NotReady,
    Fate::PsnSequence,
    Fate::InvalidRequest,
    Fate::RemoteAccess,
    Fate::RemoteOperational,
];

const PACKET: u8 = 1;
const VERBS: u8 = 2;
const ATTRIBUTES: u8 = 3;
const FAULT: u8 = 4;
const INCOMING: u16 = 1;
const REFUSED: u16 = 2;
const UDP: u8 = 1;
const MEMORY: u8 = 2;
const CABLE: u8 = 3;
const KINDS: [VerbsKind; 4] = [
    VerbsKind::PostSend,
    VerbsKind::PostRecv,
    VerbsKind::Completion,
    VerbsKind::State,
];

/// What stands at the beginning of some bytes of a ring.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next<'a> {
    /// A record, its data, and the bytes that both take.
    Record(Record, &'a [u8], usize),
    /// Nothing more before the ring's end.
    Skip,
    /// A record that is not all there.
    More,
    /// What no program of ours has written.
    Nonsense,
}

/// Bytes that a record with so much data takes.
pub(super) const fn span(data: usize) -> usize {
    (HEADER + data).next_multiple_of(ALIGN)
}

/// Takes the first record.
pub fn next(bytes: &[u8]) -> Next<'_> {
    let Some(span_said) = bytes.first_chunk().map(|word| u32::from_ne_bytes(*word)) else {
        return Next::More;
    };
    if span_said == SKIP {
        return Next::Skip;
    }
    let Some(header) = bytes.first_chunk::<HEADER>() else {
        return Next::More;
    };

    let len = u32::from_ne_bytes(part(header, 4)) as usize;
    if len > MOST || span(len) != span_said as usize {
        return Next::Nonsense;
    }
    match (bytes.get(HEADER..HEADER + len), parse(header)) {
        _ if bytes.len() < span(len) => Next::More,
        (Some(data), Some(record)) => Next::Record(record, data, span(len)),
        _ => Next::Nonsense,
    }
}

/// Writes what stands before `len` bytes of data.
pub fn emit(record: &Record, len: usize) -> [u8; HEADER] {
    let mut out = [0; HEADER];
    let mut put = |at: usize, bytes: &[u8]| out[at..at + bytes.len()].copy_from_slice(bytes);
    put(0, &(span(len) as u32).to_ne_bytes());
    put(4, &(len as u32).to_ne_bytes());
    put(8, &record.time.to_ne_bytes());
    put(16, &record.qpn.to_ne_bytes());

    match &record.what {
        What::Packet(packet) => {
            let (medium, port) = match packet.medium {
                Medium::Udp(port) => (UDP, port),
                Medium::Memory => (MEMORY, 0),
                Medium::Cable(port) => (CABLE, port.into()),
            };
            let incoming = if packet.incoming { INCOMING } else { 0 };
            let refused = if packet.refused { REFUSED } else { 0 };
            put(20, &packet.original.to_ne_bytes());
            put(
                24,
                &[PACKET, medium, packet.traffic_class, packet.hop_limit],
            );
            put(28, &packet.id.to_ne_bytes());
            put(30, &port.to_ne_bytes());
            put(32, &packet.flow_label.to_ne_bytes());
            put(36, &(incoming | refused).to_ne_bytes());
            put(40, &octets(packet.from));
            put(56, &octets(packet.to));
        }
        What::Verbs(verbs) => {
            put(24, &[VERBS, verbs.kind as u8]);
            put(32, &verbs.opcode.to_ne_bytes());
            put(36, &verbs.status.to_ne_bytes());
            put(40, &verbs.wr_id.to_ne_bytes());
            put(48, &verbs.bytes.to_ne_bytes());
        }
        What::Attributes(of) => {
            put(24, &[ATTRIBUTES, of.service, of.state, of.path_mtu]);
            put(
                28,
                &[of.timeout, of.retry_cnt, of.rnr_retry, of.min_rnr_timer],
            );
            put(32, &[of.max_rd_atomic, of.max_dest_rd_atomic]);
            put(34, &[u8::from(of.srq), u8::from(of.sq_sig_all)]);
            let words = [
                of.access, of.sq_psn, of.rq_psn, of.dest_qp, of.qkey, of.stretch,
            ];
            for (n, word) in words.iter().enumerate() {
                put(36 + 4 * n, &word.to_ne_bytes());
            }
        }
        What::Fault(note) => {
            let incoming = u8::from(note.incoming);
            put(24, &[FAULT, note.fate as u8, incoming, note.opcode]);
            put(28, &note.psn.to_ne_bytes());
        }
    }
    out
}

fn parse(header: &[u8; HEADER]) -> Option<Record> {
    let flags = u16::from_ne_bytes(part(header, 36));
    let port = u16::from_ne_bytes(part(header, 30));
    let what = match header[24] {
        PACKET => What::Packet(Packet {
            incoming: flags & INCOMING != 0,
            refused: flags & REFUSED != 0,
            medium: match header[25] {
                UDP => Medium::Udp(port),
                MEMORY => Medium::Memory,
                CABLE => Medium::Cable(u8::try_from(port).ok()?),
                _ => return None,
            },
            original: u32::from_ne_bytes(part(header, 20)),
            from: address(part(header, 40)),
            to: address(part(header, 56)),
            traffic_class: header[26],
            hop_limit: header[27],
            id: u16::from_ne_bytes(part(header, 28)),
            flow_label: u32::from_ne_bytes(part(header, 32)),
        }),
        VERBS => What::Verbs(Verbs {
            kind: *KINDS.get(usize::from(header[25]))?,
            wr_id: u64::from_ne_bytes(part(header, 40)),
            opcode: u32::from_ne_bytes(part(header, 32)),
            status: u32::from_ne_bytes(part(header, 36)),
            bytes: u64::from_ne_bytes(part(header, 48)),
        }),
        ATTRIBUTES => What::Attributes(attributes(header)),
        FAULT => What::Fault(FaultNote {
            fate: *FATES.get(usize::from(header[25]))?,
            incoming: header[26] != 0,
            opcode: header[27],
            psn: u32::from_ne_bytes(part(header, 28)),
        }),
        _ => return None,
    };

    Some(Record {
        time: u64::from_ne_bytes(part(header, 8)),
        qpn: u32::from_ne_bytes(part(header, 16)),
        what,
    })
}

fn attributes(header: &[u8; HEADER]) -> Attributes {
    let word = |n: usize| u32::from_ne_bytes(part(header, 36 + 4 * n));
    Attributes {
        service: header[25],
        state: header[26],
        path_mtu: header[27],
        timeout: header[28],
        retry_cnt: header[29],
        rnr_retry: header[30],
        min_rnr_timer: header[31],
        max_rd_atomic: header[32],
        max_dest_rd_atomic: header[33],
        srq: header[34] != 0,
        sq_sig_all: header[35] != 0,
        access: word(0),
        sq_psn: word(1),
        rq_psn: word(2),
        dest_qp: word(3),
        qkey: word(4),
        stretch: word(5),
    }
}

fn part<const N: usize>(header: &[u8; HEADER], at: usize) -> [u8; N] {
    let mut bytes = [0; N];
    bytes.copy_from_slice(&header[at..at + N]);
    bytes
}

/// As in a GID.
fn octets(ip: IpAddr) -> [u8; 16] {
    match ip {
        IpAddr::V4(ip) => ip.to_ipv6_mapped().octets(),
        IpAddr::V6(ip) => ip.octets(),
    }
}

fn address(octets: [u8; 16]) -> IpAddr {
    let ip = Ipv6Addr::from(octets);
    ip.to_ipv4_mapped().map_or(IpAddr::V6(ip), IpAddr::V4)
}
