//! The ACK extended transport header: its syndrome, the end-to-end credit codes and the RNR NAK
//! timer codes.
//!
//! Nothing here decides which acknowledgement to send.

/// ACK extended transport header.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Aeth {
    /// ACK, RNR NAK or NAK with a value; see [`Syndrome`].
    pub syndrome: u8,
    /// Message sequence number, 24 bits.
    pub msn: u32,
}

impl Aeth {
    /// An AETH from its parts.
    pub const fn new(syndrome: Syndrome, msn: u32) -> Aeth {
        Aeth {
            syndrome: syndrome.to_byte(),
            msn: msn & 0xff_ffff,
        }
    }

    /// What the syndrome byte says.
    pub const fn kind(self) -> Syndrome {
        Syndrome::from_byte(self.syndrome)
    }
}

/// The meaning of an AETH's syndrome byte.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Syndrome {
    /// Acknowledgement, with the responder's end-to-end credits.
    Ack(CreditCode),
    /// Receiver not ready.
    RnrNak {
        /// Code of the shortest time to wait, 0 to 31; see [`rnr_timer_nanos`].
        timer: u8,
    },
    /// Negative acknowledgement.
    Nak(NakCode),
    /// A value that the specification reserves.
    Reserved(u8),
}

impl Syndrome {
    /// Takes a syndrome byte apart.
    pub const fn from_byte(byte: u8) -> Syndrome {
        let value = byte & 0x1f;
        match byte >> 5 {
            0 => Syndrome::Ack(CreditCode(value)),
            1 => Syndrome::RnrNak { timer: value },
            3 => match NakCode::from_value(value) {
                Some(code) => Syndrome::Nak(code),
                None => Syndrome::Reserved(byte),
            },
            _ => Syndrome::Reserved(byte),
        }
    }

    /// The syndrome byte.
    pub const fn to_byte(self) -> u8 {
        match self {
            Syndrome::Ack(code) => code.0,
            Syndrome::RnrNak { timer } => 0x20 | timer & 0x1f,
            Syndrome::Nak(code) => 0x60 | code as u8,
            Syndrome::Reserved(byte) => byte,
        }
    }
}

/// Why a responder refused a request.
#[repr(u8)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum NakCode {
    /// A PSN was skipped.
    PsnSequenceError = 0,
    /// The request was malformed, unsupported, or did not fit its receive buffer.
    InvalidRequest = 1,
    /// R_Key, bounds or rights did not allow the access.
    RemoteAccessError = 2,
    /// The responder could not carry the request out.
    RemoteOperationalError = 3,
    /// Reliable datagram only.
    InvalidRdRequest = 4,
}

impl NakCode {
    /// The code of a NAK's value field, `None` where it is reserved.
    pub const fn from_value(value: u8) -> Option<NakCode> {
        Some(match value {
            0 => NakCode::PsnSequenceError,
            1 => NakCode::InvalidRequest,
            2 => NakCode::RemoteAccessError,
            3 => NakCode::RemoteOperationalError,
            4 => NakCode::InvalidRdRequest,
            _ => return None,
        })
    }
}

/// An encoded end-to-end credit count: how many receive requests the responder still has, 5 bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct CreditCode(u8);

/// Receive requests that each code stands for; the last code says that no credits are kept.
const CREDITS: [u16; 31] = [
    0, 1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256, 384, 512, 768, 1024, 1536,
    2048, 3072, 4096, 6144, 8192, 12288, 16384, 24576, 32768,
];

impl CreditCode {
    /// The responder does not keep credits (receive queue shared, or not supported).
    pub const UNLIMITED: CreditCode = CreditCode(31);

    /// The low 5 bits of `code`.
    pub const fn new(code: u8) -> CreditCode {
        CreditCode(code & 0x1f)
    }

    /// The code, 0 to 31.
    pub const fn code(self) -> u8 {
        self.0
    }

    /// The code of the largest count that is not above `count`.
    pub const fn for_count(count: u32) -> CreditCode {
        // Beyond 1 the codes come in pairs, 2^k and 3·2^(k−1).
        let code = match count {
            0 | 1 => count,
            32768.. => 30,
            _ => {
                let k = count.ilog2();
                2 * k + (count >> (k - 1) & 1)
            }
        };
        CreditCode(code as u8)
    }

    /// The count, `None` where the responder keeps no credits.
    pub const fn count(self) -> Option<u32> {
        if self.0 < 31 {
            Some(CREDITS[self.0 as usize] as u32)
        } else {
            None
        }
    }
}

/// Shortest wait after an RNR NAK for each timer code, in units of 10 µs.
const RNR_TIMERS: [u32; 32] = [
    65536, 1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256, 384, 512, 768, 1024, 1536,
    2048, 3072, 4096, 6144, 8192, 12288, 16384, 24576, 32768, 49152,
];

/// The time in nanoseconds that an RNR NAK timer code stands for (the low 5 bits of `code`): 10 µs
/// to 655.36 ms.
pub const fn rnr_timer_nanos(code: u8) -> u64 {
    RNR_TIMERS[(code & 0x1f) as usize] as u64 * 10_000
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn syndrome_bytes() {
        for byte in 0..=255u8 {
            assert_eq!(Syndrome::from_byte(byte).to_byte(), byte);
        }
        assert_eq!(
            Syndrome::from_byte(0x1f),
            Syndrome::Ack(CreditCode::UNLIMITED)
        );

        assert_eq!(Syndrome::from_byte(0x2c), Syndrome::RnrNak { timer: 12 });
        assert_eq!(
            Syndrome::from_byte(0x60),
            Syndrome::Nak(NakCode::PsnSequenceError)
        );

        assert_eq!(
            Syndrome::from_byte(0x63),
            Syndrome::Nak(NakCode::RemoteOperationalError)
        );

        assert_eq!(Syndrome::from_byte(0x65), Syndrome::Reserved(0x65));
        assert_eq!(Syndrome::from_byte(0x40), Syndrome::Reserved(0x40));
        assert_eq!(Syndrome::from_byte(0x9f), Syndrome::Reserved(0x9f));
    }

    #[test]
    fn a_count_is_coded_as_the_largest_not_above_it() {
        for count in 0..40_000u32 {
            let code = CreditCode::for_count(count).code();
            assert!(u32::from(CREDITS[usize::from(code)]) <= count);
            assert!(
                code == 30 || u32::from(CREDITS[usize::from(code) + 1]) > count,
                "{count} {code}"
            );
        }
        assert_eq!(CreditCode::for_count(u32::MAX).count(), Some(32768));
        assert_eq!(CreditCode::UNLIMITED.count(), None);
    }

    #[test]
    fn rnr_timers() {
        assert_eq!(rnr_timer_nanos(0), 655_360_000);
        assert_eq!(rnr_timer_nanos(1), 10_000);
        assert_eq!(rnr_timer_nanos(12), 640_000);
        assert_eq!(rnr_timer_nanos(14), 1_280_000);
        assert_eq!(rnr_timer_nanos(31), 491_520_000);
    }
}
