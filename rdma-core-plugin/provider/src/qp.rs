//! Queue pairs: making, changing, asking and ending them. Posting is in [`crate::post`] and [`crate::wr`].

use crate::convert;
use crate::cq::Cq;
use crate::guard::{self, Errno, Health, explain};
use crate::memory::Pd;
use crate::parent_domain::Resource;
use crate::place::{self, Place};
use crate::srq::Srq;
use crate::wait;
use crate::wr::{self, Builder};
use ferroce_cabi::pabi34::{VERBS_QP_EX, verbs_qp};
use ferroce_cabi::*;
use ferroce_engine::QpInit;
use libc::{c_int, c_uint};
use std::sync::Arc;

/// A queue pair.
#[repr(C)]
pub struct Qp {
    pub verbs: verbs_qp,
    pub engine: Arc<ferroce_engine::Qp>,
    pub health: Health,
    /// Capacities, checked before a request is handed to the engine.
    pub max_send_sge: usize,
    pub max_inline: usize,
    /// The requests between `wr_start` and `wr_complete`.
    pub builder: Builder,
}

impl Qp {
    /// The object behind a C pointer.
    ///
    /// # Safety
    /// `qp` was made by [`create`] and not freed.
    pub unsafe fn of<'a>(qp: *mut ibv_qp) -> &'a Qp {
        // SAFETY: as the caller promises; the C structure is the head of ours.
        unsafe { &*qp.cast::<Qp>() }
    }
}

/// The operations that the builder of requests offers.
const SEND_OPS: u64 = send_ops::RDMA_WRITE
    | send_ops::RDMA_WRITE_WITH_IMM
    | send_ops::SEND
    | send_ops::SEND_WITH_IMM
    | send_ops::RDMA_READ
    | send_ops::ATOMIC_CMP_AND_SWP
    | send_ops::ATOMIC_FETCH_AND_ADD
    | send_ops::LOCAL_INV
    | send_ops::BIND_MW
    | send_ops::SEND_WITH_INV;

pub unsafe extern "C" fn create_qp(pd: *mut ibv_pd, attr: *mut ibv_qp_init_attr) -> *mut ibv_qp {
    guard::run(|| {
        // SAFETY: the caller's structure, and a domain of ours.
        unsafe { create(pd, attr.as_mut().ok_or(Errno(libc::EINVAL))?, false) }
    })
}

pub unsafe extern "C" fn create_qp_ex(
    _context: *mut ibv_context,
    attr: *mut ibv_qp_init_attr_ex,
) -> *mut ibv_qp {
    guard::run(|| {
        // SAFETY: the caller's structure.
        let ex = unsafe { attr.as_ref() }.ok_or(Errno(libc::EINVAL))?;
        let has = |bit| ex.comp_mask & bit != 0;
        let known =
            IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_CREATE_FLAGS | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS;
        if ex.comp_mask & !known != 0 || has(IBV_QP_INIT_ATTR_CREATE_FLAGS) && ex.create_flags != 0
        {
            return Err(Errno(libc::EOPNOTSUPP));
        }
        if !has(IBV_QP_INIT_ATTR_PD) {
            return Err(Errno(libc::EINVAL));
        }
        let builds = has(IBV_QP_INIT_ATTR_SEND_OPS_FLAGS);
        if builds && ex.send_ops_flags & !SEND_OPS != 0 {
            return Err(Errno(libc::EOPNOTSUPP));
        }
        // SAFETY: the extended structure starts with the whole of the other (`tests/layout.rs` of ferroce-cabi).
        unsafe { create(ex.pd, &mut *attr.cast(), builds) }
    })
}

/// # Safety
/// A domain, queues and a shared receive queue of ours, or null.
unsafe fn create(
    pd: *mut ibv_pd,
    attr: &mut ibv_qp_init_attr,
    builds: bool,
) -> Result<*mut ibv_qp, Errno> {
    // SAFETY: as the caller promises.
    let domain = unsafe { Pd::of(pd) }?;
    if attr.send_cq.is_null() || attr.recv_cq.is_null() {
        return Err(Errno(libc::EINVAL));
    }
    let place = Place::<Qp>::new(domain.allocators(), Resource::Qp)?;
    // SAFETY: as the caller promises.
    let init = unsafe {
        QpInit {
            qp_type: attr.qp_type,
            send_cq: Cq::of(attr.send_cq).engine.clone(),
            recv_cq: Cq::of(attr.recv_cq).engine.clone(),
            srq: (!attr.srq.is_null()).then(|| Srq::of(attr.srq).engine.clone()),
            cap: convert::cap_in(&attr.cap),
            sq_sig_all: attr.sq_sig_all != 0,
            cookie: place.address(),
        }
    };
    let engine = domain
        .engine
        .create_qp(init)
        .map_err(|e| explain("ibv_create_qp", e))?;
    let cap = engine.cap();
    attr.cap = convert::cap_out(&cap);
    // SAFETY: all bits zero is a valid `verbs_qp`: integers, pointers and optional functions.
    let mut verbs: verbs_qp = unsafe { std::mem::zeroed() };
    let base = &mut verbs.qp_ex.qp_base;
    // SAFETY: a domain of ours.
    base.context = unsafe { (*pd).context };
    base.qp_context = attr.qp_context;
    base.pd = pd;
    base.send_cq = attr.send_cq;
    base.recv_cq = attr.recv_cq;
    base.srq = attr.srq;
    base.handle = engine.handle();
    base.qp_num = engine.qp_num();
    base.qp_type = attr.qp_type;
    if builds {
        verbs.comp_mask |= VERBS_QP_EX;
        wr::install(&mut verbs.qp_ex);
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
    unsafe { wait::prepare(&raw mut (*ibv).mutex, &raw mut (*ibv).cond) };
    Ok(ibv)
}

pub unsafe extern "C" fn modify_qp(qp: *mut ibv_qp, attr: *mut ibv_qp_attr, mask: c_int) -> c_int {
    // SAFETY: a queue pair of ours.
    let object = unsafe { Qp::of(qp) };
    object.health.run(|| {
        // SAFETY: the caller's structure.
        let attr = unsafe { attr.as_ref() }.ok_or(Errno(libc::EINVAL))?;
        let (attr, mask) = convert::qp_attr_in(attr, mask)?;
        object
            .engine
            .modify(&attr, mask)
            .map_err(|e| explain("ibv_modify_qp", e))?;
        Ok(0)
    })
}

pub unsafe extern "C" fn query_qp(
    qp: *mut ibv_qp,
    attr: *mut ibv_qp_attr,
    _mask: c_int,
    init: *mut ibv_qp_init_attr,
) -> c_int {
    // SAFETY: a queue pair of ours.
    let object = unsafe { Qp::of(qp) };
    object.health.run(|| {
        let (now, made) = object.engine.query();
        // SAFETY: the caller's structures, and the queue pair's own fields, which never change.
        unsafe {
            attr.write(convert::qp_attr_out(&now));
            init.write(ibv_qp_init_attr {
                qp_context: (*qp).qp_context,
                send_cq: (*qp).send_cq,
                recv_cq: (*qp).recv_cq,
                srq: (*qp).srq,
                cap: convert::cap_out(&made.cap),
                qp_type: made.qp_type,
                sq_sig_all: made.sq_sig_all.into(),
            });
        }
        Ok(0)
    })
}

/// 1: the bytes of a message are placed in the order of their addresses, for every operation that places any.
pub unsafe extern "C" fn query_qp_data_in_order(_qp: *mut ibv_qp, op: c_uint, flags: u32) -> c_int {
    let placing = [
        wr_opcode::RDMA_WRITE,
        wr_opcode::RDMA_WRITE_WITH_IMM,
        wr_opcode::SEND,
        wr_opcode::SEND_WITH_IMM,
        wr_opcode::SEND_WITH_INV,
        wr_opcode::RDMA_READ,
    ];
    (flags == 0 && placing.contains(&op)).into()
}

pub unsafe extern "C" fn destroy_qp(qp: *mut ibv_qp) -> c_int {
    guard::run(|| {
        // SAFETY: a queue pair of ours.
        let delivered = unsafe { Qp::of(qp) }
            .engine
            .destroy()
            .map_err(|e| explain("ibv_destroy_qp", e))?;
        // SAFETY: prepared in `create`; libibverbs counts under the lock, and afterwards nobody refers to the queue pair.
        unsafe {
            wait::acknowledged(
                &raw mut (*qp).mutex,
                &raw mut (*qp).cond,
                &[(&raw const (*qp).events_completed, delivered.events)],
            );
            place::destroy(qp.cast::<Qp>());
        }
        Ok(0)
    })
}
