//! Shared receive queues: changing, asking and ending them, and posting to them.
//! [`crate::srq_create`] makes them.

use crate::guard::{self, Errno, Health, explain};
use crate::live;
use crate::place;
use crate::requests;
use crate::wait;
use ferroce_cabi::pabi::verbs_srq;
use ferroce_cabi::*;
use libc::c_int;
use std::sync::Arc;

/// A shared receive queue.
#[repr(C)]
pub(crate) struct Srq {
    verbs: verbs_srq,
    pub engine: Arc<ferroce_engine::Srq>,
    pub health: Health,
}

impl Srq {
    /// An object about to be put in its place.
    pub(crate) fn new(verbs: verbs_srq, engine: Arc<ferroce_engine::Srq>) -> Srq {
        Srq {
            verbs,
            engine,
            health: Health::default(),
        }
    }

    /// The object behind a C pointer.
    ///
    /// # Safety
    /// `srq` was made by [`crate::srq_create`] and not freed.
    pub(crate) unsafe fn of<'a>(srq: *mut ibv_srq) -> &'a Srq {
        // SAFETY: as the caller promises; the C structure is the head of ours.
        unsafe { &*srq.cast::<Srq>() }
    }

    /// As [`of`](Self::of), for the control path: `EINVAL` for what is not alive.
    ///
    /// # Safety
    /// Nobody frees it meanwhile.
    pub(crate) unsafe fn live<'a>(srq: *mut ibv_srq) -> Result<&'a Srq, Errno> {
        live::check(srq)?;
        // SAFETY: it is alive.
        Ok(unsafe { Self::of(srq) })
    }

    /// `EINVAL` if the handle was overwritten: the look at an object that posting and polling
    /// afford.
    #[inline]
    pub(crate) fn check_handle(&self) -> Result<(), Errno> {
        if self.verbs.srq.handle != self.engine.handle() {
            return Err(Errno(libc::EINVAL));
        }
        Ok(())
    }
}

impl AsRef<Health> for Srq {
    fn as_ref(&self) -> &Health {
        &self.health
    }
}

pub(crate) unsafe extern "C" fn modify_srq(
    srq: *mut ibv_srq,
    attr: *mut ibv_srq_attr,
    mask: c_int,
) -> c_int {
    // SAFETY: a queue of ours.
    let object = unsafe { Srq::live(srq) };
    guard::on(object, |object| {
        // SAFETY: the caller's structure.
        let attr = unsafe { attr.as_ref() }.ok_or(Errno(libc::EINVAL))?;
        if mask & !(IBV_SRQ_MAX_WR | IBV_SRQ_LIMIT) != 0 {
            return Err(Errno(libc::EINVAL));
        }
        let max_wr = (mask & IBV_SRQ_MAX_WR != 0).then_some(attr.max_wr);
        let limit = (mask & IBV_SRQ_LIMIT != 0).then_some(attr.srq_limit);
        object
            .engine
            .modify(max_wr, limit)
            .map_err(|e| explain("ibv_modify_srq", e))?;
        Ok(0)
    })
}

pub(crate) unsafe extern "C" fn query_srq(srq: *mut ibv_srq, attr: *mut ibv_srq_attr) -> c_int {
    // SAFETY: a queue of ours.
    let object = unsafe { Srq::live(srq) };
    guard::on(object, |object| {
        if attr.is_null() {
            return Err(Errno(libc::EINVAL));
        }
        let now = object.engine.query();
        let answer = ibv_srq_attr {
            max_wr: now.max_wr,
            max_sge: now.max_sge,
            srq_limit: now.srq_limit,
        };
        // SAFETY: the caller's structure.
        unsafe { attr.write(answer) };
        Ok(0)
    })
}

pub(crate) unsafe extern "C" fn get_srq_num(srq: *mut ibv_srq, number: *mut u32) -> c_int {
    guard::run(|| {
        if number.is_null() {
            return Err(Errno(libc::EINVAL));
        }
        // SAFETY: a queue of ours, and the caller's number.
        unsafe { number.write(Srq::live(srq)?.verbs.srq_num) };
        Ok(0)
    })
}

pub(crate) unsafe extern "C" fn post_srq_recv(
    srq: *mut ibv_srq,
    wr: *mut ibv_recv_wr,
    bad_wr: *mut *mut ibv_recv_wr,
) -> c_int {
    // SAFETY: a queue of ours.
    let object = unsafe { Srq::of(srq) };
    // SAFETY: the caller's list.
    unsafe {
        requests::receive_list(&object.health, wr, bad_wr, || {
            object.check_handle()?;
            Ok(|id, sges: &[_]| object.engine.post_recv(id, sges))
        })
    }
}

pub(crate) unsafe extern "C" fn destroy_srq(srq: *mut ibv_srq) -> c_int {
    guard::run(|| {
        // SAFETY: a queue of ours.
        let delivered = unsafe { Srq::live(srq) }?
            .engine
            .destroy()
            .map_err(|e| explain("ibv_destroy_srq", e))?;

        // SAFETY: libibverbs prepared the lock when it got the queue and counts under it;
        // afterwards nobody refers to it.
        unsafe {
            wait::acknowledged(
                &raw mut (*srq).mutex,
                &raw mut (*srq).cond,
                &[(&raw const (*srq).events_completed, delivered.events)],
            );
            live::leave(srq);
            place::destroy(srq.cast::<Srq>());
        }

        Ok(0)
    })
}
