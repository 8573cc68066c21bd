//! Completion channels, and waiting for their events awake.
//!
//! A program that sleeps on a channel is woken by the helper, which has to be woken itself: two
//! switches for each message, and where all threads of both ends get onto one processor, four. So a
//! thread that is about to read a channel receives by itself for a moment first, if events follow
//! each other closely, as one that polls does.

use std::collections::HashMap;
use std::os::fd::RawFd;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, LazyLock, Weak};

use ferroce_transport::{Duration, Time};
use parking_lot::{Mutex, RwLock};

use crate::error::Result;
use crate::progress::linger::{Linger, Outcome};
use crate::progress::timers;
use crate::tuning::{AWAKE_PATIENCE, LOOK_AGAIN};
use crate::verbs::descriptor;
use crate::verbs::events::EventPipe;
use crate::verbs::made;

/// The channels of the process, by the descriptors that queues were made with. A descriptor may be
/// another file's by now: what is said of it here costs a thread that reads it a moment at most.
static BY_FD: LazyLock<RwLock<HashMap<RawFd, Weak<Channel>>>> = LazyLock::new(RwLock::default);

/// How long a new channel waits to be entered there.
const REGISTER: std::time::Duration = std::time::Duration::from_millis(10);

/// Who receives for the queues of a channel.
pub(crate) trait Receives: Send + Sync {
    /// Whether a thread may receive by itself while it waits for an event.
    fn may_wait_awake(&self) -> bool;
    /// A thread that may have waited awake before is about to sleep.
    fn will_sleep(&self);
    /// Receives until an event has come, but no longer than `patience`.
    fn wait_awake(&self, patience: Duration, has_come: &dyn Fn() -> bool) -> Outcome;
}

/// A completion channel, which queues share.
pub(crate) struct Channel {
    pipe: Arc<EventPipe<8>>,
    /// Events that were written, modulo 2^32.
    written: AtomicU32,
    /// None where its queues have several.
    receiver: Mutex<Option<Weak<dyn Receives>>>,
    /// A thread waits awake.
    has_waiter: AtomicBool,
    habit: Mutex<Habit>,
}

/// How close events follow each other, as a thread sees it that reads them.
#[derive(Default)]
struct Habit {
    linger: Linger,
    /// When the last one came, if that was seen.
    seen_at: Option<Time>,
}

impl Habit {
    /// Its thread is about to read. Returns how long to wait awake for an event, if at all.
    fn reads(&mut self, now: Time, has_event: bool) -> Option<Duration> {
        // One that was slept for came by now.
        let came = self.seen_at.take().unwrap_or(now);
        self.linger.received(came, now);
        if has_event {
            self.seen_at = Some(now);
            return None;
        }
        self.linger.worth(now).map(|_| AWAKE_PATIENCE)
    }

    fn waited(&mut self, now: Time, outcome: Outcome) {
        self.linger.ended(now, outcome);
        if outcome == Outcome::Paid {
            self.seen_at = Some(now);
        }
    }
}

impl Channel {
    fn new(fd: RawFd, inode: u64, receiver: Weak<dyn Receives>) -> Result<Arc<Channel>> {
        let pipe = match made::find(inode) {
            Some(pipe) => pipe,
            // Others have made it.
            None => Arc::new(EventPipe::attach(fd, LOOK_AGAIN)?),
        };
        let channel = Arc::new(Channel {
            pipe,
            written: AtomicU32::new(0),
            receiver: Mutex::new(Some(receiver)),
            has_waiter: AtomicBool::new(false),
            habit: Mutex::default(),
        });
        // In a forked child a thread that is no more may have it, for good. Then nobody waits
        // awake.
        if let Some(mut known) = BY_FD.try_write_for(REGISTER) {
            known.retain(|_, channel| channel.strong_count() != 0);
            known.insert(fd, Arc::downgrade(&channel));
        }
        Ok(channel)
    }

    /// Another queue, too, has it, for which that one receives.
    fn is_also(&self, receiver: &Weak<dyn Receives>) {
        let mut known = self.receiver.lock();
        *known = known.take().filter(|one| one.ptr_eq(receiver));
    }

    /// Queues one event (see [`EventPipe::push`]).
    pub(crate) fn push(&self, record: &[u8; 8]) -> bool {
        let comes = self.pipe.push(record);
        self.written.fetch_add(1, Ordering::Release);
        comes
    }

    /// The consumer has read one: see [`EventPipe::was_read`].
    pub(super) fn was_read(&self) {
        self.pipe.was_read();
    }

    /// Takes unread events back (see [`EventPipe::take_back`]).
    pub(crate) fn take_back(&self, written: u32, mine: impl Fn(&[u8; 8]) -> bool) -> u32 {
        self.pipe.take_back(written, mine)
    }
}

/// The completion channels of a context, each by its pipe's inode. All queues on a channel share
/// one way into it: while one takes its events back, another must neither miss its own nor write
/// between.
#[derive(Default)]
pub(crate) struct Channels(Mutex<Vec<(u64, Weak<Channel>)>>);

impl Channels {
    /// The channel behind `fd`, for a queue for which `receiver` receives.
    pub(crate) fn attach(&self, fd: RawFd, receiver: Weak<dyn Receives>) -> Result<Arc<Channel>> {
        let (_, inode) = descriptor::identify(fd, "looking at the event channel")?;
        let mut known = self.0.lock();
        known.retain(|(_, channel)| channel.strong_count() != 0);
        let found = known.iter().find(|(i, _)| *i == inode);
        if let Some(channel) = found.and_then(|(_, channel)| channel.upgrade()) {
            channel.is_also(&receiver);
            return Ok(channel);
        }
        let channel = Channel::new(fd, inode, receiver)?;
        known.push((inode, Arc::downgrade(&channel)));
        Ok(channel)
    }
}

/// A wait for an event of a completion channel that is worth being awake for.
pub struct AwakeWait {
    channel: Arc<Channel>,
    receiver: Arc<dyn Receives>,
    /// Events written before it was looked whether there is one.
    written: u32,
    patience: Duration,
}

impl AwakeWait {
    /// For a thread that is about to read the completion channel `fd`, if it should wait awake for
    /// an event first: there is none, the descriptor blocks, no other thread waits awake, and
    /// events follow each other closely enough.
    pub fn worth(fd: RawFd) -> Option<AwakeWait> {
        // In a forked child another thread of the parent's may have it, for good.
        let channel = BY_FD.try_read()?.get(&fd)?.upgrade()?;
        let receiver = channel.receiver.try_lock()?.as_ref()?.upgrade()?;
        if channel.has_waiter.swap(true, Ordering::Acquire) {
            return None;
        }

        let mut wait = AwakeWait {
            written: channel.written.load(Ordering::Acquire),
            channel,
            receiver,
            patience: Duration::ZERO,
        };
        let has_event = is_readable(fd);
        let patience = wait
            .channel
            .habit
            .try_lock()?
            .reads(timers::now(), has_event);
        if has_event {
            return None;
        }
        match patience {
            Some(patience) if wait.receiver.may_wait_awake() && blocks(fd) => {
                wait.patience = patience;
                Some(wait)
            }
            _ => {
                wait.receiver.will_sleep();
                None
            }
        }
    }

    /// Receives until there is an event, for a moment at most. Returns whether there is one.
    pub fn wait(self) -> bool {
        let channel = &self.channel;
        let has_come = || channel.written.load(Ordering::Acquire) != self.written;
        let outcome = self.receiver.wait_awake(self.patience, &has_come);
        channel.habit.lock().waited(timers::now(), outcome);
        has_come()
    }
}

impl Drop for AwakeWait {
    fn drop(&mut self) {
        self.channel.has_waiter.store(false, Ordering::Release);
    }
}

fn is_readable(fd: RawFd) -> bool {
    let mut asked = libc::pollfd {
        fd,
        events: libc::POLLIN,
        revents: 0,
    };
    // SAFETY: one descriptor to look at, without waiting.
    unsafe { libc::poll(&mut asked, 1, 0) != 0 }
}

/// Whether a read waits. A program that does not want that has other things to do.
fn blocks(fd: RawFd) -> bool {
    // SAFETY: no memory is touched.
    let flags = unsafe { libc::fcntl(fd, libc::F_GETFL) };
    flags >= 0 && flags & libc::O_NONBLOCK == 0
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsRawFd;

    use super::*;
    use crate::verbs::made::channel;

    /// Has an event come when it is waited for the so-manieth time.
    struct Device {
        waits: AtomicU32,
        event_at: u32,
        channel: Mutex<Weak<Channel>>,
        permits: AtomicBool,
        sleeps: AtomicU32,
    }

    impl Receives for Device {
        fn may_wait_awake(&self) -> bool {
            self.permits.load(Ordering::Relaxed)
        }

        fn will_sleep(&self) {
            self.sleeps.fetch_add(1, Ordering::Relaxed);
        }

        fn wait_awake(&self, _: Duration, has_come: &dyn Fn() -> bool) -> Outcome {
            let n = self.waits.fetch_add(1, Ordering::Relaxed) + 1;
            if n == self.event_at {
                self.channel.lock().upgrade().unwrap().push(&[1; 8]);
            }
            match has_come() {
                true => Outcome::Paid,
                false => Outcome::InVain,
            }
        }
    }

    fn device(event_at: u32) -> Arc<Device> {
        Arc::new(Device {
            waits: AtomicU32::new(0),
            event_at,
            channel: Mutex::new(Weak::new()),
            permits: AtomicBool::new(true),
            sleeps: AtomicU32::new(0),
        })
    }

    fn receiver(device: &Arc<Device>) -> Weak<dyn Receives> {
        Arc::downgrade(device) as Weak<dyn Receives>
    }

    /// Reads as programs do whose events are there when they look.
    fn events_follow_closely(channel: &Channel) {
        let mut habit = channel.habit.lock();
        for _ in 0..40 {
            habit.reads(timers::now(), true);
        }
    }

    #[test]
    fn one_way_into_a_channel_for_all_its_queues() {
        let (a, b) = (channel(), channel());
        let (channels, device) = (Channels::default(), device(0));
        let attach = |fd| channels.attach(fd, receiver(&device));
        let first = attach(a.as_raw_fd()).unwrap();
        let copy = a.try_clone().unwrap();
        assert!(Arc::ptr_eq(&first, &attach(copy.as_raw_fd()).unwrap()));
        assert!(!Arc::ptr_eq(&first, &attach(b.as_raw_fd()).unwrap()));
        assert!(attach(-1).is_err());
    }

    #[test]
    fn who_reads_waits_awake_where_events_follow_closely() {
        let fd = channel();
        let device = device(2);
        let channel = Channels::default();
        let channel = channel.attach(fd.as_raw_fd(), receiver(&device)).unwrap();
        *device.channel.lock() = Arc::downgrade(&channel);

        // Nothing is known yet.
        assert!(AwakeWait::worth(fd.as_raw_fd()).is_none());
        assert!(AwakeWait::worth(-1).is_none());
        let slept = |times| assert_eq!(device.sleeps.load(Ordering::Relaxed), times);
        slept(1);
        events_follow_closely(&channel);
        let wait = AwakeWait::worth(fd.as_raw_fd()).unwrap();
        // One thread at a time.
        assert!(AwakeWait::worth(fd.as_raw_fd()).is_none());
        assert!(!wait.wait());
        channel.habit.lock().seen_at = Some(timers::now());
        assert!(AwakeWait::worth(fd.as_raw_fd()).unwrap().wait());
        // The event is there.
        assert!(AwakeWait::worth(fd.as_raw_fd()).is_none());
        slept(1);
        assert_eq!(channel.take_back(1, |_| true), 1);
        assert!(AwakeWait::worth(fd.as_raw_fd()).is_some());

        device.permits.store(false, Ordering::Relaxed);
        assert!(AwakeWait::worth(fd.as_raw_fd()).is_none());
        slept(2);
        device.permits.store(true, Ordering::Relaxed);

        // SAFETY: a descriptor of ours.
        unsafe { libc::fcntl(fd.as_raw_fd(), libc::F_SETFL, libc::O_NONBLOCK) };
        assert!(AwakeWait::worth(fd.as_raw_fd()).is_none());
        slept(3);
    }

    #[test]
    fn a_channel_of_several_receivers_is_slept_for() {
        let fd = channel();
        let (one, other) = (device(0), device(0));
        let channels = Channels::default();
        let channel = channels.attach(fd.as_raw_fd(), receiver(&one)).unwrap();
        channels.attach(fd.as_raw_fd(), receiver(&one)).unwrap();
        events_follow_closely(&channel);
        assert!(AwakeWait::worth(fd.as_raw_fd()).is_some());
        channels.attach(fd.as_raw_fd(), receiver(&other)).unwrap();
        events_follow_closely(&channel);
        assert!(AwakeWait::worth(fd.as_raw_fd()).is_none());
    }

    #[test]
    fn events_far_apart_are_slept_for() {
        let mut habit = Habit::default();
        let mut now = Time::ZERO;
        for _ in 0..40 {
            now += Duration::from_micros(5);
            habit.reads(now, true);
        }
        assert!(habit.reads(now, false).is_some());
        for _ in 0..40 {
            now += Duration::from_millis(1);
            habit.reads(now, false);
        }
        assert_eq!(habit.reads(now + Duration::from_millis(1), false), None);
    }
}
