//! The provider that drives a device, by the device's own structure.
//!
//! libibverbs has a pointer to the provider's table of operations behind each device that it shows
//! programs (`struct verbs_device`, the same in all versions). Whose memory that table is, the
//! dynamic linker knows: if the object exports [`DIRECT`], the device is ferroce's. The object is
//! loaded already, or there would be no device; none is loaded here.

use std::ffi::c_void;
use std::mem::{MaybeUninit, size_of};

use ferroce_cabi::direct::{DIRECT, ferroce_direct};
use ferroce_cabi::pabi::verbs_device;
use ferroce_cabi::{ibv_context, ibv_device, ibv_qp};

use crate::failure::Failure;

/// What the provider of a device does; `None`: it is none of ferroce's.
///
/// # Safety
/// `device` is null, or of libibverbs' list or of an open context.
pub(crate) unsafe fn of_device(device: *const ibv_device) -> Option<&'static ferroce_direct> {
    if device.is_null() {
        return None;
    }

    // SAFETY: every device that libibverbs shows is the head of a `verbs_device`.
    let operations = unsafe { (*device.cast::<verbs_device>()).ops };
    let table = exported(operations.cast())?;
    // SAFETY: what is exported under this name is such a table, or a longer one, and is never
    // unloaded: libibverbs keeps its providers.
    let table = unsafe { &*table };
    (table.size >= size_of::<ferroce_direct>()).then_some(table)
}

/// Likewise, of a context. `EINVAL`: it is null; `EOPNOTSUPP`: the device is none of ferroce's.
///
/// # Safety
/// `context` is null or an open context.
pub(crate) unsafe fn of_context(
    context: *mut ibv_context,
) -> Result<&'static ferroce_direct, Failure> {
    if context.is_null() {
        return Err(Failure::new(libc::EINVAL, "the context is NULL"));
    }
    // SAFETY: as the caller promises.
    unsafe { of_device((*context).device) }
        .ok_or_else(|| Failure::new(libc::EOPNOTSUPP, "the device is none of ferroce's"))
}

/// Likewise, of a queue pair.
///
/// # Safety
/// `qp` is null or a queue pair that was not destroyed.
pub(crate) unsafe fn of_qp(qp: *mut ibv_qp) -> Result<&'static ferroce_direct, Failure> {
    if qp.is_null() {
        return Err(Failure::new(libc::EINVAL, "the queue pair is NULL"));
    }
    // SAFETY: as the caller promises.
    unsafe { of_context((*qp).context) }
}

/// What the shared object that this address is in exports as [`DIRECT`].
fn exported(address: *const c_void) -> Option<*const ferroce_direct> {
    let mut object = MaybeUninit::<libc::Dl_info>::zeroed();
    // SAFETY: the address is only compared; the place for the answer is ours.
    let found = unsafe { libc::dladdr(address, object.as_mut_ptr()) };
    // SAFETY: zeroed, or filled in.
    let name = unsafe { object.assume_init() }.dli_fname;
    if found == 0 || name.is_null() {
        return None;
    }

    // SAFETY: the name of a loaded object, which is not loaded anew; of the program's own none is
    // found, which is none of ours.
    unsafe {
        let handle = libc::dlopen(name, libc::RTLD_LAZY | libc::RTLD_NOLOAD);
        if handle.is_null() {
            return None;
        }
        let table = libc::dlsym(handle, DIRECT.as_ptr());
        libc::dlclose(handle);
        (!table.is_null()).then_some(table.cast_const().cast())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_provider_of_ours_has_no_table() {
        let ours = std::ptr::from_ref(&DIRECT).cast();
        let c_library = libc::getpid as *const c_void;
        for address in [std::ptr::null(), ours, c_library] {
            assert_eq!(exported(address), None);
        }
        // SAFETY: null.
        assert!(unsafe { of_device(std::ptr::null()) }.is_none());
    }
}
