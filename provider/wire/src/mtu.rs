//! Path MTUs: bytes of payload, and the codes that PortInfo, path records, the communication
//! manager's REQ and `enum ibv_mtu` have for them, 1 (256 bytes) to 5 (4,096).

/// The least MTU, in bytes.
pub const LEAST: u32 = 256;

/// Bytes that a code stands for; `None`: it stands for none.
#[inline]
pub fn bytes(code: impl Into<u32>) -> Option<u32> {
    match code.into() {
        code @ 1..=5 => Some(128 << code),
        _ => None,
    }
}

/// Whether a code stands for an MTU.
#[inline]
pub fn is_valid(code: u8) -> bool {
    bytes(code).is_some()
}

/// The code of the greatest MTU of at most so many bytes; that of the least where it is less still.
#[inline]
pub fn code(bytes: u32) -> u8 {
    match bytes {
        ..512 => 1,
        512..1024 => 2,
        1024..2048 => 3,
        2048..4096 => 4,
        4096.. => 5,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_and_bytes_are_the_same_five() {
        let all = [(1_u8, 256), (2, 512), (3, 1024), (4, 2048), (5, 4096)];
        for (of, mtu) in all {
            assert_eq!((code(mtu), bytes(of)), (of, Some(mtu)));
        }
        for none in [0_u8, 6, 8, 255] {
            assert!(bytes(none).is_none() && !is_valid(none));
        }
        assert_eq!([bytes(u32::MAX), bytes(32_u32), bytes(257_u32)], [None; 3]);
    }

    #[test]
    fn what_lies_between_is_rounded_down() {
        let between = [0, 1, 255, 511, 1500, 4095, 9000, u32::MAX];
        assert_eq!(between.map(code), [1, 1, 1, 1, 3, 4, 5, 5]);
    }
}
