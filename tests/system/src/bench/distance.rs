//! How far the processors are from each other while something is measured. A hypervisor moves its
//! virtual processors between physical ones that share a cache and such that do not, and what one
//! hands to another goes with that, plain UDP's data like ferroce's. What is compared must have
//! been measured at the same distance.

use std::fmt::{self, Display, Formatter};

/// A word of memory goes there and back in so many nanoseconds where the processors share a cache:
/// 60 to 115 on the machines that were seen, and 190 to 520 where they do not.
const NEAR: f64 = 150.0;

/// How far they are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Distance {
    /// They share a cache.
    Near,
    /// They do not.
    Far,
}

impl Distance {
    /// Both of them.
    pub(super) const ALL: [Self; 2] = [Self::Near, Self::Far];

    /// Of a measurement, by what a word took before and after it, in nanoseconds. `None`: it has
    /// changed meanwhile.
    pub(super) fn during(before: f64, after: f64) -> Option<Self> {
        match (before <= NEAR, after <= NEAR) {
            (true, true) => Some(Self::Near),
            (false, false) => Some(Self::Far),
            _ => None,
        }
    }

    /// Its name in the JSON file.
    pub(super) fn key(self) -> &'static str {
        match self {
            Self::Near => "near",
            Self::Far => "far",
        }
    }
}

impl Display for Distance {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str(self.key())
    }
}
