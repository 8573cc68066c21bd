//! A pace for what nobody acknowledges (UC, UD), so that its receiver's buffer is not run over.
//!
//! Where the receiver's count of what it has taken can be seen, the bound is on what it has not
//! taken yet; where it cannot, it is on time: what a buffer holds, each period. Of a multicast
//! group some receivers may be seen and others not, and both hold. A receiver that takes nothing
//! for a while is not waited for any longer: this traffic may be lost, but it is never stuck.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use super::Controller;
use crate::tuning::{
    ALLOWANCE_RETRY, BOOKKEEPING, MAX_ALLOWANCE, MIN_ALLOWANCE, PACING_PERIOD, STALL_TIMEOUT,
};
use crate::{AtomicTime, Duration, PathSignal, Time};

/// [`PACING_PERIOD`] in nanoseconds.
const PERIOD: u64 = PACING_PERIOD.as_nanos() as u64;

/// What one send takes of a receive buffer, about: the kernel's bookkeeping for a datagram, and
/// memory in powers of two for one that is not part of a run. Senders and receivers must agree on
/// it.
pub fn buffer_cost(bytes: usize, run: bool) -> u64 {
    let bytes = if run {
        bytes
    } else {
        (bytes + 384).next_power_of_two()
    };
    bytes as u64 + BOOKKEEPING
}

/// How much may be on its way to a socket that holds `receive_buffer` bytes. The rest is for RC,
/// for a run too much of another sender, and for what the kernel has yet to give back: up to a
/// quarter of a buffer that is being read.
pub fn allowance_of_buffer(receive_buffer: u32) -> u64 {
    (u64::from(receive_buffer) / 8 * 3).clamp(MIN_ALLOWANCE, MAX_ALLOWANCE)
}

/// What tells how much a receiver has not taken yet.
pub trait Gauge: Send + Sync {
    /// How many bytes more may be sent if `limit` may be on their way; `None`: nobody knows.
    fn room(&self, limit: u64) -> Option<u64>;

    /// Bytes that the receiver has taken in all.
    fn taken(&self) -> u64;

    /// Counts what is about to be sent.
    fn sent(&self, cost: u64) {
        let _ = cost;
    }

    /// Whether there may be more receivers than those that are counted.
    fn has_others(&self) -> bool {
        false
    }

    /// Nothing has been taken for a while: who has died should not be counted.
    fn stalled(&self) {}
}

/// Of receivers of whom nothing is known.
#[derive(Clone, Copy, Debug)]
pub struct Unknown;

impl Gauge for Unknown {
    fn room(&self, _: u64) -> Option<u64> {
        None
    }

    fn taken(&self) -> u64 {
        0
    }
}

/// The pace of one path. Its window is no bound.
#[derive(Debug)]
pub struct Pacer<G> {
    gauge: G,
    limit: u64,
    /// The receiver's count and the time when it was last seen to move. Approximate between
    /// threads, on purpose.
    seen: AtomicU64,
    moved_at: AtomicTime,
    /// Without counters: the time up to which the allowance is spent.
    spent_until: AtomicTime,
}

impl<G: Gauge> Pacer<G> {
    /// `limit`: how many bytes may be on their way, and more than 0.
    pub fn new(gauge: G, limit: u64) -> Pacer<G> {
        Pacer {
            gauge,
            limit,
            // No count that a receiver could have: the first look is never the second without a
            // change.
            seen: AtomicU64::new(u64::MAX),
            moved_at: AtomicTime::new(Time::ZERO),
            spent_until: AtomicTime::new(Time::ZERO),
        }
    }

    fn allowance_by_the_clock(&self, now: Time) -> Result<u64, Time> {
        let ahead = self.spent_until.load() - now;
        if ahead >= PACING_PERIOD {
            return Err(now + ahead - PACING_PERIOD / 2);
        }
        let left = (PACING_PERIOD - ahead).as_nanos() as u64;
        Ok(left * self.limit / PERIOD)
    }

    fn spend(&self, now: Time, cost: u64) {
        self.gauge.sent(cost);
        let from = self.spent_until.load().max(now);
        let takes = Duration::from_nanos(cost * PERIOD / self.limit);
        self.spent_until.store(from + takes);
    }
}

impl<G: Gauge> Controller for Pacer<G> {
    fn sent(&self, now: Time, bytes: usize, run: bool) {
        self.spend(now, buffer_cost(bytes, run));
    }

    /// Nobody acknowledges, so nobody says anything.
    fn signal(&self, _: Time, _: PathSignal) {}

    fn window(&self) -> u32 {
        u32::MAX
    }

    fn allowance(&self, now: Time) -> Result<u64, Time> {
        let Some(room) = self.gauge.room(self.limit) else {
            return self.allowance_by_the_clock(now);
        };
        let most = match self.gauge.has_others() {
            true => self.allowance_by_the_clock(now)?,
            false => u64::MAX,
        };
        if room > 0 {
            return Ok(most.min(room));
        }

        let taken = self.gauge.taken();
        if self.seen.swap(taken, Relaxed) != taken {
            self.moved_at.store(now);
        } else if now - self.moved_at.load() > STALL_TIMEOUT {
            self.gauge.stalled();
            return self.allowance_by_the_clock(now);
        }
        Err(now + ALLOWANCE_RETRY)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Counters that sender and receiver share.
    #[derive(Default)]
    struct Counters {
        sent: AtomicU64,
        taken: AtomicU64,
    }

    impl Gauge for &Counters {
        fn room(&self, limit: u64) -> Option<u64> {
            let in_flight = self.sent.load(Relaxed) - self.taken.load(Relaxed);
            Some(limit.saturating_sub(in_flight))
        }

        fn taken(&self) -> u64 {
            self.taken.load(Relaxed)
        }

        fn sent(&self, cost: u64) {
            self.sent.fetch_add(cost, Relaxed);
        }
    }

    const START: Time = Time::from_nanos(5_000_000_000);
    const MOMENT: Duration = Duration::from_nanos(1);

    #[test]
    fn a_receiver_that_takes_nothing_holds_the_sender_back_for_a_while_only() {
        let counters = Counters::default();
        let pacer = Pacer::new(&counters, allowance_of_buffer(400_000));
        assert_eq!(pacer.allowance(START), Ok(150_000));
        pacer.spend(START, 100_000);
        assert_eq!(pacer.allowance(START), Ok(50_000));
        pacer.spend(START, 60_000);
        counters.taken.fetch_add(1_000, Relaxed);
        assert_eq!(pacer.allowance(START), Err(START + ALLOWANCE_RETRY));

        // It moves: the wait begins anew.
        counters.taken.fetch_add(1_000, Relaxed);
        let later = START + STALL_TIMEOUT / 2;
        assert!(pacer.allowance(later).is_err());
        assert!(pacer.allowance(START + STALL_TIMEOUT + MOMENT).is_err());
        assert!(pacer.allowance(later + STALL_TIMEOUT + MOMENT).is_ok());

        counters.taken.fetch_add(100_000, Relaxed);
        assert_eq!(pacer.allowance(later), Ok(92_000));
    }

    #[test]
    fn a_receiver_that_has_taken_nothing_yet_is_waited_for() {
        let counters = Counters::default();
        let pacer = Pacer::new(&counters, allowance_of_buffer(400_000));
        pacer.spend(START, 150_000);
        assert_eq!(pacer.allowance(START), Err(START + ALLOWANCE_RETRY));
        assert!(pacer.allowance(START + STALL_TIMEOUT).is_err());
        assert!(pacer.allowance(START + STALL_TIMEOUT + MOMENT).is_ok());
    }

    /// A group's: the counters are of those of its members that are here.
    struct SomeOf<'a>(&'a Counters, AtomicU64);

    impl Gauge for SomeOf<'_> {
        fn room(&self, limit: u64) -> Option<u64> {
            self.0.room(limit)
        }

        fn taken(&self) -> u64 {
            self.0.taken()
        }

        fn sent(&self, cost: u64) {
            Gauge::sent(&self.0, cost);
        }

        fn has_others(&self) -> bool {
            true
        }

        fn stalled(&self) {
            self.1.fetch_add(1, Relaxed);
        }
    }

    #[test]
    fn of_a_group_both_bounds_hold() {
        let counters = Counters::default();
        let pacer = Pacer::new(
            SomeOf(&counters, AtomicU64::new(0)),
            allowance_of_buffer(400_000),
        );
        pacer.spend(START, 100_000);
        counters.taken.store(100_000, Relaxed);
        // All is taken, and others may not be as quick.
        assert_eq!(pacer.allowance(START), Ok(50_000));
        assert_eq!(pacer.allowance(START + PACING_PERIOD), Ok(150_000));

        pacer.spend(START + PACING_PERIOD, 150_000);
        // Others may have taken all, and who is seen has not.
        let later = START + 3 * PACING_PERIOD;
        assert_eq!(pacer.allowance(later), Err(later + ALLOWANCE_RETRY));
        assert_eq!(pacer.gauge.1.load(Relaxed), 0);
        assert!(pacer.allowance(later + STALL_TIMEOUT + MOMENT).is_ok());
        assert_eq!(pacer.gauge.1.load(Relaxed), 1);
    }

    #[test]
    fn of_strangers_a_buffer_is_asked_each_period() {
        let pacer = Pacer::new(Unknown, allowance_of_buffer(400_000));
        let (mut sent, mut now) = (0, START);
        while now < START + 10 * PACING_PERIOD {
            match pacer.allowance(now) {
                Ok(bytes) => {
                    assert!(bytes <= 150_000);
                    pacer.spend(now, bytes.max(1));
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
