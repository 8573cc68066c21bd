//! The shim in a program that did not preload it. Where the machine itself has a device, programs
//! find it by `SYSFS_PATH` alone, and libibverbs loads this provider without any word of a shim.
//! The provider then loads the one that lies beside it, and has it stand in for the kernel's files
//! in the libraries of RDMA. Without it verbs work all the same, but no completion channels and no
//! `rdma_cm`; so whatever goes wrong here is only told to who asks for it (`FERROCE_LOG=debug`).

use ferroce_cabi::uverbs::{SHIM_ADOPT, SHIM_STAND_IN, StandIn, shim_stand_in};
use ferroce_engine::RuntimeDir;
use libc::c_void;
use std::ffi::{CStr, CString, OsStr};
use std::mem::transmute;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::ptr::null_mut;
use std::sync::atomic::{AtomicPtr, Ordering};

/// What the shim is called beside an installed provider.
const SHIM: &str = "libferroce-shim.so";

/// The shim that this provider has loaded; null: none.
static LOADED: AtomicPtr<c_void> = AtomicPtr::new(null_mut());

/// A function of the shim's, whoever loaded it.
pub(crate) fn of_shim(name: &CStr) -> Option<*mut c_void> {
    let preloaded = symbol(libc::RTLD_DEFAULT, name);
    let loaded = LOADED.load(Ordering::Acquire);
    preloaded.or_else(|| symbol((!loaded.is_null()).then_some(loaded)?, name))
}

/// Tells the shim, if there is one, of a function of ours, by the one of its own that takes such.
///
/// # Safety
/// The shim's function of this name takes an `F`.
pub(crate) unsafe fn tell_shim<F>(name: &CStr, function: F) {
    if let Some(address) = of_shim(name) {
        // SAFETY: as the caller promises; the shim stays.
        unsafe {
            let tell = transmute::<*mut c_void, unsafe extern "C" fn(F)>(address);
            tell(function);
        }
    }
}

fn symbol(handle: *mut c_void, name: &CStr) -> Option<*mut c_void> {
    // SAFETY: a live handle or one that stands for the program, and a NUL-terminated name.
    let address = unsafe { libc::dlsym(handle, name.as_ptr()) };
    (!address.is_null()).then_some(address)
}

/// Has the shim stand in, if the device is the machine's and nobody preloaded the shim.
pub(crate) fn begin() {
    // SAFETY: no memory is touched.
    let other_rights = unsafe { libc::getauxval(libc::AT_SECURE) } != 0;
    if other_rights || symbol(libc::RTLD_DEFAULT, SHIM_ADOPT).is_some() {
        return;
    }
    let Some(directory) = RuntimeDir::of_sysfs() else {
        return;
    };

    match load().and_then(|()| stand_in(directory.path())) {
        Ok(done) => tracing::debug!(
            libraries = done.tables,
            calls = done.slots,
            refused = done.refused,
            why = %words(&done),
            "the shim stands in"
        ),
        Err(why) => tracing::debug!(%why, "no shim stands in: no completion channels, no rdma_cm"),
    }
}

/// Libraries that came later have the shim stand in, too.
pub(crate) fn look_again() {
    if LOADED.load(Ordering::Acquire).is_null() {
        return;
    }
    if let Some(directory) = RuntimeDir::of_sysfs() {
        let _ = stand_in(directory.path());
    }
}

/// Loads the shim beside this library, for good: its functions are in other libraries' tables.
fn load() -> Result<(), String> {
    let mut about = libc::Dl_info {
        dli_fname: std::ptr::null(),
        dli_fbase: null_mut(),
        dli_sname: std::ptr::null(),
        dli_saddr: null_mut(),
    };
    // SAFETY: an address of this library, and room for what is known of it.
    let known = unsafe { libc::dladdr(begin as *const c_void, &raw mut about) };
    if known == 0 || about.dli_fname.is_null() {
        return Err("this library does not know where it is".to_owned());
    }

    // SAFETY: the name of a loaded object ends in NUL.
    let own = unsafe { CStr::from_ptr(about.dli_fname) }.to_bytes();
    let shim = Path::new(OsStr::from_bytes(own)).with_file_name(SHIM);
    let path = CString::new(shim.as_os_str().as_bytes()).map_err(|error| error.to_string())?;
    let flags = libc::RTLD_NOW | libc::RTLD_LOCAL | libc::RTLD_NODELETE;
    // SAFETY: a NUL-terminated path; the shim's constructor reads the environment only.
    let handle = unsafe { libc::dlopen(path.as_ptr(), flags) };
    match handle.is_null() {
        true => Err(format!("cannot load {}", shim.display())),
        false => {
            LOADED.store(handle, Ordering::Release);
            Ok(())
        }
    }
}

fn stand_in(directory: &Path) -> Result<StandIn, String> {
    let function = of_shim(SHIM_STAND_IN).ok_or("the shim is of another build")?;
    // SAFETY: the type that the shim's function of this name has.
    let function = unsafe { transmute::<*mut c_void, shim_stand_in>(function) };
    let directory = CString::new(directory.as_os_str().as_bytes());
    let directory = directory.map_err(|error| error.to_string())?;
    let mut done = StandIn::default();
    // SAFETY: a NUL-terminated path, and room for what was done.
    match unsafe { function(directory.as_ptr(), &raw mut done) } {
        0 => Ok(done),
        errno => Err(std::io::Error::from_raw_os_error(errno).to_string()),
    }
}

/// Why tables are as they were, if some are.
fn words(done: &StandIn) -> String {
    match done.why.is_null() {
        true => String::new(),
        // SAFETY: a constant of the shim's that ends in NUL.
        false => unsafe { CStr::from_ptr(done.why) }
            .to_string_lossy()
            .into_owned(),
    }
}
