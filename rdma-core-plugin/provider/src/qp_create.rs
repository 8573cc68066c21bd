//! Making queue pairs, and opening XRC targets that others have made.

use crate::allocators::Resource;
use crate::builder::Builder;
use crate::context;
use crate::context::engine;
use crate::convert;
use crate::cq::Cq;
use crate::guard::{self, Errno, Health, explain};
use crate::live;
use crate::memory::Pd;
use crate::place::Place;
use crate::qp::Qp;
use crate::srq::Srq;
use crate::wait;
use crate::wr;
use crate::xrc::Xrcd;
use ferroce_cabi::pabi::{VERBS_QP_EX, VERBS_QP_XRCD, verbs_qp, verbs_qp_tail};
use ferroce_cabi::*;
use ferroce_engine::QpInit;
use libc::c_uint;
use std::ptr::null_mut;
use std::sync::Arc;

/// The operations that the builder of requests offers to a service, whatever the version of
/// libibverbs.
fn send_ops(kind: c_uint) -> u64 {
    let datagrams = send_ops::SEND | send_ops::SEND_WITH_IMM;
    let unreliable = datagrams
        | send_ops::RDMA_WRITE
        | send_ops::RDMA_WRITE_WITH_IMM
        | send_ops::LOCAL_INV
        | send_ops::BIND_MW;

    let reliable = unreliable
        | send_ops::SEND_WITH_INV
        | send_ops::RDMA_READ
        | send_ops::ATOMIC_CMP_AND_SWP
        | send_ops::ATOMIC_FETCH_AND_ADD
        | send_ops::FLUSH;

    match kind {
        qp_type::UD => datagrams,
        qp_type::UC => unreliable,
        qp_type::RC => reliable | send_ops::ATOMIC_WRITE,
        qp_type::XRC_SEND => reliable,
        _ => 0,
    }
}

/// Where a context's libibverbs has what follows `qp_ex` in a `verbs_qp`.
///
/// # Safety
/// `context` is one of ours.
unsafe fn qp_mask(context: *const ibv_context) -> usize {
    // SAFETY: as the caller promises.
    unsafe { context::library(context) }.served.qp_mask
}

pub(crate) unsafe extern "C" fn create_qp(
    pd: *mut ibv_pd,
    attr: *mut ibv_qp_init_attr,
) -> *mut ibv_qp {
    guard::run(|| {
        // SAFETY: the caller's structure, and a domain of ours.
        unsafe {
            let extra = Extra {
                context: pd.as_ref().ok_or(Errno(libc::EINVAL))?.context,
                pd,
                xrcd: null_mut(),
                builds: false,
                block_loopback: false,
            };
            create(attr.as_mut().ok_or(Errno(libc::EINVAL))?, extra)
        }
    })
}

pub(crate) unsafe extern "C" fn create_qp_ex(
    context: *mut ibv_context,
    attr: *mut ibv_qp_init_attr_ex,
) -> *mut ibv_qp {
    guard::run(|| {
        // SAFETY: the caller's structure.
        let ex = unsafe { attr.as_ref() }.ok_or(Errno(libc::EINVAL))?;
        let has = |bit| ex.comp_mask & bit != 0;
        let known = IBV_QP_INIT_ATTR_PD
            | IBV_QP_INIT_ATTR_XRCD
            | IBV_QP_INIT_ATTR_CREATE_FLAGS
            | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS;

        let flags = if has(IBV_QP_INIT_ATTR_CREATE_FLAGS) {
            ex.create_flags
        } else {
            0
        };

        let offered = match ex.qp_type {
            qp_type::UD => qp_create::BLOCK_SELF_MCAST_LB,
            _ => 0,
        };
        if ex.comp_mask & !known != 0 || flags & !offered != 0 {
            return Err(Errno(libc::EOPNOTSUPP));
        }

        let target = ex.qp_type == qp_type::XRC_RECV;
        if !has(if target {
            IBV_QP_INIT_ATTR_XRCD
        } else {
            IBV_QP_INIT_ATTR_PD
        }) {
            return Err(Errno(libc::EINVAL));
        }

        let builds = has(IBV_QP_INIT_ATTR_SEND_OPS_FLAGS);
        // SAFETY: libibverbs hands over a context of ours.
        let known = wr::known(unsafe { qp_mask(context) });
        if builds && ex.send_ops_flags & !(send_ops(ex.qp_type) & known) != 0 {
            return Err(Errno(libc::EOPNOTSUPP));
        }

        let extra = Extra {
            context,
            pd: if target { null_mut() } else { ex.pd },
            xrcd: if target { ex.xrcd } else { null_mut() },
            builds,
            block_loopback: flags & qp_create::BLOCK_SELF_MCAST_LB != 0,
        };

        let pd = if has(IBV_QP_INIT_ATTR_PD) {
            ex.pd
        } else {
            null_mut()
        };

        // SAFETY: the extended structure starts with the whole of the other (`tests/layout` of
        // ferroce-cabi).
        let qp = unsafe { create(&mut *attr.cast(), extra) }?;

        // SAFETY: made just now. An XRC target shows the domain that it does not use, as librdmacm
        // counts on it.
        unsafe { (*qp).pd = pd };
        Ok(qp)
    })
}

/// What a queue pair is made with beside the attributes that all have.
struct Extra {
    context: *mut ibv_context,
    /// Null for an XRC target alone.
    pd: *mut ibv_pd,
    /// Null for all but an XRC target.
    xrcd: *mut ibv_xrcd,
    /// Requests will be built with `ibv_wr_*`.
    builds: bool,
    block_loopback: bool,
}

/// # Safety
/// A context, a domain, an XRC domain, queues and a shared receive queue of ours, or null.
unsafe fn create(attr: &mut ibv_qp_init_attr, extra: Extra) -> Result<*mut ibv_qp, Errno> {
    // SAFETY: as the caller promises.
    let domain = if extra.pd.is_null() && !extra.xrcd.is_null() {
        None
    } else {
        // SAFETY: as the caller promises.
        Some(unsafe { Pd::of(extra.pd) }?)
    };
    let allocators = domain.and_then(|domain| domain.allocators());
    let place = Place::<Qp>::new(allocators, Resource::Qp)?;

    // SAFETY: as the caller promises.
    let init = unsafe {
        let cq = |cq: *mut ibv_cq| match cq.is_null() {
            true => Ok(None),
            false => Cq::live(cq).map(|cq| Some(cq.engine.clone())),
        };

        QpInit {
            qp_type: attr.qp_type,
            send_cq: cq(attr.send_cq)?,
            recv_cq: cq(attr.recv_cq)?,
            srq: match attr.srq.is_null() {
                true => None,
                false => Some(Srq::live(attr.srq)?.engine.clone()),
            },
            xrcd: match extra.xrcd.is_null() {
                true => None,
                false => Some(Xrcd::of(extra.xrcd)?.engine.clone()),
            },
            cap: convert::cap_in(&attr.cap),
            sq_sig_all: attr.sq_sig_all != 0,
            block_loopback: extra.block_loopback,
            cookie: place.address(),
        }
    };

    let made = match domain {
        Some(domain) => domain.engine.create_qp(init),
        // SAFETY: as the caller promises.
        None => unsafe { engine(extra.context) }.create_xrc_target(init),
    };
    let engine = made.map_err(|e| explain("ibv_create_qp", e))?;
    attr.cap = convert::cap_out(&engine.cap());

    // SAFETY: as the caller promises.
    Ok(unsafe { finish(place, engine, attr, extra) })
}

pub(crate) unsafe extern "C" fn open_qp(
    context: *mut ibv_context,
    attr: *mut ibv_qp_open_attr,
) -> *mut ibv_qp {
    guard::run(|| {
        // SAFETY: the caller's structure.
        let attr = unsafe { attr.as_ref() }.ok_or(Errno(libc::EINVAL))?;
        let needed = qp_open::NUM | qp_open::XRCD | qp_open::TYPE;
        if attr.comp_mask & !(needed | qp_open::CONTEXT) != 0 {
            return Err(Errno(libc::EOPNOTSUPP));
        }
        if attr.comp_mask & needed != needed || attr.qp_type != qp_type::XRC_RECV {
            return Err(Errno(libc::EINVAL));
        }
        // SAFETY: a context and a domain of ours.
        unsafe { open(context, attr) }
    })
}

/// Opens an XRC target that exists.
///
/// # Safety
/// A context of ours, and an XRC domain of ours or null.
unsafe fn open(context: *mut ibv_context, attr: &ibv_qp_open_attr) -> Result<*mut ibv_qp, Errno> {
    let place = Place::<Qp>::new(None, Resource::Qp)?;

    // SAFETY: as the caller promises.
    let (context_engine, xrcd) = unsafe { (engine(context), Xrcd::of(attr.xrcd)?) };
    let engine = context_engine
        .open_qp(&xrcd.engine, attr.qp_num, place.address())
        .map_err(|e| explain("ibv_open_qp", e))?;

    // SAFETY: all bits zero is a valid `ibv_qp_init_attr`: integers and pointers.
    let mut init: ibv_qp_init_attr = unsafe { std::mem::zeroed() };
    init.qp_type = attr.qp_type;
    if attr.comp_mask & qp_open::CONTEXT != 0 {
        init.qp_context = attr.qp_context;
    }

    let extra = Extra {
        context,
        pd: null_mut(),
        xrcd: attr.xrcd,
        builds: false,
        block_loopback: false,
    };

    // SAFETY: as the caller promises.
    Ok(unsafe { finish(place, engine, &init, extra) })
}

/// Makes the C object.
///
/// # Safety
/// The attributes are those that the engine's queue pair was made with.
unsafe fn finish(
    place: Place<Qp>,
    engine: Arc<ferroce_engine::Qp>,
    attr: &ibv_qp_init_attr,
    extra: Extra,
) -> *mut ibv_qp {
    // SAFETY: all bits zero is a valid `verbs_qp`: integers, pointers and optional functions.
    let mut verbs: verbs_qp = unsafe { std::mem::zeroed() };
    let cap = engine.cap();
    let base = &mut verbs.qp_ex.qp_base;
    base.context = extra.context;
    base.qp_context = attr.qp_context;
    base.pd = extra.pd;
    base.send_cq = attr.send_cq;
    base.recv_cq = attr.recv_cq;
    base.srq = attr.srq;
    base.handle = engine.handle();
    base.qp_num = engine.qp_num();
    base.qp_type = attr.qp_type;
    base.state = engine.state() as c_uint;
    let mut tail = verbs_qp_tail {
        comp_mask: 0,
        xrcd: extra.xrcd.cast(),
    };
    if !extra.xrcd.is_null() {
        tail.comp_mask |= VERBS_QP_XRCD;
    }

    if extra.builds {
        tail.comp_mask |= VERBS_QP_EX;
        wr::install(&mut verbs.qp_ex);
    }

    // SAFETY: the context is ours; inside the structure (`qp_mask` is), where this version has it;
    // what stands there of `qp_ex` it does not have.
    unsafe {
        (&raw mut verbs)
            .byte_add(qp_mask(extra.context))
            .cast::<verbs_qp_tail>()
            .write(tail);
    }

    let qp = place.write(Qp {
        verbs,
        engine,
        health: Health::default(),
        max_send_sge: cap.max_send_sge as usize,
        max_inline: cap.max_inline_data as usize,
        builder: Builder::default(),
    });

    let ibv: *mut ibv_qp = qp.cast();

    // SAFETY: in their final place and not in use yet.
    unsafe {
        wait::prepare(&raw mut (*ibv).mutex, &raw mut (*ibv).cond);
        live::enter(ibv)
    }
}
