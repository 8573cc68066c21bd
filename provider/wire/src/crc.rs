//! CRC-32 (the Ethernet polynomial) over pieces of a packet, and arithmetic modulo that polynomial.
//!
//! A `u32` here is the CRC register in the reflected convention: bit 31 is the coefficient of x^0.
//! Knows nothing of packets.

/// The polynomial, reflected, without x^32.
const POLY: u32 = 0xedb8_8320;

/// `SLICES[k][b]`: the register after byte `b` and `k` zero bytes, from an empty register.
static SLICES: [[u32; 256]; 16] = {
    let mut t = [[0u32; 256]; 16];
    let mut b = 0;
    while b < 256 {
        let mut r = b as u32;
        let mut i = 0;
        while i < 8 {
            r = (r >> 1) ^ if r & 1 != 0 { POLY } else { 0 };
            i += 1;
        }
        t[0][b] = r;
        b += 1;
    }

    let mut k = 1;
    while k < 16 {
        let mut b = 0;
        while b < 256 {
            let r = t[k - 1][b];
            t[k][b] = (r >> 8) ^ t[0][(r & 0xff) as usize];
            b += 1;
        }
        k += 1;
    }

    t
};

/// Below this many bytes crc32fast goes a byte at a time, and the tables here are faster.
const SIMD_MIN: usize = 128;

/// Whether the processor has what crc32fast wants to be fast; without it, [`eliminate`] is faster
/// by far.
#[inline]
fn has_instructions() -> bool {
    #[cfg(any(target_arch = "x86", target_arch = "x86_64"))]
    return std::arch::is_x86_feature_detected!("pclmulqdq")
        && std::arch::is_x86_feature_detected!("sse4.1");
    #[cfg(target_arch = "aarch64")]
    return std::arch::is_aarch64_feature_detected!("crc");
    #[cfg(not(any(target_arch = "x86", target_arch = "x86_64", target_arch = "aarch64")))]
    false
}

/// Feeds `bytes` through the register (no initial or final complement).
#[inline]
pub(crate) fn update(mut register: u32, mut bytes: &[u8]) -> u32 {
    if bytes.len() >= SIMD_MIN {
        if has_instructions() {
            // Whole blocks of 16 keep crc32fast out of its own byte-wise tail.
            let (bulk, tail) = bytes.split_at(bytes.len() & !15);
            let mut hasher = crc32fast::Hasher::new_with_initial(!register);
            hasher.update(bulk);
            register = !hasher.finalize();
            bytes = tail;
        } else {
            (register, bytes) = eliminate(register, bytes);
        }
    }
    update_by_table(register, bytes)
}

fn update_by_table(mut register: u32, bytes: &[u8]) -> u32 {
    let (blocks, tail) = bytes.as_chunks::<16>();
    for block in blocks {
        register = step16(register, block);
    }
    let (blocks, tail) = tail.as_chunks::<4>();
    for block in blocks {
        register = step4(register, *block);
    }
    for &b in tail {
        register = (register >> 8) ^ SLICES[0][usize::from(register as u8 ^ b)];
    }
    register
}

/// Words that a word's elimination reaches behind it.
const REACH: usize = 5;
/// Bytes that [`eliminate`] goes through at a time.
const STEP: usize = 64;

/// Without carry-less multiplication, and with no table either: the message is made shorter from
/// its beginning, each word being replaced by what it is congruent to further behind. x^300 is
/// x^155 + x^117 + x^89 + 1 modulo the polynomial, so a bit may be moved to the places 145, 183,
/// 211 and 300 bits behind it, which for a word of 64 are a few shifts. (Known as Chorba.)
///
/// Returns the register after a part of `bytes`, and the rest, which is for the tables.
fn eliminate(register: u32, bytes: &[u8]) -> (u32, &[u8]) {
    let length = bytes.len().saturating_sub(8 * REACH) / STEP * STEP;
    let (head, rest) = bytes.split_at(length);

    // What comes in addition to the next words.
    let mut pending = [0u64; REACH];
    pending[0] = u64::from(register);

    for block in head.as_chunks::<STEP>().0 {
        for word in block.as_chunks::<8>().0 {
            let w = u64::from_le_bytes(*word) ^ pending[0];
            pending = [
                pending[1],
                pending[2] ^ (w << 17) ^ (w << 55),
                pending[3] ^ (w >> 47) ^ (w >> 9) ^ (w << 19),
                pending[4] ^ (w >> 45) ^ (w << 44),
                w >> 20,
            ];
        }
    }

    let Some((next, rest)) = rest.split_first_chunk::<{ 8 * REACH }>() else {
        return (register, bytes);
    };

    let mut last = *next;
    for (word, more) in last.as_chunks_mut::<8>().0.iter_mut().zip(pending) {
        *word = (u64::from_le_bytes(*word) ^ more).to_le_bytes();
    }
    (update_by_table(0, &last), rest)
}

#[inline]
fn step16(register: u32, block: &[u8; 16]) -> u32 {
    let r = register.to_le_bytes();
    let mut out = 0;
    for i in 0..16 {
        let b = if i < 4 { block[i] ^ r[i] } else { block[i] };
        out ^= SLICES[15 - i][usize::from(b)];
    }
    out
}

#[inline]
pub(crate) fn step4(register: u32, block: [u8; 4]) -> u32 {
    let r = (register ^ u32::from_le_bytes(block)).to_le_bytes();
    SLICES[3][usize::from(r[0])]
        ^ SLICES[2][usize::from(r[1])]
        ^ SLICES[1][usize::from(r[2])]
        ^ SLICES[0][usize::from(r[3])]
}

/// What is left of the four highest coefficients after a multiplication by x^4.
static CARRY: [u32; 16] = CARRY_TABLE;
const CARRY_TABLE: [u32; 16] = {
    let mut t = [0; 16];
    let mut i = 0;
    while i < 16 {
        let mut r = i as u32;
        let mut k = 0;
        while k < 4 {
            r = times_x(r);
            k += 1;
        }
        t[i] = r;
        i += 1;
    }
    t
};

const fn times_x(a: u32) -> u32 {
    (a >> 1) ^ (POLY & (a & 1).wrapping_neg())
}

/// The product of two polynomials modulo the CRC's, for tables made at compile time.
pub(crate) const fn multiply_const(a: u32, b: u32) -> u32 {
    multiply_by(a, b, &CARRY_TABLE)
}

/// The product of two polynomials modulo the CRC's.
pub(crate) fn multiply(a: u32, b: u32) -> u32 {
    multiply_by(a, b, &CARRY)
}

/// Horner's rule over the eight nibbles of `b`, highest degrees (the low bits) first.
const fn multiply_by(a: u32, b: u32, carry: &[u32; 16]) -> u32 {
    // Within a nibble bit 3 is the lowest degree.
    let (a1, a2) = (times_x(a), times_x(times_x(a)));
    let a3 = times_x(a2);
    let mut multiples = [0; 16];
    let mut i = 0;
    while i < 16 {
        multiples[i] = (a & (i as u32 >> 3 & 1).wrapping_neg())
            ^ (a1 & (i as u32 >> 2 & 1).wrapping_neg())
            ^ (a2 & (i as u32 >> 1 & 1).wrapping_neg())
            ^ (a3 & (i as u32 & 1).wrapping_neg());
        i += 1;
    }

    let mut product: u32 = 0;
    let mut nibble = 0;
    while nibble < 8 {
        product = (product >> 4)
            ^ carry[(product & 15) as usize]
            ^ multiples[(b >> (4 * nibble) & 15) as usize];
        nibble += 1;
    }

    product
}

/// The polynomial 1.
pub(crate) const ONE: u32 = 1 << 31;

/// x^n modulo the CRC's polynomial; n is taken modulo the order of x, 2^32 − 1, so n may be
/// negative.
pub(crate) const fn power_of_x(n: i64) -> u32 {
    let mut e = n.rem_euclid(u32::MAX as i64) as u32;
    let mut square = ONE >> 1;
    let mut product = ONE;
    while e != 0 {
        if e & 1 != 0 {
            product = multiply_const(product, square);
        }
        square = multiply_const(square, square);
        e >>= 1;
    }
    product
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use proptest::test_runner::FileFailurePersistence::WithSource;

    #[test]
    fn check_value() {
        // The well-known check value of this CRC.
        assert_eq!(!update(!0, b"123456789"), 0xcbf4_3926);
    }

    #[test]
    fn order_of_x() {
        assert_eq!(power_of_x(i64::from(u32::MAX)), ONE);
        assert_eq!(multiply(power_of_x(-8), power_of_x(8)), ONE);
        assert_eq!(power_of_x(32), POLY);
    }

    #[test]
    fn sparse_multiple() {
        assert_eq!(
            power_of_x(300),
            power_of_x(155) ^ power_of_x(117) ^ power_of_x(89) ^ ONE
        );
    }

    /// Bit by bit.
    fn slow_multiply(mut a: u32, b: u32) -> u32 {
        let mut product = 0;
        for bit in (0..32).rev() {
            product ^= a & (b >> bit & 1).wrapping_neg();
            a = times_x(a);
        }
        product
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_failure_persistence(WithSource("regressions")))]

        #[test]
        fn elimination(bytes in proptest::collection::vec(any::<u8>(), 0..5000), start: u32) {
            let (register, rest) = eliminate(start, &bytes);
            prop_assert_eq!(update_by_table(register, rest), update_by_table(start, &bytes));
            // It does most of the work where there is much.
            prop_assert!(bytes.len() < 128 || rest.len() < 64 + 40);
        }

        #[test]
        fn products(a: u32, b: u32) {
            prop_assert_eq!(multiply(a, b), slow_multiply(a, b));
            prop_assert_eq!(multiply_const(a, b), slow_multiply(a, b));
        }

        #[test]
        fn pieces_make_the_whole(bytes in proptest::collection::vec(any::<u8>(), 0..600), cut: prop::sample::Index, start: u32) {
            let cut = cut.index(bytes.len() + 1);
            let mut slow = start;
            for &b in &bytes {
                slow = (slow >> 8) ^ SLICES[0][usize::from(slow as u8 ^ b)];
            }
            prop_assert_eq!(update(start, &bytes), slow);
            prop_assert_eq!(update(update(start, &bytes[..cut]), &bytes[cut..]), slow);
        }

        #[test]
        fn zero_bytes_multiply_by_x8(start: u32, n in 0usize..300) {
            prop_assert_eq!(update(start, &vec![0; n]), multiply(start, power_of_x(8 * n as i64)));
        }
    }
}
