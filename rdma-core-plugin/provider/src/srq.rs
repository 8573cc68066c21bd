//! Shared receive queues.

use crate::cq::Cq;
use crate::guard::{self, Errno, Health, explain};
use crate::live;
use crate::memory::Pd;
use crate::parent_domain::Resource;
use crate::place::{self, Place};
use crate::post;
use crate::tag_matching;
use crate::wait;
use crate::xrc::Xrcd;
use ferroce_cabi::pabi::verbs_srq;
use ferroce_cabi::*;
use ferroce_engine::SrqInit;
use libc::c_int;
use std::sync::Arc;

/// A shared receive queue.
#[repr(C)]
pub struct Srq {
    verbs: verbs_srq,
    pub engine: Arc<ferroce_engine::Srq>,
    pub health: Health,
}

impl Srq {
    /// An object about to be put in its place.
    pub fn new(verbs: verbs_srq, engine: Arc<ferroce_engine::Srq>) -> Srq {
        Srq {
            verbs,
            engine,
            health: Health::default(),
        }
    }

    /// The object behind a C pointer.
    ///
    /// # Safety
    /// `srq` was made by [`create_srq`] and not freed.
    pub unsafe fn of<'a>(srq: *mut ibv_srq) -> &'a Srq {
        // SAFETY: as the caller promises; the C structure is the head of ours.
        unsafe { &*srq.cast::<Srq>() }
    }

    /// As [`of`](Self::of), for the control path: `EINVAL` for what is not alive.
    ///
    /// # Safety
    /// Nobody frees it meanwhile.
    pub unsafe fn live<'a>(srq: *mut ibv_srq) -> Result<&'a Srq, Errno> {
        live::check(srq)?;
        // SAFETY: it is alive.
        Ok(unsafe { Self::of(srq) })
    }

    /// `EINVAL` if the handle was overwritten: the look at an object that posting and polling afford.
    #[inline]
    pub fn check_handle(&self) -> Result<(), Errno> {
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

pub unsafe extern "C" fn create_srq(pd: *mut ibv_pd, init: *mut ibv_srq_init_attr) -> *mut ibv_srq {
    guard::run(|| {
        // SAFETY: the caller's structure, and a domain of ours.
        unsafe { create(pd, init.as_mut().ok_or(Errno(libc::EINVAL))?, None) }
    })
}

/// `ibv_create_srq_ex(3)`: libibverbs sends basic queues to [`create_srq`]. Unlike that one, this initialises the whole.
pub unsafe extern "C" fn create_srq_ex(
    context: *mut ibv_context,
    init: *mut ibv_srq_init_attr_ex,
) -> *mut ibv_srq {
    guard::run(|| {
        // SAFETY: the caller's structure.
        let ex = unsafe { init.as_mut() }.ok_or(Errno(libc::EINVAL))?;
        let has = |bit| ex.comp_mask & bit != 0;
        if has(IBV_SRQ_INIT_ATTR_TYPE) && ex.srq_type == IBV_SRQT_TM {
            // SAFETY: as libibverbs passes them.
            return unsafe { tag_matching::create(context, ex) };
        }
        let known = IBV_SRQ_INIT_ATTR_TYPE
            | IBV_SRQ_INIT_ATTR_PD
            | IBV_SRQ_INIT_ATTR_XRCD
            | IBV_SRQ_INIT_ATTR_CQ;
        let kind = if has(IBV_SRQ_INIT_ATTR_TYPE) {
            ex.srq_type
        } else {
            IBV_SRQT_BASIC
        };
        if ex.comp_mask & !known != 0 || !matches!(kind, IBV_SRQT_BASIC | IBV_SRQT_XRC) {
            return Err(Errno(libc::EOPNOTSUPP));
        }
        let xrc = kind == IBV_SRQT_XRC;
        if !has(IBV_SRQ_INIT_ATTR_PD)
            || xrc && !(has(IBV_SRQ_INIT_ATTR_XRCD) && has(IBV_SRQ_INIT_ATTR_CQ))
        {
            return Err(Errno(libc::EINVAL));
        }
        if xrc && ex.cq.is_null() {
            return Err(Errno(libc::EINVAL));
        }
        // SAFETY: a domain, an XRC domain and a queue of ours; the extended structure starts with the whole of the other
        // (`tests/layout` of ferroce-cabi).
        let srq = unsafe { create(ex.pd, &mut *init.cast(), xrc.then_some((ex.xrcd, ex.cq))) }?;
        // SAFETY: made just now and not in use yet.
        unsafe {
            (*srq).context = context;
            (*srq).srq_context = ex.srq_context;
            (*srq).pd = ex.pd;
            wait::prepare(&raw mut (*srq).mutex, &raw mut (*srq).cond);
        }
        Ok(srq)
    })
}

/// # Safety
/// A domain of ours; for XRC, an XRC domain and a completion queue of ours.
unsafe fn create(
    pd: *mut ibv_pd,
    init: &mut ibv_srq_init_attr,
    xrc: Option<(*mut ibv_xrcd, *mut ibv_cq)>,
) -> Result<*mut ibv_srq, Errno> {
    let attr = &mut init.attr;
    // SAFETY: as the caller promises.
    let domain = unsafe { Pd::of(pd) }?;
    let place = Place::<Srq>::new(domain.allocators(), Resource::Srq)?;
    let engines = xrc
        .map(|(xrcd, cq)| {
            // SAFETY: as the caller promises.
            Ok::<_, Errno>(unsafe {
                (Xrcd::of(xrcd)?.engine.clone(), Cq::live(cq)?.engine.clone())
            })
        })
        .transpose()?;
    let init = SrqInit {
        max_wr: attr.max_wr,
        max_sge: attr.max_sge,
        // Armed by ibv_modify_srq(3) only.
        srq_limit: 0,
        cookie: place.address(),
        xrc: engines,
        tm: None,
    };
    let engine = domain
        .engine
        .create_srq(init)
        .map_err(|e| explain("ibv_create_srq", e))?;
    let actual = engine.query();
    attr.max_wr = actual.max_wr;
    attr.max_sge = actual.max_sge;
    // SAFETY: all bits zero is a valid `verbs_srq`: integers and pointers. For basic queues libibverbs fills in its head.
    let mut verbs: verbs_srq = unsafe { std::mem::zeroed() };
    verbs.srq.handle = engine.handle();
    verbs.srq_type = IBV_SRQT_BASIC;
    if let Some((xrcd, cq)) = xrc {
        verbs.srq_type = IBV_SRQT_XRC;
        verbs.xrcd = xrcd.cast();
        verbs.cq = cq;
    }
    verbs.srq_num = engine.number();
    let srq = place.write(Srq::new(verbs, engine)).cast();
    // SAFETY: initialised.
    Ok(unsafe { live::enter(srq) })
}

pub unsafe extern "C" fn modify_srq(
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

pub unsafe extern "C" fn query_srq(srq: *mut ibv_srq, attr: *mut ibv_srq_attr) -> c_int {
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

pub unsafe extern "C" fn get_srq_num(srq: *mut ibv_srq, number: *mut u32) -> c_int {
    guard::run(|| {
        if number.is_null() {
            return Err(Errno(libc::EINVAL));
        }
        // SAFETY: a queue of ours, and the caller's number.
        unsafe { number.write(Srq::live(srq)?.verbs.srq_num) };
        Ok(0)
    })
}

pub unsafe extern "C" fn post_srq_recv(
    srq: *mut ibv_srq,
    wr: *mut ibv_recv_wr,
    bad_wr: *mut *mut ibv_recv_wr,
) -> c_int {
    // SAFETY: a queue of ours.
    let object = unsafe { Srq::of(srq) };
    // SAFETY: the caller's list.
    unsafe {
        post::receive_list(&object.health, wr, bad_wr, || {
            object.check_handle()?;
            Ok(|id, sges: &[_]| object.engine.post_recv(id, sges))
        })
    }
}

pub unsafe extern "C" fn destroy_srq(srq: *mut ibv_srq) -> c_int {
    guard::run(|| {
        // SAFETY: a queue of ours.
        let delivered = unsafe { Srq::live(srq) }?
            .engine
            .destroy()
            .map_err(|e| explain("ibv_destroy_srq", e))?;
        // SAFETY: libibverbs prepared the lock when it got the queue and counts under it; afterwards nobody refers to it.
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
