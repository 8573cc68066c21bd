//! Stretches: packets of one message that follow each other, as one.
//!
//! Between processes of one device nothing is cut to the path MTU, so what would be several packets
//! goes in one piece: the headers of a packet that is as long as all of them, then their payload.
//! It is numbered as the first of them, and counts as so many packets as the path MTU makes of it.
//! Wherever single packets matter it is taken apart into them.

use crate::opcode::HeaderSet;
use crate::{Bth, Ext, Header, ICRC_LEN, Operation, Packet, Position, Service, bth, mtu, opcode};

/// The packet whose payload is longer than the path MTU `mtu`, as the packets that it stands for.
#[derive(Clone, Copy, Debug)]
pub struct Stretch<'a> {
    whole: Packet<'a>,
    mtu: usize,
}

impl<'a> Stretch<'a> {
    /// `None`: `mtu` is no path MTU, or the packet none of a connection's SEND or WRITE or of a
    /// READ's response, which alone are cut.
    pub fn new(whole: Packet<'a>, mtu: u16) -> Option<Stretch<'a>> {
        let of_message = matches!(
            whole.info.operation,
            Operation::Send | Operation::Write | Operation::ReadResponse
        );
        let known = mtu::bytes(mtu::code(mtu.into())) == Some(mtu.into());
        let mtu = usize::from(mtu);
        let cut = of_message && whole.info.service != Service::Ud;
        (cut && known).then_some(Stretch { whole, mtu })
    }

    /// The packet as it came.
    pub fn whole(&self) -> &Packet<'a> {
        &self.whole
    }

    /// Path MTU of its packets, in bytes.
    #[inline]
    pub fn mtu(&self) -> u32 {
        self.mtu as u32
    }

    /// How many packets it stands for; 1 and more.
    #[inline]
    pub fn packets(&self) -> u32 {
        self.whole.payload.len().div_ceil(self.mtu).max(1) as u32
    }

    /// Bytes that the packets have beside those of the whole: their own headers and ICRCs.
    #[inline]
    pub fn more_bytes(&self) -> usize {
        more_bytes(self.whole.bth.opcode, self.packets())
    }

    /// The `i`th packet, counted from 0.
    pub fn part(&self, i: u32) -> Packet<'a> {
        let Packet {
            bth,
            info,
            ext,
            payload,
        } = self.whole;
        let start = (i as usize * self.mtu).min(payload.len());
        let payload = payload.part(start..(start + self.mtu).min(payload.len()));
        let (first, last) = (i == 0, i + 1 == self.packets());
        let (begins, ends) = (first && info.begins(), last && info.ends());
        let opcode = placed(bth.opcode, begins, ends);
        let Some(info) = opcode::info(opcode) else {
            return self.whole;
        };

        let has = |set| info.headers.contains(set);
        Packet {
            bth: Bth {
                opcode,
                psn: bth.psn.wrapping_add(i) & 0xff_ffff,
                ack_req: last && bth.ack_req,
                solicited: last && bth.solicited,
                pad: Bth::pad_for(payload.len()),
                ..bth
            },
            info,
            ext: Ext {
                reth: ext.reth.filter(|_| has(HeaderSet::RETH)),
                aeth: ext.aeth.filter(|_| has(HeaderSet::AETH)),
                imm: ext.imm.filter(|_| has(HeaderSet::IMM)),
                ieth: ext.ieth.filter(|_| has(HeaderSet::IETH)),
                ..ext
            },
            payload,
        }
    }
}

/// Bytes that so many packets have beside those of a stretch with this opcode that stands for them.
#[inline]
pub fn more_bytes(opcode: u8, packets: u32) -> usize {
    let more = packets.saturating_sub(1) as usize;
    let each = |info: &opcode::OpcodeInfo| {
        // An XRCETH is in each request, an AETH in a READ's first and last response.
        let xrceth = match info.headers.contains(HeaderSet::XRCETH) {
            true => HeaderSet::XRCETH.bytes(),
            false => 0,
        };
        let only_response =
            info.operation == Operation::ReadResponse && info.position == Position::Only;
        let aeth = match only_response && more > 0 {
            true => HeaderSet::AETH.bytes(),
            false => 0,
        };
        more * (bth::LEN + ICRC_LEN + xrceth) + aeth
    };
    opcode::info(opcode).map_or(0, each)
}

/// The opcode of the same message at another place in it, where it may end and where it may not.
fn placed(opcode: u8, begins: bool, ends: bool) -> u8 {
    use opcode::*;

    let (service, operation) = (opcode & 0xe0, opcode & 0x1f);
    let pick = |first, middle, last, only| match (begins, ends) {
        (true, false) => first,
        (false, false) => middle,
        (false, true) => last,
        (true, true) => only,
    };
    service
        | match operation {
            RC_SEND_FIRST | RC_SEND_MIDDLE | RC_SEND_LAST | RC_SEND_ONLY => {
                pick(RC_SEND_FIRST, RC_SEND_MIDDLE, RC_SEND_LAST, RC_SEND_ONLY)
            }
            RC_SEND_LAST_IMM | RC_SEND_ONLY_IMM => pick(
                RC_SEND_FIRST,
                RC_SEND_MIDDLE,
                RC_SEND_LAST_IMM,
                RC_SEND_ONLY_IMM,
            ),
            RC_SEND_LAST_INV | RC_SEND_ONLY_INV => pick(
                RC_SEND_FIRST,
                RC_SEND_MIDDLE,
                RC_SEND_LAST_INV,
                RC_SEND_ONLY_INV,
            ),
            RC_WRITE_FIRST | RC_WRITE_MIDDLE | RC_WRITE_LAST | RC_WRITE_ONLY => pick(
                RC_WRITE_FIRST,
                RC_WRITE_MIDDLE,
                RC_WRITE_LAST,
                RC_WRITE_ONLY,
            ),
            RC_WRITE_LAST_IMM | RC_WRITE_ONLY_IMM => pick(
                RC_WRITE_FIRST,
                RC_WRITE_MIDDLE,
                RC_WRITE_LAST_IMM,
                RC_WRITE_ONLY_IMM,
            ),
            RC_READ_RESPONSE_FIRST
            | RC_READ_RESPONSE_MIDDLE
            | RC_READ_RESPONSE_LAST
            | RC_READ_RESPONSE_ONLY => pick(
                RC_READ_RESPONSE_FIRST,
                RC_READ_RESPONSE_MIDDLE,
                RC_READ_RESPONSE_LAST,
                RC_READ_RESPONSE_ONLY,
            ),
            other => other,
        }
}

/// The packet as bytes, with zeros in place of the ICRC, for whom a packet is bytes.
pub fn emit(packet: &Packet<'_>, out: &mut Vec<u8>) {
    let header = Header {
        bth: packet.bth,
        ext: packet.ext,
    };
    let len = header.len() + packet.payload.len() + usize::from(packet.bth.pad) + ICRC_LEN;
    out.clear();
    out.resize(len, 0);
    let at = header.emit(out);
    packet.payload.copy_to(&mut out[at..]);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Aeth, Reth};

    const MTU: u16 = 256;

    fn of(opcode: u8, ext: Ext, payload: &[u8]) -> Packet<'_> {
        Packet {
            bth: Bth {
                opcode,
                psn: 0xff_fffe,
                ack_req: true,
                solicited: true,
                pad: Bth::pad_for(payload.len()),
                ..Bth::default()
            },
            info: opcode::info(opcode).unwrap(),
            ext,
            payload: payload.into(),
        }
    }

    /// The parts of a stretch, each taken apart from its bytes again.
    fn parts(whole: Packet<'_>) -> Vec<(u8, u32, bool, Ext, Vec<u8>)> {
        let stretch = Stretch::new(whole, MTU).unwrap();
        let mut total = 0;
        let parts = (0..stretch.packets()).map(|i| {
            let mut bytes = Vec::new();
            emit(&stretch.part(i), &mut bytes);
            total += bytes.len();
            let Packet {
                bth, ext, payload, ..
            } = Packet::parse(&bytes).unwrap();
            assert_eq!(bth.solicited, bth.ack_req);
            (bth.opcode, bth.psn, bth.ack_req, ext, payload.to_vec())
        });
        let parts = parts.collect();
        let mut bytes = Vec::new();
        emit(&whole, &mut bytes);
        assert_eq!(total, bytes.len() + stretch.more_bytes());
        parts
    }

    #[test]
    fn a_whole_message_has_a_first_and_a_last_packet() {
        let payload: Vec<u8> = (0..=255).cycle().take(3 * 256 - 5).collect();
        let reth = Some(Reth {
            va: 7,
            rkey: 8,
            len: payload.len() as u32,
        });
        let imm = Some([1, 2, 3, 4]);
        let ext = Ext {
            reth,
            imm,
            ..Ext::default()
        };
        let only = |reth, imm| Ext {
            reth,
            imm,
            ..Ext::default()
        };
        let p = |range: std::ops::Range<usize>| payload[range].to_vec();
        let whole = of(opcode::RC_WRITE_ONLY_IMM, ext, &payload);
        let expected = vec![
            (
                opcode::RC_WRITE_FIRST,
                0xff_fffe,
                false,
                only(reth, None),
                p(0..256),
            ),
            (
                opcode::RC_WRITE_MIDDLE,
                0xff_ffff,
                false,
                Ext::default(),
                p(256..512),
            ),
            (
                opcode::RC_WRITE_LAST_IMM,
                0,
                true,
                only(None, imm),
                p(512..763),
            ),
        ];
        assert_eq!(parts(whole), expected);
    }

    #[test]
    fn every_message_is_taken_apart_as_its_operation_has_it() {
        use opcode::*;

        let payload = [9; 600];
        let aeth = Ext {
            aeth: Some(Aeth::default()),
            ..Ext::default()
        };
        let ieth = Ext {
            ieth: Some(5),
            ..Ext::default()
        };
        let xrceth = Ext {
            xrceth: Some(6),
            ..Ext::default()
        };
        let none = Ext::default();
        let cases = [
            (
                RC_SEND_FIRST,
                none,
                [RC_SEND_FIRST, RC_SEND_MIDDLE, RC_SEND_MIDDLE],
            ),
            (RC_SEND_MIDDLE, none, [RC_SEND_MIDDLE; 3]),
            (
                RC_SEND_LAST,
                none,
                [RC_SEND_MIDDLE, RC_SEND_MIDDLE, RC_SEND_LAST],
            ),
            (
                RC_SEND_LAST_INV,
                ieth,
                [RC_SEND_MIDDLE, RC_SEND_MIDDLE, RC_SEND_LAST_INV],
            ),
            (
                RC_SEND_ONLY_INV,
                ieth,
                [RC_SEND_FIRST, RC_SEND_MIDDLE, RC_SEND_LAST_INV],
            ),
            (
                RC_READ_RESPONSE_ONLY,
                aeth,
                [
                    RC_READ_RESPONSE_FIRST,
                    RC_READ_RESPONSE_MIDDLE,
                    RC_READ_RESPONSE_LAST,
                ],
            ),
            (
                RC_READ_RESPONSE_LAST,
                aeth,
                [
                    RC_READ_RESPONSE_MIDDLE,
                    RC_READ_RESPONSE_MIDDLE,
                    RC_READ_RESPONSE_LAST,
                ],
            ),
            (
                0xa0 | RC_SEND_ONLY,
                xrceth,
                [RC_SEND_FIRST, RC_SEND_MIDDLE, RC_SEND_LAST].map(|opcode| 0xa0 | opcode),
            ),
        ];
        for (opcode, ext, expected) in cases {
            let parts = parts(of(opcode, ext, &payload));
            let opcodes: Vec<u8> = parts.iter().map(|part| part.0).collect();
            assert_eq!(opcodes, expected, "{opcode:#04x}");
        }
    }

    #[test]
    fn what_is_no_part_of_a_message_is_no_stretch() {
        let ack = of(
            opcode::RC_ACKNOWLEDGE,
            Ext {
                aeth: Some(Aeth::default()),
                ..Ext::default()
            },
            &[],
        );
        assert!(Stretch::new(ack, MTU).is_none());
        let datagram = of(0x60 | opcode::RC_SEND_ONLY, Ext::default(), &[1; 600]);
        assert!(Stretch::new(datagram, MTU).is_none());
        let send = of(opcode::RC_SEND_ONLY, Ext::default(), &[]);
        assert!(
            [0, 1, 100, 4095, u16::MAX]
                .iter()
                .all(|mtu| Stretch::new(send, *mtu).is_none())
        );
        assert_eq!(Stretch::new(send, MTU).unwrap().packets(), 1);
    }
}
