//! `ibv_import_device(3)`: a second context on the command descriptor of another.
//!
//! With a kernel, whoever has a duplicate of a context's command descriptor can open another context on the same objects, in any
//! process. Here the objects are in the process that made them, so a duplicate is followed as far as this process: whether it came by
//! `dup(2)` or by `SCM_RIGHTS`, the kernel is asked whether it is the same open file as the descriptor of a context. For
//! descriptors of other processes the answer is `EOPNOTSUPP`.

use crate::context::{self, duplicate};
use crate::guard::{self, Errno, explain};
use ferroce_cabi::uverbs::{SHIM_ADOPT, shim_adopt};
use ferroce_cabi::*;
use ferroce_engine::Context as EngineContext;
use libc::c_int;
use parking_lot::Mutex;
use std::ffi::CStr;
use std::sync::{Arc, Weak};

/// The contexts of this process, by command descriptor.
static CONTEXTS: Mutex<Vec<(c_int, Weak<EngineContext>)>> = Mutex::new(Vec::new());

/// Remembers a context for imports.
pub fn opened(cmd_fd: c_int, engine: &Arc<EngineContext>) {
    CONTEXTS.lock().push((cmd_fd, Arc::downgrade(engine)));
}

/// Forgets the context of a command descriptor.
pub fn closed(cmd_fd: c_int) {
    CONTEXTS.lock().retain(|(fd, _)| *fd != cmd_fd);
}

/// The context whose command descriptor this is a duplicate of.
fn original(cmd_fd: c_int) -> Option<Arc<EngineContext>> {
    let contexts = CONTEXTS.lock();
    let (_, engine) = contexts.iter().find(|(fd, _)| same_file(*fd, cmd_fd))?;
    engine.upgrade()
}

/// Whether two descriptors are of one open file. Where the kernel does not say, they are taken for different ones.
fn same_file(a: c_int, b: c_int) -> bool {
    const KCMP_FILE: libc::c_long = 0;
    // SAFETY: the calls touch no memory of ours.
    unsafe {
        let me = libc::c_long::from(libc::getpid());
        let (a, b) = (libc::c_long::from(a), libc::c_long::from(b));
        libc::syscall(libc::SYS_kcmp, me, me, KCMP_FILE, a, b) == 0
    }
}

/// The shim's part: libibverbs asks the command descriptor for the context's asynchronous events.
fn adopt() -> Option<shim_adopt> {
    // SAFETY: a constant name, and the type that the shim's function of this name has.
    unsafe {
        let address = libc::dlsym(libc::RTLD_DEFAULT, SHIM_ADOPT.as_ptr());
        (!address.is_null()).then(|| std::mem::transmute::<*mut libc::c_void, shim_adopt>(address))
    }
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

/// Opens a context on a duplicate of another's command descriptor, which it takes over unless it fails.
pub unsafe extern "C" fn import_context(
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
        let context = match unsafe { context::make(device, cmd_fd, engine, -1) } {
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
