//! The shim in a process that did not preload it. The provider, once libibverbs has loaded it,
//! loads the shim beside it and calls [`ferroce_shim_stand_in`]: from then on the tables by which
//! libibverbs, librdmacm and libibumad call the C library hold the shim's functions. The program's
//! own calls, and all other libraries', stay as they are.
//!
//! Netlink is left alone: libibverbs has found the device in the image by then, and shall go on
//! knowing it by what it read there.
//!
//! Where the shim is preloaded nothing of this happens.

mod object;

use crate::image::IMAGE;
use crate::interpose::table;
use crate::next;
use ferroce_cabi::uverbs::StandIn;
use libc::{c_char, c_int, c_void, dl_phdr_info, size_t};
use object::Object;
use std::ffi::CStr;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// How the names of the files begin whose tables are changed. Tools that make packages
/// self-contained put a mark behind it.
const LIBRARIES: [&[u8]; 3] = [b"libibverbs", b"librdmacm", b"libibumad"];

/// Whether somebody is at it.
static BUSY: AtomicBool = AtomicBool::new(false);
/// How many objects had been loaded in the life of the process the last time.
static LOADED: AtomicU64 = AtomicU64::new(0);

/// For the provider: see [`ferroce_cabi::uverbs::shim_stand_in`].
///
/// # Safety
/// `directory` is NUL-terminated, and `done` writable.
#[cfg_attr(not(test), unsafe(no_mangle))]
#[cfg_attr(test, allow(dead_code))]
pub(crate) unsafe extern "C" fn ferroce_shim_stand_in(
    directory: *const c_char,
    done: *mut StandIn,
) -> c_int {
    // SAFETY: as the caller promises.
    let directory = unsafe { CStr::from_ptr(directory) };
    if IMAGE.directory().is_none() && !IMAGE.settle(directory) {
        return libc::ENAMETOOLONG;
    }
    if !next::is_late() {
        let shim = itself();
        if shim.is_null() || !table::look_up(shim) || !next::ask_the_program() {
            return libc::ENOSYS;
        }
    }

    // SAFETY: as the caller promises.
    let done = unsafe { &mut *done };
    LOADED.store(0, Ordering::Relaxed);
    match look(done) {
        true => 0,
        false => libc::EBUSY,
    }
}

/// A handle of this library, which stays loaded; null: it cannot be had.
fn itself() -> *mut c_void {
    let mut about = libc::Dl_info {
        dli_fname: std::ptr::null(),
        dli_fbase: std::ptr::null_mut(),
        dli_sname: std::ptr::null(),
        dli_saddr: std::ptr::null_mut(),
    };
    let address = (&raw const BUSY).cast();
    // SAFETY: an address of this library, and room for what is known of it; the name of a loaded
    // object ends in NUL, and nothing is loaded.
    unsafe {
        if libc::dladdr(address, &raw mut about) == 0 || about.dli_fname.is_null() {
            return std::ptr::null_mut();
        }
        libc::dlopen(about.dli_fname, libc::RTLD_LAZY | libc::RTLD_NOLOAD)
    }
}

/// Libraries that were loaded since the last look get the shim's functions, too.
#[inline]
pub(crate) fn look_again() {
    if next::is_late() {
        look(&mut StandIn::default());
    }
}

/// `false`: another thread is at it.
#[cold]
fn look(done: &mut StandIn) -> bool {
    if BUSY.swap(true, Ordering::Acquire) {
        return false;
    }
    // SAFETY: `visit` takes what it is given for what it is, and nothing is kept.
    unsafe { libc::dl_iterate_phdr(Some(visit), (&raw mut *done).cast()) };
    BUSY.store(false, Ordering::Release);
    true
}

/// One loaded object. Any other value than 0 ends the walk.
unsafe extern "C" fn visit(info: *mut dl_phdr_info, size: size_t, done: *mut c_void) -> c_int {
    // SAFETY: what `dl_iterate_phdr` hands over: an entry, and what it was given in `look`.
    let (info, done) = unsafe { (&*info, &mut *done.cast::<StandIn>()) };

    // The first one says whether there is anything new; a C library that does not count has all of
    // them looked at again.
    if size >= std::mem::size_of::<dl_phdr_info>() && info.dlpi_adds != 0 {
        let known = LOADED.load(Ordering::Relaxed);
        if done.seen == 0 && known == info.dlpi_adds {
            return 1;
        }
        LOADED.store(info.dlpi_adds, Ordering::Relaxed);
    }
    done.seen += 1;

    let name = match info.dlpi_name.is_null() {
        true => &[][..],
        // SAFETY: the name of an entry ends in NUL.
        false => unsafe { CStr::from_ptr(info.dlpi_name) }.to_bytes(),
    };
    let file = name.rsplit(|byte| *byte == b'/').next().unwrap_or_default();
    let library = LIBRARIES.iter().any(|library| file.starts_with(library));

    // The program comes first, and has no name.
    if library || done.seen == 1 {
        // SAFETY: an object that is loaded, and stays so until this function returns.
        let object = unsafe { Object::new(info) };
        let find: object::Find = match library {
            true => table::of_libraries,
            false => table::of_program,
        };
        match object.and_then(|object| object.put(find)) {
            Ok(slots) => {
                done.tables += u32::from(library);
                done.slots += slots;
            }
            Err(why) => {
                done.refused += u32::from(library);
                done.why = why.as_ptr();
            }
        }
    }

    0
}
