//! Shared receive queues as a program has them: made, filled and ended.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use ferroce_control::faults::Verb;
use ferroce_control::objects::Object;
use ferroce_transport::Sge;

use crate::error::{Error, Result};
use crate::verbs::context::{Context, Pd};
use crate::verbs::cq::Cq;
use crate::verbs::events::Delivered;
use crate::verbs::handles::Kind;
use crate::verbs::limits;
use crate::verbs::shared_requests::{Fixed, Serves, SharedRequests, SrqAttr};
use crate::verbs::tag_matching::{TagMatching, TagOp};
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

/// How a shared receive queue matches tags.
pub struct TmInit {
    /// Takes the completions of the queue's messages and of its operations.
    pub cq: Arc<Cq>,
    /// Tagged buffers that it holds.
    pub max_num_tags: u32,
}

/// A shared receive queue.
pub struct Srq {
    pd: Arc<Pd>,
    /// XRC: the domain whose targets receive from it.
    xrcd: Option<Arc<Xrcd>>,
    requests: Arc<SharedRequests>,
    destroyed: AtomicBool,
}

impl Pd {
    /// Creates a shared receive queue.
    pub fn create_srq(self: &Arc<Self>, init: SrqInit) -> Result<Arc<Srq>> {
        self.context().hca().allows(Verb::CreateSrq)?;
        check(self.context(), &init)?;
        let attr = SrqAttr {
            max_wr: init.max_wr,
            max_sge: init.max_sge.max(1),
            srq_limit: init.srq_limit,
        };

        let (serves, xrcd) = match (init.xrc, init.tm) {
            (Some((xrcd, cq)), _) => (Serves::XrcTargets(cq.completions().clone()), Some(xrcd)),
            (None, Some(tm)) => {
                let tags = TagMatching::new(tm.cq.completions(), tm.max_num_tags)?;
                (Serves::Tags(tags), None)
            }
            (None, None) => (Serves::QueuePairs, None),
        };

        let hca = self.context().hca();
        if let Some(xrcd) = &xrcd {
            xrcd.add_user()?;
        }

        let taken = hca.count.srq.take(limits::MAX_SRQ, "shared receive queues");
        taken.inspect_err(|_| xrcd.iter().for_each(|xrcd| xrcd.remove_user()))?;
        self.add_user();
        let completions = serves.completions();
        completions.iter().for_each(|c| c.add_user());

        let listing = hca.objects.enter(Object::Srq {
            pd: self.listed_number(),
            cq: completions.map(|c| c.listed_number()),
            srq_type: serves.srq_type(),
        });

        let of = Fixed {
            handle: hca.new_handle(),
            number: hca.new_srq_number(),
            cookie: init.cookie,
            pd: self.handle(),
            serves,
            events: self.context().events().clone(),
            listing,
        };

        let requests = SharedRequests::new(of, attr);
        if let Some(xrcd) = &xrcd {
            xrcd.domain().add_srq(&requests);
        }

        let srq = Arc::new(Srq {
            pd: self.clone(),
            xrcd,
            requests,
            destroyed: AtomicBool::new(false),
        });
        let shared = self.context().shared();
        shared.add(Kind::SharedQueue, srq.handle(), &srq);
        Ok(srq)
    }
}

fn check(context: &Arc<Context>, init: &SrqInit) -> Result<()> {
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

    let cqs = [
        init.tm.as_ref().map(|tm| &tm.cq),
        init.xrc.as_ref().map(|(_, cq)| cq),
    ];

    let xrcd = init.xrc.as_ref().map(|(xrcd, _)| xrcd);
    let same = |of: &Arc<Context>| Arc::ptr_eq(of, context);
    if !cqs.into_iter().flatten().all(|cq| same(cq.context()))
        || !xrcd.is_none_or(|xrcd| same(xrcd.context()))
    {
        return Err(Error::Invalid(
            "the protection domain, the XRC domain and the queue are of different contexts",
        ));
    }

    Ok(())
}

impl Srq {
    /// A number that identifies the queue in this process.
    pub fn handle(&self) -> u32 {
        self.requests.handle()
    }

    /// The number by which XRC requests name it (`ibv_get_srq_num`), 24 bits: the top byte is the
    /// slot, as in a QPN.
    pub fn number(&self) -> u32 {
        self.requests.number()
    }

    /// Changes the list of tagged buffers; returns the handle of one that was added (`EINVAL` on a
    /// queue without tags).
    pub fn tag_op(&self, op: &TagOp<'_>) -> Result<u32> {
        match self.requests.tags() {
            Some(tags) => tags.operate(op),
            None => Err(Error::Invalid("the queue does not match tags")),
        }
    }

    /// Its size and limit.
    pub fn query(&self) -> SrqAttr {
        self.requests.attr()
    }

    /// Changes size or limit; nothing changes on an error.
    pub fn modify(&self, max_wr: Option<u32>, limit: Option<u32>) -> Result<()> {
        self.requests.modify(max_wr, limit)
    }

    /// Posts a receive request.
    pub fn post_recv(&self, wr_id: u64, sges: &[Sge]) -> Result<()> {
        self.requests.post(wr_id, sges)
    }

    /// What receivers see of it.
    pub(crate) fn requests(&self) -> &Arc<SharedRequests> {
        &self.requests
    }

    pub(crate) fn pd(&self) -> &Arc<Pd> {
        &self.pd
    }

    /// Ends the queue (`EBUSY` while a queue pair uses it).
    pub fn destroy(&self) -> Result<Delivered> {
        let hca = self.pd.context().hca();

        // A parent's, in whose middle the fork may have come: another thread's locks are never let
        // go of here.
        if hca.is_inherited() {
            return Ok(Delivered::default());
        }
        if self.requests.is_used() {
            return Err(Error::Busy("shared receive queue"));
        }

        if !self.destroyed.swap(true, Ordering::Relaxed) {
            if let Some(xrcd) = &self.xrcd {
                xrcd.domain().remove_srq(self.number());
                // Receivers select it under the table's lock: now they are done with it.
                drop(hca.qps.write());
                xrcd.remove_user();
            }
            if let Some(completions) = self.requests.serves().completions() {
                completions.remove_user();
            }
            let shared = self.pd.context().shared();
            shared.forget(Kind::SharedQueue, self.handle());
            self.requests.unlist();
            hca.forget_srq_number(self.number());
            self.pd.remove_user();
            hca.count.srq.give_back();
        }

        Ok(self.requests.end())
    }
}
