//! DCQCN's reaction point: a rate that goes down when the network marks packets, and up again by
//! halves, by steps and then by leaps.
//!
//! Zhu and others, "Congestion Control for Large-Scale RDMA Deployments", SIGCOMM 2015. The peer
//! tells of marks by CNPs (annex A17), at most one in 50 µs. Until the first one comes there is no
//! rate: it then begins at what was sent lately, as no adapter's line rate is known. What is lost
//! is none of the marks', so the window of AIMD bounds what is in flight all along.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};

use super::{Aimd, Controller};
use crate::tuning::{
    DCQCN_ADDITIVE, DCQCN_ALPHA_PERIOD, DCQCN_BURST, DCQCN_BYTES, DCQCN_FAST_STEPS, DCQCN_GAIN,
    DCQCN_HYPER, DCQCN_MEASURE, DCQCN_MIN_RATE, DCQCN_PERIOD,
};
use crate::{AtomicTime, Duration, PathSignal, Time};

/// Nanoseconds of a second.
const SECOND: u64 = 1_000_000_000;
/// The estimate of congestion is kept in parts of this: 1.0.
const ONE: u64 = 1 << 20;
/// Periods after which the estimate has come to nothing.
const PERIODS: u128 = 4096;

/// A rate in bytes a second.
fn per_second(bytes: u64, took: Duration) -> u64 {
    let rate = u128::from(bytes) * u128::from(SECOND) / took.as_nanos().max(1);
    u64::try_from(rate).unwrap_or(u64::MAX)
}

/// The controller of a path.
#[derive(Debug)]
pub struct Dcqcn {
    aimd: Aimd,
    /// There is a rate: marks have been seen, and their effect is not over.
    limited: AtomicBool,
    /// Bytes a second.
    rate: AtomicU64,
    rates: Mutex<Rates>,
    /// When the rates are to be looked at next.
    due: AtomicTime,
    /// The time up to which the rate is spent.
    spent_until: AtomicTime,
    /// Bytes sent since then, and before that for a while: a rate in bytes a second, 0 before there
    /// was one.
    measured: AtomicU64,
    since: AtomicTime,
    lately: AtomicU64,
    /// Bytes sent since the byte counter last ran over.
    sent: AtomicU64,
}

/// What a path is held to, since it was told of marks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reaction {
    /// Bytes a second.
    pub rate: u64,
    /// The estimate of congestion, alpha: parts of [`Reaction::ONE`].
    pub alpha: u32,
}

impl Reaction {
    /// An estimate of 1.
    pub const ONE: u32 = ONE as u32;
}

/// What the rate comes from.
#[derive(Clone, Copy, Debug)]
struct Rates {
    /// Bytes a second that are gone back to.
    target: u64,
    /// The estimate of congestion, in parts of [`ONE`].
    alpha: u64,
    /// Times that the clock, and the byte counter, have run over since the last CNP.
    clock: u32,
    bytes: u32,
    /// When the clock runs over, and the estimate is let down.
    clock_at: Time,
    alpha_at: Time,
    /// The highest rate that was seen: beyond twice that there is none any more.
    most: u64,
}

impl Dcqcn {
    /// Its window is `ceiling` bytes at most (see [`Aimd::new`]).
    pub fn new(ceiling: u32) -> Dcqcn {
        Dcqcn {
            aimd: Aimd::new(ceiling),
            limited: AtomicBool::new(false),
            rate: AtomicU64::new(u64::MAX),
            rates: Mutex::new(Rates {
                target: 0,
                alpha: ONE,
                clock: 0,
                bytes: 0,
                clock_at: Time::ZERO,
                alpha_at: Time::ZERO,
                most: 0,
            }),
            due: AtomicTime::new(Time::ZERO),
            spent_until: AtomicTime::new(Time::ZERO),
            measured: AtomicU64::new(0),
            since: AtomicTime::new(Time::ZERO),
            lately: AtomicU64::new(0),
            sent: AtomicU64::new(0),
        }
    }

    /// Whether there is a rate.
    #[inline]
    pub fn is_limited(&self) -> bool {
        self.limited.load(Relaxed)
    }

    /// What the path is held to; `None` while nothing limits it.
    pub fn reaction(&self) -> Option<Reaction> {
        if !self.is_limited() {
            return None;
        }
        let alpha = self.rates.lock().ok()?.alpha;
        Some(Reaction {
            rate: self.rate.load(Relaxed),
            alpha: alpha as u32,
        })
    }

    /// Measures what is sent.
    fn measure(&self, now: Time, bytes: u64) {
        let since = self.since.load();
        if since == Time::ZERO {
            self.since.store(now);
        }
        let sent = self.measured.fetch_add(bytes, Relaxed) + bytes;
        let took = now - since;
        if took < DCQCN_MEASURE || since == Time::ZERO {
            return;
        }

        // After a pause what was sent says nothing of how fast it may be.
        if took < 4 * DCQCN_MEASURE {
            self.lately.store(per_second(sent, took), Relaxed);
        }
        self.measured.store(0, Relaxed);
        self.since.store(now);
    }

    /// Bytes a second that were sent before this moment.
    fn rate_lately(&self, now: Time) -> u64 {
        let rate = match self.lately.load(Relaxed) {
            // The first marks come before anything was measured.
            0 => {
                let took = (now - self.since.load()).max(DCQCN_BURST);
                per_second(self.measured.load(Relaxed), took)
            }
            rate => rate,
        };
        rate.max(DCQCN_MIN_RATE)
    }

    /// A CNP has come.
    fn notified(&self, now: Time) {
        let Ok(mut rates) = self.rates.lock() else {
            return;
        };
        let lately = self.rate_lately(now);
        let rate = match self.is_limited() {
            // The rate has gone on to grow while something else held the sender back. What the
            // network is full of is what was sent.
            true => self.rate.load(Relaxed).min(lately.saturating_mul(2)),
            false => lately,
        };
        rates.most = rates.most.max(lately);
        rates.target = rate;
        let less = u128::from(rate) * u128::from(rates.alpha) / u128::from(2 * ONE);
        rates.alpha = rates.alpha - rates.alpha / DCQCN_GAIN + ONE / DCQCN_GAIN;
        (rates.clock, rates.bytes) = (0, 0);
        (rates.clock_at, rates.alpha_at) = (now + DCQCN_PERIOD, now + DCQCN_ALPHA_PERIOD);
        self.sent.store(0, Relaxed);
        self.rate
            .store((rate - less as u64).max(DCQCN_MIN_RATE), Relaxed);
        self.due.store(rates.clock_at.min(rates.alpha_at));
        self.limited.store(true, Relaxed);
    }

    /// Lets clocks and counter run over that are due.
    fn pass(&self, now: Time) {
        let over = self.sent.load(Relaxed) >= DCQCN_BYTES;
        if !self.is_limited() || now < self.due.load() && !over {
            return;
        }
        // Somebody else is at it.
        let Ok(mut rates) = self.rates.try_lock() else {
            return;
        };
        // After a long pause there is no need to go through all of it.
        let periods = (now - rates.alpha_at).as_nanos() / DCQCN_ALPHA_PERIOD.as_nanos() + 1;
        if rates.alpha_at <= now {
            for _ in 0..periods.min(PERIODS) {
                rates.alpha -= rates.alpha / DCQCN_GAIN;
            }
            rates.alpha_at = now + DCQCN_ALPHA_PERIOD;
        }
        while rates.clock_at <= now && self.is_limited() {
            rates.clock += 1;
            rates.clock_at += DCQCN_PERIOD;
            self.increase(&mut rates);
        }
        if over {
            self.sent.store(0, Relaxed);
            rates.bytes += 1;
            self.increase(&mut rates);
        }
        self.due.store(rates.clock_at.min(rates.alpha_at));
    }

    /// One of the two has run over.
    fn increase(&self, rates: &mut Rates) {
        let (least, most) = (rates.clock.min(rates.bytes), rates.clock.max(rates.bytes));
        if least > DCQCN_FAST_STEPS {
            rates.target += u64::from(least - DCQCN_FAST_STEPS) * DCQCN_HYPER;
        } else if most >= DCQCN_FAST_STEPS {
            rates.target += DCQCN_ADDITIVE;
        }
        let rate = rates.target / 2 + self.rate.load(Relaxed) / 2;
        self.rate.store(rate, Relaxed);
        if rate >= 2 * rates.most {
            self.limited.store(false, Relaxed);
            *rates = Rates {
                alpha: ONE,
                most: 0,
                ..*rates
            };
        }
    }
}

impl Controller for Dcqcn {
    fn sent(&self, now: Time, bytes: usize, _: bool) {
        self.measure(now, bytes as u64);
        if self.is_limited() {
            self.sent.fetch_add(bytes as u64, Relaxed);
            let from = self.spent_until.load().max(now);
            let rate = self.rate.load(Relaxed).max(1);
            let takes = bytes as u64 * SECOND / rate;
            self.spent_until.store(from + Duration::from_nanos(takes));
        }
    }

    fn signal(&self, now: Time, signal: PathSignal) {
        match signal {
            PathSignal::Notified => self.notified(now),
            _ => {
                self.pass(now);
                self.aimd.signal(now, signal);
            }
        }
    }

    fn run(&self) -> u32 {
        self.aimd.run()
    }

    fn window(&self) -> u32 {
        self.aimd.window()
    }

    fn allowance(&self, now: Time) -> Result<u64, Time> {
        self.pass(now);
        if !self.is_limited() {
            return Ok(u64::MAX);
        }
        let ahead = self.spent_until.load() - now;
        if ahead >= DCQCN_BURST {
            return Err(now + ahead - DCQCN_BURST / 2);
        }
        let left = (DCQCN_BURST - ahead).as_nanos();
        let bytes = left * u128::from(self.rate.load(Relaxed)) / u128::from(SECOND);
        Ok((bytes as u64).max(1))
    }
}

#[cfg(test)]
#[path = "dcqcn_tests.rs"]
mod tests;
