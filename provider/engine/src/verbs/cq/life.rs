//! Making completion queues, other sizes, and their end.

use std::os::fd::RawFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering};

use ferroce_control::objects::Object;
use ferroce_transport::Time;

use super::{Cq, CqInit, Moderation, Queue};
use crate::error::{Error, Result};
use crate::locks;
use crate::verbs::arming::Arming;
use crate::verbs::context::Context;
use crate::verbs::entries::{Entries, Lent};
use crate::verbs::events::Delivered;
use crate::verbs::limits;

impl Context {
    /// Creates a completion queue of at least `cqe` entries. `cookie` is what events name it by; `channel` a completion channel.
    pub fn create_cq(
        self: &Arc<Self>,
        cqe: u32,
        cookie: u64,
        channel: Option<RawFd>,
    ) -> Result<Arc<Cq>> {
        self.create_cq_with(CqInit {
            cqe,
            cookie,
            channel,
            ..CqInit::default()
        })
    }

    /// Creates a completion queue with everything that can be said of one.
    pub fn create_cq_with(self: &Arc<Self>, init: CqInit) -> Result<Arc<Cq>> {
        Cq::new(self, init)
    }
}

impl Cq {
    pub(crate) fn new(context: &Arc<Context>, init: CqInit) -> Result<Arc<Cq>> {
        check_size(init.cqe, init.memory.as_ref())?;
        let channel = init.channel.map(|fd| context.channels.attach(fd));
        let channel = channel.transpose()?;
        context
            .hca()
            .count
            .cq
            .take(limits::MAX_CQ, "completion queues")?;
        if let Some(pd) = &init.pd {
            pd.add_user();
        }
        Ok(Arc::new(Cq {
            context: context.clone(),
            handle: context.hca().new_handle(),
            cookie: init.cookie,
            channel,
            stamped: init.stamped,
            ignore_overrun: init.ignore_overrun,
            pd: init.pd,
            queue: locks::Mutex::new(Queue {
                entries: Entries::new(init.memory),
                capacity: init.cqe,
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
            destroyed: AtomicBool::new(false),
            listing: context.hca().objects.enter(listed(context, init.cqe)),
        }))
    }

    /// Changes the capacity; completions already there must fit (`EINVAL`). A queue in lent memory moves to what is lent now.
    pub fn resize(&self, cqe: u32, memory: Option<Lent>) -> Result<u32> {
        check_size(cqe, memory.as_ref())?;
        let mut queue = self.queue.lock();
        if queue.entries.len() > cqe as usize {
            return Err(Error::Invalid(
                "more completions are queued than the new size holds",
            ));
        }
        queue.capacity = cqe;
        self.listing.set(listed(&self.context, cqe));
        let lent = matches!(queue.entries, Entries::Lent { .. });
        let old = (lent || memory.is_some()).then(|| queue.entries.move_to(memory));
        // What the program does when it gets its memory back is its own affair.
        drop(queue);
        drop(old);
        Ok(cqe)
    }

    /// Ends the queue. The caller then waits until the consumer has acknowledged what was delivered.
    pub fn destroy(&self) -> Result<Delivered> {
        // A parent's, in whose middle the fork may have come: another thread's locks are never let go of here.
        if self.context.hca().is_inherited() {
            return Ok(Delivered::default());
        }
        if self.users.load(Ordering::Relaxed) != 0 {
            return Err(Error::Busy("completion queue"));
        }
        let mut queue = self.queue.lock();
        queue.entries.clear();
        queue.arming.disarm();
        queue.due = Time::MAX;
        queue.owed = 0;
        self.len.store(0, Ordering::Release);
        let unread = self
            .channel
            .as_ref()
            .map_or(0, |c| c.take_back(|r| *r == self.cookie.to_ne_bytes()));
        let comp = queue.notified - unread;
        let events = self.context.events().take_back(self.cookie, queue.events);
        let delivered = Delivered { comp, events };
        let old = queue.entries.move_to(None);
        drop(queue);
        // Lent memory goes back now, whoever still holds a reference.
        drop(old);
        if !self.destroyed.swap(true, Ordering::Relaxed) {
            self.listing.remove();
            self.context.hca().count.cq.give_back();
            if let Some(pd) = &self.pd {
                pd.remove_user();
            }
        }
        Ok(delivered)
    }
}

/// What others are told of a queue.
fn listed(context: &Context, cqe: u32) -> Object {
    Object::Cq {
        context: context.listing().number(),
        cqe,
        users: 0,
    }
}

fn check_size(cqe: u32, memory: Option<&Lent>) -> Result<()> {
    if cqe == 0 || cqe > limits::MAX_CQE {
        return Err(Error::Invalid(
            "cqe must be between 1 and the device's max_cqe",
        ));
    }
    if memory.is_some_and(|memory| memory.room() < cqe as usize) {
        return Err(Error::Invalid(
            "the memory is too small for cqe completions",
        ));
    }
    Ok(())
}
