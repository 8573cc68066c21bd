//! Additive increase and multiplicative decrease, with a brake on growing round-trip time.
//!
//! What is protected is the receive buffer of the peer's socket: on one machine or a fast link
//! nothing else drops.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed};

use super::Controller;
use crate::tuning::{
    DECREASE_INTERVAL, DECREASE_ON_DELAY, DECREASE_ON_LOSS, DECREASE_ON_TIMEOUT, MIN_WINDOW,
    QUEUEING_DELAY, WINDOW_INCREASE,
};
use crate::{AtomicTime, Duration, PathSignal, Time};

/// Nanoseconds of the longest round trip that is looked at.
const MAX_TRIP: u64 = 1_000_000_000;

/// The controller.
#[derive(Debug)]
pub struct Aimd {
    window: AtomicU32,
    ceiling: u32,
    /// Below it the window doubles each round trip.
    threshold: AtomicU32,
    decreased_at: AtomicTime,
    /// Nanoseconds.
    shortest_rtt: AtomicU64,
    /// Bytes that came, and that were lost one by one, since losses were last answered.
    came: AtomicU64,
    lost: AtomicU64,
    answered_at: AtomicTime,
}

impl Aimd {
    /// Its window is `ceiling` bytes at most, and half of that at first, but at least 64 KiB.
    pub fn new(ceiling: u32) -> Aimd {
        let ceiling = ceiling.max(MIN_WINDOW);
        Aimd {
            window: AtomicU32::new((ceiling / 2).max(MIN_WINDOW)),
            ceiling,
            threshold: AtomicU32::new(ceiling),
            decreased_at: AtomicTime::new(Time::ZERO),
            shortest_rtt: AtomicU64::new(u64::MAX),
            came: AtomicU64::new(0),
            lost: AtomicU64::new(0),
            answered_at: AtomicTime::new(Time::ZERO),
        }
    }

    /// Packets that are sent again one by one cost no more than themselves, so the window gives way
    /// in proportion: by half of the share that is lost, once per interval and round trip.
    fn lose(&self, now: Time, bytes: u32) {
        let lost = self.lost.fetch_add(bytes.into(), Relaxed) + u64::from(bytes);
        let trip = Duration::from_nanos(self.shortest_rtt.load(Relaxed).min(MAX_TRIP));
        if now - self.answered_at.load() < trip.max(DECREASE_INTERVAL) {
            return;
        }

        self.answered_at.store(now);
        self.lost.store(0, Relaxed);
        let all = self.came.swap(0, Relaxed) + lost;
        let window = u64::from(self.window.load(Relaxed));
        let less = window * lost / all.max(1) / 2;
        let window = ((window - less) as u32).max(MIN_WINDOW);
        self.window.store(window, Relaxed);
        self.threshold.store(window, Relaxed);
    }

    /// Multiplies the window by `tenths`/10, once per interval.
    fn decrease(&self, now: Time, tenths: u32) {
        if now - self.decreased_at.load() < DECREASE_INTERVAL {
            return;
        }
        self.decreased_at.store(now);

        let window = (self.window.load(Relaxed) / 10 * tenths).max(MIN_WINDOW);
        self.window.store(window, Relaxed);
        self.threshold.store(window, Relaxed);
    }
}

// Its counters are independent and approximate: a lost update between two threads changes a rate a
// little, never a bound.
impl Controller for Aimd {
    fn signal(&self, now: Time, signal: PathSignal) {
        match signal {
            PathSignal::Acked { bytes, rtt } => {
                self.came.fetch_add(bytes.into(), Relaxed);
                let window = self.window.load(Relaxed);
                let grown = if window < self.threshold.load(Relaxed) {
                    window.saturating_add(bytes)
                } else {
                    window.saturating_add(
                        (u64::from(bytes) * WINDOW_INCREASE / u64::from(window)) as u32,
                    )
                };
                self.window.store(grown.min(self.ceiling), Relaxed);

                if let Some(rtt) = rtt {
                    let shortest = Duration::from_nanos(self.shortest_rtt.load(Relaxed)).min(rtt);
                    self.shortest_rtt.store(shortest.as_nanos() as u64, Relaxed);
                    if rtt > shortest + QUEUEING_DELAY {
                        self.decrease(now, DECREASE_ON_DELAY);
                    }
                }
            }
            PathSignal::Lost { bytes } => self.lose(now, bytes),
            PathSignal::Loss | PathSignal::Notified => self.decrease(now, DECREASE_ON_LOSS),
            PathSignal::Timeout => self.decrease(now, DECREASE_ON_TIMEOUT),
        }
    }

    fn window(&self) -> u32 {
        self.window.load(Relaxed)
    }

    /// Where the window is next to nothing it leaves in four parts: what is lost of them one by one
    /// is told of by the others.
    fn run(&self) -> u32 {
        let window = self.window();
        match window < self.ceiling.min(2 * MIN_WINDOW) {
            true => window / 4,
            false => u32::MAX,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CEILING: u32 = 3 << 20;
    const RTT: Duration = Duration::from_micros(20);

    #[test]
    fn a_small_window_leaves_in_parts() {
        let aimd = Aimd::new(CEILING);
        assert_eq!(aimd.run(), u32::MAX);
        for i in 1..100 {
            aimd.signal(Time::from_nanos(i * 10_000_000), PathSignal::Timeout);
        }
        assert_eq!((aimd.window(), aimd.run()), (MIN_WINDOW, MIN_WINDOW / 4));
        // Where there never is more, it is no sign of anything.
        assert_eq!(Aimd::new(0).run(), u32::MAX);
    }

    #[test]
    fn grows_to_the_ceiling_and_backs_off_once_an_interval() {
        let aimd = Aimd::new(CEILING);
        assert_eq!(aimd.window(), CEILING / 2);
        for _ in 0..1000 {
            let (bytes, rtt) = (65_536, Some(RTT));
            aimd.signal(Time::from_nanos(0), PathSignal::Acked { bytes, rtt });
        }

        assert_eq!(aimd.window(), CEILING);
        aimd.signal(Time::from_nanos(10_000_000), PathSignal::Loss);
        aimd.signal(Time::from_nanos(10_000_001), PathSignal::Loss);
        assert_eq!(aimd.window(), CEILING / 10 * 7);
        aimd.signal(Time::from_nanos(15_000_000), PathSignal::Notified);
        assert_eq!(aimd.window(), CEILING / 10 * 7 / 10 * 7);
        for i in 0..100 {
            aimd.signal(Time::from_nanos(20_000_000 * (i + 1)), PathSignal::Timeout);
        }
        assert_eq!(aimd.window(), MIN_WINDOW);
    }

    #[test]
    fn what_is_lost_one_by_one_takes_its_share_of_the_window() {
        let aimd = Aimd::new(CEILING);
        let (bytes, rtt) = (900_000, Some(RTT));
        aimd.signal(Time::from_nanos(0), PathSignal::Acked { bytes, rtt });
        let before = aimd.window();
        aimd.signal(Time::from_nanos(0), PathSignal::Lost { bytes: 50_000 });
        assert_eq!(aimd.window(), before, "too soon");
        let later = Time::from_nanos(2_000_000);
        aimd.signal(later, PathSignal::Lost { bytes: 50_000 });
        assert_eq!(aimd.window(), before - before / 20);

        // All of it, again and again.
        for i in 2..100 {
            let at = Time::from_nanos(2_000_000 * i);
            aimd.signal(at, PathSignal::Lost { bytes: 50_000 });
        }
        assert_eq!(aimd.window(), MIN_WINDOW);
    }

    #[test]
    fn a_standing_queue_is_seen_by_the_round_trip() {
        let aimd = Aimd::new(CEILING);
        let acked = |rtt| PathSignal::Acked {
            bytes: 1,
            rtt: Some(rtt),
        };
        aimd.signal(Time::from_nanos(1_000_000_000), acked(RTT));
        let before = aimd.window();
        aimd.signal(Time::from_nanos(1_000_000_000), acked(RTT + QUEUEING_DELAY));
        assert!(aimd.window() >= before);
        aimd.signal(
            Time::from_nanos(1_000_000_000),
            acked(RTT + QUEUEING_DELAY + Duration::from_nanos(1)),
        );
        assert!(aimd.window() <= before / 10 * 9 + 1);
    }
}
