//! Extended completion queues (`ibv_create_cq_ex(3)`): one completion at a time, read field by field.

use crate::cq::{self, Cq};
use crate::guard::{self, Errno};
use ferroce_cabi::*;
use libc::{c_int, c_uint};
use parking_lot::lock_api::RawMutex as _;

pub unsafe extern "C" fn create_cq_ex(
    context: *mut ibv_context,
    attr: *mut ibv_cq_init_attr_ex,
) -> *mut ibv_cq_ex {
    guard::run(|| {
        // SAFETY: the caller's structure.
        let attr = unsafe { attr.as_ref() }.ok_or(Errno(libc::EINVAL))?;
        if attr.wc_flags & !IBV_WC_STANDARD_FLAGS != 0
            || attr.comp_mask & !IBV_CQ_INIT_ATTR_MASK_FLAGS != 0
        {
            return Err(Errno(libc::EOPNOTSUPP));
        }
        let flags = if attr.comp_mask & IBV_CQ_INIT_ATTR_MASK_FLAGS != 0 {
            attr.flags
        } else {
            0
        };
        // A queue that overruns fails here: ignoring that is not offered.
        if flags & !IBV_CREATE_CQ_ATTR_SINGLE_THREADED != 0 {
            return Err(Errno(libc::EOPNOTSUPP));
        }
        // SAFETY: as libibverbs passes them.
        let cq = unsafe { cq::create(context, attr.cqe, attr.channel, attr.comp_vector) }?;
        // SAFETY: made just now; nobody else knows it.
        let object = unsafe { &mut *cq };
        object.single_threaded = flags & IBV_CREATE_CQ_ATTR_SINGLE_THREADED != 0;
        let ex = &mut object.verbs.cq_ex;
        ex.start_poll = Some(start_poll);
        ex.next_poll = Some(next_poll);
        ex.end_poll = Some(end_poll);
        ex.read_opcode = Some(read_opcode);
        ex.read_vendor_err = Some(read_vendor_err);
        ex.read_byte_len = Some(read_byte_len);
        ex.read_imm_data = Some(read_imm_data);
        ex.read_qp_num = Some(read_qp_num);
        ex.read_src_qp = Some(read_src_qp);
        ex.read_wc_flags = Some(read_wc_flags);
        ex.read_slid = Some(read_slid);
        ex.read_sl = Some(read_sl);
        ex.read_dlid_path_bits = Some(read_dlid_path_bits);
        Ok(cq.cast())
    })
}

/// Takes the next completion; `ENOENT` if there is none.
///
/// # Safety
/// A queue of ours, polled by this thread alone.
unsafe fn advance(cq: *mut ibv_cq_ex) -> c_int {
    let object: *mut Cq = cq.cast();
    // SAFETY: as the caller promises.
    let (engine, health) = unsafe { (&(*object).engine, &(*object).health) };
    health.run(|| {
        // SAFETY: as the caller promises; the other fields of the object are not borrowed mutably.
        let current = unsafe { &mut (*object).current };
        if engine.poll(std::slice::from_mut(current))? == 0 {
            return Err(Errno(libc::ENOENT));
        }
        // SAFETY: as the caller promises.
        unsafe {
            (*cq).wr_id = current.wr_id;
            (*cq).status = current.status;
        }
        Ok(0)
    })
}

unsafe extern "C" fn start_poll(cq: *mut ibv_cq_ex, attr: *mut ibv_poll_cq_attr) -> c_int {
    // SAFETY: null or the caller's structure.
    if unsafe { attr.as_ref() }.is_some_and(|attr| attr.comp_mask != 0) {
        return libc::EINVAL;
    }
    // SAFETY: a queue of ours.
    let object = unsafe { Cq::of(cq.cast()) };
    if !object.single_threaded {
        object.polling.lock();
    }
    // SAFETY: this thread has the lock, or is the only one.
    let result = unsafe { advance(cq) };
    // Without a completion there is no `end_poll`.
    if result != 0 && !object.single_threaded {
        // SAFETY: locked above.
        unsafe { object.polling.unlock() };
    }
    result
}

unsafe extern "C" fn next_poll(cq: *mut ibv_cq_ex) -> c_int {
    // SAFETY: between `start_poll` and `end_poll`, as the manual asks.
    unsafe { advance(cq) }
}

unsafe extern "C" fn end_poll(cq: *mut ibv_cq_ex) {
    // SAFETY: a queue of ours.
    let object = unsafe { Cq::of(cq.cast()) };
    if !object.single_threaded {
        // SAFETY: locked by the `start_poll` that this call ends.
        unsafe { object.polling.unlock() };
    }
}

/// The functions that read one field of the current completion.
macro_rules! readers {
    ($($name:ident -> $ty:ty = |$wc:ident| $value:expr;)*) => {$(
        unsafe extern "C" fn $name(cq: *mut ibv_cq_ex) -> $ty {
            // SAFETY: a queue of ours, between `start_poll` and `end_poll`.
            let $wc = unsafe { &(*cq.cast::<Cq>()).current };
            $value
        }
    )*};
}

readers! {
    read_opcode -> c_uint = |wc| wc.opcode;
    read_vendor_err -> u32 = |wc| wc.vendor_err;
    read_byte_len -> u32 = |wc| wc.byte_len;
    read_imm_data -> u32 = |wc| u32::from_ne_bytes(wc.imm_data);
    read_qp_num -> u32 = |wc| wc.qp_num;
    read_src_qp -> u32 = |wc| wc.src_qp;
    read_wc_flags -> c_uint = |wc| wc.wc_flags;
    read_slid -> u32 = |wc| wc.slid.into();
    read_sl -> u8 = |wc| wc.sl;
    read_dlid_path_bits -> u8 = |wc| wc.dlid_path_bits;
}
