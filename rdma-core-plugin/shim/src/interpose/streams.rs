//! Opening a path of the image as a stream: the C library opens the file by itself then.

use crate::image::{self, Rewritten};
use crate::next::call_next;
use crate::settings::{self, Writing};
use crate::sys;
use libc::{FILE, c_char};
use std::ffi::CStr;
use std::ptr::null_mut;

/// Stands in front of functions that open a path as a stream.
macro_rules! stream_functions {
    ($(fn $name:ident(@$path:ident, $mode:ident: $ty:ty);)*) => {$(
        /// # Safety
        /// As the C library's function of this name.
        #[cfg_attr(not(test), unsafe(no_mangle))]
        #[cfg_attr(test, allow(dead_code))]
        pub(crate) unsafe extern "C-unwind" fn $name($path: *const c_char, $mode: $ty) -> *mut FILE {
            let pass = |$path: *const c_char, $mode: $ty| -> *mut FILE {
                call_next!($name($path => *const c_char, $mode => $ty) -> *mut FILE, null_mut())
            };
            // SAFETY: the caller's path is null or NUL-terminated.
            if !unsafe { image::concerns($path) } {
                return pass($path, $mode);
            }
            // SAFETY: not null, as it concerns us; the mode is NUL-terminated.
            unsafe { stream_of_image($path, $mode, pass) }
        }
    )*};
}

stream_functions! {
    fn fopen(@path, mode: *const c_char);
    fn fopen64(@path, mode: *const c_char);
}

/// # Safety
/// `path` and `mode` are NUL-terminated.
unsafe fn stream_of_image(
    path: *const c_char,
    mode: *const c_char,
    pass: impl Fn(*const c_char, *const c_char) -> *mut FILE,
) -> *mut FILE {
    let mut rewritten = Rewritten::new();
    // SAFETY: as the caller promises.
    let target = unsafe { rewritten.path(path) };
    if target.is_null() {
        sys::set_errno(libc::ENAMETOOLONG);
        return null_mut();
    }
    // SAFETY: as the caller promises; the target is a path.
    let [named, to, asked] = unsafe { [path, target, mode].map(|text| CStr::from_ptr(text)) };
    let Some(appending) = settings::appending(asked).filter(|_| target != path) else {
        return pass(target, mode);
    };
    match settings::look(named, to, asked.to_bytes().first() != Some(&b'r')) {
        Writing::AsAsked => pass(target, mode),
        Writing::Appended => pass(target, appending.as_ptr()),
        Writing::Refused(errno) => {
            sys::set_errno(errno);
            null_mut()
        }
    }
}
