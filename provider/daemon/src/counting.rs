//! What the daemon counts, and when what others are shown of it is brought up to date.

use std::time::{Duration, Instant};

use ferroce_control::{ControlError, CounterPage};

use crate::claims::Claims;
use crate::totals::Totals;

/// How often the counters in the image are brought up to date.
const REFRESH: Duration = Duration::from_secs(1);

/// The daemon's own counters, and those of clients that have gone.
#[derive(Debug)]
pub(crate) struct Counting {
    pub(crate) own: CounterPage,
    pub(crate) departed: Totals,
    /// Whether sums may have changed since the last time though nobody is attached.
    pub(crate) dirty: bool,
    refreshed: Instant,
}

impl Counting {
    /// Nothing is counted yet.
    pub(crate) fn new(now: Instant) -> Result<Self, ControlError> {
        Ok(Self {
            own: CounterPage::private()?,
            departed: Totals::default(),
            dirty: false,
            refreshed: now,
        })
    }

    /// The sums as of now, with those of clients that are connected.
    pub(crate) fn totals(&self, claims: &Claims) -> Totals {
        let mut totals = self.departed.clone();
        totals.add(&self.own);
        for (_, claimed) in claims.iter() {
            totals.add(&claimed.counters);
        }
        totals
    }

    /// Whether the image is to be brought up to date; the next time is a while later.
    pub(crate) fn is_due(&mut self, now: Instant) -> bool {
        let due = now.saturating_duration_since(self.refreshed) >= REFRESH;
        if due {
            self.refreshed = now;
            self.dirty = false;
        }
        due
    }

    /// When that is so; `None`: nothing has been counted since. `attached`: whether anybody else
    /// may count.
    pub(crate) fn next_refresh(&self, attached: bool) -> Option<Instant> {
        let counting = self.dirty || attached;
        counting.then(|| self.refreshed + REFRESH)
    }
}
