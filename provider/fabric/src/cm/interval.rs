//! Times as the messages have them: five bits that stand for 4.096 µs · 2^n.

use std::time::Duration;

/// Bounds of what a peer may say of the time to wait for its answer, as exponents: 17 ms, and
/// 8.6 s, twice what `rdma_cm` says.
const RESPONSE: std::ops::RangeInclusive<u8> = 12..=21;
/// The longest patience that a peer can ask for with an MRA: 69 s, what Linux asks for.
const SERVICE: u8 = 24;
/// The longest time for which packets are taken to be under way after a connection's end: 34 s. No
/// network keeps them longer.
const TIMEWAIT: u8 = 23;

/// How long to wait for the answer of a peer that asks for so much time; each end knows best what
/// it needs, within reason.
pub(super) fn response_time(exponent: u8) -> Duration {
    duration(exponent.clamp(*RESPONSE.start(), *RESPONSE.end()))
}

/// The same of a peer's MRA.
pub(super) fn service_time(exponent: u8) -> Duration {
    duration(exponent.min(SERVICE))
}

/// How long a connection with this Local ACK timeout stays in TimeWait.
pub(super) fn timewait(ack_timeout: u8) -> Duration {
    duration(ack_timeout.min(TIMEWAIT))
}

/// The time. Only five bits count.
pub(super) fn duration(exponent: u8) -> Duration {
    Duration::from_nanos(4096 << (exponent & 31))
}

/// Local ACK timeout, as an exponent: twice the packet life time and the ACK delay of the far end.
/// The sum of two powers of two is taken as the larger one, or as its double if the other is at
/// least half of it, as the kernel does, whose connections then have the same timeouts.
pub(super) fn ack_timeout(packet_life_time: u8, ack_delay: u8) -> u8 {
    let there_and_back = packet_life_time.saturating_add(1);
    let (small, large) = (there_and_back.min(ack_delay), there_and_back.max(ack_delay));
    let exponent = if small + 1 >= large { large + 1 } else { large };
    exponent.min(31)
}

/// Packet life time, as an exponent, that a Local ACK timeout allows for.
pub(super) fn packet_life_time(ack_timeout: u8) -> u8 {
    ack_timeout.saturating_sub(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exponents() {
        assert_eq!(duration(0).as_nanos(), 4_096);
        assert_eq!(duration(20).as_nanos(), 4_294_967_296);
        assert_eq!(duration(31).as_nanos(), 4096 << 31);
    }

    #[test]
    fn ack_timeouts_cover_both() {
        assert_eq!(ack_timeout(16, 0), 17);
        assert_eq!(ack_timeout(16, 15), 17);
        assert_eq!(ack_timeout(16, 16), 18);
        assert_eq!(ack_timeout(16, 18), 19);
        assert_eq!(ack_timeout(16, 20), 20);
        assert_eq!(ack_timeout(31, 31), 31);
        for life in 0..29 {
            for delay in 0..29 {
                let sum = 2 * duration(life) + duration(delay);
                let t = duration(ack_timeout(life, delay));
                assert!(t * 5 / 4 >= sum && t <= 2 * sum, "{life} {delay}");
            }
        }
    }
}
