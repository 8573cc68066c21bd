//! Sockets: making unix ones, their names, options and what is sent and received with them.

use super::{PathBuffer, close, errno, open, raise, sendmsg};
use crate::next::call_next;
use libc::{c_char, c_int, c_void, iovec, msghdr, size_t, sockaddr, socklen_t, ssize_t};
use std::ffi::CStr;
use std::mem::{MaybeUninit, offset_of, size_of};
use std::ptr::null_mut;

/// Connects to a `SOCK_SEQPACKET` socket in a directory. Its number is a high one, out of the way
/// of programs that count on low ones. The error is an errno.
pub(crate) fn connect(directory: &[u8], name: &[u8]) -> Result<c_int, c_int> {
    connect_low(directory, name, libc::SOCK_CLOEXEC).map(raise)
}

/// The same with a number as it comes, close-on-exec if `flags` say so (`SOCK_CLOEXEC`).
pub(crate) fn connect_low(directory: &[u8], name: &[u8], flags: c_int) -> Result<c_int, c_int> {
    let mut path = PathBuffer::new();
    path.push(directory);

    // The directory is opened first, as a socket's path may have 107 bytes only.
    let opened = open(
        path.as_cstr().ok_or(libc::ENAMETOOLONG)?,
        libc::O_PATH | libc::O_DIRECTORY,
    );
    if opened < 0 {
        return Err(errno());
    }

    let kind = libc::SOCK_SEQPACKET | flags;

    // SAFETY: no memory is passed.
    let fd = unsafe { libc::syscall(libc::SYS_socket, libc::AF_UNIX, kind, 0) } as c_int;
    if fd < 0 {
        let failed = errno();
        close(opened);
        return Err(failed);
    }

    let mut path = PathBuffer::new();
    path.push(b"/proc/thread-self/fd/");
    path.push_number(opened.unsigned_abs());
    path.push(b"/");
    path.push(name);
    let address = unix_address(path.as_cstr().map_or(&[][..], CStr::to_bytes));
    let at = &raw const address;

    // SAFETY: the address is whole and ends with a zero.
    let r = unsafe { libc::syscall(libc::SYS_connect, fd, at, size_of::<libc::sockaddr_un>()) };
    let failed = errno();
    close(opened);
    if r != 0 {
        close(fd);
        return Err(failed);
    }

    if !answered_by_own(fd) {
        close(fd);
        return Err(libc::EACCES);
    }

    Ok(fd)
}

/// Whether who listens at the other end of a connection is this user or root: others are not told
/// what the program does.
fn answered_by_own(fd: c_int) -> bool {
    let mut peer = libc::ucred {
        pid: 0,
        uid: 0,
        gid: 0,
    };

    let mut length = size_of::<libc::ucred>() as libc::socklen_t;
    let (option, at) = (libc::SO_PEERCRED, &raw mut peer);

    // SAFETY: the kernel writes to the two, which are of the type and length that it is told.
    let r = unsafe {
        libc::syscall(
            libc::SYS_getsockopt,
            fd,
            libc::SOL_SOCKET,
            option,
            at,
            &raw mut length,
        )
    };

    // SAFETY: this has no arguments and cannot fail.
    let own = unsafe { libc::syscall(libc::SYS_geteuid) } as libc::uid_t;
    r == 0 && (peer.uid == 0 || peer.uid == own)
}

fn unix_address(path: &[u8]) -> libc::sockaddr_un {
    // SAFETY: all zeros is an address.
    let mut address: libc::sockaddr_un = unsafe { MaybeUninit::zeroed().assume_init() };
    address.sun_family = libc::AF_UNIX as u16;
    for (to, from) in address.sun_path.iter_mut().zip(path) {
        *to = *from as c_char;
    }
    address
}

/// Gives a unix socket an abstract name of at most 107 bytes. The error is an errno.
pub(crate) fn bind_abstract(fd: c_int, name: &[u8]) -> Result<(), c_int> {
    let mut address = unix_address(&[]);
    for (to, from) in address.sun_path.iter_mut().skip(1).zip(name) {
        *to = *from as c_char;
    }
    let len = offset_of!(libc::sockaddr_un, sun_path) + 1 + name.len();
    let at = &raw const address;
    // SAFETY: the address is as long as is said.
    match unsafe { libc::syscall(libc::SYS_bind, fd, at, len) } {
        0 => Ok(()),
        _ => Err(errno()),
    }
}

/// The abstract name of a unix socket, if it has one.
pub(crate) fn abstract_name(fd: c_int, name: &mut [u8; 108]) -> Option<&[u8]> {
    let mut address = unix_address(&[]);
    let mut len = size_of::<libc::sockaddr_un>() as libc::socklen_t;
    let (at, len_at) = (&raw mut address, &raw mut len);

    // SAFETY: there is as much room as is said.
    let r = unsafe { libc::syscall(libc::SYS_getsockname, fd, at, len_at) };
    if r != 0 || c_int::from(address.sun_family) != libc::AF_UNIX {
        return None;
    }

    let len = (len as usize).checked_sub(offset_of!(libc::sockaddr_un, sun_path))?;
    for (to, from) in name.iter_mut().zip(address.sun_path) {
        *to = from as u8;
    }
    match name.get(..len)? {
        [0, name @ ..] => Some(name),
        _ => None,
    }
}

/// The value of a socket's option that is an int; `None`: it has no such option, or is none.
pub(crate) fn option(fd: c_int, level: c_int, option: c_int) -> Option<c_int> {
    let mut value: c_int = 0;
    let mut len = size_of::<c_int>() as libc::socklen_t;
    let (at, len_at) = (&raw mut value, &raw mut len);
    // SAFETY: there is as much room as is said.
    let r = unsafe { libc::syscall(libc::SYS_getsockopt, fd, level, option, at, len_at) };
    (r == 0).then_some(value)
}

/// Sets a socket's option that is an int, if it has it.
pub(crate) fn set_option(fd: c_int, level: c_int, option: c_int, value: c_int) {
    let (at, len) = (&raw const value, size_of::<c_int>());
    // SAFETY: the option's value is an int that outlives the call.
    unsafe { libc::syscall(libc::SYS_setsockopt, fd, level, option, at, len) };
}

/// Sends a datagram and perhaps a descriptor beside it. The error is an errno.
pub(crate) fn send_with_descriptor(
    fd: c_int,
    mut part: iovec,
    descriptor: Option<c_int>,
) -> Result<(), c_int> {
    #[repr(C, align(8))]
    struct Beside(libc::cmsghdr, c_int);

    // SAFETY: all zeros is a header and a number.
    let mut beside: Beside = unsafe { MaybeUninit::zeroed().assume_init() };

    // SAFETY: all zeros is a message without name, parts and control data.
    let mut message: msghdr = unsafe { MaybeUninit::zeroed().assume_init() };
    message.msg_iov = &raw mut part;
    message.msg_iovlen = 1;
    if let Some(descriptor) = descriptor {
        // SAFETY: no memory is touched.
        beside.0.cmsg_len = unsafe { libc::CMSG_LEN(size_of::<c_int>() as u32) } as _;
        beside.0.cmsg_level = libc::SOL_SOCKET;
        beside.0.cmsg_type = libc::SCM_RIGHTS;
        beside.1 = descriptor;
        message.msg_control = (&raw mut beside).cast();
        message.msg_controllen = size_of::<Beside>() as _;
    }

    sendmsg(fd, &message).map(drop)
}

/// Asks for room for long datagrams: as much as the system allows.
pub(crate) fn enlarge_send_buffer(fd: c_int, bytes: c_int) {
    set_option(fd, libc::SOL_SOCKET, libc::SO_SNDBUF, bytes);
}

/// Takes a message out of a socket and throws it away, without waiting; `false`: there was none.
pub(crate) fn drop_message(fd: c_int) -> bool {
    receive(fd, &mut [], libc::MSG_DONTWAIT).is_ok()
}

/// Waits until a socket has a message, which stays there; `false`: none will come. A non-blocking
/// socket does not wait, and a signal ends the wait if its handler does not ask for more (`EINTR`).
/// The error is an errno.
///
/// A thread that is cancelled ends here, as where the kernel waits in its place: nothing is locked,
/// and nobody who calls this has anything to drop.
pub(crate) fn wait_for_message(fd: c_int) -> Result<bool, c_int> {
    let mut byte = 0_u8;
    let at = (&raw mut byte).cast();
    let n = call_next!(recvfrom(fd => c_int, at => *mut c_void, 1 => size_t, libc::MSG_PEEK => c_int,
        null_mut() => *mut sockaddr, null_mut() => *mut socklen_t) -> ssize_t, -1);
    match n {
        0.. => Ok(n > 0),
        _ => Err(errno()),
    }
}

/// Whether a socket has a message, or there is something else to be told at once.
pub(crate) fn has_message(fd: c_int) -> bool {
    receive(fd, &mut [0], libc::MSG_PEEK | libc::MSG_DONTWAIT) != Err(libc::EAGAIN)
}

fn receive(fd: c_int, bytes: &mut [u8], flags: c_int) -> Result<usize, c_int> {
    // SAFETY: the bytes are writable, and nobody asks who sent them.
    let n = unsafe {
        let (base, len) = (bytes.as_mut_ptr(), bytes.len());
        libc::syscall(libc::SYS_recvfrom, fd, base, len, flags, 0usize, 0usize)
    };
    usize::try_from(n).map_err(|_| errno())
}

/// Receives a datagram into memory of the program's. The error is an errno.
///
/// # Safety
/// The memory may be written.
pub(crate) unsafe fn receive_raw(
    fd: c_int,
    base: *mut c_void,
    len: usize,
    flags: c_int,
) -> Result<usize, c_int> {
    // SAFETY: as the caller promises; the kernel checks the addresses, and nobody asks who sent it.
    let n = unsafe { libc::syscall(libc::SYS_recvfrom, fd, base, len, flags, 0usize, 0usize) };
    usize::try_from(n).map_err(|_| errno())
}

/// The same, where the program may wait: a thread that is cancelled ends here, as in
/// [`wait_for_message`]. What it was about to receive stays, for others.
///
/// # Safety
/// As [`receive_raw`].
pub(crate) unsafe fn peek_raw(fd: c_int, base: *mut c_void, len: usize) -> Result<usize, c_int> {
    // With MSG_TRUNC the length is the datagram's own, whatever fits.
    let flags = libc::MSG_PEEK | libc::MSG_TRUNC;
    let n = call_next!(recvfrom(fd => c_int, base => *mut c_void, len => size_t, flags => c_int,
        null_mut() => *mut sockaddr, null_mut() => *mut socklen_t) -> ssize_t, -1);
    usize::try_from(n).map_err(|_| errno())
}
