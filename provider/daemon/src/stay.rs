//! How long the daemon stays: until it is asked to leave, or nobody has needed it for a while.

use std::time::{Duration, Instant};

use crate::service::Service;

/// How long programs have for the connection manager's ids when the device goes.
const FAREWELL: Duration = Duration::from_millis(500);

/// Whether, and when, it leaves.
#[derive(Debug)]
pub(crate) struct Stay {
    /// How long it stays without programs; `None`: for ever.
    idle_exit: Option<Duration>,
    /// Since when there has been nobody.
    idle_since: Option<Instant>,
    asked: bool,
    /// When to leave at the latest, once programs were told.
    leave_at: Option<Instant>,
}

impl Stay {
    /// Nobody is there yet.
    pub(crate) fn new(idle_exit: Option<Duration>, now: Instant) -> Self {
        Self {
            idle_exit,
            idle_since: Some(now),
            asked: false,
            leave_at: None,
        }
    }

    /// It is to stay until it is asked to leave.
    pub(crate) fn remain(&mut self) {
        self.idle_exit = None;
    }

    /// Somebody asks it to leave.
    pub(crate) fn ask(&mut self) {
        self.asked = true;
    }

    /// Whether somebody has, or nobody needs it.
    pub(crate) fn is_over(&self) -> bool {
        self.asked
    }

    /// Programs use it, or do not.
    pub(crate) fn look(&mut self, used: bool, now: Instant) {
        self.idle_since = match used {
            false => self.idle_since.or(Some(now)),
            true => None,
        };
        if self.idle_deadline().is_some_and(|at| at <= now) {
            tracing::info!("nobody has needed the device for a while: leaving");
            self.asked = true;
        }
    }

    /// Whether programs are yet to be told that it leaves; it is said once.
    pub(crate) fn tell(&mut self, now: Instant) -> bool {
        let first = self.leave_at.is_none();
        if first {
            self.leave_at = Some(now + FAREWELL);
        }
        first
    }

    /// Whether programs have had their time since.
    pub(crate) fn is_late(&self, now: Instant) -> bool {
        self.leave_at.is_some_and(|at| at <= now)
    }

    fn idle_deadline(&self) -> Option<Instant> {
        // A time that the clock does not have does not come.
        self.idle_since?.checked_add(self.idle_exit?)
    }
}

impl Service for Stay {
    fn next_timeout(&self) -> Option<Instant> {
        self.idle_deadline().into_iter().chain(self.leave_at).min()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_that_the_clock_does_not_have_does_not_come() {
        let now = Instant::now();
        let ends = |idle_exit| Stay::new(Some(idle_exit), now).next_timeout();
        let hour = Duration::from_secs(3600);
        assert_eq!(ends(hour), Some(now + hour));
        assert_eq!(ends(Duration::MAX), None);
    }
}
