//! The functions of the C library that the shim stands in front of. Each does the least: look
//! whether the call concerns the image, and pass it on.

mod copies;
mod mlx5;
mod reads;
mod sockets;
mod streams;
pub(crate) mod table;

use crate::image::{self, IMAGE, Rewritten};
use crate::next::call_next;
use crate::settings::{self, Writing};
use crate::{command, descriptors, interfaces, rdma_cm, search, stand_in, sys, umad};
use libc::{
    DIR, c_char, c_int, c_uint, c_ulong, c_void, dirent, dirent64, ifaddrs, mode_t, size_t, ssize_t,
};
use std::ffi::CStr;
use std::ptr::null_mut;

type Filter = *mut c_void;
type Order = *mut c_void;

/// Stands in front of functions that take one path and do nothing else that matters here.
macro_rules! path_functions {
    ($(fn $name:ident($($before:ident: $bt:ty,)* @$path:ident $(, $arg:ident: $ty:ty)*) -> $ret:ty = $failed:expr;)*) => {$(
        /// # Safety
        /// As the C library's function of this name.
        #[cfg_attr(not(test), unsafe(no_mangle))]
        #[cfg_attr(test, allow(dead_code))]
        pub(crate) unsafe extern "C-unwind" fn $name($($before: $bt,)* $path: *const c_char $(, $arg: $ty)*) -> $ret {
            let pass = |$path: *const c_char| -> $ret {
                call_next!($name($($before => $bt,)* $path => *const c_char $(, $arg => $ty)*) -> $ret, $failed)
            };
            // SAFETY: the caller's path is null or NUL-terminated.
            if !unsafe { image::concerns($path) } {
                return pass($path);
            }
            let mut rewritten = Rewritten::new();
            // SAFETY: not null, as it concerns us.
            let path = unsafe { rewritten.path($path) };
            if path.is_null() {
                sys::set_errno(libc::ENAMETOOLONG);
                return $failed;
            }
            pass(path)
        }
    )*};
}

path_functions! {
    fn access(@path, mode: c_int) -> c_int = -1;
    fn eaccess(@path, mode: c_int) -> c_int = -1;
    fn euidaccess(@path, mode: c_int) -> c_int = -1;
    fn faccessat(dir: c_int, @path, mode: c_int, flags: c_int) -> c_int = -1;
    fn chdir(@path) -> c_int = -1;
    fn stat(@path, buf: *mut libc::stat) -> c_int = -1;
    fn stat64(@path, buf: *mut libc::stat64) -> c_int = -1;
    fn lstat(@path, buf: *mut libc::stat) -> c_int = -1;
    fn lstat64(@path, buf: *mut libc::stat64) -> c_int = -1;
    fn fstatat(dir: c_int, @path, buf: *mut libc::stat, flags: c_int) -> c_int = -1;
    fn fstatat64(dir: c_int, @path, buf: *mut libc::stat64, flags: c_int) -> c_int = -1;
    fn statx(dir: c_int, @path, flags: c_int, mask: c_uint, buf: *mut libc::statx) -> c_int = -1;
    fn __xstat(version: c_int, @path, buf: *mut libc::stat) -> c_int = -1;
    fn __xstat64(version: c_int, @path, buf: *mut libc::stat64) -> c_int = -1;
    fn __lxstat(version: c_int, @path, buf: *mut libc::stat) -> c_int = -1;
    fn __lxstat64(version: c_int, @path, buf: *mut libc::stat64) -> c_int = -1;
    fn __fxstatat(version: c_int, dir: c_int, @path, buf: *mut libc::stat, flags: c_int) -> c_int = -1;
    fn __fxstatat64(version: c_int, dir: c_int, @path, buf: *mut libc::stat64, flags: c_int) -> c_int = -1;
    fn getxattr(@path, name: *const c_char, value: *mut c_void, size: size_t) -> ssize_t = -1;
    fn lgetxattr(@path, name: *const c_char, value: *mut c_void, size: size_t) -> ssize_t = -1;
    fn readlink(@path, buf: *mut c_char, size: size_t) -> ssize_t = -1;
    fn readlinkat(dir: c_int, @path, buf: *mut c_char, size: size_t) -> ssize_t = -1;
    fn __readlink_chk(@path, buf: *mut c_char, size: size_t, room: size_t) -> ssize_t = -1;
    fn __readlinkat_chk(dir: c_int, @path, buf: *mut c_char, size: size_t, room: size_t) -> ssize_t = -1;
    fn realpath(@path, resolved: *mut c_char) -> *mut c_char = null_mut();
    fn __realpath_chk(@path, resolved: *mut c_char, room: size_t) -> *mut c_char = null_mut();
    fn canonicalize_file_name(@path) -> *mut c_char = null_mut();
    fn scandir(@path, list: *mut *mut *mut dirent, filter: Filter, order: Order) -> c_int = -1;
    fn scandir64(@path, list: *mut *mut *mut dirent64, filter: Filter, order: Order) -> c_int = -1;
    fn inotify_add_watch(fd: c_int, @path, mask: u32) -> c_int = -1;
}

/// # Safety
/// As `opendir(3)`.
#[cfg_attr(not(test), unsafe(no_mangle))]
#[cfg_attr(test, allow(dead_code))]
pub(crate) unsafe extern "C-unwind" fn opendir(path: *const c_char) -> *mut DIR {
    // libibverbs looks for devices: a good moment to look for libraries that have come since.
    stand_in::look_again();
    search::begins();

    let mut rewritten = Rewritten::new();
    // SAFETY: the caller's path is null or NUL-terminated.
    let path = match unsafe { image::concerns(path) } {
        // SAFETY: not null, as it concerns us.
        true => unsafe { rewritten.path(path) },
        false => path,
    };
    if path.is_null() {
        sys::set_errno(libc::ENAMETOOLONG);
        return null_mut();
    }
    call_next!(opendir(path => *const c_char) -> *mut DIR, null_mut())
}

/// Stands in front of functions that open a path and return its descriptor.
macro_rules! open_functions {
    ($(fn $name:ident($($before:ident: $bt:ty,)* @$path:ident, $($arg:ident: $ty:ty),*) with $flags:expr;)*) => {$(
        /// # Safety
        /// As the C library's function of this name. Variadic there; see [`call_next`].
        #[cfg_attr(not(test), unsafe(no_mangle))]
        #[cfg_attr(test, allow(dead_code))]
        pub(crate) unsafe extern "C-unwind" fn $name($($before: $bt,)* $path: *const c_char, $($arg: $ty),*) -> c_int {
            let pass = |$path: *const c_char| -> c_int {
                call_next!($name($($before => $bt,)* $path => *const c_char, $($arg => $ty),*) -> c_int, -1)
            };
            // SAFETY: the caller's path is null or NUL-terminated.
            if !unsafe { image::concerns($path) } {
                let fd = pass($path);
                // The number may have been one of ours that was closed behind our back.
                descriptors::set(fd, None);
                return fd;
            }
            // SAFETY: not null, as it concerns us.
            unsafe { open_image($path, $flags, pass) }
        }
    )*};
}

open_functions! {
    fn open(@path, flags: c_int, mode: mode_t) with flags;
    fn open64(@path, flags: c_int, mode: mode_t) with flags;
    fn openat(dir: c_int, @path, flags: c_int, mode: mode_t) with flags;
    fn openat64(dir: c_int, @path, flags: c_int, mode: mode_t) with flags;
    fn __open_2(@path, flags: c_int) with flags;
    fn __open64_2(@path, flags: c_int) with flags;
    fn __openat_2(dir: c_int, @path, flags: c_int) with flags;
    fn __openat64_2(dir: c_int, @path, flags: c_int) with flags;
    fn creat(@path, mode: mode_t) with CREAT;
    fn creat64(@path, mode: mode_t) with CREAT;
}

/// What `creat(2)` opens with.
const CREAT: c_int = libc::O_WRONLY | libc::O_CREAT | libc::O_TRUNC;

/// Opens a path of the image and enters the descriptor.
///
/// # Safety
/// `path` is NUL-terminated.
#[cold]
unsafe fn open_image(
    path: *const c_char,
    flags: c_int,
    pass: impl Fn(*const c_char) -> c_int,
) -> c_int {
    // SAFETY: as the caller promises.
    if IMAGE.directory().is_some() && image::is_rdma_cm(unsafe { CStr::from_ptr(path) }) {
        return rdma_cm::open(flags);
    }

    let mut rewritten = Rewritten::new();

    // SAFETY: as the caller promises.
    let target = unsafe { rewritten.path(path) };
    if target.is_null() {
        return sys::fail(libc::ENAMETOOLONG);
    }

    // SAFETY: as the caller promises.
    let named = unsafe { CStr::from_ptr(path) };

    // Files of real devices are links to themselves in the image.
    if target != path
        && let Some(file) = image::mad_file(named)
        && umad::is_ours(target)
    {
        return umad::open(file, flags);
    }

    let writing = match settings::writes(flags) && target != path {
        // SAFETY: a path.
        true => settings::look(
            named,
            unsafe { CStr::from_ptr(target) },
            flags & libc::O_CREAT != 0,
        ),
        false => Writing::AsAsked,
    };
    let fd = match writing {
        Writing::AsAsked => pass(target),
        // SAFETY: a path.
        Writing::Appended => settings::open(unsafe { CStr::from_ptr(target) }, flags),
        Writing::Refused(errno) => return sys::fail(errno),
    };
    if fd >= 0 {
        // SAFETY: as the caller promises.
        let number = image::uverbs_number(unsafe { CStr::from_ptr(path) });
        if !descriptors::set(fd, number.filter(|_| target != path)) {
            sys::close(fd);
            return sys::fail(libc::EMFILE);
        }
    }

    fd
}

/// The uverbs device of a descriptor that still is one.
#[inline]
fn uverbs(fd: c_int) -> Option<u16> {
    descriptors::uverbs(fd).filter(|_| still_ours(fd))
}

#[cold]
fn still_ours(fd: c_int) -> bool {
    // What a child of `vfork` has opened by now may be the null device itself.
    let ours = sys::is_null_device(fd) && !ferroce_process::is_borrower();
    if !ours {
        descriptors::set(fd, None);
    }
    ours
}

/// A write to a descriptor that is not open.
///
/// # Safety
/// The buffer is readable.
#[cold]
unsafe fn not_open(buf: *const c_void, count: size_t) -> ssize_t {
    // SAFETY: as the caller promises.
    unsafe { rdma_cm::nowhere(buf, count) };
    sys::fail(libc::EBADF) as ssize_t
}

/// What a call returns that has done its work, and leaves `errno` as it was: librdmacm ends what it
/// had begun with such calls, and then has `errno` say why it failed.
fn succeeded(n: usize, before: c_int) -> ssize_t {
    sys::set_errno(before);
    n as ssize_t
}

/// # Safety
/// As `write(2)`.
#[cfg_attr(not(test), unsafe(no_mangle))]
#[cfg_attr(test, allow(dead_code))]
pub(crate) unsafe extern "C-unwind" fn write(
    fd: c_int,
    buf: *const c_void,
    count: size_t,
) -> ssize_t {
    let before = sys::errno();
    if let Some(channel) = descriptors::rdma_cm(fd) {
        // SAFETY: the caller's buffer, holding an rdma_cm command.
        match unsafe { rdma_cm::write(fd, channel, buf, count) } {
            Some(Ok(n)) => return succeeded(n, before),
            // SAFETY: the caller's buffer.
            Some(Err(libc::EBADF)) => return unsafe { not_open(buf, count) },
            Some(Err(errno)) => return sys::fail(errno) as ssize_t,
            None => drop(descriptors::set(fd, None)),
        }
    }

    if descriptors::umad(fd) {
        // SAFETY: the caller's buffer.
        match unsafe { umad::write(fd, buf, count) } {
            Some(Ok(n)) => return succeeded(n, before),
            Some(Err(errno)) => return sys::fail(errno) as ssize_t,
            None => drop(descriptors::set(fd, None)),
        }
    }

    if uverbs(fd).is_none() {
        let written =
            call_next!(write(fd => c_int, buf => *const c_void, count => size_t) -> ssize_t, -1);
        if written < 0 && sys::errno() == libc::EBADF {
            // SAFETY: the caller's buffer.
            return unsafe { not_open(buf, count) };
        }
        return written;
    }

    // SAFETY: the caller's buffer, holding a uverbs command.
    match unsafe { command::write(fd, buf, count) } {
        Ok(n) => n as ssize_t,
        Err(errno) => sys::fail(errno) as ssize_t,
    }
}

/// Stands in front of functions that describe a descriptor: a channel of `rdma_cm`, a umad or an
/// issm file is a socket, and shall look like the character device that it stands for.
macro_rules! status_functions {
    ($(fn $name:ident($($before:ident: $bt:ty,)* @$fd:ident, $buf:ident: $ty:ty);)*) => {$(
        /// # Safety
        /// As the C library's function of this name.
        #[cfg_attr(not(test), unsafe(no_mangle))]
        #[cfg_attr(test, allow(dead_code))]
        pub(crate) unsafe extern "C-unwind" fn $name($($before: $bt,)* $fd: c_int, $buf: *mut $ty) -> c_int {
            let r = call_next!($name($($before => $bt,)* $fd => c_int, $buf => *mut $ty) -> c_int, -1);
            if r == 0 && descriptors::device_socket($fd) {
                // SAFETY: filled in by the successful call.
                let status = unsafe { &mut *$buf };
                if status.st_mode & libc::S_IFMT == libc::S_IFSOCK {
                    status.st_mode = libc::S_IFCHR | 0o666;
                    status.st_rdev = rdma_cm::DEVICE;
                }
            }
            r
        }
    )*};
}

status_functions! {
    fn fstat(@fd, buf: libc::stat);
    fn fstat64(@fd, buf: libc::stat64);
    fn __fxstat(version: c_int, @fd, buf: libc::stat);
    fn __fxstat64(version: c_int, @fd, buf: libc::stat64);
}

/// # Safety
/// As `ioctl(2)`. Variadic in C; see [`call_next`].
#[cfg_attr(not(test), unsafe(no_mangle))]
#[cfg_attr(test, allow(dead_code))]
pub(crate) unsafe extern "C-unwind" fn ioctl(fd: c_int, op: c_ulong, arg: *mut c_void) -> c_int {
    if op == ferroce_cabi::uverbs::RDMA_VERBS_IOCTL
        && let Some(number) = uverbs(fd)
    {
        // SAFETY: the caller's request of this kind.
        return match unsafe { command::ioctl(fd, number, arg) } {
            Ok(()) => 0,
            Err(errno) => sys::fail(errno),
        };
    }

    if descriptors::umad(fd) {
        // SAFETY: the caller's argument.
        match unsafe { umad::ioctl(fd, op, arg) } {
            Some(Ok(())) => return 0,
            Some(Err(errno)) => return sys::fail(errno),
            None => drop(descriptors::set(fd, None)),
        }
    }

    call_next!(ioctl(fd => c_int, op => c_ulong, arg => *mut c_void) -> c_int, -1)
}

/// For the provider: see [`ferroce_cabi::uverbs::shim_adopt`].
#[cfg_attr(not(test), unsafe(no_mangle))]
#[cfg_attr(test, allow(dead_code))]
pub(crate) extern "C" fn ferroce_shim_adopt(fd: c_int, uverbs: u16, async_fd: c_int) {
    descriptors::set(fd, Some(uverbs));
    command::offer_async_event(fd, async_fd);
}

/// # Safety
/// As `getifaddrs(3)`.
#[cfg_attr(not(test), unsafe(no_mangle))]
#[cfg_attr(test, allow(dead_code))]
pub(crate) unsafe extern "C-unwind" fn getifaddrs(list: *mut *mut ifaddrs) -> c_int {
    let r = call_next!(getifaddrs(list => *mut *mut ifaddrs) -> c_int, -1);
    if r == 0 && IMAGE.directory().is_some() && interfaces::asked_by_libfabric() {
        // SAFETY: filled in by the successful call, for a caller who does not have it yet.
        unsafe { interfaces::unmark(*list) };
    }
    r
}
