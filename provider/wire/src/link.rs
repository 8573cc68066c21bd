//! Whole InfiniBand packets as a cable carries them: LRH, GRH if there is one, transport packet,
//! ICRC. The VCRC is not there: a cable is a UDP flow, whose checksum guards the hop.
//!
//! The ICRC covers everything from the LRH on, with the fields that may change on the way as ones:
//! the virtual lane, the GRH's traffic class, flow label and hop limit, and the BTH's variant byte.

use crate::grh::{self, Grh};
use crate::icrc::Icrc;
use crate::lrh::{self, Lrh, NextHeader};
use crate::{Bth, ICRC_LEN};

/// Bytes of the longest head: LRH and GRH.
pub const MAX_HEAD: usize = lrh::LEN + grh::LEN;
/// Lane of management packets.
pub const MANAGEMENT_LANE: u8 = 15;

/// A packet off a cable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LinkPacket<'a> {
    /// Local route header.
    pub lrh: Lrh,
    /// Global route header.
    pub grh: Option<Grh>,
    /// From the BTH to the ICRC.
    pub transport: &'a [u8],
    whole: &'a [u8],
}

/// The head of packets of one path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Head {
    /// Local route header; next header and length are filled in.
    pub lrh: Lrh,
    /// Global route header; the length is filled in.
    pub grh: Option<Grh>,
}

impl<'a> LinkPacket<'a> {
    /// Takes a datagram of a cable apart; `None` if it is no InfiniBand packet, or not of the
    /// length that its LRH says (C7-7).
    pub fn parse(whole: &'a [u8]) -> Option<LinkPacket<'a>> {
        let (lrh, rest) = Lrh::parse(whole)?;
        if lrh.version != 0 || usize::from(lrh.words) * 4 != whole.len() {
            return None;
        }

        let (grh, transport) = match lrh.next {
            NextHeader::Local => (None, rest),
            NextHeader::Global => {
                let (grh, transport) = Grh::parse(rest)?;
                let good = grh.version == 6
                    && grh.next_header == grh::NEXT_BTH
                    && usize::from(grh.payload_len) == transport.len();
                (Some(grh).filter(|_| good), transport)
            }
            NextHeader::Raw | NextHeader::Ipv6 => return None,
        };

        if (lrh.next == NextHeader::Global) != grh.is_some() {
            return None;
        }

        Some(LinkPacket {
            lrh,
            grh,
            transport,
            whole,
        })
    }

    /// Whether the ICRC is right.
    pub fn is_intact(&self) -> bool {
        let Some((covered, received)) = self.transport.split_last_chunk::<ICRC_LEN>() else {
            return false;
        };
        if Bth::parse(covered).is_none() {
            return false;
        }
        let head = &self.whole[..self.whole.len() - self.transport.len()];
        let mut icrc = start(head);
        icrc.header(covered);
        icrc.finish() == *received
    }
}

impl Head {
    /// Bytes of the head.
    pub fn len(&self) -> usize {
        lrh::LEN + self.grh.map_or(0, |_| grh::LEN)
    }

    /// Whether it is empty; it never is.
    pub fn is_empty(&self) -> bool {
        false
    }

    /// Writes the head of a packet with `transport` bytes from the BTH to the end of the ICRC, and
    /// begins its ICRC.
    ///
    /// # Panics
    /// If `out` is shorter than the head.
    pub fn emit(&self, transport: usize, out: &mut [u8]) -> Icrc {
        let len = self.len();
        Lrh {
            next: match self.grh {
                Some(_) => NextHeader::Global,
                None => NextHeader::Local,
            },
            words: ((len + transport) / 4) as u16,
            ..self.lrh
        }
        .emit(out);

        if let Some(grh) = self.grh {
            Grh {
                payload_len: transport as u16,
                next_header: grh::NEXT_BTH,
                version: 6,
                ..grh
            }
            .emit(&mut out[lrh::LEN..]);
        }

        start(&out[..len])
    }
}

/// Begins the ICRC of a packet whose LRH and GRH these are.
fn start(head: &[u8]) -> Icrc {
    let mut masked = [0; MAX_HEAD];
    let masked = &mut masked[..head.len()];
    masked.copy_from_slice(head);
    masked[0] |= 0xf0;
    if let Some(grh) = masked.get_mut(lrh::LEN..).filter(|grh| !grh.is_empty()) {
        grh[0] |= 0x0f;
        grh[1..4].fill(0xff);
        grh[7] = 0xff;
    }
    Icrc::of(masked)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Deth, Ext, Header, opcode};

    fn head(grh: bool) -> Head {
        Head {
            lrh: Lrh {
                vl: 3,
                version: 0,
                sl: 5,
                next: NextHeader::Local,
                dlid: 0x1234,
                words: 0,
                slid: 0x4321,
            },
            grh: grh.then_some(Grh {
                version: 6,
                traffic_class: 7,
                flow_label: 0x12345,
                payload_len: 0,
                next_header: 0,
                hop_limit: 9,
                sgid: [1; 16],
                dgid: [2; 16],
            }),
        }
    }

    fn packet(head: &Head) -> Vec<u8> {
        let header = Header {
            bth: Bth {
                opcode: opcode::UD_SEND_ONLY,
                pkey: 0xffff,
                dest_qp: 1,
                ..Bth::default()
            },
            ext: Ext {
                deth: Some(Deth { qkey: 1, src_qp: 2 }),
                ..Ext::default()
            },
        };

        let payload = [0x5a; 256];
        let transport = header.len() + payload.len() + ICRC_LEN;
        let mut out = vec![0; head.len() + transport];
        let mut icrc = head.emit(transport, &mut out);
        let at = head.len();
        let n = header.emit(&mut out[at..]);
        icrc.header(&out[at..at + n]);
        icrc.payload(&payload);
        out[at + n..at + n + 256].copy_from_slice(&payload);
        out[at + n + 256..].copy_from_slice(&icrc.finish());
        out
    }

    #[test]
    fn what_is_written_is_read() {
        for grh in [false, true] {
            let head = head(grh);
            let bytes = packet(&head);
            let read = LinkPacket::parse(&bytes).unwrap();
            assert!(read.is_intact());
            assert_eq!((read.lrh.dlid, read.lrh.slid), (0x1234, 0x4321));
            assert_eq!(usize::from(read.lrh.words) * 4, bytes.len());
            assert_eq!(read.grh.map(|grh| grh.sgid), head.grh.map(|grh| grh.sgid));
            assert_eq!(
                crate::Packet::parse(read.transport).unwrap().payload,
                [0x5a; 256]
            );
        }
    }

    #[test]
    fn what_routers_change_is_not_covered_and_all_else_is() {
        for grh in [false, true] {
            let good = packet(&head(grh));
            let bth = head(grh).len();
            // Miri takes a thousand times as long.
            for at in (0..good.len()).step_by(if cfg!(miri) { 5 } else { 1 }) {
                for bit in 0..8 {
                    let mut bytes = good.clone();
                    bytes[at] ^= 1 << bit;
                    let intact = LinkPacket::parse(&bytes).is_some_and(|p| p.is_intact());
                    let may_change = at == 0 && bit >= 4
                        || grh && (at == 8 && bit < 4 || (9..12).contains(&at) || at == 15)
                        || at == bth + 4;
                    assert_eq!(intact, may_change, "byte {at}, bit {bit}, GRH {grh}");
                }
            }
        }
    }

    #[test]
    fn what_is_too_short_or_of_another_length_is_nothing() {
        let bytes = packet(&head(true));
        for len in 0..bytes.len() {
            assert!(LinkPacket::parse(&bytes[..len]).is_none());
        }
        assert!(LinkPacket::parse(&[0x0f; 24]).is_none());
    }
}
