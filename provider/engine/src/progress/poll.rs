//! An application's thread that polls: it takes its turn to receive, and what is due.

use std::sync::atomic::{AtomicU64, Ordering};

use ferroce_transport::Time;

use crate::datapath::rx::RxState;
use crate::datapath::rx::state::{MAX_DATAGRAM, Take};
use crate::hca::Hca;
use crate::progress::timers;

/// Empty polls in a row after which the application is taken to be polling in earnest. A program that sleeps on a
/// completion channel polls an empty queue once or twice a time.
const EARNEST: u32 = 16;
/// Empty polls in a row after which the processor is offered to others: some tens of microseconds.
const FRUITLESS: u32 = 64;
/// Runs of packets that a polling application takes before it answers.
const BULK: usize = 4;
/// So long after something came through memory the sockets, each of which costs a system call, are looked at less often, ...
const NEAR: Time = 50_000;
/// ... this far apart.
const SELDOM: Time = 10_000;

impl Hca {
    /// A thread of the application found its completion queue empty.
    pub(crate) fn poll_from_app(&self) {
        let driver = &self.driver;
        // These counts are approximate on purpose: two threads may lose one.
        let polls = driver.empty_polls.load(Ordering::Relaxed) + 1;
        driver.empty_polls.store(polls, Ordering::Relaxed);
        if polls.is_multiple_of(FRUITLESS) {
            self.make_room();
        }
        if !driver.app_drives() {
            if polls >= EARNEST && self.alive() {
                driver.turn.want();
            }
            return;
        }
        if !self.alive() {
            return;
        }
        let mut now = timers::now();
        driver.polled_at.store(now, Ordering::Relaxed);
        let mut received = false;
        if let Some(mut rx) = self.rx.try_lock()
            && driver.app_drives()
            && self.receive_from_app(&mut rx, now)
        {
            received = true;
            driver.empty_polls.store(0, Ordering::Relaxed);
            now = self.answer(&mut rx);
        }
        self.run_timers(now, received);
    }

    /// Takes what has come; returns whether anything had.
    fn receive_from_app(&self, rx: &mut RxState, now: Time) -> bool {
        let driver = &self.driver;
        if self.drain_inbox(rx, Take::Runs(BULK)) != 0 {
            driver.inbox_at.store(now, Ordering::Relaxed);
            return true;
        }
        let since = |at: &AtomicU64| now.saturating_sub(at.load(Ordering::Relaxed));
        if since(&driver.inbox_at) < NEAR && since(&driver.sockets_at) < SELDOM {
            return false;
        }
        driver.sockets_at.store(now, Ordering::Relaxed);
        // A socket that holds little must not be emptied before its senders hear of it.
        let runs = (self.info().rcvbuf as usize / 8 / MAX_DATAGRAM).clamp(1, BULK);
        let got = self.drain_all(rx, Take::Runs(runs)) != 0;
        if got {
            driver.inbox_at.store(0, Ordering::Relaxed);
        }
        got
    }

    /// The application asked for an event: it is about to sleep, so the helper takes over at once.
    pub(crate) fn app_will_sleep(&self) {
        let driver = &self.driver;
        driver.empty_polls.store(0, Ordering::Relaxed);
        if driver.has_helper && driver.turn.hand_back() {
            // SAFETY: the futex word is ours.
            unsafe {
                libc::syscall(
                    libc::SYS_futex,
                    driver.turn.as_ptr(),
                    libc::FUTEX_WAKE | libc::FUTEX_PRIVATE_FLAG,
                    1,
                )
            };
        }
    }
}
