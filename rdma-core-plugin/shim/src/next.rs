//! Finding the functions that the shim stands in front of.

use libc::{c_char, c_void};
use std::sync::atomic::{AtomicPtr, Ordering};

/// One function of the libraries after the shim, resolved when it is first called.
pub(crate) struct Next {
    name: *const c_char,
    address: AtomicPtr<c_void>,
}

// SAFETY: the name is a constant string, and the address is atomic.
unsafe impl Sync for Next {}

impl Next {
    /// A function by its name.
    pub(crate) const fn new(name: &'static std::ffi::CStr) -> Self {
        Next {
            name: name.as_ptr(),
            address: AtomicPtr::new(std::ptr::null_mut()),
        }
    }

    /// Its address; null if no later library has it.
    #[inline]
    pub(crate) fn get(&self) -> *mut c_void {
        let address = self.address.load(Ordering::Relaxed);
        if address.is_null() {
            self.resolve()
        } else {
            address
        }
    }

    #[cold]
    fn resolve(&self) -> *mut c_void {
        // SAFETY: a constant, NUL-terminated name. `dlsym` may be called before constructors have
        // run.
        let mut address = unsafe { libc::dlsym(libc::RTLD_NEXT, self.name) };
        if address.is_null() {
            address = old(self.name);
        }
        self.address.store(address, Ordering::Relaxed);
        address
    }
}

/// A function that new programs can no longer link to (`__xstat`), which `dlsym` does not show:
/// glibc has it under the oldest version of its symbols.
#[cfg(target_env = "gnu")]
fn old(name: *const c_char) -> *mut c_void {
    const BASE_VERSION: *const c_char = match cfg!(target_arch = "x86_64") {
        true => c"GLIBC_2.2.5".as_ptr(),
        false => c"GLIBC_2.17".as_ptr(),
    };
    // SAFETY: constant, NUL-terminated names.
    unsafe { libc::dlvsym(libc::RTLD_NEXT, name, BASE_VERSION) }
}

/// Other C libraries give their symbols no versions: what `dlsym` does not show is not there, and
/// no program calls it.
#[cfg(not(target_env = "gnu"))]
fn old(_: *const c_char) -> *mut c_void {
    std::ptr::null_mut()
}

/// Calls the next function of that name; without one, fails with `ENOSYS`.
macro_rules! call_next {
    ($name:ident($($arg:expr => $ty:ty),*) -> $ret:ty, $failed:expr) => {{
        static NEXT: $crate::next::Next = $crate::next::Next::new(
            match std::ffi::CStr::from_bytes_with_nul(concat!(stringify!($name), "\0").as_bytes()) {
                Ok(name) => name,
                Err(_) => panic!("a function name holds no NUL"),
            },
        );
        let address = NEXT.get();
        if address.is_null() {
            $crate::sys::set_errno(libc::ENOSYS);
            $failed
        } else {
            // SAFETY: the C library's function of this name has this signature; optional arguments
            // of variadic functions travel in the same registers as named ones on the architectures
            // that we support.
            let next: unsafe extern "C" fn($($ty),*) -> $ret = unsafe { std::mem::transmute(address) };
            // SAFETY: the arguments are the caller's own, who called this very function.
            unsafe { next($($arg),*) }
        }
    }};
}
pub(crate) use call_next;
