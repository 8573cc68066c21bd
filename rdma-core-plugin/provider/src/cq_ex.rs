//! Extended completion queues (`ibv_create_cq_ex(3)`): one completion at a time, read field by
//! field.

use crate::cq::{self, Cq, Init};
use crate::guard::{self, Errno, Failure};
use crate::memory::Pd;
use ferroce_cabi::*;
use libc::{c_int, c_uint};
use parking_lot::lock_api::RawMutex as _;

pub(crate) unsafe extern "C" fn create_cq_ex(
    context: *mut ibv_context,
    attr: *mut ibv_cq_init_attr_ex,
) -> *mut ibv_cq_ex {
    guard::run(|| {
        // SAFETY: the caller's structure.
        let attr = unsafe { attr.as_ref() }.ok_or(Errno(libc::EINVAL))?;

        // The other fields are of raw Ethernet: VLAN tag and flow tag.
        let stamps = wc_ex::COMPLETION_TIMESTAMP | wc_ex::COMPLETION_TIMESTAMP_WALLCLOCK;
        if attr.wc_flags & !(IBV_WC_STANDARD_FLAGS | stamps | wc_ex::TM_INFO) != 0
            || attr.comp_mask & !(IBV_CQ_INIT_ATTR_MASK_FLAGS | IBV_CQ_INIT_ATTR_MASK_PD) != 0
        {
            return Err(Errno(libc::EOPNOTSUPP));
        }

        let has = |bit| attr.comp_mask & bit != 0;
        let flags = if has(IBV_CQ_INIT_ATTR_MASK_FLAGS) {
            attr.flags
        } else {
            0
        };

        let known = IBV_CREATE_CQ_ATTR_SINGLE_THREADED | IBV_CREATE_CQ_ATTR_IGNORE_OVERRUN;
        if flags & !known != 0 {
            return Err(Errno(libc::EOPNOTSUPP));
        }

        let domain = if has(IBV_CQ_INIT_ATTR_MASK_PD) {
            // SAFETY: a domain of ours, or null.
            Some(unsafe { Pd::of(attr.parent_domain) }?)
        } else {
            None
        };
        if domain.is_some_and(|pd| pd.parent.is_none() || pd.ibv.context != context) {
            return Err(Errno(libc::EINVAL));
        }

        let init = Init {
            cqe: attr.cqe,
            channel: attr.channel,
            vector: attr.comp_vector,
            stamped: attr.wc_flags & stamps != 0,
            single_threaded: flags & IBV_CREATE_CQ_ATTR_SINGLE_THREADED != 0,
            ignore_overrun: flags & IBV_CREATE_CQ_ATTR_IGNORE_OVERRUN != 0,
            domain,
        };

        // SAFETY: as libibverbs passes them.
        let cq = unsafe { cq::create(context, init) }?;

        // SAFETY: made just now; nobody else knows it.
        let object = unsafe { &mut *cq };
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
        ex.read_tm_info = Some(read_tm_info);
        ex.read_completion_ts = Some(read_completion_ts);
        ex.read_completion_wallclock_ns = Some(read_completion_wallclock_ns);
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
        // An empty queue is no failure: errno stays.
        let Some(next) = engine.poll_entry() else {
            return Ok(libc::ENOENT);
        };
        // SAFETY: as the caller promises; nobody else writes these fields.
        unsafe {
            (*object).current = next;
            (*cq).wr_id = next.wc.wr_id;
            (*cq).status = next.wc.status;
        }
        Ok(0)
    })
}

unsafe extern "C" fn start_poll(cq: *mut ibv_cq_ex, attr: *mut ibv_poll_cq_attr) -> c_int {
    // SAFETY: null or the caller's structure.
    if unsafe { attr.as_ref() }.is_some_and(|attr| attr.comp_mask != 0) {
        return c_int::failure(Errno(libc::EINVAL));
    }

    // SAFETY: a queue of ours.
    let object = unsafe { Cq::of(cq.cast()) };
    if let Err(errno) = object.check_handle() {
        return c_int::failure(errno);
    }
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
    ($($name:ident -> $ty:ty = |$current:ident| $value:expr;)*) => {$(
        unsafe extern "C" fn $name(cq: *mut ibv_cq_ex) -> $ty {
            // SAFETY: a queue of ours, between `start_poll` and `end_poll`.
            let $current = unsafe { &(*cq.cast::<Cq>()).current };
            $value
        }
    )*};
}

unsafe extern "C" fn read_tm_info(cq: *mut ibv_cq_ex, info: *mut ibv_wc_tm_info) {
    // SAFETY: a queue of ours, between `start_poll` and `end_poll`, and the caller's structure.
    unsafe {
        let tag = (*cq.cast::<Cq>()).current.tag;
        info.write(ibv_wc_tm_info {
            tag: tag.tag,
            r#priv: tag.app_ctx,
        });
    }
}

readers! {
    read_opcode -> c_uint = |c| c.wc.opcode;
    read_vendor_err -> u32 = |c| c.wc.vendor_err;
    read_byte_len -> u32 = |c| c.wc.byte_len;
    read_imm_data -> u32 = |c| u32::from_ne_bytes(c.wc.imm_data);
    read_qp_num -> u32 = |c| c.wc.qp_num;
    read_src_qp -> u32 = |c| c.wc.src_qp;
    read_wc_flags -> c_uint = |c| c.wc.wc_flags;
    read_slid -> u32 = |c| c.wc.slid.into();
    read_sl -> u8 = |c| c.wc.sl;
    read_dlid_path_bits -> u8 = |c| c.wc.dlid_path_bits;
    read_completion_ts -> u64 = |c| c.clock;
    read_completion_wallclock_ns -> u64 = |c| c.wall_clock;
}
