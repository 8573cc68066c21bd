//! `ibv_import_device(3)`: a second context on the command descriptor of another.
//!
//! With a kernel, whoever has a duplicate of a context's command descriptor can open another
//! context on the same objects, in any process. Here the objects are in the process that made them,
//! so a duplicate is followed as far as this process: whether it came by `dup(2)` or by
//! `SCM_RIGHTS`, the kernel is asked whether it is the same open file as the descriptor of a
//! context. For descriptors of other processes the answer is `EOPNOTSUPP`.

use crate::command_fd::original;
use crate::guard::{self, Errno, explain};
use crate::open::{self, duplicate};
use crate::stand_in;
use ferroce_cabi::uverbs::{SHIM_ADOPT, shim_adopt};
use ferroce_cabi::*;
use libc::c_int;
use std::ffi::CStr;

/// The shim's part: libibverbs asks the command descriptor for the context's asynchronous events.
fn adopt() -> Option<shim_adopt> {
    let address = stand_in::of_shim(SHIM_ADOPT)?;
    // SAFETY: the type that the shim's function of this name has.
    Some(unsafe { std::mem::transmute::<*mut libc::c_void, shim_adopt>(address) })
}

/// The `N` of a device that libibverbs calls `uverbsN`.
///
/// # Safety
/// `device` is libibverbs'.
unsafe fn uverbs_number(device: *const ibv_device) -> Option<u16> {
    // SAFETY: libibverbs keeps the name, which ends in NUL.
    let name = unsafe { CStr::from_ptr((*device).dev_name.as_ptr()) };
    name.to_str().ok()?.strip_prefix("uverbs")?.parse().ok()
}

/// Opens a context on a duplicate of another's command descriptor, which it takes over unless it
/// fails.
pub(crate) unsafe extern "C" fn import_context(
    device: *mut ibv_device,
    cmd_fd: c_int,
) -> *mut verbs_context {
    guard::run(|| {
        let unsupported = Errno(libc::EOPNOTSUPP);
        let original = original(cmd_fd).ok_or(unsupported)?;

        // SAFETY: a device of libibverbs.
        let number = unsafe { uverbs_number(device) }.ok_or(unsupported)?;
        let adopt = adopt().ok_or(unsupported)?;
        let engine = original
            .import()
            .map_err(|e| explain("ibv_import_device", e))?;
        let async_fd = duplicate(engine.async_fd())?;

        // SAFETY: as above.
        let context = match unsafe { open::make(device, cmd_fd, engine, -1) } {
            Ok(context) => context,
            Err(Errno(errno)) => {
                // SAFETY: our own duplicate.
                unsafe { libc::close(async_fd) };
                return Err(Errno(errno));
            }
        };

        // SAFETY: descriptors of ours; the shim's function has this type.
        unsafe { adopt(cmd_fd, number, async_fd) };
        Ok(context)
    })
}
