//! Small requests that wait for company.

use std::sync::atomic::{AtomicU32, Ordering};

use ferroce_transport::Time;

use crate::tuning::{
    BURST, BURST_PAUSE, DEEP_REQUESTS, GATHER, GATHER_BYTES, GATHER_DEEP, GATHER_KNOWN, Gather,
    MANY_UNSIGNALED, MAX_BURST, SHALLOW_SENDS,
};

/// Requests that wait to be sent together with what follows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Held {
    pub(crate) requests: u32,
    pub(crate) bytes: usize,
}

impl Held {
    /// With these, too.
    pub(crate) fn and(self, more: Held) -> Held {
        Held {
            requests: self.requests + more.requests,
            bytes: self.bytes + more.bytes,
        }
    }

    /// Whether another of that size has room beside, where so many requests wait at most.
    pub(crate) fn has_room(self, size: usize, requests: u32) -> bool {
        self.requests < requests && self.bytes + size <= GATHER_BYTES
    }
}

impl Gather {
    /// Requests that wait at most while so many packets are in flight.
    #[inline]
    pub(crate) fn at_most(self, in_flight: u64) -> u32 {
        in_flight.clamp(self.requests.into(), self.most.into()) as u32
    }
}

/// Whether a program keeps its queue deep, as shows in how many of its requests go out together.
///
/// perftest waits for one completion of a hundred requests. By then nearly all that it may have
/// under way are answered, and what it posts next would go out one by one until enough packets are
/// in flight again. A program that has a few requests at a time must not wait for that.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Depth {
    /// Sends of few requests until the queue is taken for a shallow one.
    left: u8,
}

impl Depth {
    /// Takes note of what goes out now after it has waited.
    #[inline]
    pub(crate) fn sent(&mut self, held: Held) {
        if held.requests >= DEEP_REQUESTS {
            self.left = SHALLOW_SENDS;
        } else if held.requests > 0 && held.requests < DEEP_REQUESTS / 2 {
            self.left = self.left.saturating_sub(1);
        }
    }

    /// When a small request waits. `known`: the peer is of our kind.
    #[inline]
    pub(crate) fn gather(self, known: bool) -> Gather {
        match known {
            true if self.left > 0 => GATHER_DEEP,
            true => GATHER_KNOWN,
            false => GATHER,
        }
    }
}

/// How many requests were posted since the last that raises a completion.
///
/// A program that asks for one completion of many requests waits for that one, and posts no more
/// until it has come. If it went out amid others, it would be acknowledged after all of them.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Unsignaled(u32);

impl Unsignaled {
    /// A request is posted. Returns whether it is one that is waited for.
    #[inline]
    pub(crate) fn posted(&mut self, signaled: bool) -> bool {
        let many = self.0 >= MANY_UNSIGNALED;
        self.0 = match signaled {
            true => 0,
            false => self.0.saturating_add(1),
        };
        signaled && many
    }
}

/// Whether a program posts one request after the other to a queue pair whose requests nobody
/// acknowledges.
///
/// No acknowledgement will be the occasion to send what waits. So a request waits only where it is
/// one of many in a row, without a pause in which the program could have looked at anything; and
/// where others did not follow in time, only after more of them.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Burst {
    /// When the last post had ended.
    ended: Time,
    /// Requests posted since the last pause.
    requests: u32,
    /// So many do not wait.
    needed: u32,
}

impl Default for Burst {
    fn default() -> Burst {
        Burst {
            ended: Time::ZERO,
            requests: 0,
            needed: BURST,
        }
    }
}

impl Burst {
    /// Requests are posted. Returns whether they may wait for company.
    #[inline]
    pub(crate) fn posted(&mut self, now: Time, requests: u32) -> bool {
        if now - self.ended > BURST_PAUSE {
            self.requests = 0;
        }
        self.requests = self.requests.saturating_add(requests);
        self.requests > self.needed
    }

    /// What was posted has been sent, or waits.
    #[inline]
    pub(crate) fn ended(&mut self, now: Time) {
        self.ended = now;
    }

    /// As many as are sent together have come.
    #[inline]
    pub(crate) fn paid(&mut self) {
        self.needed = (self.needed / 2).max(BURST);
    }

    /// What waited had to be sent as its time was up.
    pub(crate) fn in_vain(&mut self) {
        self.needed = (2 * self.needed).min(MAX_BURST);
    }
}

/// Whether requests that are acknowledged wait for those of other queue pairs. They are sent when
/// the program polls, so one that computes after posting has them wait in vain, for
/// [`COMPANY_WAIT`](crate::tuning::COMPANY_WAIT): then the next do not.
#[derive(Default)]
pub(crate) struct Company {
    /// Posts that do not wait.
    skipped: AtomicU32,
    /// How many they were the last time.
    step: AtomicU32,
}

impl Company {
    /// Whether one that is posted may wait. Counts are approximate on purpose.
    pub(crate) fn may_wait(&self) -> bool {
        let left = self.skipped.load(Ordering::Relaxed);
        if left > 0 {
            self.skipped.store(left - 1, Ordering::Relaxed);
        }
        left == 0
    }

    /// The timer had to send what waited.
    pub(crate) fn in_vain(&self) {
        let step = self.step.load(Ordering::Relaxed);
        let step = (2 * step).clamp(BURST, MAX_BURST);
        self.step.store(step, Ordering::Relaxed);
        self.skipped.store(step, Ordering::Relaxed);
    }

    /// The program has polled, and sent what waited.
    pub(crate) fn paid(&self) {
        let step = self.step.load(Ordering::Relaxed);
        if step > 0 {
            self.step.store(step / 2, Ordering::Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use ferroce_transport::Duration;

    use super::*;
    use crate::tuning::SMALL_REQUEST;

    /// How many requests of a size go out together.
    fn gathered(bytes: usize, most: u32) -> u32 {
        let one = Held { requests: 1, bytes };
        let mut held = one;
        while held.has_room(bytes, most) {
            held = held.and(one);
        }
        held.requests
    }

    #[test]
    fn what_is_gathered_fits_two_sends() {
        for most in [GATHER.requests, GATHER_DEEP.requests, GATHER_DEEP.most] {
            assert_eq!(gathered(2, most), most);
            assert_eq!(gathered(4096, most), most.min(30));
            assert_eq!(gathered(8192, most), 15);
            assert_eq!(gathered(SMALL_REQUEST, most), 3);
        }
        // With headers and ICRCs: the packet of a WRITE has 32 bytes of them.
        const { assert!(GATHER_BYTES / 4096 * (4096 + 32) <= 2 * 65_507) };
    }

    #[test]
    fn as_many_wait_as_are_in_flight() {
        let most = |in_flight| GATHER_DEEP.at_most(in_flight);
        assert_eq!(
            [1, 32, 33, 64, 65, u64::MAX].map(most),
            [32, 32, 33, 64, 64, 64]
        );
        assert_eq!(GATHER.at_most(1000), GATHER.requests);
    }

    #[test]
    fn a_completion_after_many_without_is_waited_for() {
        let mut unsignaled = Unsignaled::default();
        let mut posted = |signaled| unsignaled.posted(signaled);
        assert!(!posted(true) && !posted(true));
        for _ in 1..MANY_UNSIGNALED {
            assert!(!posted(false));
        }
        assert!(!posted(true));
        for _ in 0..MANY_UNSIGNALED {
            assert!(!posted(false));
        }
        assert!(posted(true));
        assert!(!posted(true));
    }

    #[test]
    fn a_deep_queue_is_found_and_forgotten() {
        let requests = |requests| Held { requests, bytes: 0 };
        let mut depth = Depth::default();
        for few in 0..DEEP_REQUESTS {
            depth.sent(requests(few));
            assert_eq!(depth.gather(true), GATHER_KNOWN);
        }

        depth.sent(requests(DEEP_REQUESTS));
        for _ in 1..SHALLOW_SENDS {
            // Nothing has waited, or neither many nor few: that says nothing.
            depth.sent(requests(0));
            depth.sent(requests(DEEP_REQUESTS / 2));
            depth.sent(requests(1));
            assert_eq!(depth.gather(false), GATHER);
            assert_eq!(depth.gather(true), GATHER_DEEP);
        }

        depth.sent(requests(1));
        assert_eq!(depth.gather(true), GATHER_KNOWN);
        // A ping-pong has none in flight when it posts, and never waits.
        const { assert!(GATHER_DEEP.in_flight > 0) };
    }

    /// How many requests, one after the other, are sent before the first that waits.
    fn alone(burst: &mut Burst, now: &mut Time, pause: Duration) -> u32 {
        *now += BURST_PAUSE + BURST_PAUSE;
        for requests in 0..2 * MAX_BURST {
            *now += pause;
            if burst.posted(*now, 1) {
                return requests;
            }
            burst.ended(*now);
        }
        u32::MAX
    }

    #[test]
    fn only_what_is_posted_without_a_pause_waits() {
        let (mut burst, mut now) = (Burst::default(), Time::from_nanos(1 << 30));
        let nothing = Duration::ZERO;
        assert_eq!(alone(&mut burst, &mut now, nothing), BURST);
        assert_eq!(alone(&mut burst, &mut now, BURST_PAUSE), BURST);
        let pause = BURST_PAUSE + Duration::from_nanos(1);
        assert_eq!(alone(&mut burst, &mut now, pause), u32::MAX);
    }

    #[test]
    fn what_waited_in_vain_waits_later() {
        let (mut burst, mut now) = (Burst::default(), Time::from_nanos(1 << 30));
        burst.in_vain();
        assert_eq!(alone(&mut burst, &mut now, Duration::ZERO), 2 * BURST);
        (0..100).for_each(|_| burst.in_vain());
        assert_eq!(alone(&mut burst, &mut now, Duration::ZERO), MAX_BURST);
        (0..100).for_each(|_| burst.paid());
        assert_eq!(alone(&mut burst, &mut now, Duration::ZERO), BURST);
    }
}
