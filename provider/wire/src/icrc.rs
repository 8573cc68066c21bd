//! The invariant CRC of RoCEv2, with what a UDP socket hides of the IPv4 header solved for.
//!
//! The ICRC covers a pseudo header and the packet from its BTH on. The pseudo header is 8 bytes of
//! ones in the LRH's place and the IP and UDP headers, with the fields that routers change taken as
//! ones. Over IPv4 that includes the Identification, which a receiver behind a socket cannot see:
//! [`Flow::verify`] finds the one that explains the CRC, if there is one. What becomes of a packet
//! whose CRC is wrong, that it is dropped without an answer (CA17-24), is not decided here.

use crate::ICRC_LEN;
use crate::bth::VARIANT_BYTE;
use crate::crc::{self, multiply, multiply_const, power_of_x};
use std::net::{Ipv4Addr, Ipv6Addr};

/// Bytes of ones in place of the LRH.
const LRH_LEN: usize = 8;
const UDP_LEN: usize = 8;
const IPV4_LEN: usize = 20;
const IPV6_LEN: usize = 40;
const V4_LEN: usize = LRH_LEN + IPV4_LEN + UDP_LEN;
const V6_LEN: usize = LRH_LEN + IPV6_LEN + UDP_LEN;

/// One UDP flow in one direction: the part of the ICRC that all its packets share.
///
/// Copying it is cheap; making it takes some tens of nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Flow {
    /// The register behind the pseudo header with the fields that change from packet to packet as
    /// zeros.
    base: u32,
    v4: bool,
}

/// What [`Flow::verify`] found.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Verdict {
    /// The ICRC is right (over IPv4: with the Identification that was expected).
    Exact,
    /// The ICRC is right if the IPv4 header carried this Identification.
    WithId(u16),
    /// The packet was changed on its way, or is no packet.
    Bad,
}

impl Verdict {
    /// Whether the packet may be used.
    pub const fn is_good(self) -> bool {
        !matches!(self, Verdict::Bad)
    }
}

/// An ICRC under way.
#[derive(Clone, Copy, Debug)]
#[must_use]
pub struct Icrc(u32);

impl Flow {
    /// A flow over IPv4, packets sent with DF set and without options.
    pub fn v4(src: Ipv4Addr, dst: Ipv4Addr, sport: u16, dport: u16) -> Flow {
        let mut h = [0xff; V4_LEN];
        let (ip, udp) = h[LRH_LEN..].split_at_mut(IPV4_LEN);
        ip[0] = 0x45;
        ip[2..6].fill(0); // total length and Identification: added by `start`
        ip[6..8].copy_from_slice(&[0x40, 0]);
        ip[9] = 17;
        ip[12..16].copy_from_slice(&src.octets());
        ip[16..20].copy_from_slice(&dst.octets());
        ports(udp, sport, dport);
        Flow {
            base: crc::update(!0, &h),
            v4: true,
        }
    }

    /// A flow over IPv6, without extension headers.
    pub fn v6(src: Ipv6Addr, dst: Ipv6Addr, sport: u16, dport: u16) -> Flow {
        let mut h = [0xff; V6_LEN];
        let (ip, udp) = h[LRH_LEN..].split_at_mut(IPV6_LEN);
        ip[0] = 0x6f;
        ip[4..6].fill(0); // payload length: added by `start`
        ip[6] = 17;
        ip[8..24].copy_from_slice(&src.octets());
        ip[24..40].copy_from_slice(&dst.octets());
        ports(udp, sport, dport);
        Flow {
            base: crc::update(!0, &h),
            v4: false,
        }
    }

    /// Begins the ICRC of a packet. `udp_payload_len` counts from the BTH and includes the 4 bytes
    /// of ICRC; `ip_id` is the IPv4 Identification it is sent with, and is ignored over IPv6.
    #[inline]
    pub fn start(&self, udp_payload_len: usize, ip_id: u16) -> Icrc {
        let udp = (udp_payload_len + UDP_LEN) as u16;
        let fields = if self.v4 {
            let total = (udp_payload_len + UDP_LEN + IPV4_LEN) as u16;
            V4_TOTAL.of(total) ^ V4_ID.of(ip_id)
        } else {
            V6_LENGTH.of(udp)
        };
        Icrc(self.base ^ fields ^ UDP_LENGTH.of(udp))
    }

    /// Checks a received packet; `udp_payload` is everything from the BTH to the ICRC. Over IPv4
    /// the Identification is taken to be `ip_id_hint` (0 where nothing is known: what Linux sends
    /// from a socket); if that does not fit, the one Identification that does is found, if there is
    /// one. Sixteen of the thirty-two bits still check.
    #[inline]
    pub fn verify(&self, udp_payload: &[u8], ip_id_hint: u16) -> Verdict {
        let Some((covered, received)) = udp_payload.split_last_chunk::<ICRC_LEN>() else {
            return Verdict::Bad;
        };

        if covered.len() < crate::bth::LEN
            || udp_payload.len() > usize::from(u16::MAX) - UDP_LEN - IPV4_LEN
        {
            return Verdict::Bad;
        }

        let mut icrc = self.start(udp_payload.len(), ip_id_hint);

        // The variant byte is read as it is; the register is changed ahead of it so that it counts
        // as ones.
        icrc.0 ^= VARIANT[usize::from(!covered[VARIANT_BYTE])];
        icrc.0 = crc::update(icrc.0, covered);
        let difference = !icrc.0 ^ u32::from_le_bytes(*received);
        if difference == 0 {
            Verdict::Exact
        } else if !self.v4 {
            Verdict::Bad
        } else {
            match explain(difference, covered.len()) {
                Some(id) => Verdict::WithId(id ^ ip_id_hint),
                None => Verdict::Bad,
            }
        }
    }

    /// Whether this is a flow over IPv4, whose Identification matters.
    pub const fn is_v4(&self) -> bool {
        self.v4
    }
}

impl Icrc {
    /// Begins with what comes before the BTH, masked already: of an InfiniBand packet LRH and GRH.
    pub(crate) fn of(before: &[u8]) -> Icrc {
        Icrc(crc::update(!0, before))
    }

    /// Adds BTH and extended headers, whole and once, first.
    ///
    /// # Panics
    /// If that is shorter than a BTH.
    #[inline]
    pub fn header(&mut self, bth_and_ext: &[u8]) {
        self.mask(bth_and_ext);
        self.0 = crc::update(self.0, bth_and_ext);
    }

    /// Takes account of the byte of the BTH, with which these bytes begin, that counts as ones.
    /// Once, before anything is added, and then all is added by [`payload`](Self::payload), the
    /// headers too: for packets of which more than the headers lies in one piece.
    ///
    /// # Panics
    /// If they are shorter than a BTH.
    #[inline]
    pub fn mask(&mut self, bth: &[u8]) {
        self.0 ^= VARIANT[usize::from(!bth[VARIANT_BYTE])];
    }

    /// Adds payload, or pad bytes, in any number of pieces.
    #[inline]
    pub fn payload(&mut self, bytes: &[u8]) {
        self.0 = crc::update(self.0, bytes);
    }

    /// The four bytes that end the packet.
    #[inline]
    pub fn finish(self) -> [u8; 4] {
        (!self.0).to_le_bytes()
    }
}

/// Both port fields as given, the checksum left as ones, the length as zeros.
fn ports(udp: &mut [u8], sport: u16, dport: u16) {
    udp[..2].copy_from_slice(&sport.to_be_bytes());
    udp[2..4].copy_from_slice(&dport.to_be_bytes());
    udp[4..6].fill(0);
}

/// What a big-endian 16-bit field adds to the register behind the pseudo header.
struct Field {
    high: [u32; 256],
    low: [u32; 256],
}

impl Field {
    /// A field that has `behind` bytes of pseudo header behind it.
    const fn new(behind: usize) -> Field {
        Field {
            high: byte_table(behind as i64 + 1),
            low: byte_table(behind as i64),
        }
    }

    #[inline]
    fn of(&self, value: u16) -> u32 {
        let [high, low] = value.to_be_bytes();
        self.high[usize::from(high)] ^ self.low[usize::from(low)]
    }
}

/// What a byte adds to the register `behind` bytes later (negative: earlier, ahead of it).
const fn byte_table(behind: i64) -> [u32; 256] {
    // A byte enters at the register's low end; the register then moves on by eight bits and
    // `behind` more bytes.
    let shift = power_of_x(8 * (behind + 1));
    let mut table = [0; 256];
    let mut bit = 1;
    while bit < 256 {
        table[bit] = multiply_const(bit as u32, shift);
        let mut below = 1;
        while below < bit {
            table[bit + below] = table[bit] ^ table[below];
            below += 1;
        }
        bit <<= 1;
    }

    table
}

static UDP_LENGTH: Field = Field::new(2);
static V4_TOTAL: Field = Field::new(V4_LEN - LRH_LEN - 4);
static V4_ID: Field = Field::new(V4_LEN - LRH_LEN - 6);
static V6_LENGTH: Field = Field::new(V6_LEN - LRH_LEN - 6);

/// Added to the register ahead of the BTH, this is as good as the change of the variant byte by the
/// index.
static VARIANT: [u32; 256] = byte_table(-1 - VARIANT_BYTE as i64);

/// x^(−8 i) and x^(−2048 i), for taking a register back over any number of bytes below 65,536.
static BACK: [[u32; 256]; 2] = {
    let mut t = [[crc::ONE; 256]; 2];
    let steps = [power_of_x(-8), power_of_x(-2048)];
    let mut k = 0;
    while k < 2 {
        let mut i = 1;
        while i < 256 {
            t[k][i] = multiply_const(t[k][i - 1], steps[k]);
            i += 1;
        }
        k += 1;
    }
    t
};

/// The change of the Identification that explains a difference of two ICRCs over `covered` bytes of
/// packet.
///
/// A CRC is linear: the difference is the Identification's change as a polynomial, times x^32 and
/// x^8 for each byte behind it. Dividing by those must leave a polynomial of degree 15 or less, and
/// that is the change itself.
fn explain(difference: u32, covered: usize) -> Option<u16> {
    let [low, high, ..] = (covered + ID_BEHIND).to_le_bytes();
    let change = multiply(
        multiply(difference, BACK[0][usize::from(low)]),
        BACK[1][usize::from(high)],
    );
    // Reflected: x^0 is bit 31, so degree 15 is bit 16, and each byte of the message has its top
    // bit at the lowest degree.
    if change & 0xffff == 0 {
        Some(((change >> 16) as u16).swap_bytes())
    } else {
        None
    }
}

/// Bytes of pseudo header behind the Identification, and the four of the register itself.
const ID_BEHIND: usize = V4_LEN - LRH_LEN - 6 + 4;
