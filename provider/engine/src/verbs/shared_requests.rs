//! What receivers see of a shared receive queue: its requests, which they take, and whom it serves.
//!
//! The program posts requests by its [`Srq`](crate::verbs::srq::Srq), which is not known here.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use ferroce_control::objects::Listing;
use ferroce_transport::{RecvWqe, Sge};

use crate::error::{Error, Result};
use crate::locks;
use crate::verbs::async_events::AsyncEvents;
use crate::verbs::completions::Completions;
use crate::verbs::events::Delivered;
use crate::verbs::limits;
use crate::verbs::tag_matching::TagMatching;

/// `IBV_EVENT_SRQ_LIMIT_REACHED`
const EVENT_LIMIT: u32 = 15;

/// `struct ibv_srq_attr`
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[allow(missing_docs)]
pub struct SrqAttr {
    pub max_wr: u32,
    pub max_sge: u32,
    pub srq_limit: u32,
}

/// Whose messages go into a queue.
pub(crate) enum Serves {
    /// Those of the queue pairs that were made with it.
    QueuePairs,
    /// Those of the same that are matched by tag, and others.
    Tags(TagMatching),
    /// Those of XRC targets, which complete here.
    XrcTargets(Arc<Completions>),
}

impl Serves {
    /// As `enum ib_srq_type` has it.
    pub(super) fn srq_type(&self) -> u8 {
        match self {
            Serves::QueuePairs => 0,
            Serves::XrcTargets(_) => 1,
            Serves::Tags(_) => 2,
        }
    }

    /// Where all that is received completes, if not where each queue pair says.
    pub(crate) fn completions(&self) -> Option<&Arc<Completions>> {
        match self {
            Serves::QueuePairs => None,
            Serves::Tags(tags) => Some(tags.completions()),
            Serves::XrcTargets(completions) => Some(completions),
        }
    }
}

/// What a queue is from its beginning to its end.
pub(crate) struct Fixed {
    pub(crate) handle: u32,
    /// The number by which XRC requests name it.
    pub(crate) number: u32,
    /// What events name the queue by.
    pub(crate) cookie: u64,
    /// Whose memory requests name: the number of the protection domain.
    pub(crate) pd: u32,
    pub(crate) serves: Serves,
    /// Its context's.
    pub(crate) events: Arc<AsyncEvents>,
    pub(crate) listing: Listing,
}

struct Queue {
    requests: VecDeque<RecvWqe>,
    attr: SrqAttr,
    events: u32,
}

/// The requests of a shared receive queue.
pub(crate) struct SharedRequests {
    of: Fixed,
    queue: locks::Mutex<Queue, { locks::QUEUE }>,
    users: AtomicU32,
}

impl SharedRequests {
    pub(crate) fn new(of: Fixed, attr: SrqAttr) -> Arc<SharedRequests> {
        Arc::new(SharedRequests {
            of,
            queue: locks::Mutex::new(Queue {
                requests: VecDeque::new(),
                attr,
                events: 0,
            }),
            users: AtomicU32::new(0),
        })
    }

    /// A number that identifies the queue in this process.
    pub(crate) fn handle(&self) -> u32 {
        self.of.handle
    }

    /// The number by which XRC requests name it.
    pub(crate) fn number(&self) -> u32 {
        self.of.number
    }

    /// The protection domain whose memory requests name.
    pub(crate) fn pd_handle(&self) -> u32 {
        self.of.pd
    }

    pub(crate) fn serves(&self) -> &Serves {
        &self.of.serves
    }

    /// Tag matching, if this queue does it.
    pub(crate) fn tags(&self) -> Option<&TagMatching> {
        match &self.of.serves {
            Serves::Tags(tags) => Some(tags),
            _ => None,
        }
    }

    /// Its size and limit.
    pub(crate) fn attr(&self) -> SrqAttr {
        self.queue.lock().attr
    }

    /// Changes size or limit; nothing changes on an error.
    pub(crate) fn modify(&self, max_wr: Option<u32>, limit: Option<u32>) -> Result<()> {
        let mut queue = self.queue.lock();
        let mut attr = queue.attr;
        if let Some(max_wr) = max_wr {
            if max_wr == 0
                || max_wr > limits::MAX_SRQ_WR
                || (max_wr as usize) < queue.requests.len()
            {
                return Err(Error::Invalid(
                    "max_wr is out of range or below the number of posted requests",
                ));
            }
            attr.max_wr = max_wr;
        }

        if let Some(limit) = limit {
            if limit > attr.max_wr {
                return Err(Error::Invalid("srq_limit exceeds max_wr"));
            }
            attr.srq_limit = limit;
        }

        // The limit counts as passed when a request is taken, not when it is set above what is
        // posted.
        queue.attr = attr;
        Ok(())
    }

    /// Posts a receive request.
    pub(crate) fn post(&self, wr_id: u64, sges: &[Sge]) -> Result<()> {
        let mut queue = self.queue.lock();
        if sges.len() > queue.attr.max_sge as usize {
            return Err(Error::Invalid(
                "more scatter elements than the queue was made for",
            ));
        }

        if queue.requests.len() >= queue.attr.max_wr as usize {
            return Err(Error::Full("the shared receive queue"));
        }

        queue.requests.push_back(RecvWqe {
            skip: 0,
            wr_id,
            sges: sges.into(),
        });

        Ok(())
    }

    pub(crate) fn take(&self) -> Option<RecvWqe> {
        let mut queue = self.queue.lock();
        let wqe = queue.requests.pop_front();
        if wqe.is_some() {
            self.check_limit(&mut queue);
        }
        wqe
    }

    /// The limit event is raised once, and the limit is then disarmed.
    fn check_limit(&self, queue: &mut Queue) {
        if queue.attr.srq_limit != 0 && queue.requests.len() < queue.attr.srq_limit as usize {
            queue.attr.srq_limit = 0;
            let comes = self.of.events.raise(self.of.cookie, EVENT_LIMIT);
            queue.events += u32::from(comes);
        }
    }

    /// The number by which others are told of it.
    pub(super) fn listed_number(&self) -> u32 {
        self.of.listing.number()
    }

    pub(super) fn add_user(&self) {
        self.users.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn remove_user(&self) {
        self.users.fetch_sub(1, Ordering::Relaxed);
    }

    /// Whether a queue pair receives from it.
    pub(super) fn is_used(&self) -> bool {
        self.users.load(Ordering::Relaxed) != 0
    }

    /// Drops all requests, and takes events back that are not read.
    pub(crate) fn end(&self) -> Delivered {
        let mut queue = self.queue.lock();
        queue.requests.clear();
        let events = self.of.events.take_back(self.of.cookie, queue.events);
        Delivered { comp: 0, events }
    }

    /// Others are told no more of it.
    pub(super) fn unlist(&self) {
        self.of.listing.remove();
    }
}
