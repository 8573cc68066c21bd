//! The helper thread: receives, answers and keeps the timers while no thread of the application
//! does.
//!
//! It blocks every signal, so that the application's handlers run where they are expected; SIGSEGV
//! and SIGBUS are unblocked as in all threads that touch registered memory (see `fault_mask`).

use std::cell::Cell;
use std::os::fd::AsRawFd;
use std::sync::Arc;
use std::sync::mpsc;

use ferroce_control::threads;
use ferroce_transport::{Duration, Time};

use crate::datapath::rx::state::Take;
use crate::error::{Error, Result};
use crate::hca::Hca;
use crate::memory::guard;
use crate::progress::linger::{Linger, Outcome};
use crate::progress::round::{Round, timespec_until};
use crate::progress::slices;
use crate::progress::timers;
use crate::progress::uring::Uring;
use crate::tuning::{DATAGRAMS_PER_ROUND, MAX_AWAKE, MAX_YIELD, RING_IDLE, TIMER_SLACK};

/// The thread's stack, in bytes.
const STACK: usize = 256 << 10;

/// Starts the thread, and waits until it has what it needs. Programs that patch the C library's
/// `munmap` and its like once they have a device (Open MPI's `memory/patcher`) do so while no
/// thread of their own is in them; from here on ours is not either.
pub(crate) fn start(hca: &Arc<Hca>) -> Result<()> {
    let hca = hca.clone();
    let (begun, has_begun) = mpsc::channel();
    let takes: &[libc::c_int] = match guard::EFFECTIVE {
        true => &[],
        // A fault ends the process there, by the program's handler if it has one.
        false => &[libc::SIGSEGV, libc::SIGBUS],
    };
    threads::spawn("ferroce", STACK, takes, move || run(&hca, begun))
        .map_err(|e| Error::io("starting the helper thread", e))?;

    // Nothing is sent: the thread closes the channel when it has begun, or when it ends.
    let _ = has_begun.recv();
    Ok(())
}

fn run(hca: &Hca, begun: mpsc::Sender<()>) {
    guard::admit_thread();

    // Timers of microseconds are no use with the default slack of 50 µs.
    // SAFETY: affects the calling thread only.
    unsafe {
        libc::prctl(
            libc::PR_SET_TIMERSLACK,
            TIMER_SLACK.as_nanos() as libc::c_ulong,
        )
    };

    slices::shorten_for_good();
    let mut uring = match under_valgrind() {
        true => None,
        false => Uring::new().inspect_err(|why| refused(why)).ok(),
    };

    let mut waits = Linger::default();
    let rings = Rings::default();
    drop(begun);

    // Without a daemon there is nothing to receive; the io_uring goes, and with it its hold on the
    // sockets.
    while !hca.is_gone() {
        hca.driver.stand_by(
            |take| {
                let _rx = hca.rx.lock();
                take();
            },
            || {
                hca.control_events();
                rings.look(hca, timers::now());
            },
        );

        let now = timers::now();
        let settled = match hca.counts_received() {
            true => hca.settle_receivers(now),
            false => Time::MAX,
        };

        let unused = rings.look(hca, now);
        let until = hca
            .driver
            .falling_asleep(|| match hca.inbox.falling_asleep() {
                true => hca.next_timer().min(settled).min(unused),
                false => Time::ZERO,
            });

        let round = match &mut uring {
            Some(uring) => uring.round(hca, until),
            None => poll_round(hca, until),
        };

        hca.driver.awake();
        hca.inbox.awake();
        let round = match round {
            Ok(mut round) => {
                round.handled += empty_inbox(hca);
                round
            }
            Err(why) => {
                let Some(uring) = uring.take() else {
                    // poll(2) itself fails: there is no way to go on, and peers will see the
                    // timeouts.
                    tracing::error!("the helper thread ends: {why}");
                    return;
                };
                uring.end();
                // If the program has closed all descriptors, the device is gone.
                hca.control_events();
                if !hca.is_gone() {
                    fallback(&why.to_string());
                }
                continue;
            }
        };

        hca.queued_events();
        let now = timers::now();
        hca.run_timers(now, round.handled != 0);
        if round.handled == 0 {
            continue;
        }

        hca.driver.arrivals.happened();
        waits.received(round.woken, now);
        if let Some(patience) = waits.worth(now) {
            let outcome = linger(hca, patience, &mut waits);
            waits.ended(timers::now(), outcome);
        }
    }
    uring.into_iter().for_each(Uring::end);
}

/// When rings are looked at for memory that can be given back.
#[derive(Default)]
struct Rings {
    next: Cell<Time>,
}

impl Rings {
    /// Looks if it is time to. Returns when it is the next time; `Time::MAX` if there is nothing to
    /// give back.
    fn look(&self, hca: &Hca, now: Time) -> Time {
        if now >= self.next.get() {
            self.next.set(now + RING_IDLE);
            hca.rings.give_back();
        }
        match hca.rings.hold() {
            true => self.next.get(),
            false => Time::MAX,
        }
    }
}

/// Takes what is in the inbox, up to a point; returns how many runs there were.
fn empty_inbox(hca: &Hca) -> usize {
    if !hca.inbox.is_marked() {
        return 0;
    }
    let mut rx = hca.rx.lock();
    let got = hca.drain_inbox(&mut rx, Take::AtMost(DATAGRAMS_PER_ROUND));
    hca.answer(&mut rx);
    got
}

/// Goes on receiving for a moment instead of sleeping: waking up costs more than the packets that
/// come meanwhile. Offers the processor to others at every turn.
fn linger(hca: &Hca, patience: Duration, waits: &mut Linger) -> Outcome {
    let start = timers::now();
    let mut since = start;
    let mut outcome = Outcome::InVain;
    loop {
        let now = timers::now();
        if hca.driver.wanted() {
            return Outcome::Cut;
        }
        if now >= (since + patience).min(start + MAX_AWAKE) {
            return outcome;
        }

        let mut rx = hca.rx.lock();
        let got = hca.receive_a_round(&mut rx);
        if got != 0 {
            hca.answer(&mut rx);
            hca.driver.arrivals.happened();
            outcome = Outcome::Paid;
            since = timers::now();
            waits.received(now, since);
        }

        drop(rx);
        hca.run_timers(now, got != 0);
        if got == 0 {
            let before = timers::now();
            std::thread::yield_now();
            // Whoever got the processor keeps it for his whole turn if he spins. From a sleep, what
            // comes wakes us at once.
            if timers::now() - before > MAX_YIELD {
                return Outcome::Crowded;
            }
        }
    }
}

/// io_uring cannot be used here, as in a container with the usual seccomp profile: nothing is
/// wrong, and `ferroce doctor` tells who wants to know.
fn refused(why: &str) {
    tracing::info!("receiving with poll(2), as io_uring cannot be used: {why}");
}

/// Says that io_uring, which has worked, does so no longer.
fn fallback(why: &str) {
    eprintln!("ferroce: receiving with poll(2), as io_uring fails: {why}");
}

/// Valgrind runs one thread at a time, and none while another waits in a ring. It preloads parts of
/// its own.
fn under_valgrind() -> bool {
    std::env::var_os("LD_PRELOAD").is_some_and(|list| list.to_string_lossy().contains("vgpreload_"))
}

/// Sleeps in poll(2) until something comes or `until`, then receives.
fn poll_round(hca: &Hca, until: Time) -> std::io::Result<Round> {
    let receivers: Vec<_> = hca.receivers.read().clone();
    let wanted = // poll(2) passes negative descriptors over
    [hca.driver.event().as_raw_fd(), hca.control_fd().unwrap_or(-1)]
        .into_iter()
        .chain(receivers.iter().map(|r| r.socket.as_raw_fd()));

    let mut fds: Vec<_> = wanted
        .map(|fd| libc::pollfd {
            fd,
            events: libc::POLLIN,
            revents: 0,
        })
        .collect();

    let timeout = timespec_until(until);

    // SAFETY: `fds` and `timeout` outlive the call.
    let n = unsafe {
        libc::ppoll(
            fds.as_mut_ptr(),
            fds.len() as libc::nfds_t,
            timeout.as_ref().map_or(std::ptr::null(), |t| t),
            std::ptr::null(),
        )
    };

    hca.driver.awake();
    let woken = timers::now();
    let mut handled = 0;
    if n < 0 {
        let e = std::io::Error::last_os_error();
        return if e.raw_os_error() == Some(libc::EINTR) {
            Ok(Round { woken, handled })
        } else {
            Err(e)
        };
    }

    if fds[0].revents != 0 {
        hca.driver.clear_wake();
    }
    if fds[1].revents != 0 {
        hca.control_events();
    }

    let mut rx = hca.rx.lock();
    for (receiver, fd) in receivers.iter().zip(&fds[2..]) {
        if fd.revents != 0 {
            handled += hca.drain(&mut rx, receiver, Take::AtMost(DATAGRAMS_PER_ROUND));
        }
    }

    hca.answer(&mut rx);
    Ok(Round { woken, handled })
}
