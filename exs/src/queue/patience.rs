//! How long a thread that waits for events looks for them itself before it sleeps.

use std::time::Duration;

/// The shortest that a waiting thread looks before it sleeps, and the longest.
const RANGE: (Duration, Duration) = (Duration::from_micros(5), Duration::from_millis(2));
/// How long it looks at least where the wait before ended while it would have looked: some times as
/// long as it takes to fall asleep, have two threads woken on the way of the next completion, and
/// get the turn to receive again.
pub(super) const COMMON: Duration = Duration::from_micros(200);

/// How long the next wait may look after one that took so long. Waits that end soon are worth
/// looking for, as long as the longest of late; long ones are not.
pub(super) fn learned(patience: Duration, took: Duration) -> Duration {
    let next = match took < RANGE.1 {
        true => (took * 2).max(patience - patience / 16).max(COMMON),
        false => patience / 2,
    };
    next.clamp(RANGE.0, RANGE.1)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MICROSECOND: Duration = Duration::from_micros(1);

    /// The patience after so many waits of one length.
    fn after(patience: Duration, waits: u32, took: Duration) -> Duration {
        (0..waits).fold(patience, |patience, _| learned(patience, took))
    }

    #[test]
    fn waits_that_end_soon_are_looked_for_as_long_as_falling_asleep_takes() {
        assert_eq!(after(RANGE.0, 1, MICROSECOND), COMMON);
        assert_eq!(after(RANGE.1, 100, MICROSECOND), COMMON);
        // One that took longer is remembered for some time.
        let late = after(COMMON, 1, 500 * MICROSECOND);
        assert_eq!(late, 1_000 * MICROSECOND);
        assert!(after(late, 8, MICROSECOND) > 500 * MICROSECOND);
    }

    #[test]
    fn long_waits_are_not_looked_for() {
        assert_eq!(after(RANGE.1, 20, RANGE.1), RANGE.0);
        assert!(after(COMMON, 2, RANGE.1) < 100 * MICROSECOND);
    }
}
