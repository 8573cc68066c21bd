//! The functions that copy and close descriptors, of which the shim keeps account.

use libc::{c_int, c_long, c_uint};

use crate::next::call_next;
use crate::{completions, descriptors, sys};

/// # Safety
/// As `close(2)`.
#[cfg_attr(not(test), unsafe(no_mangle))]
#[cfg_attr(test, allow(dead_code))]
pub(super) unsafe extern "C-unwind" fn close(fd: c_int) -> c_int {
    let before = sys::errno();
    if descriptors::completions(fd) && !ferroce_process::is_borrower() {
        completions::closing(fd);
    }
    descriptors::closing(fd);
    sys::set_errno(before);
    call_next!(close(fd => c_int) -> c_int, -1)
}

/// # Safety
/// As `close_range(2)`.
#[cfg_attr(not(test), unsafe(no_mangle))]
#[cfg_attr(test, allow(dead_code))]
pub(super) unsafe extern "C-unwind" fn close_range(
    first: c_uint,
    last: c_uint,
    flags: c_int,
) -> c_int {
    let r = call_next!(close_range(first => c_uint, last => c_uint, flags => c_int) -> c_int, -1);
    // CLOSE_RANGE_CLOEXEC leaves them open.
    if r == 0 && flags & 4 == 0 {
        descriptors::clear_range(first, last);
    }
    r
}

/// Enters a copy of a descriptor.
fn copied(from: c_int, to: c_int) -> c_int {
    if to >= 0 {
        descriptors::copy(from, to);
    }
    to
}

/// # Safety
/// As `dup(2)`.
#[cfg_attr(not(test), unsafe(no_mangle))]
#[cfg_attr(test, allow(dead_code))]
pub(super) unsafe extern "C-unwind" fn dup(fd: c_int) -> c_int {
    copied(fd, call_next!(dup(fd => c_int) -> c_int, -1))
}

/// # Safety
/// As `dup2(2)`.
#[cfg_attr(not(test), unsafe(no_mangle))]
#[cfg_attr(test, allow(dead_code))]
pub(super) unsafe extern "C-unwind" fn dup2(fd: c_int, to: c_int) -> c_int {
    copied(fd, call_next!(dup2(fd => c_int, to => c_int) -> c_int, -1))
}

/// # Safety
/// As `dup3(2)`.
#[cfg_attr(not(test), unsafe(no_mangle))]
#[cfg_attr(test, allow(dead_code))]
pub(super) unsafe extern "C-unwind" fn dup3(fd: c_int, to: c_int, flags: c_int) -> c_int {
    copied(
        fd,
        call_next!(dup3(fd => c_int, to => c_int, flags => c_int) -> c_int, -1),
    )
}

/// Stands in front of the names of `fcntl(2)`, for the sake of its copies of descriptors.
macro_rules! fcntl_functions {
    ($($name:ident),*) => {$(
        /// # Safety
        /// As `fcntl(2)`. Variadic in C; see [`call_next`].
        #[cfg_attr(not(test), unsafe(no_mangle))]
        #[cfg_attr(test, allow(dead_code))]
        pub(crate) unsafe extern "C-unwind" fn $name(fd: c_int, command: c_int, arg: c_long) -> c_int {
            let r = call_next!($name(fd => c_int, command => c_int, arg => c_long) -> c_int, -1);
            if matches!(command, libc::F_DUPFD | libc::F_DUPFD_CLOEXEC) { copied(fd, r) } else { r }
        }
    )*};
}
fcntl_functions!(fcntl, fcntl64);
