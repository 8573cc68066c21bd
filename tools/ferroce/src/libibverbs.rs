//! The libibverbs that programs get as this one would: which it is, and whether there is a driver
//! for it.
//!
//! A libibverbs of another private ABI asks for a driver by a name that there is not, and shows no
//! device. That is said here beforehand.

use std::ffi::{CStr, CString, c_void};
use std::fmt;
use std::path::PathBuf;

use ferroce_cabi::pabi::{self, LAYOUTS, Layout, Unserved};

/// A libibverbs and what is known of it.
#[derive(Debug)]
pub(crate) struct Libibverbs {
    /// The file, if the dynamic linker says.
    path: Option<PathBuf>,
    /// Its version, or why there is no driver for it.
    pub version: Result<&'static Layout, Unserved>,
}

const NAME: &CStr = c"libibverbs.so.1";
const RDMA_CM: &CStr = c"librdmacm.so.1";

impl Libibverbs {
    /// Loads it as the dynamic linker finds it; in words why that failed.
    pub(crate) fn find() -> Result<Libibverbs, String> {
        let handle = load(NAME)?;
        let address = |name: &CStr| -> *mut c_void {
            // SAFETY: a live handle and a NUL-terminated name.
            unsafe { libc::dlsym(handle, name.as_ptr()) }
        };

        // Where queue pairs have `comp_mask` is for the provider to find out: the newest place fits
        // all.
        let newest = LAYOUTS.iter().map(Layout::qp_mask).max();
        let version = pabi::recognise(|name| !address(name).is_null(), || newest);
        Ok(Libibverbs {
            path: file_of(address(c"ibv_get_device_list")),
            version: version.map(|served| served.layout),
        })
    }
}

impl fmt::Display for Libibverbs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.path {
            Some(path) => write!(f, "{}", path.display())?,
            None => f.write_str("libibverbs.so.1")?,
        }
        match &self.version {
            Ok(layout) => write!(f, " has {layout}"),
            Err(unserved) => write!(f, " has {unserved}"),
        }
    }
}

/// The librdmacm that programs get as this one would; in words why they get none.
pub(crate) fn librdmacm() -> Result<String, String> {
    let handle = load(RDMA_CM)?;
    // SAFETY: a live handle and a NUL-terminated name.
    let address = unsafe { libc::dlsym(handle, c"rdma_create_id".as_ptr()) };
    let file = file_of(address);
    Ok(file.map_or_else(
        || RDMA_CM.to_string_lossy().into_owned(),
        |file| file.display().to_string(),
    ))
}

/// Loads one of rdma-core's libraries as the dynamic linker finds it.
fn load(name: &CStr) -> Result<*mut c_void, String> {
    // SAFETY: neither of the two does anything when it is loaded.
    let handle = unsafe { libc::dlopen(name.as_ptr(), libc::RTLD_NOW) };
    match handle.is_null() {
        true => Err(last_error(name)),
        false => Ok(handle),
    }
}

/// The file that a symbol is from.
fn file_of(address: *mut c_void) -> Option<PathBuf> {
    // SAFETY: all bits zero is a valid `Dl_info`: pointers.
    let mut info: libc::Dl_info = unsafe { std::mem::zeroed() };
    // SAFETY: any address may be asked about.
    let found = unsafe { libc::dladdr(address, &raw mut info) } != 0 && !info.dli_fname.is_null();
    found.then(|| {
        // SAFETY: the linker's name of a library that stays loaded.
        let name = unsafe { CStr::from_ptr(info.dli_fname) };
        PathBuf::from(name.to_string_lossy().into_owned())
    })
}

/// What the dynamic linker has to say of its last failure.
fn last_error(name: &CStr) -> String {
    // SAFETY: null or a text that lasts until the next call of this thread.
    let text = unsafe {
        let text = libc::dlerror();
        (!text.is_null()).then(|| CString::from(CStr::from_ptr(text)))
    };
    text.map_or_else(
        || format!("{} cannot be loaded", name.to_string_lossy()),
        |text| text.to_string_lossy().into_owned(),
    )
}
