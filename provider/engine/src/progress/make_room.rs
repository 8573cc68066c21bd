//! What a thread that polls in vain does for others who want its processor (see `crowd`).

use std::os::fd::AsRawFd;
use std::time::Duration;

use crate::hca::Hca;
use crate::progress::timers;

/// The longest sleep. The helper takes the turn to receive from a program that is silent for twice as long.
const NAP: Duration = Duration::from_micros(100);

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
