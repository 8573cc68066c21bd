//! How long the daemon stays: until it is asked to leave, or nobody has needed it for a while.

use std::time::{Duration, Instant};

use crate::service::Service;

/// How long programs have for the connection manager's ids when the device goes.
const FAREWELL: Duration = Duration::from_millis(500);

/// Whether the daemon is needed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Need {
    /// Programs use it.
    Used,
    /// Somebody has come of whom nobody knows yet whether he will use it. Time goes on, as for one
    /// who looks each time anew; but the daemon does not leave in this moment.
    Doubtful,
    /// By nobody. Who only looks does not keep it: a display that is left open, or what gathers
    /// metrics, would have it stay for ever.
    None,
}

/// Whether, and when, it leaves.
#[derive(Debug)]
pub(crate) struct Stay {
    /// How long it stays without programs; `None`: for ever.
    idle_exit: Option<Duration>,
    /// Since when there has been nobody.
    idle_since: Option<Instant>,
    /// Whether it waits for somebody to say what he has come for.
    doubtful: bool,
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
            doubtful: false,
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
    pub(crate) fn look(&mut self, need: Need, now: Instant) {
        self.idle_since = match need {
            Need::Used => None,
            Need::Doubtful | Need::None => self.idle_since.or(Some(now)),
        };
        self.doubtful = need == Need::Doubtful;
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
        // What he says, or that he goes, wakes the daemon.
        if self.doubtful {
            return None;
        }
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

    #[test]
    fn who_only_looks_does_not_keep_it() {
        let start = Instant::now();
        let after = |seconds| start + Duration::from_secs(seconds);
        let mut stay = Stay::new(Some(Duration::from_secs(10)), start);
        stay.look(Need::Used, after(5));
        stay.look(Need::None, after(6));
        // Each look begins with a connection that may be anybody's.
        for second in 7..16 {
            stay.look(Need::Doubtful, after(second));
            stay.look(Need::None, after(second));
        }
        assert_eq!(stay.next_timeout(), Some(after(16)));

        stay.look(Need::Doubtful, after(20));
        assert!(!stay.is_over() && stay.next_timeout().is_none());
        stay.look(Need::Used, after(21));
        stay.look(Need::None, after(22));
        assert!(!stay.is_over());
        stay.look(Need::None, after(32));
        assert!(stay.is_over());
    }
}
