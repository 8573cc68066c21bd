//! Queue pairs: changing, asking and ending them. [`crate::qp_create`] makes them; posting is in
//! [`crate::post`] and [`crate::wr`].

use crate::builder::Builder;
use crate::convert;
use crate::guard::{self, Errno, Health, explain};
use crate::live;
use crate::place;
use crate::wait;
use ferroce_cabi::pabi::verbs_qp;
use ferroce_cabi::*;
use libc::{c_int, c_uint};
use std::sync::Arc;

/// A queue pair.
#[repr(C)]
pub(crate) struct Qp {
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
    /// `qp` was made by [`crate::qp_create`] and not freed.
    pub(crate) unsafe fn of<'a>(qp: *mut ibv_qp) -> &'a Qp {
        // SAFETY: as the caller promises; the C structure is the head of ours.
        unsafe { &*qp.cast::<Qp>() }
    }

    /// As [`of`](Self::of), for the control path: `EINVAL` for what is not alive.
    ///
    /// # Safety
    /// Nobody frees it meanwhile.
    pub(crate) unsafe fn live<'a>(qp: *mut ibv_qp) -> Result<&'a Qp, Errno> {
        live::check(qp)?;
        // SAFETY: it is alive.
        Ok(unsafe { Self::of(qp) })
    }

    /// `EINVAL` if the handle was overwritten: the look at an object that posting and polling
    /// afford.
    #[inline]
    pub(crate) fn check_handle(&self) -> Result<(), Errno> {
        if self.verbs.qp_ex.qp_base.handle != self.engine.handle() {
            return Err(Errno(libc::EINVAL));
        }
        Ok(())
    }
}

impl AsRef<Health> for Qp {
    fn as_ref(&self) -> &Health {
        &self.health
    }
}

pub(crate) unsafe extern "C" fn modify_qp(
    qp: *mut ibv_qp,
    attr: *mut ibv_qp_attr,
    mask: c_int,
) -> c_int {
    // SAFETY: a queue pair of ours.
    let object = unsafe { Qp::live(qp) };
    guard::on(object, |object| {
        // SAFETY: the caller's structure.
        let attr = unsafe { attr.as_ref() }.ok_or(Errno(libc::EINVAL))?;
        let (attr, mask) = convert::qp_attr_in(attr, mask)?;
        // SAFETY: the queue pair's own field, which never changes.
        let mask = mask.difference(convert::not_its_own(unsafe { (*qp).qp_type }));
        object
            .engine
            .modify(&attr, mask)
            .map_err(|e| explain("ibv_modify_qp", e))?;
        Ok(0)
    })
}

pub(crate) unsafe extern "C" fn query_qp(
    qp: *mut ibv_qp,
    attr: *mut ibv_qp_attr,
    _mask: c_int,
    init: *mut ibv_qp_init_attr,
) -> c_int {
    // SAFETY: a queue pair of ours.
    let object = unsafe { Qp::live(qp) };
    guard::on(object, |object| {
        if attr.is_null() || init.is_null() {
            return Err(Errno(libc::EINVAL));
        }

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

/// 1: the bytes of a message are placed in the order of their addresses, for every operation that
/// places any.
pub(crate) unsafe extern "C" fn query_qp_data_in_order(
    _qp: *mut ibv_qp,
    op: c_uint,
    flags: u32,
) -> c_int {
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

pub(crate) unsafe extern "C" fn destroy_qp(qp: *mut ibv_qp) -> c_int {
    guard::run(|| {
        // SAFETY: a queue pair of ours.
        let delivered = unsafe { Qp::live(qp) }?
            .engine
            .close(qp as u64)
            .map_err(|e| explain("ibv_destroy_qp", e))?;

        // SAFETY: prepared in `qp_create::finish`; libibverbs counts under the lock, and afterwards
        // nobody refers to the queue pair.
        unsafe {
            wait::acknowledged(
                &raw mut (*qp).mutex,
                &raw mut (*qp).cond,
                &[(&raw const (*qp).events_completed, delivered.events)],
            );
            live::leave(qp);
            place::destroy(qp.cast::<Qp>());
        }

        Ok(0)
    })
}

/// Attaches to a multicast group, or detaches from one.
///
/// # Safety
/// A queue pair of ours; the caller's GID or null.
unsafe fn multicast(
    qp: *mut ibv_qp,
    gid: *const ibv_gid,
    change: impl FnOnce(&Arc<ferroce_engine::Qp>, [u8; 16]) -> ferroce_engine::Result<()>,
) -> c_int {
    // SAFETY: as the caller promises.
    let object = unsafe { Qp::live(qp) };
    guard::on(object, |object| {
        // SAFETY: as the caller promises.
        let gid = unsafe { gid.as_ref() }.ok_or(Errno(libc::EINVAL))?.raw;
        change(&object.engine, gid).map_err(|e| explain("ibv_attach_mcast", e))?;
        Ok(0)
    })
}

pub(crate) unsafe extern "C" fn attach_mcast(
    qp: *mut ibv_qp,
    gid: *const ibv_gid,
    lid: u16,
) -> c_int {
    // SAFETY: a queue pair of ours, and the caller's GID.
    unsafe { multicast(qp, gid, |qp, gid| qp.attach_mcast(gid, lid)) }
}

pub(crate) unsafe extern "C" fn detach_mcast(
    qp: *mut ibv_qp,
    gid: *const ibv_gid,
    lid: u16,
) -> c_int {
    // SAFETY: a queue pair of ours, and the caller's GID.
    unsafe { multicast(qp, gid, |qp, gid| qp.detach_mcast(gid, lid)) }
}
