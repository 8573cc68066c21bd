//! Completion queues as a program has them: made, polled, armed and ended. Polling an empty one
//! drives the engine.

use std::os::fd::RawFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use ferroce_control::faults::Verb;
use ferroce_control::objects::Object;

use crate::error::{Error, Result};
use crate::hca::Hca;
use crate::verbs::completions::{Completions, Fixed, Moderation};
use crate::verbs::context::{Context, Pd};
use crate::verbs::entries::{Entry, Lent};
use crate::verbs::events::Delivered;
use crate::verbs::handles::Kind;
use crate::verbs::limits;
use crate::verbs::wc::Wc;

/// How to create a completion queue.
#[derive(Default)]
pub struct CqInit {
    /// Completions that it holds, at least 1.
    pub cqe: u32,
    /// What events name the queue by.
    pub cookie: u64,
    /// Its completion vector, of [`Hca::vectors`](crate::Hca::vectors): whose thread receives for
    /// the queue pairs that complete there while nobody polls.
    pub vector: u32,
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

/// A completion queue.
pub struct Cq {
    context: Arc<Context>,
    /// That of its completion vector.
    lane: Arc<Hca>,
    completions: Arc<Completions>,
    pd: Option<Arc<Pd>>,
    destroyed: AtomicBool,
}

impl Context {
    /// Creates a completion queue of at least `cqe` entries. `cookie` is what events name it by;
    /// `channel` a completion channel.
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
        self.hca().allows(Verb::CreateCq)?;
        check_size(init.cqe, init.memory.as_ref())?;
        let hca = self.hca();
        if init.vector >= hca.vectors() {
            return Err(Error::Invalid(
                "comp_vector is not below the device's num_comp_vectors",
            ));
        }
        let lane = hca.lane(init.vector);
        let receiver = Arc::downgrade(&lane);
        let attach = |fd| self.channels.attach(fd, receiver.clone());
        let channel = init.channel.map(attach).transpose()?;
        hca.count.cq.take(limits::MAX_CQ, "completion queues")?;
        if let Some(pd) = &init.pd {
            pd.add_user();
        }

        let of = Fixed {
            handle: hca.new_handle(),
            cookie: init.cookie,
            channel,
            events: self.events().clone(),
            watch: self.watch_of_completions().clone(),
            places: hca.places.clone(),
            alarms: lane.clone(),
            stamped: init.stamped,
            ignore_overrun: init.ignore_overrun,
            listing: hca.objects.enter(listed(self, init.cqe)),
        };

        let cq = Arc::new(Cq {
            context: self.clone(),
            lane,
            completions: Completions::new(of, init.cqe, init.memory),
            pd: init.pd,
            destroyed: AtomicBool::new(false),
        });
        self.shared().add(Kind::CompletionQueue, cq.handle(), &cq);
        Ok(cq)
    }
}

impl Cq {
    /// A number that identifies the queue in this process.
    pub fn handle(&self) -> u32 {
        self.completions.handle()
    }

    /// Entries that it can hold.
    pub fn cqe(&self) -> u32 {
        self.completions.capacity()
    }

    /// The program has read an event of the queue's channel.
    pub fn event_was_read(&self) {
        self.completions.event_was_read();
    }

    /// Takes up to `wc.len()` completions, oldest first. On an empty queue the caller's thread runs
    /// the engine for a moment.
    #[inline]
    pub fn poll(&self, wc: &mut [Wc]) -> Result<usize> {
        if self.is_empty_still() {
            return Ok(0);
        }
        let n = self.completions.take(wc);
        if let Some(last) = wc[..n].last() {
            self.lane.completed(last);
        }
        Ok(n)
    }

    /// Like [`poll`](Self::poll), for one completion with its times.
    #[inline]
    pub fn poll_entry(&self) -> Option<Entry> {
        if self.is_empty_still() {
            return None;
        }
        let entry = self.completions.take_entry();
        if let Some(entry) = &entry {
            self.lane.completed(&entry.wc);
        }
        entry
    }

    /// Whether the queue is empty also after the engine had its chance.
    #[inline]
    fn is_empty_still(&self) -> bool {
        self.completions.polled();
        self.completions.is_empty() && {
            self.lane.poll_from_app();
            self.completions.is_empty()
        }
    }

    /// Asks for one completion event: for the next completion, or (`solicited_only`) the next
    /// solicited or failed one.
    ///
    /// What a program calls the next one is the first that it has not seen: adapters are armed for
    /// the position after those that it has taken, and programs (Open MPI's `udcm`) poll first and
    /// ask then. So a completion that came between a poll and this call has its event at once.
    /// Before the first poll after an event there is none: that event stands for what is there.
    pub fn req_notify(&self, solicited_only: bool) -> Result<()> {
        self.completions.arm(solicited_only);
        self.lane.app_asks_for_event();
        Ok(())
    }

    /// Holds completion events back. One that is held back already goes out when the new rule says
    /// so.
    pub fn moderate(&self, moderation: Moderation) {
        self.completions.moderate(moderation);
    }

    /// Changes the capacity; completions already there must fit (`EINVAL`). A queue in lent memory
    /// moves to what is lent now.
    pub fn resize(&self, cqe: u32, memory: Option<Lent>) -> Result<u32> {
        self.context.hca().allows(Verb::ResizeCq)?;
        check_size(cqe, memory.as_ref())?;
        let listed = listed(&self.context, cqe);
        self.completions.resize(cqe, memory, listed)?;
        Ok(cqe)
    }

    /// Ends the queue. The caller then waits until the consumer has acknowledged what was
    /// delivered.
    pub fn destroy(&self) -> Result<Delivered> {
        // A parent's, in whose middle the fork may have come: another thread's locks are never let
        // go of here.
        if self.context.hca().is_inherited() {
            return Ok(Delivered::default());
        }
        if self.completions.is_used() {
            return Err(Error::Busy("completion queue"));
        }

        let delivered = self.completions.end();
        if !self.destroyed.swap(true, Ordering::Relaxed) {
            let shared = self.context.shared();
            shared.forget(Kind::CompletionQueue, self.handle());
            self.completions.unlist();
            self.context.hca().count.cq.give_back();
            if let Some(pd) = &self.pd {
                pd.remove_user();
            }
        }

        Ok(delivered)
    }

    /// Where completions for it go.
    pub(crate) fn completions(&self) -> &Arc<Completions> {
        &self.completions
    }

    pub(crate) fn context(&self) -> &Arc<Context> {
        &self.context
    }

    /// Who receives for it.
    pub(super) fn lane(&self) -> &Arc<Hca> {
        &self.lane
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
