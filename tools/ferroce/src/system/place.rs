//! Where the machine's device is, and what keeps programs from finding it there.

use std::path::Path;

/// Where the machine's device has its runtime directory.
pub(super) const RUNTIME: &str = "/run/ferroce";
/// Where libibverbs finds it: the image of `/sys` there.
pub(super) const SYSFS: &str = "/run/ferroce/sys";

/// Why netlink keeps programs from seeing the device, if it does.
pub(super) fn in_the_way() -> Option<&'static str> {
    Path::new("/sys/module/ib_core").exists().then_some(
        "the kernel module ib_core is loaded: libibverbs asks it for devices, and does not look at SYSFS_PATH, so programs do \
         not see the machine's ferroce device (`ferroce run` shows it all the same); unload it (`modprobe -r ib_core`, and what uses it)",
    )
}
