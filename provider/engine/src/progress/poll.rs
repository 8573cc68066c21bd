//! An application's thread that polls: it takes its turn to receive, and what is due.

use std::sync::atomic::Ordering;

use ferroce_transport::{AtomicTime, Time};

use crate::datapath::rx::RxState;
use crate::datapath::rx::state::{MAX_DATAGRAM, Take};
use crate::hca::Hca;
use crate::progress::timers;
use crate::tuning::{
    BACKLOG_POLLS, MAX_BACKLOG, POLLS_BEFORE_TURN, RING_ACTIVE, RUNS_PER_POLL, SOCKET_POLL_INTERVAL,
};

impl Hca {
    /// A thread of the application found its completion queue empty.
    pub(crate) fn poll_from_app(&self) {
        let driver = &self.driver;
        if self.send_what_waits() {
            return;
        }

        // These counts are approximate on purpose: two threads may lose one.
        let polls = driver.empty_polls.load(Ordering::Relaxed) + 1;
        driver.empty_polls.store(polls, Ordering::Relaxed);
        if polls.is_multiple_of(self.crowd.polls_before_offer()) {
            self.make_room();
        }

        if !driver.app_drives() {
            if polls >= POLLS_BEFORE_TURN && self.alive() {
                driver.turn.want();
            }
            return;
        }

        if !self.alive() {
            return;
        }

        let mut now = timers::now();
        driver.polled_at.store(now);
        let full = match polls {
            1 => driver.full_polls.load(Ordering::Relaxed),
            _ => 0,
        };
        let mut received = false;
        if let Some(mut rx) = self.rx.try_lock()
            && driver.app_drives()
            && self.receive_from_app(&mut rx, now, full >= BACKLOG_POLLS)
        {
            received = true;
            driver.empty_polls.store(0, Ordering::Relaxed);
            (driver.full_polls).store((full + 1).min(BACKLOG_POLLS), Ordering::Relaxed);
            now = self.answer(&mut rx);
        }
        if received {
            driver.arrivals.happened();
        }

        self.run_timers(now, received);
    }

    /// Takes what has come; returns whether anything had. Where there is a `backlog`, nobody waits
    /// for the first packet of it alone.
    fn receive_from_app(&self, rx: &mut RxState, now: Time, backlog: bool) -> bool {
        let driver = &self.driver;
        let most = RUNS_PER_POLL;
        let take = |long| match backlog {
            true => Take::Backlog { most, long },
            false => Take::Runs(long),
        };
        if self.drain_inbox(rx, take(most)) != 0 {
            driver.inbox_at.store(now);
            return true;
        }

        let since = |at: &AtomicTime| now - at.load();
        if since(&driver.inbox_at) < RING_ACTIVE && since(&driver.sockets_at) < SOCKET_POLL_INTERVAL
        {
            return false;
        }

        driver.sockets_at.store(now);

        // A socket that holds little must not be emptied before its senders hear of it.
        let runs = (self.info().rcvbuf as usize / 8 / MAX_DATAGRAM).clamp(1, RUNS_PER_POLL);
        let got = self.receive_from_ports(rx, take(runs)) != 0;
        if got {
            driver.inbox_at.store(Time::ZERO);
        }

        got
    }

    /// Handles what has come by now, for a thread of the application that is about to end something
    /// which that may concern: an adapter has no such backlog. Waits for the turn to receive, but
    /// no longer than [`MAX_BACKLOG`].
    pub(crate) fn handle_backlog(&self) {
        let driver = &self.driver;
        let until = timers::now() + MAX_BACKLOG;
        let polls = driver.app_drives();
        if !polls {
            driver.wake();
        }

        while self.alive() && timers::now() < until {
            driver.polled_at.store(timers::now());
            let Some(mut rx) = self.rx.try_lock().filter(|_| driver.app_drives()) else {
                driver.turn.want();
                std::thread::yield_now();
                continue;
            };
            let got = self.receive_a_round(&mut rx);
            self.answer(&mut rx);
            drop(rx);
            if got == 0 {
                break;
            }
            driver.arrivals.happened();
        }

        if !polls {
            self.app_will_sleep();
        }
    }

    /// The application asked for an event: it is about to sleep, so the helper takes over at once.
    pub(crate) fn app_will_sleep(&self) {
        self.send_what_waits();
        let driver = &self.driver;
        driver.empty_polls.store(0, Ordering::Relaxed);
        driver.hand_back();
    }
}
