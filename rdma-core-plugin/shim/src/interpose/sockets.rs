//! The functions of sockets, for the sake of `NETLINK_RDMA`.

use crate::image::IMAGE;
use crate::next::{self, call_next};
use crate::{descriptors, netlink, sys};
use ferroce_cabi::rdma_netlink::NETLINK_RDMA;
use libc::{c_int, c_void, msghdr, size_t, sockaddr, socklen_t, ssize_t};
use std::ptr::null_mut;

/// What a function of the netlink module says, in the C library's way.
fn said(result: Result<(), c_int>) -> c_int {
    match result {
        Ok(()) => 0,
        Err(errno) => sys::fail(errno),
    }
}

/// # Safety
/// As `socket(2)`.
#[cfg_attr(not(test), unsafe(no_mangle))]
#[cfg_attr(test, allow(dead_code))]
pub(super) unsafe extern "C-unwind" fn socket(
    domain: c_int,
    kind: c_int,
    protocol: c_int,
) -> c_int {
    let make =
        |kind| call_next!(socket(domain => c_int, kind => c_int, protocol => c_int) -> c_int, -1);
    let ours = domain == libc::AF_NETLINK && protocol == NETLINK_RDMA && !next::is_late();
    if ours && IMAGE.directory().is_some() {
        return netlink::open(kind, make);
    }
    let fd = make(kind);
    // The number may have been one of ours that was closed behind our back.
    descriptors::set(fd, None);
    fd
}

/// # Safety
/// As `bind(2)`.
#[cfg_attr(not(test), unsafe(no_mangle))]
#[cfg_attr(test, allow(dead_code))]
pub(super) unsafe extern "C-unwind" fn bind(
    fd: c_int,
    address: *const sockaddr,
    len: socklen_t,
) -> c_int {
    if netlink::is_ours(fd) {
        // SAFETY: the caller's address.
        return said(unsafe { netlink::bind(fd, address, len) });
    }
    call_next!(bind(fd => c_int, address => *const sockaddr, len => socklen_t) -> c_int, -1)
}

/// # Safety
/// As `getsockname(2)`.
#[cfg_attr(not(test), unsafe(no_mangle))]
#[cfg_attr(test, allow(dead_code))]
pub(super) unsafe extern "C-unwind" fn getsockname(
    fd: c_int,
    address: *mut sockaddr,
    len: *mut socklen_t,
) -> c_int {
    if netlink::is_ours(fd) {
        // SAFETY: the caller's place for an address.
        return said(unsafe { netlink::give_address(netlink::port(fd), address, len) });
    }
    call_next!(getsockname(fd => c_int, address => *mut sockaddr, len => *mut socklen_t) -> c_int, -1)
}

/// # Safety
/// As `getpeername(2)`.
#[cfg_attr(not(test), unsafe(no_mangle))]
#[cfg_attr(test, allow(dead_code))]
pub(super) unsafe extern "C-unwind" fn getpeername(
    fd: c_int,
    address: *mut sockaddr,
    len: *mut socklen_t,
) -> c_int {
    if netlink::is_ours(fd) {
        // SAFETY: the caller's place for an address.
        return said(unsafe { netlink::give_address(netlink::KERNEL, address, len) });
    }
    call_next!(getpeername(fd => c_int, address => *mut sockaddr, len => *mut socklen_t) -> c_int, -1)
}

/// # Safety
/// As `setsockopt(2)`.
#[cfg_attr(not(test), unsafe(no_mangle))]
#[cfg_attr(test, allow(dead_code))]
pub(super) unsafe extern "C-unwind" fn setsockopt(
    fd: c_int,
    level: c_int,
    option: c_int,
    value: *const c_void,
    len: socklen_t,
) -> c_int {
    if level == libc::SOL_NETLINK && netlink::is_ours(fd) {
        // SAFETY: the caller's value.
        return said(unsafe { netlink::set_option(fd, option, value, len) });
    }
    call_next!(setsockopt(fd => c_int, level => c_int, option => c_int, value => *const c_void, len => socklen_t) -> c_int, -1)
}

/// # Safety
/// As `getsockopt(2)`.
#[cfg_attr(not(test), unsafe(no_mangle))]
#[cfg_attr(test, allow(dead_code))]
pub(super) unsafe extern "C-unwind" fn getsockopt(
    fd: c_int,
    level: c_int,
    option: c_int,
    value: *mut c_void,
    len: *mut socklen_t,
) -> c_int {
    if let Some(known) = netlink::option(fd, level, option) {
        // SAFETY: the caller's place for a value.
        return said(known.and_then(|known| unsafe { netlink::give_option(known, value, len) }));
    }
    call_next!(getsockopt(fd => c_int, level => c_int, option => c_int, value => *mut c_void, len => *mut socklen_t) -> c_int, -1)
}

/// # Safety
/// As `recvmsg(2)`.
#[cfg_attr(not(test), unsafe(no_mangle))]
#[cfg_attr(test, allow(dead_code))]
pub(super) unsafe extern "C-unwind" fn recvmsg(
    fd: c_int,
    message: *mut msghdr,
    flags: c_int,
) -> ssize_t {
    if netlink::is_ours(fd) && !message.is_null() {
        // SAFETY: not null, and the caller's.
        let asked = unsafe { &mut *message };

        // The socket's own name is longer than one of netlink, and qemu-user puts all of it there,
        // whatever the room.
        let (name, room) = (asked.msg_name, asked.msg_namelen);
        (asked.msg_name, asked.msg_namelen) = (null_mut(), 0);
        let n =
            call_next!(recvmsg(fd => c_int, message => *mut msghdr, flags => c_int) -> ssize_t, -1);

        // SAFETY: as above.
        let asked = unsafe { &mut *message };
        (asked.msg_name, asked.msg_namelen) = (name, room);
        if n > 0 {
            // SAFETY: the caller's place for a name, if there is one.
            unsafe { netlink::name_sender(asked, room) };
        }

        return netlink::received(n);
    }

    call_next!(recvmsg(fd => c_int, message => *mut msghdr, flags => c_int) -> ssize_t, -1)
}

/// # Safety
/// As `recvfrom(2)`.
#[cfg_attr(not(test), unsafe(no_mangle))]
#[cfg_attr(test, allow(dead_code))]
pub(super) unsafe extern "C-unwind" fn recvfrom(
    fd: c_int,
    buffer: *mut c_void,
    room: size_t,
    flags: c_int,
    address: *mut sockaddr,
    len: *mut socklen_t,
) -> ssize_t {
    let ours = netlink::is_ours(fd);
    // SAFETY: the caller's length, if there is one.
    let space = (ours && !len.is_null()).then(|| unsafe { *len });
    let n = call_next!(recvfrom(fd => c_int, buffer => *mut c_void, room => size_t, flags => c_int, address => *mut sockaddr, len => *mut socklen_t) -> ssize_t, -1);
    if let (Some(space), 1..) = (space, n)
        && !address.is_null()
    {
        // SAFETY: the caller's place for an address, which has as much room as he said.
        unsafe {
            *len = space;
            let _ = netlink::give_address(netlink::KERNEL, address, len);
        }
    }
    if ours { netlink::received(n) } else { n }
}

/// # Safety
/// As glibc's checked `recvfrom`, which aborts when `size` is too small for `room`.
#[cfg_attr(not(test), unsafe(no_mangle))]
#[cfg_attr(test, allow(dead_code))]
pub(super) unsafe extern "C-unwind" fn __recvfrom_chk(
    fd: c_int,
    buffer: *mut c_void,
    room: size_t,
    size: size_t,
    flags: c_int,
    address: *mut sockaddr,
    len: *mut socklen_t,
) -> ssize_t {
    if room <= size && netlink::is_ours(fd) {
        // SAFETY: the caller's arguments.
        return unsafe { recvfrom(fd, buffer, room, flags, address, len) };
    }
    call_next!(__recvfrom_chk(fd => c_int, buffer => *mut c_void, room => size_t, size => size_t, flags => c_int, address => *mut sockaddr, len => *mut socklen_t) -> ssize_t, -1)
}
