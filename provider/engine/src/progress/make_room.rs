//! What a thread that polls in vain does for others who want its processor (see `crowd`), and one
//! that is about to spin on memory (see `answers`).

use std::os::fd::AsFd;

use ferroce_transport::{Duration, Time};
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use crate::hca::Hca;
use crate::progress::arrivals::Waiter;
use crate::progress::slices;
use crate::progress::timers;
use crate::tuning::{MAX_ANSWER_SLEEP, POLLER_SLEEP};
use crate::verbs::wc::Wc;

/// `IBV_WC_RECV`, which the opcodes of all receive completions have set.
const WC_RECV: u32 = 1 << 7;

impl Hca {
    /// A thread of the application has polled in vain for a while: what it waits for may need its
    /// processor.
    pub(crate) fn make_room(&self) {
        let before = timers::now();
        if self.crowd.is_there(before) && self.alive() {
            slices::shorten_for_now();
            return self.nap(POLLER_SLEEP, &self.driver.arrivals.expect());
        }
        std::thread::yield_now();
        self.crowd.offered(before, timers::now());
        if !self.crowd.is_suspected() {
            slices::restore();
        }
    }

    /// A thread of the application has taken completions, `last` at the end.
    #[inline]
    pub(crate) fn completed(&self, last: &Wc) {
        if self.crowd.is_suspected() {
            self.crowd.found();
            self.await_answer(last);
        }
    }

    /// Where strangers want the processor, or the peer is slow, waits for its answer if that has
    /// paid (see `answers`).
    #[cold]
    fn await_answer(&self, last: &Wc) {
        if last.opcode & WC_RECV != 0 || !self.alive() {
            return;
        }

        let found = self.qps.read().find(last.qp_num as u16).cloned();
        let Some(qp) = found.filter(|qp| qp.is_of(self)) else {
            return;
        };
        if qp.is_answered() != Some(false) {
            return;
        }
        let now = timers::now();
        let Some(patience) = self.answers.lock().worth(now) else {
            return;
        };

        let is_so = || qp.is_answered() != Some(false);
        let answered = match self.crowd.is_there(now) {
            true => self.sleep_until(now + patience, is_so),
            false => self.poll_until(now + patience, is_so),
        };
        let after = timers::now();
        self.answers.lock().waited(after, after - now, answered);
        if !answered {
            // The program goes on without a look at what comes.
            self.app_will_sleep();
        }
    }

    /// Receives, and offers the processor, until something is as it should be.
    pub(super) fn poll_until(&self, until: Time, is_so: impl Fn() -> bool) -> bool {
        while !is_so() {
            if timers::now() >= until {
                return false;
            }
            self.poll_from_app();
        }
        true
    }

    /// Sleeps and receives until something is as it should be, which is looked at under a lock
    /// under which packets are handled.
    fn sleep_until(&self, until: Time, is_so: impl Fn() -> bool) -> bool {
        loop {
            let waiter = self.driver.arrivals.expect();
            if is_so() {
                return true;
            }

            let now = timers::now();
            if now >= until {
                return false;
            }

            // Deadlines are the sleeper's while it has the turn. Where the helper takes that from
            // another thread of the program meanwhile, it may take the wake-up, too.
            let at = until
                .min(self.next_timer().max(now + Duration::from_nanos(1)))
                .min(now + MAX_ANSWER_SLEEP);
            self.nap(at - now, &waiter);
            // Who receives wakes those who wait, and need not wake himself.
            drop(waiter);
            if self.driver.app_drives() {
                self.poll_from_app();
            }
        }
    }

    /// Sleeps for a moment, until something comes.
    fn nap(&self, most: Duration, waiter: &Waiter<'_>) {
        let driver = &self.driver;
        driver.polls_until(timers::now() + most);
        {
            // With the lock the helper cannot take the turn; once it has, the inbox's sleep is its
            // own. Whoever else has the lock receives, and may have lost the processor over it; a
            // thread of the program may go then, with nobody left to receive.
            let Some(rx) = self.rx.try_lock() else {
                waiter.wait(most.min(POLLER_SLEEP));
                return;
            };
            if !driver.app_drives() {
                drop(rx);
                waiter.wait(most);
                return;
            }
            if !self.inbox.falling_asleep() {
                return self.inbox.awake();
            }
        }

        let woken = self.sleep_until_something_comes(most);
        driver.polls_until(timers::now());

        // What is left undone here costs a wake-up too many, no more.
        if let Some(_rx) = self.rx.try_lock()
            && driver.app_drives()
        {
            self.inbox.awake();
            if woken {
                driver.clear_for_now();
            }
        }
    }

    /// Returns whether it was somebody who wakes us by the event.
    fn sleep_until_something_comes(&self, most: Duration) -> bool {
        let receivers = self.receivers.read().clone();
        let mut fds: Vec<_> = std::iter::once(self.driver.event())
            .chain(receivers.iter().map(|receiver| receiver.socket.as_fd()))
            .map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN))
            .collect();

        // Where it fails, as by a signal, the sleep has ended. Not by libc: see `port::calls`.
        let _ = poll(&mut fds, Timespec::try_from(most).ok().as_ref());

        !fds[0].revents().is_empty()
    }
}
