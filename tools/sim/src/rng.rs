//! A small generator (SplitMix64) whose sequence will never change under us.

use std::time::Duration;

/// The shortest span.
pub(crate) const NANOSECOND: Duration = Duration::from_nanos(1);

/// The generator.
#[derive(Clone, Debug)]
pub struct Rng(u64);

impl Rng {
    /// A generator from a seed; neighbouring seeds give unrelated sequences.
    pub fn new(seed: u64) -> Rng {
        let mut rng = Rng(seed.wrapping_mul(0xd134_2543_de82_ef95));
        rng.next();
        rng
    }

    /// 64 random bits.
    #[allow(clippy::should_implement_trait)]
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ z >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ z >> 31
    }

    /// A number below `n` (which is not 0).
    pub fn below(&mut self, n: u64) -> u64 {
        ((u128::from(self.next()) * u128::from(n)) >> 64) as u64
    }

    /// A span below `most` (which is not nothing), in whole nanoseconds.
    pub fn span_below(&mut self, most: Duration) -> Duration {
        Duration::from_nanos(self.below(most.as_nanos() as u64))
    }

    /// A span up to `most`, which is included, in whole nanoseconds.
    pub fn span_up_to(&mut self, most: Duration) -> Duration {
        self.span_below(most + NANOSECOND)
    }

    /// A number from `low` to `high`, both included.
    pub fn range(&mut self, low: u64, high: u64) -> u64 {
        low + self.below(high - low + 1)
    }

    /// True with a probability of `p` in a million.
    pub fn ppm(&mut self, p: u32) -> bool {
        p > 0 && self.below(1_000_000) < u64::from(p)
    }

    /// True with a probability of `p` percent.
    pub fn percent(&mut self, p: u32) -> bool {
        self.ppm(p * 10_000)
    }

    /// One of a list.
    pub fn pick<T: Copy>(&mut self, list: &[T]) -> T {
        list[self.below(list.len() as u64) as usize]
    }

    /// `len` random bytes.
    pub fn bytes(&mut self, len: usize) -> Vec<u8> {
        let mut out = Vec::with_capacity(len + 7);
        while out.len() < len {
            out.extend_from_slice(&self.next().to_le_bytes());
        }
        out.truncate(len);
        out
    }
}
