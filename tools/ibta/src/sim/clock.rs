//! The device's clock beside the tester's: as fast, or at the speed that a mutant gives it.

use ferroce_wire::time::Time;
use std::time::Duration;

/// What the device's clock says at a time of the tester's.
pub(super) fn device_time(at: Duration, speed: f64) -> Time {
    match speed {
        1.0 => Time::ZERO + at,
        speed => Time::ZERO + at.mul_f64(speed),
    }
}

/// When the device's clock is at that, at the tester's; a little late rather than early, as it must
/// have come by then.
pub(super) fn tester_time(time: Time, speed: f64) -> Duration {
    let at = time - Time::ZERO;
    match speed {
        1.0 => at,
        speed => at.div_f64(speed) + Duration::from_nanos(1),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_due_has_come_when_it_is_waited_for() {
        for speed in [0.24, 0.9, 1.0, 3.0] {
            for nanos in (0..1_000).map(|n| n * 65_537_000_003) {
                let time = Time::from_nanos(nanos);
                let at = tester_time(time, speed);
                let seen = device_time(at, speed);
                let late = seen - time;
                assert!(
                    seen >= time && late < Duration::from_nanos(8),
                    "{speed} {nanos}"
                );
            }
        }
    }
}
