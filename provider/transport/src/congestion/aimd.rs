//! Additive increase and multiplicative decrease, with a brake on growing round-trip time.
//!
//! What is protected is the receive buffer of the peer's socket: on one machine or a fast link nothing else drops.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed};

use super::Controller;
use crate::{PathSignal, Time};

/// Bytes that every path may have in flight, however much it loses.
const MIN_WINDOW: u32 = 64 << 10;
/// Bytes by which the window grows for each window that is acknowledged, above the threshold.
const INCREASE: u64 = 4096;
/// Nanoseconds within which losses are one loss.
const CUT_INTERVAL: Time = 2_000_000;
/// Nanoseconds: a round trip so much longer than the shortest one seen means a standing queue. Scheduling on a loaded machine alone
/// makes several milliseconds.
const QUEUE_DELAY: Time = 10_000_000;
/// What is left of the window, in tenths: after a round trip with a standing queue, a loss that was seen or a
/// CNP, a Local ACK Timeout.
const AFTER_DELAY: u32 = 9;
const AFTER_LOSS: u32 = 7;
const AFTER_TIMEOUT: u32 = 5;

/// The controller.
#[derive(Debug)]
pub struct Aimd {
    window: AtomicU32,
    ceiling: u32,
    /// Below it the window doubles each round trip.
    threshold: AtomicU32,
    last_cut: AtomicU64,
    shortest_rtt: AtomicU64,
}

impl Aimd {
    /// Its window is `ceiling` bytes at most, and half of that at first, but at least 64 KiB.
    pub fn new(ceiling: u32) -> Aimd {
        let ceiling = ceiling.max(MIN_WINDOW);
        Aimd {
            window: AtomicU32::new((ceiling / 2).max(MIN_WINDOW)),
            ceiling,
            threshold: AtomicU32::new(ceiling),
            last_cut: AtomicU64::new(0),
            shortest_rtt: AtomicU64::new(Time::MAX),
        }
    }

    /// Multiplies the window by `tenths`/10, once per interval.
    fn cut(&self, now: Time, tenths: u32) {
        if now.saturating_sub(self.last_cut.load(Relaxed)) < CUT_INTERVAL {
            return;
        }
        self.last_cut.store(now, Relaxed);
        let window = (self.window.load(Relaxed) / 10 * tenths).max(MIN_WINDOW);
        self.window.store(window, Relaxed);
        self.threshold.store(window, Relaxed);
    }
}

// Its counters are independent and approximate: a lost update between two threads changes a rate a little, never a bound.
impl Controller for Aimd {
    fn signal(&self, now: Time, signal: PathSignal) {
        match signal {
            PathSignal::Acked { bytes, rtt } => {
                let window = self.window.load(Relaxed);
                let grown = if window < self.threshold.load(Relaxed) {
                    window.saturating_add(bytes)
                } else {
                    window.saturating_add((u64::from(bytes) * INCREASE / u64::from(window)) as u32)
                };
                self.window.store(grown.min(self.ceiling), Relaxed);
                if let Some(rtt) = rtt {
                    let shortest = self.shortest_rtt.load(Relaxed).min(rtt);
                    self.shortest_rtt.store(shortest, Relaxed);
                    if rtt > shortest + QUEUE_DELAY {
                        self.cut(now, AFTER_DELAY);
                    }
                }
            }
            PathSignal::Loss | PathSignal::Notified => self.cut(now, AFTER_LOSS),
            PathSignal::Timeout => self.cut(now, AFTER_TIMEOUT),
        }
    }

    fn window(&self) -> u32 {
        self.window.load(Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CEILING: u32 = 3 << 20;

    #[test]
    fn grows_to_the_ceiling_and_backs_off_once_an_interval() {
        let aimd = Aimd::new(CEILING);
        assert_eq!(aimd.window(), CEILING / 2);
        for _ in 0..1000 {
            let (bytes, rtt) = (65_536, Some(20_000));
            aimd.signal(0, PathSignal::Acked { bytes, rtt });
        }
        assert_eq!(aimd.window(), CEILING);
        aimd.signal(10_000_000, PathSignal::Loss);
        aimd.signal(10_000_001, PathSignal::Loss);
        assert_eq!(aimd.window(), CEILING / 10 * 7);
        aimd.signal(15_000_000, PathSignal::Notified);
        assert_eq!(aimd.window(), CEILING / 10 * 7 / 10 * 7);
        for i in 0..100 {
            aimd.signal(20_000_000 * (i + 1), PathSignal::Timeout);
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
        aimd.signal(1_000_000_000, acked(20_000));
        let before = aimd.window();
        aimd.signal(1_000_000_000, acked(20_000 + QUEUE_DELAY));
        assert!(aimd.window() >= before);
        aimd.signal(1_000_000_000, acked(20_001 + QUEUE_DELAY));
        assert!(aimd.window() <= before / 10 * 9 + 1);
    }
}
