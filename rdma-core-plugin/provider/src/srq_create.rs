//! Making shared receive queues of every kind; those that match tags are [`crate::tag_matching`]'s.

use crate::allocators::Resource;
use crate::cq::Cq;
use crate::guard::{self, Errno, explain};
use crate::live;
use crate::memory::Pd;
use crate::place::Place;
use crate::srq::Srq;
use crate::tag_matching;
use crate::wait;
use crate::xrc::Xrcd;
use ferroce_cabi::pabi::verbs_srq;
use ferroce_cabi::*;
use ferroce_engine::SrqInit;

pub(crate) unsafe extern "C" fn create_srq(
    pd: *mut ibv_pd,
    init: *mut ibv_srq_init_attr,
) -> *mut ibv_srq {
    guard::run(|| {
        // SAFETY: the caller's structure, and a domain of ours.
        unsafe { create(pd, init.as_mut().ok_or(Errno(libc::EINVAL))?, None) }
    })
}

/// `ibv_create_srq_ex(3)`: libibverbs sends basic queues to [`create_srq`]. Unlike that one, this
/// initialises the whole.
pub(crate) unsafe extern "C" fn create_srq_ex(
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

        // SAFETY: a domain, an XRC domain and a queue of ours; the extended structure starts with
        // the whole of the other (`tests/layout` of ferroce-cabi).
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

    // SAFETY: all bits zero is a valid `verbs_srq`: integers and pointers. For basic queues
    // libibverbs fills in its head.
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
