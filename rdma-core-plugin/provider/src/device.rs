//! Registration with libibverbs, and the device object.

use crate::libibverbs::library;
use crate::{context, import};
use ferroce_cabi::pabi::{
    CORE_SUPPORT_OPTIONAL_MR_ACCESS, verbs_device, verbs_device_ops, verbs_sysfs_dev,
};
use std::ptr::null;

static OPS: verbs_device_ops = verbs_device_ops {
    name: c"ferroce".as_ptr(),
    // The device's own ABI is between this provider and its engine, in one binary: any number does.
    match_min_abi_version: 0,
    match_max_abi_version: u32::MAX,
    match_table: null(),
    static_providers: null(),
    match_device: Some(match_device),
    alloc_context: Some(context::alloc_context),
    import_context: Some(import::import_context),
    alloc_device: Some(alloc_device),
    uninit_device: Some(uninit_device),
};

/// Registers with the libibverbs of this process; without one of a known version, says so on stderr and does nothing.
pub fn register() {
    if let Some(library) = library() {
        // SAFETY: the table is static and as all versions of the interface have it.
        unsafe { (library.register_driver)(&OPS) };
    }
}

/// Ours are the devices whose character device is `/dev/null`: only the image that ferroced makes has such.
unsafe extern "C" fn match_device(sysfs: *mut verbs_sysfs_dev) -> bool {
    // SAFETY: libibverbs passes a live device that it found.
    unsafe { (*sysfs).sysfs_cdev == libc::makedev(1, 3) }
}

unsafe extern "C" fn alloc_device(_sysfs: *mut verbs_sysfs_dev) -> *mut verbs_device {
    // SAFETY: all bits zero is a valid `verbs_device`: integers, pointers and optional functions. libibverbs fills it in.
    let mut device: Box<verbs_device> = Box::new(unsafe { std::mem::zeroed() });
    device.core_support = CORE_SUPPORT_OPTIONAL_MR_ACCESS;
    Box::into_raw(device)
}

unsafe extern "C" fn uninit_device(device: *mut verbs_device) {
    // SAFETY: made by `alloc_device`, and libibverbs dropped its last reference.
    drop(unsafe { Box::from_raw(device) });
}
