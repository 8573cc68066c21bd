//! DCQCN's reaction point: a rate that goes down when the network marks packets, and up again by
//! halves, by steps and then by leaps.
//!
//! Zhu and others, "Congestion Control for Large-Scale RDMA Deployments", SIGCOMM 2015. The peer
//! tells of marks by CNPs (annex A17), at most one in 50 µs. Until the first one comes there is no
//! rate: what the network carries is then taken from what was acknowledged lately, as no adapter's
//! line rate is known. What is lost is none of the marks', so the window of AIMD bounds what is in
//! flight all along.

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
    /// Bytes acknowledged since [`since`](Self::since), and what they were before: a rate.
    acked: AtomicU64,
    since: AtomicTime,
    delivered: AtomicU64,
    /// Bytes sent since the byte counter last ran over.
    sent: AtomicU64,
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
    /// The highest rate that was seen to be delivered: beyond twice that there is no rate.
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
            acked: AtomicU64::new(0),
            since: AtomicTime::new(Time::ZERO),
            delivered: AtomicU64::new(0),
            sent: AtomicU64::new(0),
        }
    }

    /// Bytes a second, `None` while nothing limits them.
    pub fn rate(&self) -> Option<u64> {
        self.limited.load(Relaxed).then(|| self.rate.load(Relaxed))
    }

    /// Measures what is delivered.
    fn acknowledged(&self, now: Time, bytes: u32) {
        let acked = self.acked.fetch_add(bytes.into(), Relaxed) + u64::from(bytes);
        let took = now - self.since.load();
        if took < DCQCN_MEASURE {
            return;
        }

        let rate = u128::from(acked) * u128::from(SECOND) / took.as_nanos().max(1);
        // After a pause what was acknowledged says nothing of how fast it may be.
        if took < 4 * DCQCN_MEASURE {
            self.delivered.store(rate as u64, Relaxed);
        }
        self.acked.store(0, Relaxed);
        self.since.store(now);
    }

    /// A CNP has come.
    fn notified(&self, now: Time) {
        let Ok(mut rates) = self.rates.lock() else {
            return;
        };
        let delivered = self.delivered.load(Relaxed).max(DCQCN_MIN_RATE);
        let rate = match self.limited.load(Relaxed) {
            true => self.rate.load(Relaxed),
            false => delivered,
        };
        rates.most = rates.most.max(delivered);
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
        if !self.limited.load(Relaxed) || now < self.due.load() && !over {
            return;
        }
        // Somebody else is at it.
        let Ok(mut rates) = self.rates.try_lock() else {
            return;
        };
        while rates.alpha_at <= now {
            rates.alpha -= rates.alpha / DCQCN_GAIN;
            rates.alpha_at += DCQCN_ALPHA_PERIOD;
        }
        while rates.clock_at <= now {
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
        if self.limited.load(Relaxed) {
            self.sent.fetch_add(bytes as u64, Relaxed);
            let from = self.spent_until.load().max(now);
            let rate = self.rate.load(Relaxed).max(1);
            let takes = bytes as u64 * SECOND / rate;
            self.spent_until.store(from + Duration::from_nanos(takes));
        }
    }

    fn signal(&self, now: Time, signal: PathSignal) {
        match signal {
            PathSignal::Notified => return self.notified(now),
            PathSignal::Acked { bytes, .. } => self.acknowledged(now, bytes),
            _ => {}
        }
        self.pass(now);
        self.aimd.signal(now, signal);
    }

    fn window(&self) -> u32 {
        self.aimd.window()
    }

    fn allowance(&self, now: Time) -> Result<u64, Time> {
        self.pass(now);
        if !self.limited.load(Relaxed) {
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
mod tests {
    use super::*;

    const GB: u64 = 1_000_000_000;

    fn at(micros: u64) -> Time {
        Time::from_nanos(micros * 1000)
    }

    /// One that has delivered 1 GB/s for 20 ms.
    fn warm() -> Dcqcn {
        let dcqcn = Dcqcn::new(3 << 20);
        for i in 1..=200 {
            let (bytes, rtt) = (100_000, Some(Duration::from_micros(20)));
            dcqcn.signal(at(100 * i), PathSignal::Acked { bytes, rtt });
        }
        dcqcn
    }

    #[test]
    fn without_marks_there_is_no_rate() {
        let dcqcn = warm();
        assert_eq!(
            (dcqcn.rate(), dcqcn.allowance(at(20_000))),
            (None, Ok(u64::MAX))
        );
    }

    #[test]
    fn a_first_mark_halves_what_was_delivered_and_half_of_the_way_back_is_quick() {
        let dcqcn = warm();
        dcqcn.signal(at(20_000), PathSignal::Notified);
        assert_eq!(dcqcn.rate(), Some(GB / 2));
        let mut last = GB / 2;
        for step in 1..=4 {
            let _ = dcqcn.allowance(at(20_000) + step * DCQCN_PERIOD);
            let rate = dcqcn.rate().expect("limited");
            assert_eq!(rate, last / 2 + GB / 2);
            last = rate;
        }
    }

    #[test]
    fn marks_that_go_on_bring_it_to_the_least_rate_and_silence_ends_it() {
        let dcqcn = warm();
        for i in 0..2000 {
            dcqcn.signal(at(20_000 + 50 * i), PathSignal::Notified);
        }
        assert_eq!(dcqcn.rate(), Some(DCQCN_MIN_RATE));
        let mut now = at(120_000);
        while dcqcn.rate().is_some() {
            now += DCQCN_PERIOD;
            let _ = dcqcn.allowance(now);
            assert!(now < at(20_000_000), "{:?}", dcqcn.rate());
        }
    }

    #[test]
    fn what_is_allowed_in_a_while_is_the_rate() {
        let dcqcn = warm();
        dcqcn.signal(at(20_000), PathSignal::Notified);
        let (mut now, mut sent) = (at(20_000), 0);
        let end = at(20_000) + DCQCN_PERIOD - Duration::from_nanos(1);
        while now < end {
            match dcqcn.allowance(now) {
                Ok(bytes) => {
                    let bytes = bytes.min(4096);
                    dcqcn.sent(now, bytes as usize, false);
                    sent += bytes;
                }
                Err(later) => now = later,
            }
        }
        let whole = GB / 2 * DCQCN_PERIOD.as_nanos() as u64 / SECOND;
        let burst = GB / 2 * DCQCN_BURST.as_nanos() as u64 / SECOND;
        assert!(
            (whole - 4096..=whole + burst + 4096).contains(&sent),
            "{sent} of {whole}"
        );
    }
}
