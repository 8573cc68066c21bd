//! What a thread that polls in vain does for others who want its processor.
//!
//! While processors are free it offers its own by `sched_yield`, which costs nothing then and lets a peer or a helper on the same
//! processor answer. Where strangers keep the processors busy, each of them would take a turn of milliseconds first, while whoever
//! sleeps until something comes is preferred when it does. So there the thread sleeps, for a moment.

use std::os::fd::AsRawFd;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use ferroce_transport::Time;

use crate::hca::Hca;
use crate::timers;

/// An offer that took so long went to somebody who has much to do.
pub(crate) const LONG_YIELD: Time = 200_000;
/// After it none is made for so long, at first and at most: it doubles with every further one that takes long.
const BREAK: Time = 10_000_000;
const LONGEST_BREAK: Time = 320_000_000;
/// The longest sleep. The helper takes the turn to receive from a program that is silent for twice as long.
const NAP: Duration = Duration::from_micros(100);

/// Whether others want the processors, as the last offers showed.
#[derive(Default)]
pub(crate) struct Crowd {
    /// Until when they are taken to.
    until: AtomicU64,
    /// For how long the last offer had that.
    pause: AtomicU64,
}

impl Crowd {
    /// Whether an offer would take long.
    fn is_there(&self, now: Time) -> bool {
        now < self.until.load(Ordering::Relaxed)
    }

    /// An offer was made and has ended. Of two threads that say so at once one may be lost, which does no harm.
    fn offered(&self, before: Time, after: Time) {
        if after.saturating_sub(before) <= LONG_YIELD {
            self.pause.store(0, Ordering::Relaxed);
            return;
        }
        let pause = (2 * self.pause.load(Ordering::Relaxed)).clamp(BREAK, LONGEST_BREAK);
        self.pause.store(pause, Ordering::Relaxed);
        self.until.store(after + pause, Ordering::Relaxed);
    }
}

impl Hca {
    /// A thread of the application has polled in vain for a while: what it waits for may need its processor.
    pub(crate) fn make_room(&self) {
        let before = timers::now();
        if self.crowd.is_there(before) && self.alive() {
            return self.nap();
        }
        std::thread::yield_now();
        self.crowd.offered(before, timers::now());
    }

    /// Sleeps for a moment, and while the application receives only until something comes.
    fn nap(&self) {
        let driver = &self.driver;
        driver.still_polls();
        {
            // With the lock the helper cannot take the turn; once it has, the inbox's sleep is its own. Whoever else has it receives.
            let Some(rx) = self.rx.try_lock() else {
                return;
            };
            if !driver.app_drives() {
                drop(rx);
                return std::thread::sleep(NAP);
            }
            if !self.inbox.falling_asleep() {
                return self.inbox.awake();
            }
        }
        let woken = self.sleep_until_something_comes();
        // What is left undone here costs a wake-up too many, no more.
        if let Some(_rx) = self.rx.try_lock()
            && driver.app_drives()
        {
            self.inbox.awake();
            if woken {
                driver.clear_for_now();
            }
            driver.still_polls();
        }
    }

    /// Returns whether it was somebody who wakes us by the event.
    fn sleep_until_something_comes(&self) -> bool {
        let receivers = self.receivers.read_recursive().clone();
        let mut fds: Vec<_> = std::iter::once(self.driver.event_fd())
            .chain(receivers.iter().map(|receiver| receiver.socket.as_raw_fd()))
            .map(|fd| libc::pollfd {
                fd,
                events: libc::POLLIN,
                revents: 0,
            })
            .collect();
        let timeout = libc::timespec {
            tv_sec: 0,
            tv_nsec: NAP.as_nanos() as libc::c_long,
        };
        // SAFETY: `fds` and `timeout` outlive the call, and `receivers` keeps the sockets open. Where it fails, as by a signal, the
        // sleep has ended.
        unsafe {
            libc::ppoll(
                fds.as_mut_ptr(),
                fds.len() as libc::nfds_t,
                &raw const timeout,
                std::ptr::null(),
            )
        };
        fds[0].revents != 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_has_the_processors_to_himself_goes_on_offering() {
        let crowd = Crowd::default();
        for now in (0..1_000_000).step_by(1_000) {
            assert!(!crowd.is_there(now));
            crowd.offered(now, now + LONG_YIELD);
        }
    }

    #[test]
    fn among_others_offers_become_rare_and_one_short_one_ends_that() {
        let crowd = Crowd::default();
        let (mut now, mut offers) = (0, 0);
        while now < 10_000_000_000 {
            if !crowd.is_there(now) {
                offers += 1;
                crowd.offered(now, now + 10_000_000);
            }
            now += 1_000_000;
        }
        // Of ten seconds, less than one in twenty.
        assert!((10..50).contains(&offers), "{offers}");

        now += LONGEST_BREAK;
        crowd.offered(now, now + 1_000);
        crowd.offered(now, now + 2 * LONG_YIELD);
        assert!(crowd.is_there(now + BREAK));
        assert!(!crowd.is_there(now + 2 * LONG_YIELD + BREAK));
    }
}
