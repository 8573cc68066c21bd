//! Whose turn it is to receive: the application's threads while they poll, else the helper.
//!
//! While the application polls an empty completion queue again and again, its thread reads the
//! inbox and the sockets itself: no thread is woken, and latency is that of the system calls, or of
//! memory. The helper then stands by, looking every now and then whether the application still
//! polls. When it does not, or says that it will sleep, the helper reads the sockets, asleep in
//! between.
//!
//! Datagrams must be handled in the order in which they came, and the helper's ring may have taken
//! one off the socket that it has not handled yet. So the helper alone gives the turn away and
//! takes it back: it gives it when its ring holds nothing, and takes it under the receive lock,
//! under which the application looks whether it still has the turn.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use ferroce_transport::{AtomicTime, Duration, Time};

use crate::own::Own;
use crate::progress::arrivals::Arrivals;
use crate::progress::awake::Awake;
use crate::progress::futex;
use crate::progress::sleep::Sleep;
use crate::progress::timers;
use crate::progress::turn::{self, Turn};
use crate::tuning::{CONTROL_INTERVAL, LONGEST_NAP, MAX_NAP, MIN_NAP, NAP_PART, NAP_WORTH};

pub(crate) struct Driver {
    /// Whose turn it is; the helper waits on it as a futex.
    pub(crate) turn: Turn<AtomicU32>,
    pub(crate) empty_polls: AtomicU32,
    /// Polls in a row that found something to receive.
    pub(crate) full_polls: AtomicU32,
    /// When the application last drove.
    pub(crate) polled_at: AtomicTime,
    /// The helper's, in the kernel.
    sleep: Sleep<AtomicU64>,
    /// When a polling application last got something out of the inbox, and last looked at the
    /// sockets.
    pub(crate) inbox_at: AtomicTime,
    pub(crate) sockets_at: AtomicTime,
    event: Own,
    /// What the helper received, for threads that wait for it.
    pub(crate) arrivals: Arrivals,
    pub(super) awake_waits: Awake,
    /// How long naps may be, by what the last ones cost, in nanoseconds; the helper's own.
    longest_nap: AtomicU64,
    /// Without a helper the application has the turn for good.
    pub(crate) has_helper: bool,
}

/// Wakes the helper, ours or another process's, that waits for an eventfd.
pub(crate) fn wake(event: &OwnedFd) {
    // A full counter means that it is awake anyway.
    let _ = rustix::io::write(event, &1u64.to_ne_bytes());
}

impl Driver {
    /// `event` is a non-blocking eventfd. Others have it too, to say that they put something into
    /// our inbox.
    pub(crate) fn new(event: OwnedFd, has_helper: bool) -> Driver {
        let first = if has_helper { turn::HELPER } else { turn::APP };
        Driver {
            arrivals: Arrivals::default(),
            awake_waits: Awake::default(),
            has_helper,
            longest_nap: AtomicU64::new(MAX_NAP.as_nanos() as u64),
            turn: Turn::new(AtomicU32::new(first), AtomicU32::new(0)),
            empty_polls: AtomicU32::new(0),
            full_polls: AtomicU32::new(0),
            polled_at: AtomicTime::default(),
            sleep: Sleep::new(AtomicU64::new(0)),
            inbox_at: AtomicTime::default(),
            sockets_at: AtomicTime::default(),
            event: event.into(),
        }
    }

    /// Readable when the helper is to look around.
    pub(crate) fn event(&self) -> BorrowedFd<'_> {
        self.event.as_fd()
    }

    /// Wakes the helper from its sleep in the kernel.
    pub(crate) fn wake(&self) {
        wake(&self.event);
    }

    pub(super) fn clear_wake(&self) {
        // An empty one says EAGAIN.
        let _ = rustix::io::read(&self.event, &mut [0; 8]);
    }

    /// As [`clear_wake`](Self::clear_wake), for a thread that has the application's turn and the
    /// receive lock: the helper hears of it when the turn is its own.
    pub(super) fn clear_for_now(&self) {
        self.turn.clears();
        self.clear_wake();
    }

    /// Wakes the helper if it sleeps beyond `at`.
    pub(crate) fn wake_for(&self, at: Time) {
        if self.sleep.outlasts(at) {
            self.wake();
        }
    }

    /// Announces a sleep, then returns until when it may last.
    pub(crate) fn falling_asleep(&self, next: impl Fn() -> Time) -> Time {
        self.sleep.announce(next)
    }

    pub(crate) fn awake(&self) {
        self.sleep.over();
    }

    /// For the helper, with nothing received that is not handled: gives the turn away if it is
    /// wanted, and then returns when it is the helper's again. `taking_back` holds the receive lock
    /// while it runs what it is given; `chores` is called about ten times a second.
    pub(super) fn stand_by(&self, taking_back: impl Fn(&dyn Fn()), chores: impl Fn()) {
        if !self.turn.give() {
            return;
        }

        let since = timers::now();
        let longest = Duration::from_nanos(self.longest_nap.load(Ordering::Relaxed));
        let mut naps = Naps::new(since, longest);
        let mut had = timers::processor_time();
        let mut control_at = since + CONTROL_INTERVAL;
        self.turn.stand_by(|word| {
            futex::wait(word, turn::APP, naps.length);
            let now = timers::now();
            if now >= control_at {
                control_at = now + CONTROL_INTERVAL;
                chores();
            }
            let has = timers::processor_time();
            naps.cost(has - std::mem::replace(&mut had, has));
            naps.another(now, self.polled_at.load())
        });

        (self.longest_nap).store(naps.most.as_nanos() as u64, Ordering::Relaxed);
        self.awake_waits.has_gone();
        taking_back(&|| {
            self.empty_polls.store(0, Ordering::Relaxed);
            if self.turn.take() {
                self.wake();
            }
        });
    }

    /// Whether the application waits for the turn.
    pub(crate) fn wanted(&self) -> bool {
        self.turn.is_wanted()
    }

    /// Has the helper take the turn at once, if it is the application's.
    pub(crate) fn hand_back(&self) {
        if self.has_helper && self.turn.hand_back() {
            futex::wake(self.turn.word());
        }
    }

    /// Has the helper let go of sockets that are received from no more: its io_uring holds them,
    /// and with them their memberships, until it looks.
    pub(crate) fn let_go(&self) {
        self.hand_back();
        self.wake();
    }

    /// The application drives, though it waits: until then, at most.
    pub(super) fn polls_until(&self, at: Time) {
        self.polled_at.store(at);
    }

    /// Whether the application has the turn; its threads may rely on it under the receive lock.
    pub(crate) fn app_drives(&self) -> bool {
        self.turn.is_apps()
    }
}

/// The helper's naps while the application receives: the longer, the longer its turn has lasted.
struct Naps {
    /// When the turn began.
    since: Time,
    length: Duration,
    /// The longest.
    most: Duration,
}

impl Naps {
    fn new(since: Time, most: Duration) -> Naps {
        Naps {
            since,
            length: MIN_NAP,
            most,
        }
    }

    /// A nap has cost the helper so much of a processor.
    fn cost(&mut self, processor: Duration) {
        let worth = (NAP_WORTH * processor).clamp(MAX_NAP, LONGEST_NAP);
        // One that was unlucky is to say little.
        self.most = (7 * self.most + worth) / 8;
    }

    /// After a nap, with the application's last poll so long ago: whether to take another.
    fn another(&mut self, now: Time, polled_at: Time) -> bool {
        let silent_for = now - polled_at;
        let usual = ((now - self.since) / NAP_PART).clamp(MIN_NAP, self.most);
        // Where naps cost much, the application's way from one poll to the next is long, too, and
        // to take the turn too early costs many of them. And who has polled for long is more likely
        // to have lost the processor than to have stopped.
        let least = MIN_NAP + (self.most - MAX_NAP) / 2;
        let enough = (usual / 2).max(least);
        if silent_for >= enough {
            return false;
        }
        // Is it silent, the next look is when that is enough.
        self.length = match silent_for < MIN_NAP / 4 {
            true => usual,
            false => (enough - silent_for).max(MIN_NAP / 4),
        };
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MICROSECOND: Duration = Duration::from_micros(1);

    #[test]
    fn naps_grow_while_the_application_polls() {
        let mut naps = Naps::new(Time::ZERO, MAX_NAP);
        let (mut now, mut count) = (Time::ZERO, 0);
        while naps.length < MAX_NAP {
            now += naps.length;
            count += 1;
            assert!(naps.another(now, now - MICROSECOND));
            assert!(naps.length <= ((now - Time::ZERO) / NAP_PART).max(MIN_NAP));
        }

        assert!(count < 60, "{count}");

        // It may have lost the processor for a moment.
        now += naps.length;
        assert!(naps.another(now, now - MIN_NAP));
        assert!(naps.length < MAX_NAP / 2);
        now += naps.length;
        assert!(!naps.another(now, now - MAX_NAP / 2));
    }

    #[test]
    fn naps_that_cost_much_are_longer() {
        let longest = |cost| {
            let mut naps = Naps::new(Time::ZERO, MAX_NAP);
            let mut now = Time::ZERO;
            for _ in 0..2_000 {
                now += naps.length;
                naps.cost(cost);
                assert!(naps.another(now, now));
            }
            naps.length
        };
        assert_eq!(longest(5 * MICROSECOND), MAX_NAP);
        let long = longest(40 * MICROSECOND);
        assert!(long > 3 * MAX_NAP && long < LONGEST_NAP, "{long:?}");
        assert!(longest(300 * MICROSECOND) > LONGEST_NAP - 10 * MICROSECOND);
    }

    #[test]
    fn where_naps_cost_much_silence_is_not_the_end_so_soon() {
        let ends = |most, silent_for| {
            !Naps::new(Time::ZERO, most).another(Time::ZERO + silent_for, Time::ZERO)
        };
        assert!(ends(MAX_NAP, MIN_NAP));
        assert!(!ends(LONGEST_NAP, 15 * MIN_NAP));
        assert!(ends(LONGEST_NAP, 17 * MIN_NAP));
    }

    #[test]
    fn an_application_that_falls_silent_at_once_loses_its_turn() {
        assert!(!Naps::new(Time::ZERO, MAX_NAP).another(Time::ZERO + MIN_NAP, Time::ZERO));
    }

    /// Polls for the completion of a long message, then spins on memory.
    #[test]
    fn the_end_of_a_turn_of_milliseconds_is_noticed_soon() {
        for silent_from in (500..6_000).step_by(7).map(Duration::from_micros) {
            let mut naps = Naps::new(Time::ZERO, MAX_NAP);
            let mut now = Time::ZERO + naps.length;
            let stops = Time::ZERO + silent_from;
            while naps.another(now, now.min(stops)) {
                now += naps.length;
            }
            let lost = now - stops;
            assert!(
                lost <= (silent_from / 8).max(MIN_NAP + 2 * MIN_NAP / 4),
                "{silent_from:?}: {lost:?}"
            );
        }
    }
}
