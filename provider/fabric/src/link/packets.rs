//! MADs as InfiniBand packets: UD messages of 256 bytes between QP0s on lane 15, or between QP1s on
//! a data lane.

use ferroce_wire::link::{Head, LinkPacket, MANAGEMENT_LANE, MAX_HEAD};
use ferroce_wire::mad::{self, Mad, QP0, QP1};
use ferroce_wire::{Bth, Deth, Ext, Header, ICRC_LEN, Packet, opcode};

/// BTH, DETH, MAD, ICRC.
const TRANSPORT: usize = 12 + 8 + mad::LEN + ICRC_LEN;

/// What the transport's headers of a MAD say.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ends {
    /// Partition key.
    pub pkey: u16,
    /// Queue pair that it is for: 0 or 1.
    pub dest_qp: u32,
    /// Queue key.
    pub qkey: u32,
    /// Queue pair that sent it.
    pub src_qp: u32,
    /// Packet sequence number, of no meaning here.
    pub psn: u32,
}

/// Why a packet is no MAD.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unfit {
    /// It is malformed.
    Malformed,
    /// Its ICRC is wrong.
    Damaged,
    /// It is for a queue pair that is not here.
    Elsewhere,
}

/// A MAD's packet.
pub fn emit(head: &Head, ends: Ends, mad: &Mad) -> Vec<u8> {
    let header = Header {
        bth: Bth {
            opcode: opcode::UD_SEND_ONLY,
            pkey: ends.pkey,
            dest_qp: ends.dest_qp,
            psn: ends.psn,
            ..Bth::default()
        },
        ext: Ext {
            deth: Some(Deth {
                qkey: ends.qkey,
                src_qp: ends.src_qp,
            }),
            ..Ext::default()
        },
    };

    let mut packet = Vec::with_capacity(MAX_HEAD + TRANSPORT);
    packet.resize(head.len() + TRANSPORT, 0);
    let mut icrc = head.emit(TRANSPORT, &mut packet);
    let (_, transport) = packet.split_at_mut(head.len());
    let n = header.emit(transport);
    icrc.header(&transport[..n]);
    icrc.payload(mad);
    transport[n..n + mad::LEN].copy_from_slice(mad);
    transport[n + mad::LEN..].copy_from_slice(&icrc.finish());
    packet
}

/// Takes a packet apart that is for QP0 or QP1. Whether its keys are right is for others to say.
pub fn read<'a>(packet: &LinkPacket<'a>) -> Result<(Ends, &'a Mad), Unfit> {
    if Bth::parse(packet.transport).is_some_and(|bth| bth.dest_qp > QP1) {
        return Err(Unfit::Elsewhere);
    }

    let parsed = Packet::parse(packet.transport).map_err(|_| Unfit::Malformed)?;

    // Section 7.8.1
    if !packet.is_intact() {
        return Err(Unfit::Damaged);
    }

    let deth = parsed.ext.deth.ok_or(Unfit::Malformed)?;

    // Section 13.4.2, C13-3: all MADs are of one length.
    let mad = parsed.payload.private().and_then(|mad| mad.try_into().ok());
    let mad = mad.ok_or(Unfit::Malformed)?;

    // Section 13.5.1: SMPs, and nothing else, are on the management lane.
    let of_qp0 = packet.lrh.vl == MANAGEMENT_LANE;
    let good = parsed.bth.opcode == opcode::UD_SEND_ONLY && of_qp0 == (parsed.bth.dest_qp == QP0);
    if !good {
        return Err(Unfit::Malformed);
    }

    let ends = Ends {
        pkey: parsed.bth.pkey,
        dest_qp: parsed.bth.dest_qp,
        qkey: deth.qkey,
        src_qp: deth.src_qp,
        psn: parsed.bth.psn,
    };
    Ok((ends, mad))
}
