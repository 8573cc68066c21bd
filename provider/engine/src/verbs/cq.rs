//! Completion queues: a bounded queue, its notification state, and the polling entry that drives the engine.

mod life;

use std::os::fd::RawFd;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering};
use std::sync::{Arc, Weak};

use ferroce_control::objects::Listing;
use ferroce_transport::{Duration, Time};

use crate::datapath::batch::{self, Notifies};
use crate::error::Result;
use crate::locks;
use crate::progress::timers::{self, Alarm, Alarmed};
use crate::verbs::arming::Arming;
use crate::verbs::context::{Context, Pd};
use crate::verbs::entries::{Entries, Entry, Lent};
use crate::verbs::events::EventPipe;
use crate::verbs::wc::{TagInfo, Wc};

/// `IBV_EVENT_CQ_ERR`
const EVENT_CQ_ERR: u32 = 0;

/// How events are held back (`ibv_modify_cq(3)`). Both zero, or either: not at all.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Moderation {
    /// Completions after which an event goes out at once.
    pub count: u16,
    /// Microseconds after the first of them at which it goes out in any case.
    pub period: u16,
}

/// How to create a completion queue.
#[derive(Default)]
pub struct CqInit {
    /// Completions that it holds, at least 1.
    pub cqe: u32,
    /// What events name the queue by.
    pub cookie: u64,
    /// Its completion channel.
    pub channel: Option<RawFd>,
    /// Completions carry the times at which they were raised.
    pub stamped: bool,
    /// A completion that finds the queue full replaces the oldest, instead of ending the queue.
    pub ignore_overrun: bool,
    /// The domain whose resources it uses; it stays while the queue does.
    pub pd: Option<Arc<Pd>>,
    /// Memory for `cqe` completions.
    pub memory: Option<Lent>,
}

struct Queue {
    entries: Entries,
    capacity: u32,
    arming: Arming,
    moderation: Moderation,
    /// Completions that the event being held back stands for.
    pending: u16,
    /// When it goes out.
    due: Time,
    /// Events that go out when the batch of packets that raised them has been handled.
    owed: u32,
    /// Completion events written to the channel.
    notified: u32,
    events: u32,
    overrun: bool,
}

/// A completion queue.
pub struct Cq {
    context: Arc<Context>,
    handle: u32,
    cookie: u64,
    channel: Option<Arc<EventPipe<8>>>,
    stamped: bool,
    ignore_overrun: bool,
    pd: Option<Arc<Pd>>,
    queue: locks::Mutex<Queue, { locks::QUEUE }>,
    /// Entries, readable without the lock.
    len: AtomicUsize,
    /// Whether the program has polled since the last event.
    polled: AtomicBool,
    users: AtomicU32,
    destroyed: AtomicBool,
    listing: Listing,
}

impl Notifies for Cq {
    fn deliver(&self) {
        let mut queue = self.queue.lock();
        for _ in 0..std::mem::take(&mut queue.owed) {
            self.send_event(&mut queue);
        }
    }
}

impl Alarmed for Cq {
    fn alarm(self: Arc<Self>, now: Time) {
        let mut queue = self.queue.lock();
        if queue.due <= now {
            self.notify(&mut queue);
        }
    }
}

impl Cq {
    /// A number that identifies the queue in this process.
    pub fn handle(&self) -> u32 {
        self.handle
    }

    /// Entries that it can hold.
    pub fn cqe(&self) -> u32 {
        self.queue.lock().capacity
    }

    /// Takes up to `wc.len()` completions, oldest first. On an empty queue the caller's thread runs the engine for a moment.
    #[inline]
    pub fn poll(&self, wc: &mut [Wc]) -> Result<usize> {
        if self.is_empty_still() {
            return Ok(0);
        }
        let mut queue = self.queue.lock();
        let n = wc.len().min(queue.entries.len());
        for (slot, entry) in wc[..n]
            .iter_mut()
            .zip(std::iter::from_fn(|| queue.entries.pop()))
        {
            *slot = entry.wc;
        }
        self.len.store(queue.entries.len(), Ordering::Release);
        drop(queue);
        if let Some(last) = wc[..n].last() {
            self.context.hca().completed(last);
        }
        Ok(n)
    }

    /// Like [`poll`](Self::poll), for one completion with its times.
    #[inline]
    pub fn poll_entry(&self) -> Option<Entry> {
        if self.is_empty_still() {
            return None;
        }
        let mut queue = self.queue.lock();
        let entry = queue.entries.pop();
        self.len.store(queue.entries.len(), Ordering::Release);
        drop(queue);
        if let Some(entry) = &entry {
            self.context.hca().completed(&entry.wc);
        }
        entry
    }

    /// Whether the queue is empty also after the engine had its chance.
    #[inline]
    fn is_empty_still(&self) -> bool {
        if !self.polled.load(Ordering::Relaxed) {
            self.polled.store(true, Ordering::Relaxed);
        }
        self.len.load(Ordering::Acquire) == 0 && {
            self.context.hca().poll_from_app();
            self.len.load(Ordering::Acquire) == 0
        }
    }

    /// Asks for one completion event: for the next completion, or (`solicited_only`) the next solicited or failed one.
    ///
    /// What a program calls the next one is the first that it has not seen: adapters are armed for the position after those that
    /// it has taken, and programs (Open MPI's `udcm`) poll first and ask then. So a completion that came between a poll and this
    /// call has its event at once. Before the first poll after an event there is none: that event stands for what is there.
    pub fn req_notify(self: &Arc<Self>, solicited_only: bool) -> Result<()> {
        {
            let mut queue = self.queue.lock();
            let held = queue.entries.len();
            if queue.arming.arm(solicited_only, held) && self.polled.load(Ordering::Relaxed) {
                self.raise(&mut queue);
            }
        }
        self.context.hca().app_will_sleep();
        Ok(())
    }

    /// Holds completion events back. One that is held back already goes out when the new rule says so.
    pub fn moderate(self: &Arc<Self>, moderation: Moderation) {
        let mut queue = self.queue.lock();
        queue.moderation = moderation;
        if queue.pending == 0 {
            return;
        }
        if queue.pending >= moderation.threshold() {
            self.notify(&mut queue);
        } else {
            self.hold_back(&mut queue);
        }
    }

    /// Adds a completion. `false`: the queue overran, and the queue pair must fail.
    pub(crate) fn push(self: &Arc<Self>, wc: Wc, solicited: bool) -> bool {
        self.push_tagged(wc, solicited, TagInfo::default())
    }

    /// The same, with what the header of a message with a tag said.
    pub(crate) fn push_tagged(self: &Arc<Self>, wc: Wc, solicited: bool, tag: TagInfo) -> bool {
        let mut queue = self.queue.lock();
        if queue.overrun || queue.entries.len() >= queue.capacity as usize {
            if self.ignore_overrun {
                queue.entries.pop();
            } else {
                if !std::mem::replace(&mut queue.overrun, true)
                    && self.context.events().raise(self.cookie, EVENT_CQ_ERR)
                {
                    queue.events += 1;
                }
                return false;
            }
        }
        // Under the lock, so that the times are in the order of the completions.
        let (clock, wall_clock) = if self.stamped {
            (timers::now().as_nanos(), timers::wall_clock())
        } else {
            (0, 0)
        };
        queue.entries.push(Entry {
            wc,
            clock,
            wall_clock,
            tag,
        });
        self.len.store(queue.entries.len(), Ordering::Release);
        if queue.arming.completed(solicited || wc.status != 0) {
            self.raise(&mut queue);
        }
        true
    }

    /// The event for which the queue is armed is due, if it need not be held back for more.
    fn raise(self: &Arc<Self>, queue: &mut Queue) {
        queue.pending += 1;
        if queue.pending >= queue.moderation.threshold() {
            self.notify(queue);
        } else if queue.pending == 1 {
            self.hold_back(queue);
        }
    }

    /// Sends the event for which the queue is armed, now or at the end of the batch that is being received.
    fn notify(self: &Arc<Self>, queue: &mut Queue) {
        queue.arming.disarm();
        self.polled.store(false, Ordering::Relaxed);
        queue.pending = 0;
        queue.due = Time::MAX;
        if !batch::is_under_way() {
            self.send_event(queue);
            return;
        }
        queue.owed += 1;
        if queue.owed == 1 {
            batch::add(self.clone());
        }
    }

    fn send_event(&self, queue: &mut Queue) {
        if let Some(channel) = &self.channel
            && channel.push(&self.cookie.to_ne_bytes())
        {
            queue.notified += 1;
        }
    }

    fn hold_back(self: &Arc<Self>, queue: &mut Queue) {
        queue.due = timers::now() + Duration::from_micros(queue.moderation.period.into());
        let alarm = Alarm {
            handle: self.handle,
            of: Arc::downgrade(self) as Weak<dyn Alarmed>,
        };
        self.context.hca().add_alarm(queue.due, alarm);
    }

    /// Drops the completions of a queue pair that was destroyed or reset, as its number may come back.
    pub(crate) fn purge(&self, qpn: u32) {
        let mut queue = self.queue.lock();
        queue.entries.retain(|wc| wc.qp_num != qpn);
        self.len.store(queue.entries.len(), Ordering::Release);
    }

    pub(crate) fn add_user(&self) {
        self.users.fetch_add(1, Ordering::Relaxed);
        self.listing.add_user();
    }

    /// The number by which others are told of it.
    pub(crate) fn listed_number(&self) -> u32 {
        self.listing.number()
    }

    pub(crate) fn remove_user(&self) {
        self.users.fetch_sub(1, Ordering::Relaxed);
        self.listing.remove_user();
    }

    pub(crate) fn context(&self) -> &Arc<Context> {
        &self.context
    }
}

impl Moderation {
    /// Completions that send an event at once.
    fn threshold(self) -> u16 {
        if self.period == 0 {
            1
        } else {
            self.count.max(1)
        }
    }
}
