//! Registration with libibverbs, and the device object.

use crate::libibverbs::{self, Library};
use crate::{import, open};
use ferroce_cabi::pabi::{
    CORE_SUPPORT_OPTIONAL_MR_ACCESS, verbs_device, verbs_device_ops, verbs_match_ent,
    verbs_sysfs_dev,
};
use std::ptr::{null, null_mut};

/// Its `kind` is that of a table's end, `VERBS_MATCH_SENTINEL`.
///
/// There has to be a table, be it empty: where the kernel tells of a real device who drives it
/// (`RDMA_NLDEV_ATTR_UVERBS_DRIVER_ID`), libibverbs looks through the tables of all providers
/// without asking whether there is one.
static NO_ENTRY: verbs_match_ent = verbs_match_ent {
    driver_data: null_mut(),
    u: 0,
    vendor: 0,
    device: 0,
    kind: 0,
};

const OPS: verbs_device_ops = verbs_device_ops {
    name: c"ferroce".as_ptr(),
    // The device's own ABI is between this provider and its engine, in one binary: any number does.
    match_min_abi_version: 0,
    match_max_abi_version: u32::MAX,
    match_table: &raw const NO_ENTRY,
    static_providers: null(),
    match_device: Some(match_device),
    alloc_context: Some(open::alloc_context),
    import_context: Some(import::import_context),
    alloc_device: Some(alloc_device),
    uninit_device: Some(uninit_device),
};

/// Registers with every libibverbs of this process that it has not been registered with yet. Where
/// one has a version that is not known, says so on stderr.
pub(crate) fn register() {
    for library in libibverbs::newcomers() {
        register_with(library);
    }
}

/// Registers with one library.
pub(crate) fn register_with(library: Library) {
    libibverbs::register(library, OPS);
}

/// Ours are the devices whose character device is `/dev/null`: only the image that ferroced makes
/// has such.
unsafe extern "C" fn match_device(sysfs: *mut verbs_sysfs_dev) -> bool {
    // SAFETY: libibverbs passes a live device that it found.
    unsafe { (*sysfs).sysfs_cdev == libc::makedev(1, 3) }
}

unsafe extern "C" fn alloc_device(_sysfs: *mut verbs_sysfs_dev) -> *mut verbs_device {
    // SAFETY: all bits zero is a valid `verbs_device`: integers, pointers and optional functions.
    // libibverbs fills it in.
    let mut device: Box<verbs_device> = Box::new(unsafe { std::mem::zeroed() });
    device.core_support = CORE_SUPPORT_OPTIONAL_MR_ACCESS;
    Box::into_raw(device)
}

unsafe extern "C" fn uninit_device(device: *mut verbs_device) {
    // SAFETY: made by `alloc_device`, and libibverbs dropped its last reference.
    drop(unsafe { Box::from_raw(device) });
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A real device beside ours, of which the kernel says who drives it, made libibverbs read a
    /// table that was not there.
    #[test]
    fn the_table_of_devices_is_there_and_matches_none() {
        // SAFETY: libibverbs reads it like this, without a look at the pointer.
        let first = unsafe { OPS.match_table.as_ref() }.expect("a table");
        assert_eq!(first.kind, 0, "VERBS_MATCH_SENTINEL");
    }
}
