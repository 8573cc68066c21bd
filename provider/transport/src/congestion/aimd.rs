//! Additive increase and multiplicative decrease, with a brake on growing round-trip time.
//!
//! What is protected is the receive buffer of the peer's socket: on one machine or a fast link
//! nothing else drops.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed};

use super::Controller;
use crate::tuning::{
    BORNE_LOSS, DECREASE_INTERVAL, DECREASE_ON_DELAY, DECREASE_ON_LOSS, DECREASE_ON_TIMEOUT,
    MIN_WINDOW, QUEUEING_DELAY, SHORT_TRIP, WINDOW_INCREASE,
};
use crate::{AtomicTime, Duration, PathSignal, Time};

/// Round trips of a path.
#[derive(Debug)]
struct Trips {
    /// Nanoseconds; `u64::MAX` before the first.
    shortest: AtomicU64,
    /// Those since it was last asked what is usual: nanoseconds of all, and how many.
    sum: AtomicU64,
    count: AtomicU64,
}

impl Trips {
    fn new() -> Trips {
        Trips {
            shortest: AtomicU64::new(u64::MAX),
            sum: AtomicU64::new(0),
            count: AtomicU64::new(0),
        }
    }

    /// Adds one, and returns the shortest so far.
    fn add(&self, rtt: Duration) -> Duration {
        let nanos = u64::try_from(rtt.as_nanos()).unwrap_or(u64::MAX);
        self.sum.fetch_add(nanos, Relaxed);
        self.count.fetch_add(1, Relaxed);
        let shortest = self.shortest.fetch_min(nanos, Relaxed).min(nanos);
        Duration::from_nanos(shortest)
    }

    /// The shortest; zero before the first.
    fn shortest(&self) -> Duration {
        match self.shortest.load(Relaxed) {
            u64::MAX => Duration::ZERO,
            nanos => Duration::from_nanos(nanos),
        }
    }

    /// Whether those since the last call show that no queue stands on the way: nobody sends more
    /// than it takes. Without any nothing is known.
    fn are_short(&self) -> bool {
        let (sum, count) = (self.sum.swap(0, Relaxed), self.count.swap(0, Relaxed));
        sum.checked_div(count)
            .is_some_and(|usual| Duration::from_nanos(usual) < SHORT_TRIP * self.shortest())
    }
}

/// The controller.
#[derive(Debug)]
pub struct Aimd {
    window: AtomicU32,
    ceiling: u32,
    /// Below it the window doubles each round trip.
    threshold: AtomicU32,
    decreased_at: AtomicTime,
    trips: Trips,
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
            trips: Trips::new(),
            came: AtomicU64::new(0),
            lost: AtomicU64::new(0),
            answered_at: AtomicTime::new(Time::ZERO),
        }
    }

    /// How long what happens is part of the same.
    fn interval(&self) -> Duration {
        self.trips.shortest().max(DECREASE_INTERVAL)
    }

    /// Packets that are sent again one by one cost no more than themselves, so the window gives way
    /// in proportion: by half of the share that is lost, once per interval.
    ///
    /// Where round trips show no queue it is not for want of room that packets are lost, and a
    /// smaller window would not lose less: a share that networks lose by themselves is no reason.
    fn lose(&self, now: Time, bytes: u32) {
        let lost = self.lost.fetch_add(bytes.into(), Relaxed) + u64::from(bytes);
        if now - self.answered_at.load() < self.interval() {
            return;
        }

        self.answered_at.store(now);
        self.lost.store(0, Relaxed);
        let all = self.came.swap(0, Relaxed) + lost;
        let borne = match self.trips.are_short() {
            true => all / BORNE_LOSS,
            false => 0,
        };
        let excess = lost.saturating_sub(borne);
        if excess == 0 {
            return;
        }

        let window = u64::from(self.window.load(Relaxed));
        let less = window * excess / all / 2;
        let window = ((window - less) as u32).max(MIN_WINDOW);
        self.window.store(window, Relaxed);
        self.threshold.store(window, Relaxed);
    }

    /// Multiplies the window by `tenths`/10, unless that was done so short a time ago.
    fn decrease(&self, now: Time, tenths: u32, interval: Duration) {
        if now - self.decreased_at.load() < interval {
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
                    let shortest = self.trips.add(rtt);
                    if rtt > shortest + QUEUEING_DELAY {
                        // Whoever came while the queue stood takes a part of it for the way, and
                        // would give way less often if that counted here.
                        self.decrease(now, DECREASE_ON_DELAY, DECREASE_INTERVAL);
                    }
                }
            }
            PathSignal::Lost { bytes } => self.lose(now, bytes),
            PathSignal::Loss | PathSignal::Notified => {
                self.decrease(now, DECREASE_ON_LOSS, self.interval())
            }
            PathSignal::Timeout => self.decrease(now, DECREASE_ON_TIMEOUT, self.interval()),
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
        for (bytes, rtt) in [(900_000, Some(RTT)), (0, Some(4 * RTT))] {
            aimd.signal(Time::from_nanos(0), PathSignal::Acked { bytes, rtt });
        }
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

    /// The window after so many round trips, with this share in a thousand lost in each.
    fn after(trips: u64, rtt: Duration, lost: u32) -> u32 {
        let aimd = Aimd::new(CEILING);
        let acked = |at, bytes, rtt| {
            let rtt = Some(rtt);
            aimd.signal(at, PathSignal::Acked { bytes, rtt });
        };
        acked(Time::from_nanos(0), 0, Duration::from_millis(10));
        for i in 1..=trips {
            let at = Time::from_nanos(i * 10_000_000);
            let all = aimd.window();
            let bytes = all / 1000 * lost;
            acked(at, all - bytes, rtt);
            aimd.signal(at, PathSignal::Lost { bytes });
        }
        aimd.window()
    }

    #[test]
    fn a_loss_without_a_queue_is_borne() {
        let short = Duration::from_millis(15);
        assert!(after(200, short, 10) > CEILING / 2);
        assert!(after(200, short, 60) > CEILING / 2);
        // With a queue the window is where it grows by as much as it gives way.
        let long = Duration::from_millis(20);
        let balance = after(1500, long, 10);
        assert!((700_000..900_000).contains(&balance), "{balance}");
        // More than networks lose by themselves is too much anywhere.
        assert!(after(200, short, 200) < CEILING / 8);
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
