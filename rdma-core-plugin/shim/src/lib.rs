//! `libferroce-shim.so`, loaded with `LD_PRELOAD`: stands in for the kernel's RDMA device files.
//!
//! Stock libibverbs, librdmacm and libibumad find devices under `/sys/class/infiniband*` and talk
//! to files in `/dev/infiniband`. The shim turns those path prefixes into paths under the image
//! that ferroced keeps in its runtime directory (`FERROCE_RUNTIME_DIR`, read when the shim is
//! loaded), answers the few commands that the libraries write to the descriptors opened there or
//! carries them to ferroced (`rdma_cm`, `umadN`, `issmN`), and makes connections to ferroced of
//! `NETLINK_RDMA` sockets. To libfabric, which takes no loopback interface, it shows the address of
//! a port as one of no such interface.
//!
//! A program that did not preload it can have it, too, if the device is the machine's: see
//! `stand_in.rs`.
//!
//! It sits in every process below `ferroce run`, shells included. So it looks at the first bytes of
//! a path and at one table entry of a descriptor and otherwise passes the call on; it starts no
//! thread, allocates nothing from the heap, takes no lock but for commands that it carries and maps
//! no memory but for `rdma_cm` and a page that says which process it is in, and works before its
//! own constructor and in signal handlers. It never touches packets or verbs objects, and it never
//! hides a failure of the call that it passes on.

mod answers;
mod carrier;
mod channels;
mod command;
mod completions;
mod descriptors;
mod gid;
mod image;
mod interfaces;
mod interpose;
mod lock;
mod netlink;
mod next;
mod rdma_cm;
mod search;
mod settings;
mod stand_in;
mod sys;
mod told;
mod umad;

/// Runs when the shim is loaded, before the program's own code.
#[cfg_attr(not(test), used, unsafe(link_section = ".init_array"))]
#[cfg_attr(test, allow(dead_code))]
static CONSTRUCTOR: extern "C" fn() = constructor;

extern "C" fn constructor() {
    ferroce_process::remember();
    image::IMAGE.locate();
    // Of the machine's own device, which is not the one that this process is to see.
    // SAFETY: constant names; before the program's code there are no other threads.
    unsafe {
        if image::IMAGE.directory().is_some()
            && !libc::getenv(c"SYSFS_PATH".as_ptr()).is_null()
            && next::is_preloaded()
        {
            libc::unsetenv(c"SYSFS_PATH".as_ptr());
        }
    }
}
