//! Packet sequence numbers: 24 bits, compared in a circle.
//!
//! Nothing here knows what a PSN means to a requester or a responder.

use std::fmt;

/// Numbers in the circle.
const SPACE: u32 = 1 << 24;
const MASK: u32 = SPACE - 1;

/// A packet sequence number (also fits message sequence numbers), 0 to 2^24 − 1.
#[derive(Clone, Copy, Default, PartialEq, Eq, Hash)]
pub struct Psn(u32);

impl Psn {
    /// The low 24 bits of `value`.
    pub const fn new(value: u32) -> Psn {
        Psn(value & MASK)
    }

    /// The number, 0 to 2^24 − 1.
    pub const fn value(self) -> u32 {
        self.0
    }

    /// `n` numbers further, around the circle.
    #[allow(clippy::should_implement_trait)] // the argument is a count, not a PSN
    pub const fn add(self, n: u32) -> Psn {
        Psn::new(self.0.wrapping_add(n))
    }

    /// `n` numbers back, around the circle.
    #[allow(clippy::should_implement_trait)]
    pub const fn sub(self, n: u32) -> Psn {
        Psn::new(self.0.wrapping_sub(n))
    }

    /// The next number.
    pub const fn next(self) -> Psn {
        self.add(1)
    }

    /// The number before.
    pub const fn prev(self) -> Psn {
        self.sub(1)
    }

    /// Signed distance `self − from` on the shorter way around, −2^23 to 2^23 − 1.
    pub const fn distance(self, from: Psn) -> i32 {
        // Shifted up by 8 the difference wraps at 32 bits and the sign falls into place.
        (self.0.wrapping_sub(from.0) << 8).cast_signed() >> 8
    }

    /// How many times [`next`](Self::next) leads from `from` to `self`, 0 to 2^24 − 1.
    pub const fn forward_from(self, from: Psn) -> u32 {
        self.0.wrapping_sub(from.0) & MASK
    }

    /// `self` lies in the half circle behind `other`.
    pub const fn before(self, other: Psn) -> bool {
        self.distance(other) < 0
    }

    /// `self` lies in the half circle ahead of `other`.
    pub const fn after(self, other: Psn) -> bool {
        self.distance(other) > 0
    }

    /// Not [`after`](Self::after).
    pub const fn at_or_before(self, other: Psn) -> bool {
        self.distance(other) <= 0
    }

    /// Not [`before`](Self::before).
    pub const fn at_or_after(self, other: Psn) -> bool {
        self.distance(other) >= 0
    }

    /// `self` is one of the `count` numbers that begin at `first`.
    pub const fn within(self, first: Psn, count: u32) -> bool {
        self.forward_from(first) < count
    }
}

impl From<u32> for Psn {
    fn from(value: u32) -> Psn {
        Psn::new(value)
    }
}

impl From<Psn> for u32 {
    fn from(psn: Psn) -> u32 {
        psn.0
    }
}

impl fmt::Debug for Psn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Psn({:#08x})", self.0)
    }
}

impl fmt::Display for Psn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use proptest::test_runner::FileFailurePersistence::WithSource;

    #[test]
    fn wraps() {
        let last = Psn::new(MASK);
        assert_eq!(last.next(), Psn::new(0));
        assert_eq!(Psn::new(0).prev(), last);
        assert!(last.before(Psn::new(0)) && Psn::new(0).after(last));
        assert_eq!(Psn::new(0).distance(last), 1);
        assert_eq!(last.distance(Psn::new(0)), -1);
        assert_eq!(Psn::new(1 << 23).distance(Psn::new(0)), -(1 << 23));
        assert_eq!(Psn::new((1 << 23) - 1).distance(Psn::new(0)), (1 << 23) - 1);
        assert_eq!(Psn::new(0xff00_0001), Psn::new(1));
        assert!(Psn::new(1).within(last, 3) && !Psn::new(2).within(last, 3));
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_failure_persistence(WithSource("regressions")))]

        #[test]
        fn distance_undoes_add(start: u32, n in 0u32..(1 << 23)) {
            let a = Psn::new(start);
            prop_assert_eq!(a.add(n).distance(a), n as i32);
            prop_assert_eq!(a.sub(n).distance(a), -(n as i32));
            prop_assert_eq!(a.add(n).forward_from(a), n);
            prop_assert_eq!(a.add(n).sub(n), a);
        }

        #[test]
        fn exactly_one_order(a: u32, b: u32) {
            let (a, b) = (Psn::new(a), Psn::new(b));
            prop_assert_eq!(u8::from(a.before(b)) + u8::from(a.after(b)) + u8::from(a == b), 1);
            prop_assert_eq!(a.before(b), !a.at_or_after(b));
            prop_assert_eq!(a.after(b), !a.at_or_before(b));
        }
    }
}
