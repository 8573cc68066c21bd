//! How fast unacknowledged traffic (UC, UD) goes out, so that the receiver's socket is not run over.
//!
//! RC has its window and its acknowledgements; here nothing comes back. To a receiver on this machine the bound is on what it
//! has not taken off its socket yet, which sender and receiver count in memory that they share (`FlowPage`), or on what it has not
//! taken out of the ring through which it is reached. To others it is
//! what a socket buffer holds, each millisecond. A receiver that takes nothing for a while is not waited for: this traffic may
//! be lost, but it is never stuck.

use std::net::IpAddr;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use ferroce_control::FlowPage;
use ferroce_transport::Time;

use crate::progress::timers;

/// More than this on its way only fills caches.
const MOST: u64 = 2 << 20;
/// What every path may have on its way.
const LEAST: u64 = 64 << 10;
/// How often a sender that is held back looks again.
const LOOK_AGAIN: Time = 8_000;
/// A receiver that takes nothing for so long is not waited for until it takes something. A crowded machine keeps a process
/// waiting for tens of milliseconds.
const STALLED: Time = 200_000_000;
/// The clock's period for receivers of which nothing is known.
const PERIOD: Time = 1_000_000;

/// What one send takes of a receive buffer, about: the kernel's bookkeeping for a datagram, and memory in powers of two for
/// one that is not part of a run. Senders and receivers must agree on it.
pub(crate) fn cost(bytes: usize, run: bool) -> u64 {
    const BOOKKEEPING: u64 = 1024;
    let bytes = if run {
        bytes
    } else {
        (bytes + 384).next_power_of_two()
    };
    bytes as u64 + BOOKKEEPING
}

/// How much may be on its way to a socket that holds `receive_buffer` bytes. The rest is for RC, for a run too much of another sender, and for
/// what the kernel has yet to give back: up to a quarter of a buffer that is being read.
pub(super) fn limit(receive_buffer: u32) -> u64 {
    (u64::from(receive_buffer) / 8 * 3).clamp(LEAST, MOST)
}

/// What tells how much a receiver has not taken yet.
pub(crate) trait Gauge {
    /// Bytes that were sent and not taken; `None`: nobody knows.
    fn in_flight(&self) -> Option<u64>;

    /// Bytes that the receiver has taken in all.
    fn taken(&self) -> u64;

    /// Counts what is about to be sent.
    fn sent(&self, _cost: u64) {}
}

/// The counters of a receiver's address, which senders on the same machine keep too.
pub(crate) struct Counters {
    ip: IpAddr,
    scope_id: u32,
    slot: u8,
    /// Looked for at the first use; many receivers have none.
    page: OnceLock<Option<FlowPage>>,
}

impl Counters {
    pub(super) fn of(ip: IpAddr, scope_id: u32, slot: u8) -> Counters {
        Counters {
            ip,
            scope_id,
            slot,
            page: OnceLock::new(),
        }
    }

    fn page(&self) -> Option<&FlowPage> {
        let open = || (!self.ip.is_multicast()).then(|| FlowPage::open(self.ip, self.scope_id));
        self.page.get_or_init(|| open().flatten()).as_ref()
    }
}

impl Gauge for Counters {
    fn in_flight(&self) -> Option<u64> {
        self.page().map(|page| page.in_flight(self.slot))
    }

    fn taken(&self) -> u64 {
        self.page()
            .map_or(0, |page| page.received(self.slot).load(Relaxed))
    }

    fn sent(&self, cost: u64) {
        if let Some(page) = self.page() {
            page.sent(self.slot).fetch_add(cost, Relaxed);
        }
    }
}

/// Of receivers of whom nothing is known.
pub(crate) struct Unknown;

impl Gauge for Unknown {
    fn in_flight(&self) -> Option<u64> {
        None
    }

    fn taken(&self) -> u64 {
        0
    }
}

/// The pace of one path.
pub(crate) struct Pacer<G> {
    gauge: G,
    limit: u64,
    /// The receiver's count and the time when it was last seen to move. Approximate between threads, on purpose.
    seen: AtomicU64,
    moved: AtomicU64,
    /// Without counters: the time up to which the allowance is spent.
    spent_until: AtomicU64,
}

impl<G: Gauge> Pacer<G> {
    /// `limit`: how many bytes may be on their way.
    pub(super) fn new(gauge: G, limit: u64) -> Pacer<G> {
        Pacer {
            gauge,
            limit,
            // No count that a receiver could have: the first look is never the second without a change.
            seen: AtomicU64::new(u64::MAX),
            moved: AtomicU64::new(0),
            spent_until: AtomicU64::new(0),
        }
    }

    /// How many bytes may go out now, or when to ask again.
    pub(super) fn allowance(&self, now: Time) -> Result<u64, Time> {
        let Some(in_flight) = self.gauge.in_flight() else {
            return self.allowance_by_the_clock(now);
        };
        if in_flight < self.limit {
            return Ok(self.limit - in_flight);
        }
        let taken = self.gauge.taken();
        if self.seen.swap(taken, Relaxed) != taken {
            self.moved.store(now, Relaxed);
        } else if now.saturating_sub(self.moved.load(Relaxed)) > STALLED {
            return self.allowance_by_the_clock(now);
        }
        Err(now + LOOK_AGAIN)
    }

    fn allowance_by_the_clock(&self, now: Time) -> Result<u64, Time> {
        let ahead = self.spent_until.load(Relaxed).saturating_sub(now);
        if ahead >= PERIOD {
            return Err(now + ahead - PERIOD / 2);
        }
        Ok((PERIOD - ahead) * self.limit / PERIOD)
    }

    /// Counts what is about to be sent.
    pub(super) fn sent(&self, bytes: usize, run: bool) {
        self.spend(cost(bytes, run), timers::now());
    }

    fn spend(&self, cost: u64, now: Time) {
        self.gauge.sent(cost);
        let from = self.spent_until.load(Relaxed).max(now);
        self.spent_until
            .store(from + cost * PERIOD / self.limit, Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ferroce_control::FlowFile;

    #[test]
    fn a_receiver_that_takes_nothing_holds_the_sender_back_for_a_while_only() {
        let ip = IpAddr::from([192, 0, 2, 92]);
        let _file = FlowFile::create(ip, 0).unwrap();
        let page = FlowPage::open(ip, 0).unwrap();
        let pacer = Pacer::new(Counters::of(ip, 0, 3), limit(400_000));
        let start = 5_000_000_000;
        assert_eq!(pacer.allowance(start), Ok(150_000));
        pacer.spend(100_000, start);
        assert_eq!(pacer.allowance(start), Ok(50_000));
        pacer.spend(60_000, start);
        page.received(3).fetch_add(1_000, Relaxed);
        assert_eq!(pacer.allowance(start), Err(start + LOOK_AGAIN));
        // It moves: the wait begins anew.
        page.received(3).fetch_add(1_000, Relaxed);
        let later = start + STALLED / 2;
        assert!(pacer.allowance(later).is_err());
        assert!(pacer.allowance(start + STALLED + 1).is_err());
        assert!(pacer.allowance(later + STALLED + 1).is_ok());
        page.received(3).fetch_add(100_000, Relaxed);
        assert_eq!(pacer.allowance(later), Ok(92_000));
    }

    #[test]
    fn a_receiver_that_has_taken_nothing_yet_is_waited_for() {
        let ip = IpAddr::from([192, 0, 2, 94]);
        let _file = FlowFile::create(ip, 0).unwrap();
        let pacer = Pacer::new(Counters::of(ip, 0, 3), limit(400_000));
        let start = 5_000_000_000;
        pacer.spend(150_000, start);
        assert_eq!(pacer.allowance(start), Err(start + LOOK_AGAIN));
        assert!(pacer.allowance(start + STALLED).is_err());
        assert!(pacer.allowance(start + STALLED + 1).is_ok());
    }

    #[test]
    fn of_strangers_a_buffer_is_asked_each_millisecond() {
        let pacer = Pacer::new(Counters::of([192, 0, 2, 93].into(), 0, 3), limit(400_000));
        let start = 5_000_000_000;
        let mut sent = 0;
        let mut now = start;
        while now < start + 10 * PERIOD {
            match pacer.allowance(now) {
                Ok(bytes) => {
                    assert!(bytes <= 150_000);
                    pacer.spend(bytes.max(1), now);
                    sent += bytes;
                }
                Err(until) => {
                    assert!(until > now);
                    now = until;
                }
            }
        }
        assert!((1_500_000..1_800_000).contains(&sent), "{sent}");
    }
}
