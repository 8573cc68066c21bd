//! Time as the state machines count it: points of a clock that is their caller's, and what lies
//! between two.
//!
//! No state machine reads a clock. It is told the time with each call, which never goes back.

use std::ops::{Add, AddAssign, Sub};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

pub use std::time::Duration;

/// A point in time. Which one is 0 is the caller's choice.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Time(u64);

impl Time {
    /// When the clock began.
    pub const ZERO: Time = Time(0);
    /// Never.
    pub const MAX: Time = Time(u64::MAX);

    /// So many nanoseconds after the clock began.
    #[inline]
    pub const fn from_nanos(nanos: u64) -> Time {
        Time(nanos)
    }

    /// Nanoseconds since the clock began.
    #[inline]
    pub const fn as_nanos(self) -> u64 {
        self.0
    }
}

/// Of a span so long that it does not fit, the longest that does: 584 years.
#[inline]
fn nanos(span: Duration) -> u64 {
    span.as_secs()
        .saturating_mul(1_000_000_000)
        .saturating_add(span.subsec_nanos().into())
}

impl Add<Duration> for Time {
    type Output = Time;

    /// [`Time::MAX`] beyond the clock's end.
    #[inline]
    fn add(self, span: Duration) -> Time {
        Time(self.0.saturating_add(nanos(span)))
    }
}

impl AddAssign<Duration> for Time {
    #[inline]
    fn add_assign(&mut self, span: Duration) {
        *self = *self + span;
    }
}

impl Sub<Duration> for Time {
    type Output = Time;

    /// [`Time::ZERO`] before the clock's begin.
    #[inline]
    fn sub(self, span: Duration) -> Time {
        Time(self.0.saturating_sub(nanos(span)))
    }
}

impl Sub for Time {
    type Output = Duration;

    /// How long after `earlier` it is; nothing if it is not later.
    #[inline]
    fn sub(self, earlier: Time) -> Duration {
        Duration::from_nanos(self.0.saturating_sub(earlier.0))
    }
}

/// A point in time that threads share. It orders nothing else.
#[derive(Debug, Default)]
pub struct AtomicTime(AtomicU64);

impl AtomicTime {
    /// With this at first.
    pub const fn new(time: Time) -> AtomicTime {
        AtomicTime(AtomicU64::new(time.0))
    }

    /// What it is.
    #[inline]
    pub fn load(&self) -> Time {
        Time(self.0.load(Relaxed))
    }

    /// Makes it another.
    #[inline]
    pub fn store(&self, time: Time) {
        self.0.store(time.0, Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_lies_outside_of_the_clock_is_its_begin_or_its_end() {
        let at = Time::from_nanos(1_500);
        assert_eq!(at + Duration::from_micros(2), Time::from_nanos(3_500));
        assert_eq!(at - Duration::from_micros(1), Time::from_nanos(500));
        assert_eq!(at - Duration::from_micros(2), Time::ZERO);
        assert_eq!(at + Duration::MAX, Time::MAX);
        assert_eq!(Time::MAX + Duration::from_nanos(1), Time::MAX);
    }

    #[test]
    fn the_span_back_to_what_is_later_is_nothing() {
        let (early, late) = (Time::from_nanos(7), Time::from_nanos(2_000_000_008));
        assert_eq!(late - early, Duration::new(2, 1));
        assert_eq!(early - late, Duration::ZERO);
    }
}
