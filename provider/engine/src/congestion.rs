//! How many request bytes may be in flight to one destination: AIMD on loss, a brake on growing round-trip time.
//!
//! What is protected is the receive buffer of the peer's socket: on one machine or a fast link nothing else drops.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed};

use ferroce_transport::{PathSignal, Time};

use crate::lane;

/// The most that is ever in flight to one destination: enough for 40 Gb/s at half a millisecond, and more than a socket
/// buffer of 8 MB holds is lost.
const MAX_WINDOW: u32 = 3 << 20;
/// What every path may have in flight, however much it loses.
const MIN_WINDOW: u32 = 64 << 10;
/// Losses within this time are one loss.
const CUT_INTERVAL: Time = 2_000_000;
/// A round trip this much longer than the shortest one seen means a standing queue. Scheduling on a loaded machine alone
/// makes several milliseconds.
const QUEUE_DELAY: Time = 10_000_000;

pub(crate) struct Congestion {
    window: AtomicU32,
    ceiling: u32,
    /// Below it the window doubles each round trip.
    threshold: AtomicU32,
    last_cut: AtomicU64,
    shortest_rtt: AtomicU64,
    /// QPs with requests in flight, among which the window is divided.
    active: AtomicU32,
}

impl Congestion {
    /// `receive_buffer`: what a socket on this host holds in bytes, the best guess for the peer's.
    pub(crate) fn new(receive_buffer: u32) -> Congestion {
        // The kernel accounts about twice the payload against the buffer.
        Congestion::up_to((receive_buffer / 2).clamp(MIN_WINDOW, MAX_WINDOW))
    }

    /// Of a lane, which has room for that.
    pub(crate) fn of_lane() -> Congestion {
        Congestion::up_to(lane::WINDOW as u32)
    }

    fn up_to(ceiling: u32) -> Congestion {
        Congestion {
            window: AtomicU32::new((ceiling / 2).max(MIN_WINDOW)),
            ceiling,
            threshold: AtomicU32::new(ceiling),
            last_cut: AtomicU64::new(0),
            shortest_rtt: AtomicU64::new(Time::MAX),
            active: AtomicU32::new(0),
        }
    }

    /// The share of one QP in bytes.
    pub(crate) fn share(&self) -> u32 {
        self.window.load(Relaxed) / self.active.load(Relaxed).max(1)
    }

    pub(crate) fn qp_active(&self, active: bool) {
        if active {
            self.active.fetch_add(1, Relaxed);
        } else {
            self.active.fetch_sub(1, Relaxed);
        }
    }

    // Counters are independent and approximate: a lost update between two threads changes a rate a little, never a bound.
    pub(crate) fn signal(&self, now: Time, signal: PathSignal) {
        match signal {
            PathSignal::Acked { bytes, rtt } => {
                let window = self.window.load(Relaxed);
                let grown = if window < self.threshold.load(Relaxed) {
                    window.saturating_add(bytes)
                } else {
                    // one 4 KiB packet more each window
                    window.saturating_add((u64::from(bytes) * 4096 / u64::from(window)) as u32)
                };
                self.window.store(grown.min(self.ceiling), Relaxed);
                if let Some(rtt) = rtt {
                    let shortest = self.shortest_rtt.load(Relaxed).min(rtt);
                    self.shortest_rtt.store(shortest, Relaxed);
                    if rtt > shortest + QUEUE_DELAY {
                        self.cut(now, 9);
                    }
                }
            }
            PathSignal::Loss => self.cut(now, 7),
            PathSignal::Timeout => self.cut(now, 5),
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn grows_to_the_ceiling_and_backs_off_once_an_interval() {
        let c = Congestion::new(16 << 20);
        for _ in 0..1000 {
            c.signal(
                0,
                PathSignal::Acked {
                    bytes: 65_536,
                    rtt: Some(20_000),
                },
            );
        }
        assert_eq!(c.share(), MAX_WINDOW);
        c.signal(10_000_000, PathSignal::Loss);
        c.signal(10_000_001, PathSignal::Loss);
        assert_eq!(c.share(), MAX_WINDOW / 10 * 7);
        for i in 0..100 {
            c.signal(20_000_000 * (i + 1), PathSignal::Timeout);
        }
        assert_eq!(c.share(), MIN_WINDOW);
    }

    #[test]
    fn the_default_buffer_of_a_user_bounds_the_window() {
        let c = Congestion::new(425_984);
        for _ in 0..1000 {
            c.signal(
                0,
                PathSignal::Acked {
                    bytes: 65_536,
                    rtt: None,
                },
            );
        }
        assert_eq!(c.share(), 425_984 / 2);
        c.qp_active(true);
        c.qp_active(true);
        assert_eq!(c.share(), 425_984 / 4);
    }
}
