//! The clock that state machines are told the time of: it begins with whom it is for.

use std::time::Instant;

use ferroce_fabric::cm::Time;

/// A clock that began at an instant.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Clock(Instant);

impl Clock {
    /// One that begins now.
    pub(crate) fn start() -> Self {
        Self::at(Instant::now())
    }

    /// One that began then.
    pub(crate) fn at(begin: Instant) -> Self {
        Self(begin)
    }

    /// What it shows.
    pub(crate) fn now(self) -> Time {
        Time::ZERO + self.0.elapsed()
    }

    /// When it shows a time.
    pub(crate) fn instant(self, time: Time) -> Instant {
        self.0 + (time - Time::ZERO)
    }
}
