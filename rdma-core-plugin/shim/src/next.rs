//! Finding the functions that the shim stands in front of.

use ferroce_cabi::uverbs::SHIM_ADOPT;
use libc::{c_char, c_void};
use std::sync::atomic::{AtomicPtr, Ordering};

/// Where they are looked for in a process that did not preload the shim: what the program itself
/// would call. Null: the shim is preloaded, and they are in the libraries after it.
static PROGRAM: AtomicPtr<c_void> = AtomicPtr::new(std::ptr::null_mut());

/// The shim was loaded late: there are no libraries after it. `false`: there is no program to ask.
pub(crate) fn ask_the_program() -> bool {
    // SAFETY: no name stands for the program itself; nothing is loaded.
    let program = unsafe { libc::dlopen(std::ptr::null(), libc::RTLD_LAZY) };
    PROGRAM.store(program, Ordering::Release);
    !program.is_null()
}

/// Whether the program's own calls come to the shim.
pub(crate) fn is_preloaded() -> bool {
    // SAFETY: constant names; no name stands for the program itself, and nothing is loaded.
    unsafe {
        let program = libc::dlopen(std::ptr::null(), libc::RTLD_LAZY);
        !program.is_null() && !libc::dlsym(program, SHIM_ADOPT.as_ptr()).is_null()
    }
}

/// Whether the shim was loaded late.
pub(crate) fn is_late() -> bool {
    !PROGRAM.load(Ordering::Acquire).is_null()
}

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
        let program = PROGRAM.load(Ordering::Acquire);
        let late = (!program.is_null()).then_some(program);
        let mut address: *mut c_void = std::ptr::null_mut();
        for place in late.into_iter().chain([libc::RTLD_NEXT]) {
            if address.is_null() {
                // SAFETY: a constant, NUL-terminated name. `dlsym` may be called before
                // constructors have run.
                address = unsafe { libc::dlsym(place, self.name) };
            }
            if address.is_null() {
                address = old(place, self.name);
            }
        }

        self.address.store(address, Ordering::Relaxed);
        address
    }
}

/// A function that new programs can no longer link to (`__xstat`), which `dlsym` does not show:
/// glibc has it under the oldest version of its symbols.
#[cfg(target_env = "gnu")]
fn old(place: *mut c_void, name: *const c_char) -> *mut c_void {
    const BASE_VERSION: *const c_char = match cfg!(target_arch = "x86_64") {
        true => c"GLIBC_2.2.5".as_ptr(),
        false => c"GLIBC_2.17".as_ptr(),
    };
    // SAFETY: constant, NUL-terminated names.
    unsafe { libc::dlvsym(place, name, BASE_VERSION) }
}

/// Other C libraries give their symbols no versions: what `dlsym` does not show is not there, and
/// no program calls it.
#[cfg(not(target_env = "gnu"))]
fn old(_: *mut c_void, _: *const c_char) -> *mut c_void {
    std::ptr::null_mut()
}

/// Calls the next function of that name; without one, fails with `ENOSYS`. Many of them are
/// cancellation points, where a thread that is cancelled ends: what stands in front of such a one
/// has to let that by (`C-unwind`), and nothing to drop.
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
            let next: unsafe extern "C-unwind" fn($($ty),*) -> $ret = unsafe { std::mem::transmute(address) };
            // SAFETY: the arguments are the caller's own, who called this very function.
            unsafe { next($($arg),*) }
        }
    }};
}
pub(crate) use call_next;
