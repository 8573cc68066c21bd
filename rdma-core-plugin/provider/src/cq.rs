//! Completion queues.

use crate::context::engine;
use crate::guard::{self, Errno, Failure, Health, explain};
use crate::wait;
use ferroce_cabi::pabi34::verbs_cq;
use ferroce_cabi::*;
use ferroce_engine::Wc;
use libc::c_int;
use parking_lot::RawMutex;
use parking_lot::lock_api::RawMutex as _;
use std::mem::{offset_of, size_of};
use std::sync::Arc;

// The engine writes completions straight into the caller's array.
const _: () = {
    assert!(size_of::<Wc>() == size_of::<ibv_wc>() && align_of::<Wc>() == align_of::<ibv_wc>());
    assert!(offset_of!(Wc, status) == offset_of!(ibv_wc, status));
    assert!(offset_of!(Wc, opcode) == offset_of!(ibv_wc, opcode));
    assert!(offset_of!(Wc, byte_len) == offset_of!(ibv_wc, byte_len));
    assert!(offset_of!(Wc, imm_data) == offset_of!(ibv_wc, imm_or_rkey));
    assert!(offset_of!(Wc, qp_num) == offset_of!(ibv_wc, qp_num));
    assert!(offset_of!(Wc, src_qp) == offset_of!(ibv_wc, src_qp));
    assert!(offset_of!(Wc, wc_flags) == offset_of!(ibv_wc, wc_flags));
    assert!(offset_of!(Wc, pkey_index) == offset_of!(ibv_wc, pkey_index));
    assert!(offset_of!(Wc, dlid_path_bits) == offset_of!(ibv_wc, dlid_path_bits));
};

/// A completion queue.
#[repr(C)]
pub struct Cq {
    pub verbs: verbs_cq,
    pub engine: Arc<ferroce_engine::Cq>,
    pub health: Health,
    /// Held between `start_poll` and `end_poll`, unless one thread alone polls.
    pub polling: RawMutex,
    pub single_threaded: bool,
    /// What the `read_*` functions read.
    pub current: Wc,
}

impl Cq {
    /// The object behind a C pointer.
    ///
    /// # Safety
    /// `cq` was made by [`create`] and not freed.
    pub unsafe fn of<'a>(cq: *mut ibv_cq) -> &'a Cq {
        // SAFETY: as the caller promises; the C structure is the head of ours.
        unsafe { &*cq.cast::<Cq>() }
    }
}

/// Creates a queue; libibverbs fills in all of the C structure but `handle` and `cqe`.
///
/// # Safety
/// A context of ours; a channel of libibverbs or null.
pub unsafe fn create(
    context: *mut ibv_context,
    cqe: u32,
    channel: *mut ibv_comp_channel,
    vector: u32,
) -> Result<*mut Cq, Errno> {
    if vector != 0 {
        return Err(Errno(libc::EINVAL));
    }
    let mut place = Box::<Cq>::new_uninit();
    // SAFETY: the caller's channel.
    let channel = unsafe { channel.as_ref() }.map(|channel| channel.fd);
    // SAFETY: a context of ours.
    let engine = unsafe { engine(context) }
        .create_cq(cqe, place.as_mut_ptr() as u64, channel)
        .map_err(|e| explain("ibv_create_cq", e))?;
    // SAFETY: all bits zero is a valid `verbs_cq`: integers, pointers and optional functions.
    let mut verbs: verbs_cq = unsafe { std::mem::zeroed() };
    verbs.cq_ex.context = context;
    verbs.cq_ex.handle = engine.handle();
    verbs.cq_ex.cqe = engine.cqe() as c_int;
    place.write(Cq {
        verbs,
        engine,
        health: Health::default(),
        polling: RawMutex::INIT,
        single_threaded: false,
        current: Wc::default(),
    });
    Ok(Box::into_raw(place).cast())
}

pub unsafe extern "C" fn create_cq(
    context: *mut ibv_context,
    cqe: c_int,
    channel: *mut ibv_comp_channel,
    vector: c_int,
) -> *mut ibv_cq {
    guard::run(|| {
        let (Ok(cqe), Ok(vector)) = (u32::try_from(cqe), u32::try_from(vector)) else {
            return Err(Errno(libc::EINVAL));
        };
        // SAFETY: as libibverbs passes them.
        Ok(unsafe { create(context, cqe, channel, vector) }?.cast())
    })
}

/// Number of completions, or a negative value.
struct Polled(c_int);

impl Failure for Polled {
    fn failure(errno: Errno) -> Self {
        guard::set_errno(errno);
        Polled(-errno.0)
    }
}

pub unsafe extern "C" fn poll_cq(cq: *mut ibv_cq, entries: c_int, wc: *mut ibv_wc) -> c_int {
    // SAFETY: a queue of ours.
    let cq = unsafe { Cq::of(cq) };
    let polled = cq.health.run(|| {
        let entries = usize::try_from(entries).map_err(|_| Errno(libc::EINVAL))?;
        if entries == 0 {
            return Ok(Polled(0));
        }
        // SAFETY: the caller's array of that many completions, whose layout is that of `Wc` (asserted above).
        let wc = unsafe { std::slice::from_raw_parts_mut(wc.cast::<Wc>(), entries) };
        Ok(Polled(cq.engine.poll(wc)? as c_int))
    });
    polled.0
}

pub unsafe extern "C" fn req_notify_cq(cq: *mut ibv_cq, solicited_only: c_int) -> c_int {
    // SAFETY: a queue of ours.
    let cq = unsafe { Cq::of(cq) };
    cq.health.run(|| {
        cq.engine.req_notify(solicited_only != 0)?;
        Ok(0)
    })
}

pub unsafe extern "C" fn resize_cq(cq: *mut ibv_cq, cqe: c_int) -> c_int {
    // SAFETY: a queue of ours.
    let object = unsafe { Cq::of(cq) };
    object.health.run(|| {
        let cqe = u32::try_from(cqe).map_err(|_| Errno(libc::EINVAL))?;
        let actual = object
            .engine
            .resize(cqe)
            .map_err(|e| explain("ibv_resize_cq", e))?;
        // SAFETY: the caller's queue; nobody else writes its size.
        unsafe { (*cq).cqe = actual as c_int };
        Ok(0)
    })
}

pub unsafe extern "C" fn destroy_cq(cq: *mut ibv_cq) -> c_int {
    guard::run(|| {
        // SAFETY: a queue of ours.
        let delivered = unsafe { Cq::of(cq) }
            .engine
            .destroy()
            .map_err(|e| explain("ibv_destroy_cq", e))?;
        // SAFETY: libibverbs prepared the lock when it got the queue and counts under it; afterwards nobody refers to it.
        unsafe {
            wait::acknowledged(
                &raw mut (*cq).mutex,
                &raw mut (*cq).cond,
                &[
                    (&raw const (*cq).comp_events_completed, delivered.comp),
                    (&raw const (*cq).async_events_completed, delivered.events),
                ],
            );
            drop(Box::from_raw(cq.cast::<Cq>()));
        }
        Ok(0)
    })
}
