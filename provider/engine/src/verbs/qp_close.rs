//! Who has a queue pair open, whom its events go to, and its end.
//!
//! Most have one opener, who made them. An XRC target may be opened again through its domain
//! (`ibv_open_qp`): each opener gets every event, and the queue pair ends with the last.

use std::sync::Arc;

use crate::error::{Error, Result};
use crate::progress::timers;
use crate::verbs::context::Context;
use crate::verbs::events::Delivered;
use crate::verbs::handles::Kind;
use crate::verbs::openers::Opener;
use crate::verbs::qp::Qp;
use crate::verbs::xrc::Xrcd;

impl Context {
    /// Opens an XRC target of the domain by its number (`EINVAL` if there is none). Each opener
    /// closes it.
    pub fn open_qp(
        self: &Arc<Self>,
        xrcd: &Arc<Xrcd>,
        number: u32,
        cookie: u64,
    ) -> Result<Arc<Qp>> {
        if !Arc::ptr_eq(xrcd.context(), self) {
            return Err(Error::Invalid("the XRC domain is of another context"));
        }
        Qp::open(xrcd, number, cookie)
    }
}

impl Qp {
    /// Opens an XRC target by its number, in the domain's process. `cookie` is what this opener's
    /// events name it by.
    pub(crate) fn open(xrcd: &Arc<Xrcd>, number: u32, cookie: u64) -> Result<Arc<Qp>> {
        let absent = Error::Invalid("the XRC domain has no target queue pair of this number");
        let Some(qp) = xrcd.domain().target(number) else {
            return Err(absent);
        };

        let mut list = qp.openers.0.lock();
        if list.ending {
            return Err(absent);
        }

        xrcd.add_user()?;
        let shared = xrcd.context().shared();
        shared.add(Kind::QueuePair, number, &qp);
        list.openers.push(Opener {
            events: xrcd.context().events().clone(),
            xrcd: Some(xrcd.clone()),
            cookie,
            written: 0,
        });

        drop(list);
        Ok(qp)
    }

    /// Ends the queue pair for the opener that `cookie` names, and for good with its last one
    /// (`EBUSY` while it is attached to a multicast group). The caller then waits until the
    /// consumer has acknowledged what was delivered.
    pub fn close(&self, cookie: u64) -> Result<Delivered> {
        // A parent's, in whose middle the fork may have come: another thread's locks are never let
        // go of here.
        if self.hca().is_inherited() {
            return Ok(Delivered::default());
        }
        if self.is_attached() {
            return Err(Error::Busy("queue pair: attached to a multicast group"));
        }

        let mut list = self.openers.0.lock();
        self.forget_opener(&list.openers, cookie);
        list.ending |= list.openers.len() == 1;
        let ending = list.ending;
        drop(list);
        if ending {
            // Its opener stays until then, as the last events are for it.
            self.end();
        }

        let mut list = self.openers.0.lock();
        let Some(i) = list.openers.iter().position(|o| o.cookie == cookie) else {
            return Ok(Delivered::default());
        };

        let opener = list.openers.swap_remove(i);
        drop(list);
        let events = opener.events.take_back(cookie, opener.written);
        if let Some(xrcd) = &opener.xrcd {
            xrcd.remove_user();
        }

        Ok(Delivered { comp: 0, events })
    }

    /// An opener leaves: its context has the queue pair no more, unless another opener's is the
    /// same. Before the end, after which the number may be another's.
    fn forget_opener(&self, openers: &[Opener<Xrcd>], cookie: u64) {
        let Some(leaving) = openers.iter().find(|opener| opener.cookie == cookie) else {
            return;
        };
        let context = self.context_of(leaving);
        let has = |opener: &&Opener<Xrcd>| self.context_of(opener).shares_with(context);
        if openers.iter().filter(has).count() == 1 {
            context.shared().forget(Kind::QueuePair, self.number);
        }
    }

    fn context_of<'a>(&'a self, opener: &'a Opener<Xrcd>) -> &'a Arc<Context> {
        opener
            .xrcd
            .as_ref()
            .map_or(&self.context, |xrcd| xrcd.context())
    }

    /// The cookies of the openers whose contexts are such.
    pub(super) fn opened_by(&self, contexts: impl Fn(&Context) -> bool) -> Vec<u64> {
        let list = self.openers.0.lock();
        let such = list.openers.iter().filter(|o| contexts(self.context_of(o)));
        such.map(|opener| opener.cookie).collect()
    }

    /// Takes it out of the tables, and its last ACK to the peer.
    pub(crate) fn end(&self) {
        let hca = self.hca();

        // With the table's lock no packet or timer is with this QP, and none will find it again.
        if hca.qps.write().remove(self.number as u16).is_none() {
            return;
        }

        self.listing.remove();
        hca.forget_faults_of(self.ordinal);
        self.unmeasure();
        if let Some(domain) = self.domain() {
            domain.remove_target(self.number);
        }

        let mut inner = self.inner.lock();
        self.send_last(&mut inner);
        self.leave_turn(&mut inner);
        inner.path = None;
        inner.last_path = None;
        // Who has received for it may be yet to answer, and holds none of the locks meanwhile.
        inner.ended = true;
        drop(inner);
        hca.hand_turns(timers::now());
        self.purge();
        let keys = hca.keys.read();
        if keys.has_windows() {
            keys.forget_qp(self.number);
        }

        drop(keys);
        for cq in [&self.send_cq, &self.recv_cq].into_iter().flatten() {
            cq.remove_user();
        }
        if let Some(srq) = &self.srq {
            srq.remove_user();
        }
        if let Some(pd) = &self.pd {
            pd.remove_user();
        }
    }

    /// Drops its completions, as its number may come back.
    pub(super) fn purge(&self) {
        for cq in [&self.send_cq, &self.recv_cq].into_iter().flatten() {
            cq.purge(self.number);
        }
    }

    /// Raises an affiliated asynchronous event.
    pub(crate) fn raise(&self, event: u32) {
        for opener in &mut self.openers.0.lock().openers {
            let comes = opener.events.raise(opener.cookie, event);
            opener.written += u32::from(comes);
        }
    }
}
