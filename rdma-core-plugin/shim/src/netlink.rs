//! `NETLINK_RDMA` sockets, in which `rdma` of iproute2, libibverbs and librdmacm ask the kernel
//! about devices.
//!
//! The descriptor is a connection to ferroced over a `SOCK_SEQPACKET` socket: what is sent are the
//! program's own messages, and so are the answers, so sending, polling, waiting and looking ahead
//! are the kernel's own. Only addresses and options are answered here, because those of the
//! connection are not netlink's. The kernel keeps the port number that the program binds to as the
//! name of the connection's end. What messages say is nothing to this module.

use crate::image::IMAGE;
use crate::{descriptors, sys};
use ferroce_cabi::rdma_netlink::{Control, HELLO, NETLINK_RDMA, SOCKET, port_name, port_of_name};
use libc::{c_int, c_void, msghdr, sockaddr, sockaddr_nl, socklen_t, ssize_t};
use std::mem::size_of;

/// The kernel's own port number.
pub(crate) const KERNEL: u32 = 0;

/// Kinds of socket that netlink has, and what may be added to them.
const KINDS: [c_int; 2] = [libc::SOCK_RAW, libc::SOCK_DGRAM];
const KIND_FLAGS: c_int = libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK;

/// Options of level `SOL_NETLINK`.
const ADD_MEMBERSHIP: c_int = 1;
const DROP_MEMBERSHIP: c_int = 2;
const PKTINFO: c_int = 3;
const BROADCAST_ERROR: c_int = 4;
const NO_ENOBUFS: c_int = 5;
const LISTEN_ALL_NSID: c_int = 8;
const CAP_ACK: c_int = 10;
const EXT_ACK: c_int = 11;
const GET_STRICT_CHK: c_int = 12;

/// How many multicast groups there are: the least that the kernel makes.
const GROUPS: u32 = 32;

/// Opens a socket; -1 and `errno` on failure. `make` makes one of the kernel's, of a kind.
pub(crate) fn open(kind: c_int, make: impl Fn(c_int) -> c_int) -> c_int {
    if !KINDS.contains(&(kind & !KIND_FLAGS)) {
        return sys::fail(libc::ESOCKTNOSUPPORT);
    }

    // Where there is nobody, programs look into sysfs, as with a kernel that has no RDMA.
    let absent = || sys::fail(libc::EPROTONOSUPPORT);
    let Some(directory) = IMAGE.directory() else {
        return absent();
    };
    let Ok(fd) = sys::connect_low(directory, SOCKET.as_bytes(), kind & libc::SOCK_CLOEXEC) else {
        return absent();
    };

    let kernel = make(libc::SOCK_RAW | libc::SOCK_CLOEXEC);
    for option in [CAP_ACK, EXT_ACK] {
        if kernel >= 0 {
            sys::set_option(kernel, libc::SOL_NETLINK, option, 1);
        }
    }

    let hello = Control::new(HELLO, sys::is_net_admin().into());
    let greeted =
        sys::send_with_descriptor(fd, sys::vector_of(&hello), (kernel >= 0).then_some(kernel));
    if kernel >= 0 {
        sys::close(kernel);
    }

    if greeted.is_err() {
        sys::close(fd);
        return absent();
    }

    if kind & libc::SOCK_NONBLOCK != 0 {
        sys::set_nonblocking(fd);
    }

    if !descriptors::set_netlink(fd, 0) {
        sys::close(fd);
        return sys::fail(libc::EMFILE);
    }

    fd
}

/// Is this descriptor such a socket?
#[inline]
pub(crate) fn is_ours(fd: c_int) -> bool {
    descriptors::netlink(fd).is_some() && still_ours(fd)
}

#[cold]
fn still_ours(fd: c_int) -> bool {
    let ours = sys::option(fd, libc::SOL_SOCKET, libc::SO_DOMAIN) == Some(libc::AF_UNIX);
    if !ours {
        descriptors::set(fd, None);
    }
    ours
}

/// The port number that a socket is bound to; 0: none yet.
pub(crate) fn port(fd: c_int) -> u32 {
    let mut name = [0; 108];
    sys::abstract_name(fd, &mut name)
        .and_then(port_of_name)
        .unwrap_or(0)
}

/// Binds a socket to a port number, or to one that is free. The error is an errno.
///
/// # Safety
/// `address` is readable for `len` bytes.
pub(crate) unsafe fn bind(
    fd: c_int,
    address: *const sockaddr,
    len: socklen_t,
) -> Result<(), c_int> {
    if (len as usize) < size_of::<sockaddr_nl>() {
        return Err(libc::EINVAL);
    }
    if address.is_null() {
        return Err(libc::EFAULT);
    }

    // SAFETY: long enough; it may be unaligned.
    let wanted = unsafe { address.cast::<sockaddr_nl>().read_unaligned() };
    if c_int::from(wanted.nl_family) != libc::AF_NETLINK {
        return Err(libc::EINVAL);
    }

    match (port(fd), wanted.nl_pid) {
        (0, 0) => bind_anywhere(fd),
        (0, wanted) => sys::bind_abstract(fd, &port_name(wanted)),
        (bound, wanted) if wanted == 0 || wanted == bound => Ok(()),
        _ => Err(libc::EINVAL),
    }
}

/// The process's number is a socket's port number, unless it is taken; then it is one that no
/// process has.
fn bind_anywhere(fd: c_int) -> Result<(), c_int> {
    // Numbers that are taken leave their errno behind.
    let before = sys::errno();
    let process = ferroce_process::owner();
    let others = (1..=u32::from(u16::MAX)).map(|n| 0u32.wrapping_sub(4096).wrapping_sub(n));
    for port in std::iter::once(process).chain(others) {
        match sys::bind_abstract(fd, &port_name(port)) {
            Err(libc::EADDRINUSE) => {}
            done => {
                sys::set_errno(before);
                return done;
            }
        }
    }
    Err(libc::EADDRINUSE)
}

/// Gives the address of a port number. The error is an errno.
///
/// # Safety
/// `len` says for how many bytes `address` is writable.
pub(crate) unsafe fn give_address(
    port: u32,
    address: *mut sockaddr,
    len: *mut socklen_t,
) -> Result<(), c_int> {
    // SAFETY: as the caller promises.
    unsafe { give(&address_of(port), address.cast(), len) }?;
    // SAFETY: as the caller promises. Cut short or not, the length is the address's own.
    unsafe { *len = size_of::<sockaddr_nl>() as socklen_t };
    Ok(())
}

/// `struct sockaddr_nl`: family and padding, port number, groups.
fn address_of(port: u32) -> [u8; size_of::<sockaddr_nl>()] {
    let mut address = [0; size_of::<sockaddr_nl>()];
    address[..2].copy_from_slice(&(libc::AF_NETLINK as u16).to_ne_bytes());
    address[4..8].copy_from_slice(&port.to_ne_bytes());
    address
}

/// Gives as many bytes as there is room for, and says how many.
///
/// # Safety
/// `len` says for how many bytes `to` is writable.
unsafe fn give(bytes: &[u8], to: *mut c_void, len: *mut socklen_t) -> Result<(), c_int> {
    if to.is_null() || len.is_null() {
        return Err(libc::EFAULT);
    }
    // SAFETY: as the caller promises.
    let given = bytes.len().min(unsafe { *len } as usize);
    // SAFETY: as the caller promises.
    unsafe {
        to.cast::<u8>()
            .copy_from_nonoverlapping(bytes.as_ptr(), given);
        *len = given as socklen_t;
    }
    Ok(())
}

/// Says in a message that has come that the kernel sent it. `room`: bytes for the address.
///
/// # Safety
/// `message` names writable memory for an address, or none.
pub(crate) unsafe fn name_sender(message: &mut msghdr, room: socklen_t) {
    message.msg_namelen = room;
    // SAFETY: as the caller promises.
    let _ = unsafe {
        give_address(
            KERNEL,
            message.msg_name.cast(),
            &raw mut message.msg_namelen,
        )
    };
}

/// What receiving gives: netlink has no end, so that of the connection, whose ferroced has gone, is
/// an error.
pub(crate) fn received(n: ssize_t) -> ssize_t {
    match n {
        0 => sys::fail(libc::ECONNRESET) as ssize_t,
        n => n,
    }
}

/// Sets an option of level `SOL_NETLINK`. The error is an errno.
///
/// # Safety
/// `value` is readable for `len` bytes.
pub(crate) unsafe fn set_option(
    fd: c_int,
    option: c_int,
    value: *const c_void,
    len: socklen_t,
) -> Result<(), c_int> {
    let value = match len as usize >= size_of::<u32>() {
        true if value.is_null() => return Err(libc::EFAULT),
        // SAFETY: long enough; it may be unaligned.
        true => unsafe { value.cast::<u32>().read_unaligned() },
        false => return Err(libc::EINVAL),
    };

    match option {
        // There is nothing that is told to groups.
        ADD_MEMBERSHIP | DROP_MEMBERSHIP if (1..=GROUPS).contains(&value) => Ok(()),
        ADD_MEMBERSHIP | DROP_MEMBERSHIP => Err(libc::EINVAL),
        LISTEN_ALL_NSID if !sys::is_net_admin() => Err(libc::EPERM),
        CAP_ACK | EXT_ACK => {
            let control = Control::new(option.cast_unsigned(), value);
            sys::send_with_descriptor(fd, sys::vector_of(&control), None)?;
            let bit = option_bit(option);
            let bits = descriptors::netlink(fd).unwrap_or(0);
            let bits = if value != 0 { bits | bit } else { bits & !bit };
            descriptors::set_netlink(fd, bits);
            Ok(())
        }
        PKTINFO | BROADCAST_ERROR | NO_ENOBUFS | LISTEN_ALL_NSID | GET_STRICT_CHK => Ok(()),
        _ => Err(libc::ENOPROTOOPT),
    }
}

/// The bit by which the table of descriptors keeps an option.
fn option_bit(option: c_int) -> u16 {
    match option {
        CAP_ACK => 1,
        EXT_ACK => 2,
        _ => 0,
    }
}

/// The value of an option of such a socket, or an errno; `None`: it is no such socket, or the
/// connection's own option is meant.
pub(crate) fn option(fd: c_int, level: c_int, option: c_int) -> Option<Result<c_int, c_int>> {
    let bits = descriptors::netlink(fd)?;
    if !still_ours(fd) {
        return None;
    }
    match (level, option) {
        (libc::SOL_SOCKET, libc::SO_DOMAIN) => Some(Ok(libc::AF_NETLINK)),
        (libc::SOL_SOCKET, libc::SO_PROTOCOL) => Some(Ok(NETLINK_RDMA)),
        (libc::SOL_SOCKET, libc::SO_TYPE) => Some(Ok(libc::SOCK_RAW)),
        (libc::SOL_NETLINK, CAP_ACK | EXT_ACK) => Some(Ok((bits & option_bit(option) != 0).into())),
        (libc::SOL_NETLINK, _) => Some(Err(libc::ENOPROTOOPT)),
        _ => None,
    }
}

/// Gives an option's value. The error is an errno.
///
/// # Safety
/// `len` says for how many bytes `to` is writable.
pub(crate) unsafe fn give_option(
    value: c_int,
    to: *mut c_void,
    len: *mut socklen_t,
) -> Result<(), c_int> {
    // SAFETY: as the caller promises.
    unsafe { give(&value.to_ne_bytes(), to, len) }
}
