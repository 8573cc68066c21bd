//! Completion queues.

use crate::allocators::{Allocators, Resource};
use crate::context::engine;
use crate::guard::{self, Errno, Failure, Health, explain};
use crate::live;
use crate::memory::Pd;
use crate::place::{self, Place};
use crate::wait;
use ferroce_cabi::pabi::verbs_cq;
use ferroce_cabi::*;
use ferroce_engine::{CqInit, Entry, Lent, Moderation, Wc};
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
pub(crate) struct Cq {
    pub verbs: verbs_cq,
    pub engine: Arc<ferroce_engine::Cq>,
    pub health: Health,
    /// Held between `start_poll` and `end_poll`, unless one thread alone polls.
    pub polling: RawMutex,
    pub single_threaded: bool,
    /// Where its completions lie, if the program has allocators.
    allocators: Option<Arc<Allocators>>,
    /// What the `read_*` functions read.
    pub current: Entry,
}

impl Cq {
    /// The object behind a C pointer.
    ///
    /// # Safety
    /// `cq` was made by [`create`] and not freed.
    pub(crate) unsafe fn of<'a>(cq: *mut ibv_cq) -> &'a Cq {
        // SAFETY: as the caller promises; the C structure is the head of ours.
        unsafe { &*cq.cast::<Cq>() }
    }

    /// As [`of`](Self::of), for the control path: `EINVAL` for what is not alive.
    ///
    /// # Safety
    /// Nobody frees it meanwhile.
    pub(crate) unsafe fn live<'a>(cq: *mut ibv_cq) -> Result<&'a Cq, Errno> {
        live::check(cq)?;
        // SAFETY: it is alive.
        Ok(unsafe { Self::of(cq) })
    }

    /// `EINVAL` if the handle was overwritten: the look at an object that posting and polling
    /// afford.
    #[inline]
    pub(crate) fn check_handle(&self) -> Result<(), Errno> {
        if self.verbs.cq_ex.handle != self.engine.handle() {
            return Err(Errno(libc::EINVAL));
        }
        Ok(())
    }
}

impl AsRef<Health> for Cq {
    fn as_ref(&self) -> &Health {
        &self.health
    }
}

/// How to create a queue, as libibverbs passes it.
pub(crate) struct Init<'a> {
    pub cqe: u32,
    pub channel: *mut ibv_comp_channel,
    pub vector: u32,
    pub stamped: bool,
    pub single_threaded: bool,
    pub ignore_overrun: bool,
    /// The parent domain whose resources it uses.
    pub domain: Option<&'a Pd>,
}

/// Creates a queue; libibverbs fills in all of the C structure but `handle` and `cqe`.
///
/// # Safety
/// A context of ours; a channel of libibverbs or null.
pub(crate) unsafe fn create(context: *mut ibv_context, init: Init<'_>) -> Result<*mut Cq, Errno> {
    let allocators = init.domain.and_then(Pd::allocators);
    let place = Place::<Cq>::new(allocators, Resource::Cq)?;

    // SAFETY: the caller's channel.
    let channel = unsafe { init.channel.as_ref() };
    if channel.is_some_and(|channel| channel.context != context) {
        return Err(Errno(libc::EINVAL));
    }

    let channel = channel.map(|channel| channel.fd);

    // SAFETY: a context of ours.
    let context_engine = unsafe { engine(context) };
    let engine = context_engine
        .create_cq_with(CqInit {
            cqe: init.cqe,
            cookie: place.address(),
            vector: init.vector,
            channel,
            stamped: init.stamped,
            ignore_overrun: init.ignore_overrun,
            pd: init.domain.map(|domain| domain.engine.clone()),
            memory: lend(context, allocators, init.cqe)?,
        })
        .map_err(|e| explain("ibv_create_cq", e))?;

    // SAFETY: all bits zero is a valid `verbs_cq`: integers, pointers and optional functions.
    let mut verbs: verbs_cq = unsafe { std::mem::zeroed() };
    verbs.cq_ex.context = context;
    verbs.cq_ex.handle = engine.handle();
    verbs.cq_ex.cqe = engine.cqe() as c_int;
    let cq = place.write(Cq {
        verbs,
        engine,
        health: Health::default(),
        polling: RawMutex::INIT,
        single_threaded: init.single_threaded,
        allocators: allocators.cloned(),
        current: Entry::default(),
    });

    // SAFETY: initialised; the C structure is its head.
    unsafe { live::enter(cq.cast::<ibv_cq>()) };
    Ok(cq)
}

/// Memory of the program's for `cqe` completions, if it has allocators and wants to.
fn lend(
    context: *mut ibv_context,
    allocators: Option<&Arc<Allocators>>,
    cqe: u32,
) -> Result<Option<Lent>, Errno> {
    let Some(allocators) = allocators else {
        return Ok(None);
    };

    // SAFETY: a context of ours.
    let limit = unsafe { engine(context) }.hca().device_attr().max_cqe;
    if !(1..=limit).contains(&(cqe as c_int)) {
        return Err(Errno(libc::EINVAL));
    }

    let layout = Lent::layout(cqe);
    let Some(start) = allocators.allocate(layout, Resource::CqEntries)? else {
        return Ok(None);
    };

    let owner = allocators.clone();
    let release = move |start| owner.release(start, Resource::CqEntries);

    // SAFETY: the program gave that much memory, with that alignment, for the queue to use until it
    // is released.
    Ok(Some(unsafe { Lent::new(start, layout.size(), release) }))
}

pub(crate) unsafe extern "C" fn create_cq(
    context: *mut ibv_context,
    cqe: c_int,
    channel: *mut ibv_comp_channel,
    vector: c_int,
) -> *mut ibv_cq {
    guard::run(|| {
        let (Ok(cqe), Ok(vector)) = (u32::try_from(cqe), u32::try_from(vector)) else {
            return Err(Errno(libc::EINVAL));
        };
        let init = Init {
            cqe,
            channel,
            vector,
            stamped: false,
            single_threaded: false,
            ignore_overrun: false,
            domain: None,
        };
        // SAFETY: as libibverbs passes them.
        Ok(unsafe { create(context, init) }?.cast())
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

pub(crate) unsafe extern "C" fn poll_cq(cq: *mut ibv_cq, entries: c_int, wc: *mut ibv_wc) -> c_int {
    // SAFETY: a queue of ours.
    let cq = unsafe { Cq::of(cq) };
    let polled = cq.health.run(|| {
        cq.check_handle()?;
        let entries = usize::try_from(entries).map_err(|_| Errno(libc::EINVAL))?;
        if entries == 0 {
            return Ok(Polled(0));
        }
        // SAFETY: the caller's array of that many completions, whose layout is that of `Wc`
        // (asserted above).
        let wc = unsafe { std::slice::from_raw_parts_mut(wc.cast::<Wc>(), entries) };
        Ok(Polled(cq.engine.poll(wc)? as c_int))
    });
    polled.0
}

/// libibverbs has read an event of the queue's channel.
pub(crate) unsafe extern "C" fn cq_event(cq: *mut ibv_cq) {
    // SAFETY: a queue of ours, which stays until its events are acknowledged.
    guard::quietly((), || unsafe { Cq::of(cq) }.engine.event_was_read());
}

pub(crate) unsafe extern "C" fn req_notify_cq(cq: *mut ibv_cq, solicited_only: c_int) -> c_int {
    // SAFETY: a queue of ours.
    let object = unsafe { Cq::of(cq) };
    object.health.run(|| {
        object.check_handle()?;
        object.engine.req_notify(solicited_only != 0)?;
        Ok(0)
    })
}

pub(crate) unsafe extern "C" fn resize_cq(cq: *mut ibv_cq, cqe: c_int) -> c_int {
    // SAFETY: a queue of ours.
    let object = unsafe { Cq::live(cq) };
    guard::on(object, |object| {
        let cqe = u32::try_from(cqe).map_err(|_| Errno(libc::EINVAL))?;
        // SAFETY: a queue of ours.
        let memory = lend(unsafe { (*cq).context }, object.allocators.as_ref(), cqe)?;
        let actual = object
            .engine
            .resize(cqe, memory)
            .map_err(|e| explain("ibv_resize_cq", e))?;
        // SAFETY: the caller's queue; nobody else writes its size.
        unsafe { (*cq).cqe = actual as c_int };
        Ok(0)
    })
}

/// Holds completion events back, as `ibv_modify_cq(3)` asks.
pub(crate) unsafe extern "C" fn modify_cq(cq: *mut ibv_cq, attr: *mut ibv_modify_cq_attr) -> c_int {
    // SAFETY: a queue of ours.
    let object = unsafe { Cq::live(cq) };
    guard::on(object, |object| {
        // SAFETY: the caller's structure.
        let attr = unsafe { attr.as_ref() }.ok_or(Errno(libc::EINVAL))?;
        if attr.attr_mask & !IBV_CQ_ATTR_MODERATE != 0 {
            return Err(Errno(libc::EOPNOTSUPP));
        }
        if attr.attr_mask & IBV_CQ_ATTR_MODERATE != 0 {
            object.engine.moderate(Moderation {
                count: attr.moderate.cq_count,
                period: attr.moderate.cq_period,
            });
        }
        Ok(0)
    })
}

pub(crate) unsafe extern "C" fn destroy_cq(cq: *mut ibv_cq) -> c_int {
    guard::run(|| {
        // SAFETY: a queue of ours.
        let delivered = unsafe { Cq::live(cq) }?
            .engine
            .destroy()
            .map_err(|e| explain("ibv_destroy_cq", e))?;

        // SAFETY: libibverbs prepared the lock when it got the queue and counts under it;
        // afterwards nobody refers to it.
        unsafe {
            wait::acknowledged(
                &raw mut (*cq).mutex,
                &raw mut (*cq).cond,
                &[
                    (&raw const (*cq).comp_events_completed, delivered.comp),
                    (&raw const (*cq).async_events_completed, delivered.events),
                ],
            );
            live::leave(cq);
            place::destroy(cq.cast::<Cq>());
        }

        Ok(0)
    })
}
