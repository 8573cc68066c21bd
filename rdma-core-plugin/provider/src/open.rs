//! Opening the device: the C object of a context, with all operations in it.

use crate::channels;
use crate::command_fd::{self, OwnedCommandFd};
use crate::context::Context;
use crate::guard::{self, Errno};
use crate::libibverbs;
use crate::operations;
use crate::stand_in;
use ferroce_cabi::*;
use ferroce_engine::{Context as EngineContext, Hca, RuntimeDir};
use libc::{c_int, c_void};
use std::mem::{offset_of, size_of};
use std::os::fd::RawFd;
use std::sync::Arc;

/// Opens the device. Takes over `cmd_fd`, also when it fails.
pub(crate) unsafe extern "C" fn alloc_context(
    device: *mut ibv_device,
    cmd_fd: c_int,
    _private: *mut c_void,
) -> *mut verbs_context {
    let mut cmd_fd = OwnedCommandFd(cmd_fd);
    guard::run(|| {
        stand_in::look_again();
        let open = || EngineContext::open(Hca::open(&RuntimeDir::of_programs())?);
        let engine = open().map_err(|error| {
            // The one failure that a user must be told about in words: no daemon, port taken, no
            // free slot.
            eprintln!("ferroce: cannot open the device: {error}");
            Errno::from(error)
        })?;
        let async_fd = duplicate(engine.async_fd())?;
        // With the descriptor there, libibverbs does not ask the kernel for one.
        // SAFETY: a device of libibverbs.
        unsafe { make(device, cmd_fd.take(), engine, async_fd) }
            .inspect_err(|_| {
                // SAFETY: our own duplicate.
                unsafe { libc::close(async_fd) };
            })
            .inspect(|_| channels::has_events(async_fd))
    })
}

/// Makes the C object of a context, and answers where libibverbs' part begins. Takes over `cmd_fd`,
/// also when it fails, and `async_fd`, the descriptor of asynchronous events or -1, unless it
/// fails.
///
/// # Safety
/// `device` is libibverbs'.
pub(crate) unsafe fn make(
    device: *mut ibv_device,
    cmd_fd: c_int,
    engine: Arc<EngineContext>,
    async_fd: c_int,
) -> Result<*mut verbs_context, Errno> {
    let mut cmd_fd = OwnedCommandFd(cmd_fd);
    // SAFETY: as the caller promises.
    let library = unsafe { libibverbs::library(device) };
    let command = cmd_fd.0;
    let start = offset_of!(Context, verbs) - library.context_head();

    // SAFETY: a device of libibverbs; the offset is that of its `verbs_context` in `Context`.
    let context: *mut Context = unsafe {
        let offset = std::ptr::without_provenance_mut(start);
        (library.init_and_alloc_context)(device, cmd_fd.take(), size_of::<Context>(), offset, 0)
    }
    .cast();
    if context.is_null() {
        return Err(guard::errno());
    }

    // SAFETY: fresh memory of that size, of which libibverbs has filled in its `verbs_context`,
    // wherever that ends.
    unsafe {
        let verbs = context.byte_add(start).cast::<verbs_context>();
        if !libibverbs::is_as_expected(library, &(*context).verbs, device)
            || !operations::offer(library, &raw mut (*context).verbs)
        {
            (library.uninit_context)(verbs);
            libc::free(context.cast());
            eprintln!(
                "ferroce: cannot open the device: this libibverbs is a variant of {} that is not known",
                library.served.layout
            );
            return Err(Errno(libc::ENOSYS));
        }

        command_fd::opened(command, &engine);
        let vectors = engine.hca().vectors();
        (&raw mut (*context).engine).write(engine);
        (*context).verbs.context.async_fd = async_fd;
        (*context).verbs.context.num_comp_vectors = vectors as c_int;
        Ok(verbs)
    }
}

/// libibverbs closes a context's descriptor, and the engine keeps its own.
pub(crate) fn duplicate(fd: RawFd) -> Result<c_int, Errno> {
    // SAFETY: touches no memory.
    match unsafe { libc::fcntl(fd, libc::F_DUPFD_CLOEXEC, 0) } {
        -1 => Err(guard::errno()),
        copy => Ok(copy),
    }
}
