//! A whole transport packet: taken apart on receipt, and its headers written for sending.
//!
//! Parsing checks what can be checked without a connection: version, headers that are whole,
//! payload where there must be none. It does not check the ICRC (see [`icrc`](crate::icrc)), nor
//! how long a payload is: that depends on the path MTU, and a responder owes the sender of a wrong
//! length a NAK.

use crate::opcode::{self, Filler, HeaderSet, OpcodeInfo, PayloadRule};
use crate::selective::MAX_BITMAP;
use crate::{Bth, Ext, ICRC_LEN, Octets, bth, mtu};

/// Bytes before the payload of a last packet that say how many fill it, these included: 16 bits,
/// big-endian, and 16 reserved ones.
pub const COUNT_LEN: usize = 4;

/// A parsed packet. The payload is borrowed from the datagram, without pad and ICRC.
#[derive(Clone, Copy, Debug)]
pub struct Packet<'a> {
    /// Base transport header.
    pub bth: Bth,
    /// The opcode's row in the table.
    pub info: &'static OpcodeInfo,
    /// Extended headers: exactly those that the opcode calls for.
    pub ext: Ext,
    /// Payload.
    pub payload: Octets<'a>,
}

/// Why a datagram is not a packet. All of these are dropped without an answer, save that a
/// responder may owe one to an unknown opcode.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ParseError {
    /// Shorter than its headers, pad and ICRC.
    #[error("datagram of {0} bytes is too short for its headers")]
    Truncated(usize),
    /// Transport header version other than 0.
    #[error("transport header version {0} is not 0")]
    Version(u8),
    /// The opcode is reserved or not spoken; the BTH says whose it was.
    #[error("opcode {:#04x} is not known", .0.opcode)]
    Opcode(Bth),
    /// Not a multiple of four bytes, or a payload where there is none.
    #[error("payload or pad count does not fit {}", .0.name)]
    Payload(&'static OpcodeInfo),
}

impl<'a> Packet<'a> {
    /// Takes a UDP payload (or an InfiniBand packet from the BTH on) apart. The last four bytes are
    /// the ICRC, which is not looked at.
    ///
    /// # Errors
    /// See [`ParseError`].
    #[inline]
    pub fn parse(udp_payload: &'a [u8]) -> Result<Packet<'a>, ParseError> {
        Packet::parse_with(udp_payload, udp_payload.into())
    }

    /// As [`parse`](Self::parse), for a packet in memory that others may write to: what the headers
    /// say is taken from `head`, a copy of the first [`MAX_HEADER`](crate::MAX_HEADER) bytes, or of
    /// all if there are less.
    ///
    /// # Errors
    /// See [`ParseError`].
    #[inline(always)]
    pub fn parse_with(head: &[u8], udp_payload: Octets<'a>) -> Result<Packet<'a>, ParseError> {
        let truncated = ParseError::Truncated(udp_payload.len());
        let end = udp_payload.len().checked_sub(ICRC_LEN).ok_or(truncated)?;
        let head = &head[..head.len().min(end)];
        let mut rest = head;
        let bth = Bth::take(&mut rest).ok_or(truncated)?;

        // Section 9.6.1
        if bth.tver != 0 {
            return Err(ParseError::Version(bth.tver));
        }
        let Some(info) = opcode::info(bth.opcode) else {
            return Err(ParseError::Opcode(bth));
        };

        let ext = Ext::take(info.headers, &mut rest).ok_or(truncated)?;
        let start = head.len() - rest.len();
        let len = end - start;
        let pad = usize::from(bth.pad);
        if len < pad {
            return Err(truncated);
        }

        // A payload is padded to a multiple of four.
        let fits = len.is_multiple_of(4)
            && match info.payload {
                PayloadRule::None => len == 0,
                PayloadRule::Full | PayloadRule::Some | PayloadRule::Any | PayloadRule::Word8 => {
                    true
                }
                PayloadRule::Words => pad == 0 && (4..=MAX_BITMAP).contains(&len),
                PayloadRule::Reserved16 => pad == 0 && len == 16,
            };

        if !fits {
            return Err(ParseError::Payload(info));
        }

        Ok(Packet {
            bth,
            info,
            ext,
            payload: udp_payload.part(start..end - pad),
        })
    }

    /// Bytes at the end of the payload that fill the packet (see [`Bth::filled`]): only packets as
    /// long as the path MTU allows are filled. A stranger may have set the bit for no reason, and
    /// if the last packet of its message happens to be of such a length this takes it for filled:
    /// whoever goes by it for more than to look has to know that the sender fills packets.
    #[inline]
    pub fn filler(&self) -> usize {
        let filler = match (self.bth.filled, self.info.filler) {
            (false, _) | (_, Filler::None) => return 0,
            (true, Filler::Fixed(shorter)) => usize::from(shorter),
            (true, Filler::Counted(_)) => self.counted(),
        };
        let full = self.payload.len() as i64 - i64::from(self.info.filler.shorter());
        match u32::try_from(full) {
            Ok(full) if mtu::bytes(mtu::code(full)) == Some(full) => filler,
            _ => 0,
        }
    }

    /// How many bytes fill the packet as the first of them say; 0 if they cannot be so many, as a
    /// last packet has a payload.
    fn counted(&self) -> usize {
        let len = self.payload.len();
        let mut count = [0; 2];
        if len > COUNT_LEN {
            self.payload.part(0..COUNT_LEN).copy_to(&mut count);
        }
        match usize::from(u16::from_be_bytes(count)) {
            filler if (COUNT_LEN..len).contains(&filler) => filler,
            _ => 0,
        }
    }

    /// The payload without what fills the packet.
    #[inline]
    pub fn content(&self) -> Octets<'a> {
        let (filler, len) = (self.filler(), self.payload.len());
        let before = self.info.filler.before(filler);
        self.payload.part(before..len - (filler - before))
    }

    /// The packet without what fills it, as its pad would be then.
    #[must_use]
    pub fn without_filler(&self) -> Packet<'a> {
        let payload = self.content();
        let pad = Bth::pad_for(payload.len());
        let bth = match payload.len() == self.payload.len() {
            true => self.bth,
            false => Bth { pad, ..self.bth },
        };
        Packet {
            bth,
            payload,
            ..*self
        }
    }
}

/// The headers of a packet to send. The opcode decides which extended headers are written, so the
/// result always parses as that opcode.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Header {
    /// Base transport header.
    pub bth: Bth,
    /// Extended headers: those that the opcode calls for.
    pub ext: Ext,
}

impl Header {
    /// Bytes that [`emit`](Self::emit) writes, at most [`MAX_HEADER`](crate::MAX_HEADER).
    #[allow(clippy::len_without_is_empty)] // a BTH is never empty
    pub fn len(&self) -> usize {
        header_len(&self.bth)
    }

    /// See [`around_len`].
    #[inline]
    pub fn around_len(&self, filler: u16) -> usize {
        around_len(&self.bth, filler)
    }

    /// See [`emit_count`].
    ///
    /// # Panics
    /// If `out` is shorter.
    #[inline]
    pub fn emit_count(&self, filler: u16, out: &mut [u8]) -> usize {
        emit_count(&self.bth, filler, out)
    }

    /// Writes the headers to the front of `out` and returns their length. An opcode that is not in
    /// the table gets a BTH only.
    ///
    /// # Panics
    /// If `out` is shorter than [`len`](Self::len).
    #[inline]
    pub fn emit(&self, out: &mut [u8]) -> usize {
        emit(&self.bth, &self.ext, out)
    }
}

/// Bytes of headers that a packet with this BTH has, at most [`MAX_HEADER`](crate::MAX_HEADER).
#[inline]
pub fn header_len(bth: &Bth) -> usize {
    opcode::info(bth.opcode).map_or(bth::LEN, |info| usize::from(info.header_len))
}

/// Bytes beside headers, payload and ICRC: the pad, and `filler` that fill the packet
/// ([`Bth::filled`]).
#[inline]
pub fn around_len(bth: &Bth, filler: u16) -> usize {
    usize::from(bth.pad) + usize::from(filler)
}

/// Writes those of them that stand between headers and payload to the front of `out`, and returns
/// how many they are: what says of a last packet how many fill it. The others, behind the payload,
/// are zeros.
///
/// # Panics
/// If `out` is shorter.
#[inline]
pub fn emit_count(bth: &Bth, filler: u16, out: &mut [u8]) -> usize {
    if filler == 0 {
        return 0;
    }
    let info = opcode::info(bth.opcode);
    let before = info.map_or(0, |info| info.filler.before(filler.into()));
    if before > 0 {
        out[..before].copy_from_slice(&(u32::from(filler) << 16).to_be_bytes());
    }
    before
}

/// As [`Header::emit`], of headers that are apart.
///
/// # Panics
/// If `out` is shorter than [`header_len`].
#[inline]
pub fn emit(bth: &Bth, ext: &Ext, out: &mut [u8]) -> usize {
    let set = opcode::info(bth.opcode).map_or(HeaderSet::empty(), |info| info.headers);
    debug_assert_eq!(
        set,
        ext.headers(),
        "extended headers of opcode {:#04x}",
        bth.opcode
    );
    let mut at = 0;
    bth.put(out, &mut at);
    ext.put(set, out, &mut at);
    at
}
