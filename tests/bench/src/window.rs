//! How much may be on its way from one thread to another.

use std::time::{Duration, Instant};

/// What has not arrived after so long is lost.
pub(crate) const PATIENCE: Duration = Duration::from_millis(20);

/// See the module.
pub(crate) struct Window {
    most: u64,
    sent: u64,
    lost: u64,
    /// How many had arrived when that last changed, and when it did.
    heard: (u64, Instant),
}

impl Window {
    /// For `most` at once.
    pub(crate) fn new(most: u64) -> Window {
        Window {
            most,
            sent: 0,
            lost: 0,
            heard: (0, Instant::now()),
        }
    }

    /// Whether `more` may go out, with so many that have arrived; they count as sent then.
    pub(crate) fn take(&mut self, arrived: u64, more: u64) -> bool {
        if self.heard.0 != arrived {
            self.heard = (arrived, Instant::now());
        }
        let awaited = self.sent - self.lost;
        if awaited - arrived.min(awaited) + more <= self.most {
            self.sent += more;
            return true;
        }
        if self.heard.1.elapsed() > PATIENCE {
            self.lost = self.sent - arrived;
            self.heard.1 = Instant::now();
        }
        false
    }

    /// How many were sent in all.
    pub(crate) fn sent(&self) -> u64 {
        self.sent
    }
}
