//! The context: what it is, closing it, and the queries about device and port. [`crate::open`]
//! opens it.

use crate::command_fd;
use crate::convert;
use crate::direct;
use crate::guard::{self, Errno};
use crate::libibverbs::{self, Library};
use ferroce_cabi::pabi::CONTEXT_HEAD_MAX;
use ferroce_cabi::*;
use ferroce_engine::Context as EngineContext;
use libc::{c_int, size_t};
use std::mem::{offset_of, size_of};
use std::sync::Arc;

/// Our part follows libibverbs' own; the whole is libibverbs' memory (`malloc`).
#[repr(C)]
pub(crate) struct Context {
    /// Where the `verbs_context` of later versions begins, which grows at its head.
    head: [Op; CONTEXT_HEAD_MAX],
    pub verbs: verbs_context,
    pub engine: Arc<EngineContext>,
    /// So that a `verbs_context` that is longer than expected is within the memory too, and can be
    /// refused.
    room: [Op; 32],
}

/// The engine's context behind a C one.
///
/// # Safety
/// `context` is one of ours and open.
pub(crate) unsafe fn engine<'a>(context: *mut ibv_context) -> &'a Arc<EngineContext> {
    let offset = offset_of!(Context, verbs) + offset_of!(verbs_context, context);
    // SAFETY: every context that reaches this provider was made by `open::make`, which put it at
    // this offset.
    unsafe { &(*context.byte_sub(offset).cast::<Context>()).engine }
}

/// The libibverbs of a context.
///
/// # Safety
/// `context` is one of ours.
pub(crate) unsafe fn library(context: *const ibv_context) -> &'static Library {
    // SAFETY: as the caller promises; libibverbs keeps a context's device.
    unsafe { libibverbs::library((*context).device) }
}

pub(crate) unsafe extern "C" fn free_context(context: *mut ibv_context) {
    let offset = offset_of!(Context, verbs) + offset_of!(verbs_context, context);

    // SAFETY: an open context of ours; libibverbs calls this once and forgets it.
    let context: *mut Context = unsafe { context.byte_sub(offset) }.cast();

    // SAFETY: as above; the engine's part is read out once, and the memory is freed last.
    unsafe {
        let engine = (&raw mut (*context).engine).read();
        command_fd::closed((*context).verbs.context.cmd_fd);
        let _: c_int = guard::run(|| {
            direct::closed(&engine);
            engine.close();
            drop(engine);
            Ok(0)
        });
        let verbs = &raw mut (*context).verbs;
        let library = library(&raw const (*verbs).context);
        (library.uninit_context)(verbs.byte_sub(library.context_head()));
        libc::free(context.cast());
    }
}

/// libibverbs has read an asynchronous event.
pub(crate) unsafe extern "C" fn async_event(
    context: *mut ibv_context,
    _event: *mut ibv_async_event,
) {
    // SAFETY: a context of ours.
    guard::quietly((), || unsafe { engine(context) }.event_was_read());
}

pub(crate) unsafe extern "C" fn query_device_ex(
    context: *mut ibv_context,
    input: *const ibv_query_device_ex_input,
    attr: *mut ibv_device_attr_ex,
    size: size_t,
) -> c_int {
    guard::run(|| {
        // SAFETY: null or the caller's structure.
        if unsafe { input.as_ref() }.is_some_and(|input| input.comp_mask != 0)
            || size < size_of::<ibv_device_attr>()
        {
            return Err(Errno(libc::EINVAL));
        }

        // SAFETY: a context of ours.
        let device = convert::device_attr(&unsafe { engine(context) }.hca().device_attr());
        let known = size.min(size_of::<ibv_device_attr_ex>());

        // SAFETY: the caller's structure has `size` bytes; a newer one than ours gets zeros at its
        // end.
        unsafe {
            std::ptr::copy_nonoverlapping(
                (&raw const device).cast::<u8>(),
                attr.cast::<u8>(),
                known,
            );
            attr.cast::<u8>().add(known).write_bytes(0, size - known);
        }

        Ok(0)
    })
}

pub(crate) unsafe extern "C" fn query_port(
    context: *mut ibv_context,
    port: u8,
    attr: *mut ibv_port_attr,
) -> c_int {
    guard::run(|| {
        // SAFETY: a context of ours.
        let found = unsafe { engine(context) }.hca().port_attr(port)?;
        // SAFETY: the caller's structure.
        unsafe { attr.write(convert::port_attr(&found)) };
        Ok(0)
    })
}

/// The port's effective speed in units of 100 Mbit/s.
pub(crate) unsafe extern "C" fn query_port_speed(
    context: *mut ibv_context,
    port: u32,
    speed: *mut u64,
) -> c_int {
    guard::run(|| {
        let port = u8::try_from(port).map_err(|_| Errno(libc::EINVAL))?;
        // SAFETY: a context of ours.
        let found = unsafe { engine(context) }.hca().port_attr(port)?;
        let found = convert::port_speed(&found).ok_or(Errno(libc::EINVAL))?;
        // SAFETY: the caller's variable.
        unsafe { speed.write(found) };
        Ok(0)
    })
}

/// The device's clock, as it stamps completions: its ticks stand in `tv_nsec`, all of them,
/// whatever their number.
pub(crate) unsafe extern "C" fn query_rt_values(
    context: *mut ibv_context,
    values: *mut ibv_values_ex,
) -> c_int {
    guard::run(|| {
        // SAFETY: the caller's structure.
        let values = unsafe { values.as_mut() }.ok_or(Errno(libc::EINVAL))?;
        if values.comp_mask & !IBV_VALUES_MASK_RAW_CLOCK != 0 {
            return Err(Errno(libc::EINVAL));
        }
        if values.comp_mask & IBV_VALUES_MASK_RAW_CLOCK != 0 {
            values.raw_clock.tv_sec = 0;
            // SAFETY: a context of ours.
            values.raw_clock.tv_nsec = unsafe { engine(context) }.hca().clock() as i64;
        }
        Ok(0)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    // Versions of libibverbs that are installed where the C programs run may not have this verb.
    #[test]
    fn the_speed_of_no_port() {
        let mut speed = 7;
        guard::set_errno(Errno(0));
        // SAFETY: a port that cannot be is refused before the context is looked at.
        let result = unsafe { query_port_speed(std::ptr::null_mut(), 257, &mut speed) };
        assert_eq!(
            (result, guard::errno()),
            (libc::EINVAL, Errno(libc::EINVAL))
        );
        assert_eq!(speed, 7);
    }
}
