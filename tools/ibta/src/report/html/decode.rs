//! Packets in words: a name, and a line for each header with all of its fields.

use super::mads;
use crate::packet::RxPacket;
use crate::trace::{Carrier, Frame};
use ferroce_wire::lrh::NextHeader;
use ferroce_wire::mad::{Mad, MadHeader};
use ferroce_wire::{Aeth, Bth, Deth, Ext, Grh, Lrh, NakCode, Syndrome, rnr_timer_nanos};
use std::net::{IpAddr, Ipv6Addr};
use std::time::Duration;

/// Bytes that are shown of a packet in which something is wrong.
const SHOWN: usize = 96;

/// A packet in words.
pub(super) struct Decoded {
    /// What it is, with what matters most: `RC SEND Only`, `ACK, MSN 1`, `SubnGet(PortInfo)`.
    pub name: String,
    /// Its PSN; MADs have none that matters.
    pub psn: Option<u32>,
    /// Headers in the order of the wire, each with its fields.
    pub headers: Vec<(&'static str, String)>,
    /// What is wrong with it, if anything.
    pub problem: Option<String>,
}

/// Takes a packet apart, whatever it is.
pub(super) fn decode(frame: &Frame) -> Decoded {
    let mut headers = Vec::new();
    let transport = match frame.carrier {
        Carrier::Roce { from, to } => {
            headers.push(("UDP", format!("{from} → {to}")));
            &frame.bytes[..]
        }
        Carrier::Cable { port } => link(&frame.bytes, port, &mut headers),
    };

    // Whether the ICRC is right only the rig knows: it has the addresses.
    let packet = RxPacket::decode(frame.at, transport.to_vec(), true);
    if Bth::parse(transport).is_none() {
        let problem = packet.problem.unwrap_or_default();
        return broken(
            "no transport packet".to_owned(),
            problem,
            transport,
            headers,
        );
    }

    headers.push(("BTH", bth(&packet.bth)));
    if let Some(problem) = packet.problem {
        let name = format!("opcode {:#04x}", packet.bth.opcode);
        return broken(name, problem, transport, headers);
    }

    extended(&packet.ext, &mut headers);

    let mad = (packet.ext.deth.is_some() && packet.bth.dest_qp <= 1)
        .then(|| <&Mad>::try_from(&packet.payload[..]).ok())
        .flatten();
    let name = match mad.and_then(|mad| Some((mad, MadHeader::parse(mad)?))) {
        Some((mad, header)) => {
            mads::headers(mad, &header, &mut headers);
            mads::name(&header)
        }
        None => {
            let len = packet.payload.len();
            if len > 0 {
                headers.push(("payload", format!("{len} bytes")));
            }
            transport_name(&packet, len)
        }
    };

    Decoded {
        name,
        psn: mad.is_none().then_some(packet.bth.psn),
        headers,
        problem: None,
    }
}

/// A packet in which something is wrong, with its first bytes.
fn broken(
    name: String,
    problem: String,
    bytes: &[u8],
    mut headers: Vec<(&'static str, String)>,
) -> Decoded {
    let shown: Vec<String> = bytes
        .iter()
        .take(SHOWN)
        .map(|b| format!("{b:02x}"))
        .collect();
    let more = if bytes.len() > SHOWN { " …" } else { "" };
    headers.push(("bytes", format!("{}{more}", shown.join(" "))));
    Decoded {
        name,
        psn: None,
        headers,
        problem: Some(problem),
    }
}

/// The headers of the link layer; what is left is the transport's.
fn link<'a>(bytes: &'a [u8], port: u8, headers: &mut Vec<(&'static str, String)>) -> &'a [u8] {
    let Some((lrh, rest)) = Lrh::parse(bytes) else {
        return bytes;
    };

    let fields = format!(
        "VL {} · LVer {} · SL {} · DLID {:#06x} · SLID {:#06x} · PktLen {} · port {port}",
        lrh.vl, lrh.version, lrh.sl, lrh.dlid, lrh.slid, lrh.words
    );
    headers.push(("LRH", fields));
    if lrh.next != NextHeader::Global {
        return rest;
    }
    let Some((grh, rest)) = Grh::parse(rest) else {
        return rest;
    };

    let fields = format!(
        "IPVer {} · TClass {} · FlowLabel {:#x} · PayLen {} · NxtHdr {:#04x} · HopLmt {} · SGID {} · DGID {}",
        grh.version,
        grh.traffic_class,
        grh.flow_label,
        grh.payload_len,
        grh.next_header,
        grh.hop_limit,
        gid(grh.sgid),
        gid(grh.dgid)
    );

    headers.push(("GRH", fields));
    rest
}

fn gid(gid: [u8; 16]) -> IpAddr {
    Ipv6Addr::from(gid).to_canonical()
}

fn bth(bth: &Bth) -> String {
    let mut fields = format!(
        "OpCode {:#04x} · SE {} · M {} · Pad {} · TVer {} · P_Key {:#06x} · DestQP {:#08x} · A {} · PSN {:#08x}",
        bth.opcode,
        u8::from(bth.solicited),
        u8::from(bth.migreq),
        bth.pad,
        bth.tver,
        bth.pkey,
        bth.dest_qp,
        u8::from(bth.ack_req),
        bth.psn
    );

    for (set, name) in [(bth.fecn, " · FECN 1"), (bth.becn, " · BECN 1")] {
        if set {
            fields += name;
        }
    }

    fields
}

fn extended(ext: &Ext, headers: &mut Vec<(&'static str, String)>) {
    if let Some(Deth { qkey, src_qp }) = ext.deth {
        let fields = format!("Q_Key {qkey:#010x} · SrcQP {src_qp:#08x}");
        headers.push(("DETH", fields));
    }

    if let Some(srq) = ext.xrceth {
        headers.push(("XRCETH", format!("XRCSRQ {srq:#08x}")));
    }

    if let Some(feth) = ext.feth {
        let fields = format!("PLT {} · SEL {}", feth.placement, feth.selectivity);
        headers.push(("FETH", fields));
    }

    if let Some(reth) = ext.reth {
        let fields = format!(
            "VA {:#x} · R_Key {:#010x} · DMALen {}",
            reth.va, reth.rkey, reth.len
        );
        headers.push(("RETH", fields));
    }

    if let Some(atomic) = ext.atomic {
        let fields = format!(
            "VA {:#x} · R_Key {:#010x} · SwapAdd {:#x} · Cmp {:#x}",
            atomic.va, atomic.rkey, atomic.swap_add, atomic.compare
        );
        headers.push(("AtomicETH", fields));
    }

    if let Some(aeth) = ext.aeth {
        let fields = format!(
            "Syndrome {:#04x} ({}) · MSN {}",
            aeth.syndrome,
            syndrome(aeth),
            aeth.msn
        );
        headers.push(("AETH", fields));
    }

    if let Some(value) = ext.atomic_ack {
        headers.push(("AtomicAckETH", format!("OrigRemDt {value:#x}")));
    }

    if let Some(imm) = ext.imm {
        let fields = format!("{:#010x}", u32::from_be_bytes(imm));
        headers.push(("ImmDt", fields));
    }

    if let Some(key) = ext.ieth {
        headers.push(("IETH", format!("R_Key {key:#010x}")));
    }
}

fn syndrome(aeth: Aeth) -> String {
    match aeth.kind() {
        Syndrome::Ack(code) => match code.count() {
            Some(credits) => format!("ACK, {credits} credits"),
            None => "ACK".to_owned(),
        },
        Syndrome::RnrNak { timer } => {
            let wait = Duration::from_nanos(rnr_timer_nanos(timer));
            format!("RNR NAK, {wait:?}")
        }
        Syndrome::Nak(code) => match code {
            NakCode::PsnSequenceError => "NAK, PSN sequence error",
            NakCode::InvalidRequest => "NAK, invalid request",
            NakCode::RemoteAccessError => "NAK, remote access error",
            NakCode::RemoteOperationalError => "NAK, remote operational error",
            NakCode::InvalidRdRequest => "NAK, invalid RD request",
        }
        .to_owned(),
        Syndrome::Reserved(_) => "reserved".to_owned(),
    }
}

/// The opcode, or of an acknowledge what it says.
fn transport_name(packet: &RxPacket, len: usize) -> String {
    let name = packet.info.map_or("", |info| info.name);
    match packet.ext.aeth {
        Some(aeth) if len == 0 => {
            let kind = name.strip_suffix(" Acknowledge").unwrap_or(name);
            format!("{kind} {}, MSN {}", syndrome(aeth), aeth.msn)
        }
        _ if len > 0 => format!("{name}, {len} B"),
        _ => name.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::channel::ACK;
    use crate::mad::wire;
    use crate::packet::TxPacket;
    use crate::rig::Envelope;
    use ferroce_wire::mad::{LEN, method};
    use ferroce_wire::{opcode, smp};

    fn roce(bytes: Vec<u8>) -> Frame {
        let [from, to] = ["127.0.0.2:49152", "127.0.0.1:4791"].map(|end| end.parse().unwrap());
        Frame {
            at: Duration::ZERO,
            by_device: false,
            carrier: Carrier::Roce { from, to },
            bytes,
        }
    }

    fn packet(opcode: u8, ext: Ext, payload: &[u8]) -> Frame {
        let bth = Bth {
            opcode,
            pkey: 0xffff,
            dest_qp: 0x11,
            psn: 0xff_fffd,
            ..Bth::default()
        };
        let mut bytes = TxPacket::new(bth, ext, payload).covered();
        bytes.extend([0; 4]);
        roce(bytes)
    }

    fn header<'a>(decoded: &'a Decoded, name: &str) -> &'a str {
        let mut found = decoded.headers.iter().filter(|(known, _)| *known == name);
        found.next().map_or("", |(_, fields)| fields)
    }

    #[test]
    fn a_request_has_all_its_headers() {
        let seen = decode(&packet(opcode::RC_WRITE_ONLY, Ext::default(), b"data"));
        assert_eq!(seen.name, "RC RDMA WRITE Only, 4 B");
        assert_eq!(seen.psn, Some(0xff_fffd));
        assert!(header(&seen, "BTH").ends_with("DestQP 0x000011 · A 0 · PSN 0xfffffd"));
        assert_eq!(
            header(&seen, "RETH"),
            "VA 0x0 · R_Key 0x00000000 · DMALen 0"
        );
        assert!(seen.problem.is_none());
    }

    #[test]
    fn an_acknowledge_says_what_it_is() {
        let aeth = |syndrome| Ext {
            aeth: Some(Aeth::new(syndrome, 7)),
            ..Ext::default()
        };
        let name = |ext| decode(&packet(opcode::RC_ACKNOWLEDGE, ext, &[])).name;
        assert_eq!(name(aeth(ACK)), "RC ACK, MSN 7");
        let nak = Syndrome::Nak(NakCode::RemoteAccessError);
        assert_eq!(name(aeth(nak)), "RC NAK, remote access error, MSN 7");
    }

    #[test]
    fn a_mad_is_named_by_its_attribute() {
        let mut mad = [0; LEN];
        MadHeader {
            base_version: 1,
            class: smp::CLASS_LID,
            class_version: 1,
            method: method::GET_RESP,
            status: 0x1c,
            attribute: smp::attribute::PORT_INFO,
            modifier: 2,
            ..MadHeader::default()
        }
        .emit(&mut mad);

        let seen = decode(&Frame {
            carrier: Carrier::Cable { port: 1 },
            bytes: wire::packet(&Envelope::smp(1, 2), &mad),
            ..roce(Vec::new())
        });

        assert_eq!(
            seen.name,
            "SubnGetResp(PortInfo), modifier 0x2, status 0x001c"
        );

        assert!(header(&seen, "LRH").contains("DLID 0x0002 · SLID 0x0001"));
        assert_eq!(header(&seen, "SMP"), "M_Key 0x0");
    }

    #[test]
    fn what_is_no_packet_is_shown_as_it_is() {
        let seen = decode(&roce(vec![0xab; 6]));
        assert_eq!(header(&seen, "bytes"), "ab ab ab ab ab ab");
        assert!(seen.problem.is_some_and(|why| why.contains("too short")));
        assert!(decode(&packet(0xfe, Ext::default(), &[])).problem.is_some());
    }
}
