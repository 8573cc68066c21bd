//! A sleep of the helper, by whatever means.

use ferroce_transport::Time;

use crate::progress::timers;

/// A sleep that has ended.
pub(crate) struct Round {
    pub(crate) woken: Time,
    /// Datagrams that came.
    pub(crate) handled: usize,
}

/// The time left until a deadline; `None` for ever.
pub(super) fn timespec_until(until: Time) -> Option<libc::timespec> {
    if until == Time::MAX {
        return None;
    }
    Some(timers::timespec(until - timers::now()))
}
