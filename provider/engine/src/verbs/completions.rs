//! Where completions go: a bounded queue, what its events are raised for, and how they are held
//! back.
//!
//! Queue pairs and shared receive queues put completions in; the program takes them out by its
//! [`Cq`](crate::verbs::cq::Cq), which is not known here.

use std::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering};
use std::sync::{Arc, Weak};

use ferroce_control::objects::{Listing, Object};
use ferroce_transport::{Duration, Time};

use crate::datapath::batch::{self, Notifies};
use crate::error::{Error, Result};
use crate::instrument::watch::Watch;
use crate::locks;
use crate::progress::timers::{self, Alarm, Alarmed, Alarms};
use crate::verbs::arming::Arming;
use crate::verbs::async_events::AsyncEvents;
use crate::verbs::channel::Channel;
use crate::verbs::entries::{Entries, Entry, Lent};
use crate::verbs::events::Delivered;
use crate::verbs::places::{Place, Places};
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

/// What a queue is from its beginning to its end.
pub(crate) struct Fixed {
    pub(crate) handle: u32,
    /// What events name the queue by.
    pub(crate) cookie: u64,
    pub(crate) channel: Option<Arc<Channel>>,
    /// Its context's.
    pub(crate) events: Arc<AsyncEvents>,
    /// Its context's, of completions.
    pub(crate) watch: Arc<Watch>,
    /// Where places in work queues are given back.
    pub(crate) places: Arc<Places>,
    /// Where it sets alarms, for events that are held back.
    pub(crate) alarms: Arc<dyn Alarms>,
    /// Completions carry the times at which they were raised.
    pub(crate) stamped: bool,
    /// A completion that finds the queue full replaces the oldest, instead of ending the queue.
    pub(crate) ignore_overrun: bool,
    pub(crate) listing: Listing,
}

/// The completions of a queue that the program has not taken.
pub(crate) struct Completions {
    of: Fixed,
    queue: locks::Mutex<Queue, { locks::QUEUE }>,
    /// Entries, readable without the lock.
    len: AtomicUsize,
    /// Whether the program has polled since the last event.
    polled: AtomicBool,
    users: AtomicU32,
}

impl Notifies for Completions {
    fn deliver(&self) {
        let mut queue = self.queue.lock();
        for _ in 0..std::mem::take(&mut queue.owed) {
            self.send_event(&mut queue);
        }
    }
}

impl Alarmed for Completions {
    fn alarm(self: Arc<Self>, now: Time) {
        let mut queue = self.queue.lock();
        if queue.due <= now {
            self.notify(&mut queue);
        }
    }
}

impl Completions {
    pub(crate) fn new(of: Fixed, capacity: u32, memory: Option<Lent>) -> Arc<Completions> {
        Arc::new(Completions {
            of,
            queue: locks::Mutex::new(Queue {
                entries: Entries::new(memory),
                capacity,
                arming: Arming::default(),
                moderation: Moderation::default(),
                pending: 0,
                due: Time::MAX,
                owed: 0,
                notified: 0,
                events: 0,
                overrun: false,
            }),
            len: AtomicUsize::new(0),
            polled: AtomicBool::new(false),
            users: AtomicU32::new(0),
        })
    }

    /// A number that identifies the queue in this process.
    pub(crate) fn handle(&self) -> u32 {
        self.of.handle
    }

    /// Entries that it can hold.
    pub(crate) fn capacity(&self) -> u32 {
        self.queue.lock().capacity
    }

    /// The program has looked at the queue.
    #[inline]
    pub(crate) fn polled(&self) {
        if !self.polled.load(Ordering::Relaxed) {
            self.polled.store(true, Ordering::Relaxed);
            self.of.listing.polled();
        }
    }

    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.len.load(Ordering::Acquire) == 0
    }

    /// Takes up to `wc.len()` completions, oldest first.
    #[inline]
    pub(crate) fn take(&self, wc: &mut [Wc]) -> usize {
        let mut queue = self.queue.lock();
        let n = wc.len().min(queue.entries.len());
        let entries = std::iter::from_fn(|| queue.entries.pop());
        let taken = wc[..n].iter_mut().zip(entries).map(|(slot, entry)| {
            *slot = entry.wc;
            entry.place
        });
        self.of.places.give_back(taken);
        self.holds(queue.entries.len());
        n
    }

    /// Takes one with its times.
    #[inline]
    pub(super) fn take_entry(&self) -> Option<Entry> {
        let mut queue = self.queue.lock();
        let entry = queue.entries.pop();
        self.of.places.give_back(entry.iter().map(|e| e.place));
        self.holds(queue.entries.len());
        entry
    }

    /// Says how many entries there are, to who does not hold the lock.
    #[inline]
    fn holds(&self, entries: usize) {
        self.len.store(entries, Ordering::Release);
        self.of.listing.held(entries);
    }

    /// Arms the queue for one completion event; one for a completion that came after the last poll
    /// goes out at once.
    pub(crate) fn arm(self: &Arc<Self>, solicited_only: bool) {
        let mut queue = self.queue.lock();
        let held = queue.entries.len();
        self.of.listing.armed(solicited_only);
        if queue.arming.arm(solicited_only, held) && self.polled.load(Ordering::Relaxed) {
            self.raise(&mut queue);
        }
    }

    /// Holds completion events back. One that is held back already goes out when the new rule says
    /// so.
    pub(super) fn moderate(self: &Arc<Self>, moderation: Moderation) {
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
        self.add(Entry::from(wc), solicited)
    }

    /// The same of a request that has a place in a work queue.
    #[inline]
    pub(crate) fn push_placed(self: &Arc<Self>, wc: Wc, solicited: bool, place: Place) -> bool {
        let entry = Entry { place, ..wc.into() };
        self.add(entry, solicited)
    }

    /// The same, with what the header of a message with a tag said.
    pub(crate) fn push_tagged(self: &Arc<Self>, wc: Wc, solicited: bool, tag: TagInfo) -> bool {
        let entry = Entry { tag, ..wc.into() };
        self.add(entry, solicited)
    }

    fn add(self: &Arc<Self>, mut entry: Entry, solicited: bool) -> bool {
        let wc = entry.wc;
        let mut queue = self.queue.lock();
        if queue.overrun || queue.entries.len() >= queue.capacity as usize {
            if self.of.ignore_overrun {
                queue.entries.pop();
            } else {
                self.of.listing.overrun();
                if !std::mem::replace(&mut queue.overrun, true) {
                    let comes = self.of.events.raise(self.of.cookie, EVENT_CQ_ERR);
                    queue.events += u32::from(comes);
                }
                return false;
            }
        }

        // Under the lock, so that the times are in the order of the completions.
        if self.of.stamped {
            entry.clock = timers::now().as_nanos();
            entry.wall_clock = timers::wall_clock();
        }
        queue.entries.push(entry);

        self.of.watch.made(self.of.cookie, &wc);
        self.holds(queue.entries.len());
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

    /// Sends the event for which the queue is armed, now or at the end of the batch that is being
    /// received.
    fn notify(self: &Arc<Self>, queue: &mut Queue) {
        queue.arming.disarm();
        self.polled.store(false, Ordering::Relaxed);
        queue.pending = 0;
        queue.due = Time::MAX;
        if self.of.channel.is_some() {
            let events = queue.notified + queue.owed + 1;
            let now = timers::now().as_nanos();
            self.of.listing.notified(events, now);
        }
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
        if let Some(channel) = &self.of.channel {
            let comes = channel.push(&self.of.cookie.to_ne_bytes());
            queue.notified += u32::from(comes);
        }
    }

    /// The consumer has read an event of the channel.
    pub(super) fn event_was_read(&self) {
        if let Some(channel) = &self.of.channel {
            channel.was_read();
        }
    }

    fn hold_back(self: &Arc<Self>, queue: &mut Queue) {
        queue.due = timers::now() + Duration::from_micros(queue.moderation.period.into());
        let alarm = Alarm {
            handle: self.of.handle,
            of: Arc::downgrade(self) as Weak<dyn Alarmed>,
        };
        self.of.alarms.add_alarm(queue.due, alarm);
    }

    /// Drops the completions of a queue pair that was destroyed or reset, as its number may come
    /// back.
    pub(super) fn purge(&self, qpn: u32) {
        let mut queue = self.queue.lock();
        queue.entries.retain(|wc| wc.qp_num != qpn);
        self.holds(queue.entries.len());
    }

    pub(super) fn add_user(&self) {
        self.users.fetch_add(1, Ordering::Relaxed);
        self.of.listing.add_user();
    }

    /// The number by which others are told of it.
    pub(super) fn listed_number(&self) -> u32 {
        self.of.listing.number()
    }

    pub(super) fn remove_user(&self) {
        self.users.fetch_sub(1, Ordering::Relaxed);
        self.of.listing.remove_user();
    }

    /// Whether a queue pair, or a shared receive queue, completes here.
    pub(super) fn is_used(&self) -> bool {
        self.users.load(Ordering::Relaxed) != 0
    }

    /// Changes the capacity; completions already there must fit. Those of a queue in lent memory
    /// move to what is lent now. It is told of as `listed` from now on.
    pub(super) fn resize(&self, capacity: u32, memory: Option<Lent>, listed: Object) -> Result<()> {
        let mut queue = self.queue.lock();
        if queue.entries.len() > capacity as usize {
            return Err(Error::Invalid(
                "more completions are queued than the new size holds",
            ));
        }
        queue.capacity = capacity;
        self.of.listing.set(listed);
        let lent = matches!(queue.entries, Entries::Lent { .. });
        let old = (lent || memory.is_some()).then(|| queue.entries.move_to(memory));
        // What the program does when it gets its memory back is its own affair.
        drop(queue);
        drop(old);
        Ok(())
    }

    /// Drops all completions, takes events back that are not read, and gives lent memory back,
    /// whoever still holds a reference.
    pub(crate) fn end(&self) -> Delivered {
        let mut queue = self.queue.lock();
        queue.entries.clear();
        queue.arming.disarm();
        queue.due = Time::MAX;
        queue.owed = 0;
        self.holds(0);
        let cookie = self.of.cookie;
        let channel = self.of.channel.as_ref();
        let mine = |record: &[u8; 8]| *record == cookie.to_ne_bytes();
        let unread = channel.map_or(0, |c| c.take_back(queue.notified, mine));
        let delivered = Delivered {
            comp: queue.notified - unread,
            events: self.of.events.take_back(cookie, queue.events),
        };

        let old = queue.entries.move_to(None);
        drop(queue);
        drop(old);
        delivered
    }

    /// Others are told no more of it.
    pub(super) fn unlist(&self) {
        self.of.listing.remove();
    }
}
