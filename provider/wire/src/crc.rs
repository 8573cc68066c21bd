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

/// Feeds `bytes` through the register (no initial or final complement).
#[inline]
pub(crate) fn update(mut register: u32, mut bytes: &[u8]) -> u32 {
    if bytes.len() >= SIMD_MIN {
        // Whole blocks of 16 keep crc32fast out of its own byte-wise tail.
        let (bulk, tail) = bytes.split_at(bytes.len() & !15);
        let mut hasher = crc32fast::Hasher::new_with_initial(!register);
        hasher.update(bulk);
        register = !hasher.finalize();
        bytes = tail;
    }
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

/// x^n modulo the CRC's polynomial; n is taken modulo the order of x, 2^32 − 1, so n may be negative.
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
