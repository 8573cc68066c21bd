//! The builder of send requests (`ibv_wr_post(3)`): requests are collected between `wr_start` and
//! `wr_complete`, and posted all at once. What can be known beforehand (room in the queue, limits,
//! a setter without a request) fails the whole batch and posts nothing of it.

use crate::ah;
use crate::builder::Batch;
use crate::guard::Errno;
use crate::mw;
use crate::qp::Qp;
use crate::requests::sges;
use ferroce_cabi::*;
use ferroce_engine::{Dest, Flush, Placement, Selectivity, SendFlags, SendOp, Sge};
use libc::{c_int, c_void, size_t};
use parking_lot::lock_api::RawMutex as _;
use std::mem::offset_of;

/// The operations for which an extended queue pair has a function that ends before `end`, an offset
/// in bytes.
pub(crate) fn known(end: usize) -> u64 {
    let mut all = u64::MAX;
    if offset_of!(ibv_qp_ex, wr_atomic_write) >= end {
        all &= !send_ops::ATOMIC_WRITE;
    }
    if offset_of!(ibv_qp_ex, wr_flush) >= end {
        all &= !send_ops::FLUSH;
    }
    all
}

/// Fills in the functions of an extended queue pair.
pub(crate) fn install(ex: &mut ibv_qp_ex) {
    ex.wr_atomic_cmp_swp = Some(wr_atomic_cmp_swp);
    ex.wr_atomic_fetch_add = Some(wr_atomic_fetch_add);
    ex.wr_atomic_write = Some(wr_atomic_write);
    ex.wr_bind_mw = Some(wr_bind_mw);
    ex.wr_flush = Some(wr_flush);
    ex.wr_local_inv = Some(wr_local_inv);
    ex.wr_rdma_read = Some(wr_rdma_read);
    ex.wr_rdma_write = Some(wr_rdma_write);
    ex.wr_rdma_write_imm = Some(wr_rdma_write_imm);
    ex.wr_send = Some(wr_send);
    ex.wr_send_imm = Some(wr_send_imm);
    ex.wr_send_inv = Some(wr_send_inv);
    ex.wr_set_inline_data = Some(wr_set_inline_data);
    ex.wr_set_inline_data_list = Some(wr_set_inline_data_list);
    ex.wr_set_sge = Some(wr_set_sge);
    ex.wr_set_sge_list = Some(wr_set_sge_list);
    ex.wr_set_ud_addr = Some(wr_set_ud_addr);
    ex.wr_set_xrc_srqn = Some(wr_set_xrc_srqn);
    ex.wr_start = Some(wr_start);
    ex.wr_complete = Some(wr_complete);
    ex.wr_abort = Some(wr_abort);
}

/// The queue pair's batch.
///
/// # Safety
/// A queue pair of ours whose builder this thread has locked.
#[inline]
unsafe fn batch<'a>(qp: *mut ibv_qp_ex) -> &'a mut Batch {
    // SAFETY: as the caller promises; the lock makes the reference the only one.
    unsafe { &mut *Qp::of(qp.cast()).builder.batch.get() }
}

unsafe extern "C" fn wr_start(qp: *mut ibv_qp_ex) {
    // SAFETY: a queue pair of ours.
    unsafe { Qp::of(qp.cast()) }.builder.lock.lock();
    // SAFETY: locked just now.
    unsafe { batch(qp) }.clear();
}

unsafe extern "C" fn wr_abort(qp: *mut ibv_qp_ex) {
    // SAFETY: locked by the `wr_start` that this call ends.
    unsafe { Qp::of(qp.cast()).builder.lock.unlock() };
}

unsafe extern "C" fn wr_complete(qp: *mut ibv_qp_ex) -> c_int {
    // SAFETY: a queue pair of ours, locked by the `wr_start` that this call ends.
    let (object, batch) = unsafe { (Qp::of(qp.cast()), &*batch(qp)) };
    let result = object.health.run(|| {
        batch.check()?;
        object.check_handle()?;
        batch.post(&object.engine)?;
        Ok(0)
    });
    // SAFETY: as above.
    unsafe { object.builder.lock.unlock() };
    result
}

/// Starts a request with the consumer's `wr_id` and `wr_flags`.
///
/// # Safety
/// Between `wr_start` and `wr_complete`.
#[inline]
unsafe fn begin(qp: *mut ibv_qp_ex, op: SendOp) {
    // SAFETY: as the caller promises.
    let (batch, wr_id, flags) = unsafe { (batch(qp), (*qp).wr_id, (*qp).wr_flags) };
    let flags = SendFlags::from_bits_truncate(flags) - SendFlags::INLINE;
    batch.begin(wr_id, op, flags);
}

/// The functions that start a request.
macro_rules! operations {
    ($($name:ident($($arg:ident: $ty:ty),*) = $op:expr;)*) => {$(
        unsafe extern "C" fn $name(qp: *mut ibv_qp_ex $(, $arg: $ty)*) {
            // SAFETY: called between `wr_start` and `wr_complete`, as the manual asks.
            unsafe { begin(qp, $op) }
        }
    )*};
}

operations! {
    wr_atomic_cmp_swp(rkey: u32, va: u64, compare: u64, swap: u64) = SendOp::CompareSwap { va, rkey, compare, swap };
    wr_atomic_fetch_add(rkey: u32, va: u64, add: u64) = SendOp::FetchAdd { va, rkey, add };
    wr_local_inv(rkey: u32) = SendOp::LocalInv(rkey);
    wr_rdma_read(rkey: u32, va: u64) = SendOp::Read { va, rkey };
    wr_rdma_write(rkey: u32, va: u64) = SendOp::Write { va, rkey };
    wr_rdma_write_imm(rkey: u32, va: u64, imm: u32) = SendOp::WriteWithImm { va, rkey, imm: imm.to_ne_bytes() };
    wr_send() = SendOp::Send;
    wr_send_imm(imm: u32) = SendOp::SendWithImm(imm.to_ne_bytes());
    wr_send_inv(rkey: u32) = SendOp::SendWithInv(rkey);
}

unsafe extern "C" fn wr_atomic_write(qp: *mut ibv_qp_ex, rkey: u32, va: u64, value: *const c_void) {
    // SAFETY: called between `wr_start` and `wr_complete`, as the manual asks, with 8 readable
    // bytes.
    unsafe {
        begin(qp, SendOp::AtomicWrite { va, rkey });
        batch(qp).set_word(value.cast::<[u8; 8]>().read_unaligned());
    }
}

unsafe extern "C" fn wr_flush(
    qp: *mut ibv_qp_ex,
    rkey: u32,
    va: u64,
    length: size_t,
    placement: u8,
    level: u8,
) {
    let op = flush(rkey, va, length, placement, level);
    // SAFETY: called between `wr_start` and `wr_complete`, as the manual asks.
    unsafe {
        match op {
            Some(op) => begin(qp, op),
            None => batch(qp).fail(libc::EINVAL),
        }
    }
}

/// A FLUSH, if a packet can say it.
fn flush(rkey: u32, va: u64, length: size_t, placement: u8, level: u8) -> Option<SendOp> {
    Some(SendOp::Flush(Flush {
        va,
        rkey,
        len: u32::try_from(length).ok()?,
        placement: Placement::from_bits(placement)?,
        selectivity: match level {
            0 => Selectivity::Range,
            1 => Selectivity::Region,
            _ => return None,
        },
    }))
}

unsafe extern "C" fn wr_bind_mw(
    qp: *mut ibv_qp_ex,
    mw: *mut ibv_mw,
    rkey: u32,
    info: *const ibv_mw_bind_info,
) {
    // SAFETY: called between `wr_start` and `wr_complete`, as the manual asks, with a window and a
    // structure of the caller's.
    unsafe {
        let op = match info.as_ref() {
            Some(info) => mw::bind_type_2(mw, rkey, info),
            None => Err(Errno(libc::EINVAL)),
        };
        match op {
            Ok(op) => begin(qp, op),
            Err(Errno(errno)) => batch(qp).fail(errno),
        }
    }
}

unsafe extern "C" fn wr_set_ud_addr(qp: *mut ibv_qp_ex, ah: *mut ibv_ah, qpn: u32, qkey: u32) {
    // SAFETY: called between `wr_start` and `wr_complete`, as the manual asks, with a handle of
    // ours or null.
    unsafe { batch(qp).set_destination(ah::destination(ah, qpn, qkey)) };
}

unsafe extern "C" fn wr_set_xrc_srqn(qp: *mut ibv_qp_ex, srqn: u32) {
    // SAFETY: called between `wr_start` and `wr_complete`, as the manual asks.
    unsafe { batch(qp).set_destination(Ok(Dest::XrcSrq(srqn))) };
}

unsafe extern "C" fn wr_set_sge(qp: *mut ibv_qp_ex, lkey: u32, addr: u64, length: u32) {
    // SAFETY: called between `wr_start` and `wr_complete`, as the manual asks.
    unsafe {
        batch(qp).set_sges(
            Qp::of(qp.cast()).max_send_sge,
            &[Sge { addr, length, lkey }],
        )
    };
}

unsafe extern "C" fn wr_set_sge_list(qp: *mut ibv_qp_ex, count: size_t, list: *const ibv_sge) {
    // SAFETY: called between `wr_start` and `wr_complete`, as the manual asks, with a list of that
    // many elements.
    unsafe {
        let batch = batch(qp);
        let mut copy = Vec::new();
        match sges(list, count, &mut copy) {
            Ok(list) => batch.set_sges(Qp::of(qp.cast()).max_send_sge, list),
            Err(Errno(errno)) => batch.fail(errno),
        }
    }
}

unsafe extern "C" fn wr_set_inline_data(qp: *mut ibv_qp_ex, addr: *mut c_void, length: size_t) {
    // SAFETY: called between `wr_start` and `wr_complete`, as the manual asks, with readable
    // memory.
    unsafe {
        batch(qp).set_inline(
            Qp::of(qp.cast()).max_inline,
            &[ibv_data_buf { addr, length }],
        )
    };
}

unsafe extern "C" fn wr_set_inline_data_list(
    qp: *mut ibv_qp_ex,
    count: size_t,
    list: *const ibv_data_buf,
) {
    // SAFETY: called between `wr_start` and `wr_complete`, as the manual asks, with a list of that
    // many readable buffers.
    unsafe {
        let batch = batch(qp);
        if count != 0 && list.is_null() {
            return batch.fail(libc::EINVAL);
        }
        let list = if count == 0 {
            &[][..]
        } else {
            std::slice::from_raw_parts(list, count)
        };
        batch.set_inline(Qp::of(qp.cast()).max_inline, list);
    }
}
