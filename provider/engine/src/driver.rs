//! Whose turn it is to receive: the application's threads while they poll, else the helper.
//!
//! While the application polls an empty completion queue again and again, its thread reads the sockets itself: no thread is
//! woken, and latency is that of the system calls. The helper then stands by, looking every now and then whether the
//! application still polls. When it does not, or says that it will sleep, the helper reads the sockets, asleep in between.
//!
//! Datagrams must be handled in the order in which they came, and the helper's ring may have taken one off the socket that
//! it has not handled yet. So the helper alone gives the turn away and takes it back: it gives it when its ring holds
//! nothing, and takes it under the receive lock, under which the application looks whether it still has the turn.

use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::time::Duration;

use ferroce_transport::Time;

use crate::error::{Error, Result};
use crate::hca::Hca;
use crate::rx::{MAX_DATAGRAM, Take};
use crate::timers;

/// The helper receives.
const HELPER: u32 = 0;
/// The helper receives, and is to give the turn away when it has handled what it has.
const WANTED: u32 = 1;
/// The application receives; the helper stands by.
const APP: u32 = 2;
/// The application receives no more; the helper is to take the turn.
const RETURNED: u32 = 3;

/// Empty polls in a row after which the application is taken to be polling in earnest. A program that sleeps on a
/// completion channel polls an empty queue once or twice a time.
const EARNEST: u32 = 16;
/// Empty polls in a row after which the processor is offered to others: some tens of microseconds.
const FRUITLESS: u32 = 64;
/// Runs of packets that a polling application takes before it answers.
const BULK: usize = 4;
/// How long a silent application keeps its turn.
const PATIENCE: Duration = Duration::from_micros(200);

/// Naps of [`PATIENCE`] between two looks at what the daemon says.
const NAPS_PER_CHORE: u32 = 500;

pub(crate) struct Driver {
    /// Whose turn it is; the helper waits on it as a futex.
    turn: AtomicU32,
    empty_polls: AtomicU32,
    /// Moves whenever the application drives.
    epoch: AtomicU32,
    /// Until when the helper sleeps; 0 while it is awake or stands by.
    asleep_until: AtomicU64,
    event: OwnedFd,
}

impl Driver {
    pub(crate) fn new() -> Result<Driver> {
        // SAFETY: no preconditions.
        let fd = unsafe { libc::eventfd(0, libc::EFD_CLOEXEC | libc::EFD_NONBLOCK) };
        if fd < 0 {
            return Err(Error::last_os("creating an eventfd"));
        }
        Ok(Driver {
            turn: AtomicU32::new(HELPER),
            empty_polls: AtomicU32::new(0),
            epoch: AtomicU32::new(0),
            asleep_until: AtomicU64::new(0),
            // SAFETY: the descriptor was just created and is nobody else's.
            event: unsafe { OwnedFd::from_raw_fd(fd) },
        })
    }

    /// Readable when the helper is to look around.
    pub(crate) fn event_fd(&self) -> RawFd {
        self.event.as_raw_fd()
    }

    /// Wakes the helper from its sleep in the kernel.
    pub(crate) fn wake(&self) {
        let one = 1u64;
        // SAFETY: writes 8 bytes of `one`. A full counter means that it is awake anyway.
        unsafe { libc::write(self.event.as_raw_fd(), (&raw const one).cast(), 8) };
    }

    pub(crate) fn clear_wake(&self) {
        let mut n = 0u64;
        // SAFETY: reads 8 bytes into `n`; an empty eventfd says EAGAIN.
        unsafe { libc::read(self.event.as_raw_fd(), (&raw mut n).cast(), 8) };
    }

    /// Wakes the helper if it sleeps beyond `at`.
    pub(crate) fn wake_for(&self, at: Time) {
        if at < self.asleep_until.load(Ordering::SeqCst) {
            self.wake();
        }
    }

    /// Announces a sleep, then returns until when it may last.
    pub(crate) fn falling_asleep(&self, next: impl Fn() -> Time) -> Time {
        // First "for ever", then look: a timer added in between sees it and wakes us.
        self.asleep_until.store(Time::MAX, Ordering::SeqCst);
        let until = next();
        self.asleep_until.store(until, Ordering::SeqCst);
        until
    }

    pub(crate) fn awake(&self) {
        self.asleep_until.store(0, Ordering::SeqCst);
    }

    /// For the helper, with nothing received that is not handled: gives the turn away if it is wanted, and then returns
    /// when it is the helper's again. `taking_back` holds the receive lock while it runs what it is given; `chores` is
    /// called about ten times a second.
    pub(crate) fn stand_by(&self, taking_back: impl Fn(&dyn Fn()), chores: impl Fn()) {
        if self
            .turn
            .compare_exchange(WANTED, APP, Ordering::AcqRel, Ordering::Relaxed)
            .is_err()
        {
            return;
        }
        let patience = libc::timespec {
            tv_sec: 0,
            tv_nsec: PATIENCE.as_nanos() as i64,
        };
        let mut naps = 0u32;
        loop {
            let epoch = self.epoch.load(Ordering::Relaxed);
            naps += 1;
            if naps.is_multiple_of(NAPS_PER_CHORE) {
                chores();
            }
            // SAFETY: the futex word and the timeout outlive the call.
            unsafe {
                libc::syscall(
                    libc::SYS_futex,
                    self.turn.as_ptr(),
                    libc::FUTEX_WAIT | libc::FUTEX_PRIVATE_FLAG,
                    APP,
                    &raw const patience,
                )
            };
            let silent = self.epoch.load(Ordering::Relaxed) == epoch;
            if silent || self.turn.load(Ordering::Acquire) == RETURNED {
                break;
            }
        }
        taking_back(&|| {
            self.empty_polls.store(0, Ordering::Relaxed);
            self.turn.store(HELPER, Ordering::Release);
        });
    }

    /// Whether the application waits for the turn.
    pub(crate) fn wanted(&self) -> bool {
        self.turn.load(Ordering::Relaxed) == WANTED
    }

    /// Whether the application has the turn; for its threads to ask under the receive lock.
    fn app_drives(&self) -> bool {
        self.turn.load(Ordering::Acquire) == APP
    }
}

impl Hca {
    /// A thread of the application found its completion queue empty.
    pub(crate) fn poll_from_app(&self) {
        let driver = &self.driver;
        // These counts are approximate on purpose: two threads may lose one.
        let polls = driver.empty_polls.load(Ordering::Relaxed) + 1;
        driver.empty_polls.store(polls, Ordering::Relaxed);
        if polls.is_multiple_of(FRUITLESS) {
            // With fewer processors than busy threads, what we wait for needs ours.
            std::thread::yield_now();
        }
        if !driver.app_drives() {
            if polls >= EARNEST && self.alive() {
                let _ = driver.turn.compare_exchange(
                    HELPER,
                    WANTED,
                    Ordering::AcqRel,
                    Ordering::Relaxed,
                );
            }
            return;
        }
        if !self.alive() {
            return;
        }
        driver.epoch.store(
            driver.epoch.load(Ordering::Relaxed).wrapping_add(1),
            Ordering::Relaxed,
        );
        if let Some(mut rx) = self.rx.try_lock()
            && driver.app_drives()
        {
            // A socket that holds little must not be emptied before its senders hear of it.
            let runs = (self.info().rcvbuf as usize / 8 / MAX_DATAGRAM).clamp(1, BULK);
            let got = self.drain_all(&mut rx, Take::Runs(runs));
            if got != 0 {
                driver.empty_polls.store(0, Ordering::Relaxed);
                self.answer(&mut rx);
            }
        }
        self.run_timers(timers::now());
    }

    /// The application asked for an event: it is about to sleep, so the helper takes over at once.
    pub(crate) fn app_will_sleep(&self) {
        let driver = &self.driver;
        driver.empty_polls.store(0, Ordering::Relaxed);
        let _ = driver
            .turn
            .compare_exchange(WANTED, HELPER, Ordering::AcqRel, Ordering::Relaxed);
        let returned =
            driver
                .turn
                .compare_exchange(APP, RETURNED, Ordering::AcqRel, Ordering::Relaxed);
        if returned.is_ok() {
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
