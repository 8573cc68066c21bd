//! Shared receive queues.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use ferroce_control::objects::{Listing, Object};
use ferroce_transport::{RecvWqe, Sge};

use crate::error::{Error, Result};
use crate::locks;
use crate::verbs::context::Pd;
use crate::verbs::cq::Cq;
use crate::verbs::events::Delivered;
use crate::verbs::limits;
use crate::verbs::tag_matching::{TagMatching, TagOp, TmInit};
use crate::verbs::xrc::Xrcd;

/// How to create a shared receive queue.
#[derive(Default)]
pub struct SrqInit {
    /// Requests it holds.
    pub max_wr: u32,
    /// Scatter elements a request.
    pub max_sge: u32,
    /// Raise `SRQ_LIMIT_REACHED` once when fewer requests are left; 0 is never.
    pub srq_limit: u32,
    /// What async events name the queue by.
    pub cookie: u64,
    /// XRC: the domain whose target queue pairs receive from it, and where their completions go.
    pub xrc: Option<(Arc<Xrcd>, Arc<Cq>)>,
    /// Matches tags.
    pub tm: Option<TmInit>,
}

/// `struct ibv_srq_attr`
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[allow(missing_docs)]
pub struct SrqAttr {
    pub max_wr: u32,
    pub max_sge: u32,
    pub srq_limit: u32,
}

/// Kinds of queues, as `enum ib_srq_type` has them.
const BASIC: u8 = 0;
const XRC: u8 = 1;
const TAG_MATCHING: u8 = 2;

/// `IBV_EVENT_SRQ_LIMIT_REACHED`
const EVENT_LIMIT: u32 = 15;

struct Queue {
    requests: VecDeque<RecvWqe>,
    attr: SrqAttr,
    events: u32,
}

/// A shared receive queue.
pub struct Srq {
    pd: Arc<Pd>,
    handle: u32,
    number: u32,
    xrc: Option<(Arc<Xrcd>, Arc<Cq>)>,
    cookie: u64,
    tags: Option<TagMatching>,
    queue: locks::Mutex<Queue, { locks::QUEUE }>,
    users: AtomicU32,
    destroyed: AtomicBool,
    listing: Listing,
}

impl Pd {
    /// Creates a shared receive queue.
    pub fn create_srq(self: &Arc<Self>, init: SrqInit) -> Result<Arc<Srq>> {
        Srq::new(self, init)
    }
}

impl Srq {
    pub(crate) fn new(pd: &Arc<Pd>, init: SrqInit) -> Result<Arc<Srq>> {
        if init.max_wr == 0 || init.max_wr > limits::MAX_SRQ_WR {
            return Err(Error::Invalid(
                "max_wr must be between 1 and the device's max_srq_wr",
            ));
        }
        if init.max_sge > limits::MAX_SGE {
            return Err(Error::Invalid("max_sge exceeds the device's max_srq_sge"));
        }
        if init.srq_limit > init.max_wr {
            return Err(Error::Invalid("srq_limit exceeds max_wr"));
        }
        let context = pd.context();
        let hca = context.hca();
        let tags = init.tm.map(TagMatching::new).transpose()?;
        if tags
            .as_ref()
            .is_some_and(|tags| !Arc::ptr_eq(tags.cq().context(), context))
        {
            return Err(Error::Invalid(
                "the protection domain and the queue are of different contexts",
            ));
        }
        if let Some((xrcd, cq)) = &init.xrc {
            if !Arc::ptr_eq(xrcd.context(), context) || !Arc::ptr_eq(cq.context(), context) {
                return Err(Error::Invalid(
                    "the protection domain, the XRC domain and the queue are of different contexts",
                ));
            }
            xrcd.add_user()?;
        }
        let taken = hca.count.srq.take(limits::MAX_SRQ, "shared receive queues");
        if let (Err(_), Some((xrcd, _))) = (&taken, &init.xrc) {
            xrcd.remove_user();
        }
        taken?;
        pd.add_user();
        if let Some(tags) = &tags {
            tags.cq().add_user();
        }
        let attr = SrqAttr {
            max_wr: init.max_wr,
            max_sge: init.max_sge.max(1),
            srq_limit: init.srq_limit,
        };
        let (srq_type, cq) = match (&init.xrc, &tags) {
            (Some((_, cq)), _) => (XRC, Some(cq.listed_number())),
            (None, Some(tags)) => (TAG_MATCHING, Some(tags.cq().listed_number())),
            (None, None) => (BASIC, None),
        };
        let listing = hca.objects.enter(Object::Srq {
            pd: pd.listed_number(),
            cq,
            srq_type,
        });
        let srq = Arc::new(Srq {
            pd: pd.clone(),
            handle: hca.new_handle(),
            number: hca.new_srq_number(),
            xrc: init.xrc,
            cookie: init.cookie,
            tags,
            queue: locks::Mutex::new(Queue {
                requests: VecDeque::new(),
                attr,
                events: 0,
            }),
            users: AtomicU32::new(0),
            destroyed: AtomicBool::new(false),
            listing,
        });
        if let Some((xrcd, cq)) = &srq.xrc {
            cq.add_user();
            xrcd.domain().add_srq(&srq);
        }
        Ok(srq)
    }

    /// A number that identifies the queue in this process.
    pub fn handle(&self) -> u32 {
        self.handle
    }

    /// The number by which XRC requests name it (`ibv_get_srq_num`), 24 bits: the top byte is the slot, as in a QPN.
    pub fn number(&self) -> u32 {
        self.number
    }

    /// XRC: where completions go.
    pub(crate) fn cq(&self) -> Option<&Arc<Cq>> {
        self.xrc.as_ref().map(|(_, cq)| cq)
    }

    pub(crate) fn is_xrc(&self) -> bool {
        self.xrc.is_some()
    }

    /// Tag matching, if this queue does it.
    pub(crate) fn tags(&self) -> Option<&TagMatching> {
        self.tags.as_ref()
    }

    /// Changes the list of tagged buffers; returns the handle of one that was added (`EINVAL` on a queue without tags).
    pub fn tag_op(&self, op: &TagOp<'_>) -> Result<u32> {
        match &self.tags {
            Some(tags) => tags.operate(op),
            None => Err(Error::Invalid("the queue does not match tags")),
        }
    }

    /// Its size and limit.
    pub fn query(&self) -> SrqAttr {
        self.queue.lock().attr
    }

    /// Changes size or limit; nothing changes on an error.
    pub fn modify(&self, max_wr: Option<u32>, limit: Option<u32>) -> Result<()> {
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
        // The limit counts as passed when a request is taken, not when it is set above what is posted.
        queue.attr = attr;
        Ok(())
    }

    /// Posts a receive request.
    pub fn post_recv(&self, wr_id: u64, sges: &[Sge]) -> Result<()> {
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
            if self.pd.context().events().raise(self.cookie, EVENT_LIMIT) {
                queue.events += 1;
            }
        }
    }

    pub(crate) fn pd(&self) -> &Arc<Pd> {
        &self.pd
    }

    /// The number by which others are told of it.
    pub(crate) fn listed_number(&self) -> u32 {
        self.listing.number()
    }

    pub(crate) fn add_user(&self) {
        self.users.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn remove_user(&self) {
        self.users.fetch_sub(1, Ordering::Relaxed);
    }

    /// Ends the queue (`EBUSY` while a queue pair uses it).
    pub fn destroy(&self) -> Result<Delivered> {
        // A parent's, in whose middle the fork may have come: another thread's locks are never let go of here.
        if self.pd.context().hca().is_inherited() {
            return Ok(Delivered::default());
        }
        if self.users.load(Ordering::Relaxed) != 0 {
            return Err(Error::Busy("shared receive queue"));
        }
        if !self.destroyed.swap(true, Ordering::Relaxed) {
            let hca = self.pd.context().hca();
            if let Some((xrcd, cq)) = &self.xrc {
                xrcd.domain().remove_srq(self.number);
                // Receivers select it under the table's lock: now they are done with it.
                drop(hca.qps.write());
                xrcd.remove_user();
                cq.remove_user();
            }
            if let Some(tags) = &self.tags {
                tags.cq().remove_user();
            }
            self.listing.remove();
            hca.forget_srq_number(self.number);
            self.pd.remove_user();
            hca.count.srq.give_back();
        }
        let mut queue = self.queue.lock();
        queue.requests.clear();
        let events = self.pd.context().events().take_back(self.cookie, queue.events);
        Ok(Delivered { comp: 0, events })
    }
}
