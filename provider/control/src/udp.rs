//! Socket options for which the safe libraries have no name.

use std::io;
use std::os::fd::{AsFd, AsRawFd};

use libc::c_int;
use rustix::io::Errno;
use rustix::net::sockopt as options;

/// Bytes that the device asks for as the receive buffer of each socket, unless its settings say
/// otherwise.
pub const RECEIVE_BUFFER: usize = 8 << 20;
/// Bytes that a program asks for as the send buffer of each socket. A larger one only matters where
/// the link is slower than the processor.
pub const SEND_BUFFER: usize = 4 << 20;

/// Linux's `UDP_NO_CHECK6_RX`.
const UDP_NO_CHECK6_RX: c_int = 102;
/// Linux's numbers of IPsec policies.
const IP_XFRM_POLICY: c_int = 17;
const IPV6_XFRM_POLICY: c_int = 35;
const XFRM_POLICY_BLOCK: u8 = 1;
/// Not known to the C library of every target.
const SO_NETNS_COOKIE: c_int = 71;

/// Has an IPv6 UDP socket take datagrams without a UDP checksum, which Linux drops otherwise:
/// RoCEv2 may leave it out, since there is the ICRC, and rdma_rxe does.
///
/// # Errors
/// The kernel's, for one of before 3.16 or another kind of socket.
pub fn take_without_checksum(socket: impl AsFd) -> io::Result<()> {
    Ok(set(socket, (libc::SOL_UDP, UDP_NO_CHECK6_RX), 1)?)
}

/// Asks for a receive buffer of that size: beyond the system's limit (`net.core.rmem_max`) if this
/// process may, else up to it.
///
/// # Errors
/// The kernel's; the buffer then stays as it was.
pub fn enlarge(socket: impl AsFd, bytes: usize) -> Result<(), Errno> {
    match options::set_socket_recv_buffer_size_force(&socket, bytes) {
        Ok(()) => Ok(()),
        Err(_) => options::set_socket_recv_buffer_size(&socket, bytes),
    }
}

/// Has the kernel cut what is sent into datagrams of that length, or, with 0, not.
///
/// # Errors
/// The kernel's, for one of before 4.18 or another kind of socket.
pub fn set_send_offload(socket: impl AsFd, segment: u16) -> Result<(), Errno> {
    set(socket, (libc::SOL_UDP, libc::UDP_SEGMENT), segment.into())
}

/// Has the kernel merge datagrams of one length that came one after the other, or not.
///
/// # Errors
/// The kernel's, for one of before 5.0 or another kind of socket.
pub fn set_receive_offload(socket: impl AsFd, on: bool) -> Result<(), Errno> {
    set(socket, (libc::SOL_UDP, libc::UDP_GRO), on.into())
}

/// Whether it does.
///
/// # Errors
/// As of [`set_receive_offload`].
pub fn receive_offload(socket: impl AsFd) -> Result<bool, Errno> {
    let mut on: c_int = 0;
    // SAFETY: an int may have any value.
    unsafe { get(socket, (libc::SOL_UDP, libc::UDP_GRO), &mut on) }?;
    Ok(on != 0)
}

/// The number of the network namespace that a socket is of, where the kernel tells.
pub(crate) fn network_cookie(socket: impl AsFd) -> Option<u64> {
    let mut cookie = 0u64;
    let option = (libc::SOL_SOCKET, SO_NETNS_COOKIE);
    // SAFETY: a number of 64 bits may have any value.
    unsafe { get(socket, option, &mut cookie) }.ok()?;
    Some(cookie)
}

/// Has what is sent to other hosts leave by the interface with this index and no other, or, with 0,
/// as the host's routes say.
///
/// # Errors
/// The kernel's, for one of before 3.4 or without such an interface.
pub fn leave_through(socket: impl AsFd, v4: bool, interface: u32) -> Result<(), Errno> {
    let option = match v4 {
        true => (libc::IPPROTO_IP, libc::IP_UNICAST_IF),
        false => (libc::IPPROTO_IPV6, libc::IPV6_UNICAST_IF),
    };
    // In the order of the network, for IPv4 and IPv6.
    set(socket, option, interface.to_be() as c_int)
}

/// Has the kernel choose the socket of a `SO_REUSEPORT` group by a program.
///
/// # Errors
/// The kernel's, for one of before 4.5 or a bad program.
pub fn steer(socket: impl AsFd, program: &mut [libc::sock_filter]) -> Result<(), Errno> {
    set_program(socket, libc::SO_ATTACH_REUSEPORT_CBPF, program)
}

/// Has a socket throw away what a program says of it. Who holds the socket can give it another, or
/// none, unless `SO_LOCK_FILTER` is set.
///
/// # Errors
/// The kernel's, for a bad program, or where the filter is locked.
pub fn filter(socket: impl AsFd, program: &mut [libc::sock_filter]) -> Result<(), Errno> {
    set_program(socket, libc::SO_ATTACH_FILTER, program)
}

fn set_program(
    socket: impl AsFd,
    name: c_int,
    program: &mut [libc::sock_filter],
) -> Result<(), Errno> {
    let program = libc::sock_fprog {
        len: u16::try_from(program.len()).map_err(|_| Errno::INVAL)?,
        filter: program.as_mut_ptr(),
    };
    // SAFETY: the kernel reads a program of that length from where it says, within the call.
    unsafe { set_value(socket, (libc::SOL_SOCKET, name), program) }
}

/// Has a socket get nothing more that comes from anywhere, or again all: by an IPsec policy of its
/// own, which nobody who holds it can take away without `CAP_NET_ADMIN`.
///
/// # Errors
/// `EPERM` without that, and the kernel's where it has no such policies.
pub fn silence(socket: impl AsFd, v4: bool, silent: bool) -> Result<(), Errno> {
    let (option, family) = match v4 {
        true => ((libc::IPPROTO_IP, IP_XFRM_POLICY), libc::AF_INET),
        false => ((libc::IPPROTO_IPV6, IPV6_XFRM_POLICY), libc::AF_INET6),
    };
    if !silent {
        // SAFETY: there is no value; the descriptor is open.
        let result = unsafe {
            libc::setsockopt(
                socket.as_fd().as_raw_fd(),
                option.0,
                option.1,
                std::ptr::null(),
                0,
            )
        };
        return succeeded(result);
    }

    let policy = Policy {
        family: family as u16,
        limits: [u64::MAX; 4],
        action: XFRM_POLICY_BLOCK,
        ..Policy::default()
    };
    // SAFETY: numbers alone.
    unsafe { set_value(socket, option, policy) }
}

/// The kernel's `xfrm_userpolicy_info`. By default it is of all packets that come.
#[derive(Default)]
#[repr(C)]
struct Policy {
    addresses: [u32; 8],
    ports: [u16; 4],
    family: u16,
    prefixes: [u8; 2],
    protocol: u8,
    interface: c_int,
    user: u32,
    /// Bytes and packets after which it is to be replaced, or ends.
    limits: [u64; 4],
    times: [u64; 4],
    used: [u64; 4],
    priority: u32,
    index: u32,
    direction: u8,
    action: u8,
    flags: u8,
    share: u8,
}

/// Sets an option, by its level and name, whose value is an int.
///
/// # Errors
/// The kernel's.
pub fn set(socket: impl AsFd, option: (c_int, c_int), value: c_int) -> Result<(), Errno> {
    // SAFETY: an int points to nothing.
    unsafe { set_value(socket, option, value) }
}

/// # Safety
/// What the value points to must be as the option has it.
unsafe fn set_value<T>(
    socket: impl AsFd,
    (level, name): (c_int, c_int),
    value: T,
) -> Result<(), Errno> {
    // SAFETY: the value is valid for the call, and as long as it says; the descriptor is open.
    let result = unsafe {
        libc::setsockopt(
            socket.as_fd().as_raw_fd(),
            level,
            name,
            (&raw const value).cast(),
            size_of::<T>() as libc::socklen_t,
        )
    };
    succeeded(result)
}

/// # Safety
/// The value must be of a type that may be any bytes.
unsafe fn get<T>(
    socket: impl AsFd,
    (level, name): (c_int, c_int),
    value: &mut T,
) -> Result<(), Errno> {
    let mut len = size_of::<T>() as libc::socklen_t;
    // SAFETY: there is room for as much as the length says, and the descriptor is open.
    let result = unsafe {
        libc::getsockopt(
            socket.as_fd().as_raw_fd(),
            level,
            name,
            std::ptr::from_mut(value).cast(),
            &mut len,
        )
    };
    succeeded(result)
}

fn succeeded(result: c_int) -> Result<(), Errno> {
    match result {
        0 => Ok(()),
        _ => {
            let error = io::Error::last_os_error();
            Err(Errno::from_io_error(&error).unwrap_or(Errno::IO))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::UdpSocket;

    #[test]
    fn it_is_for_udp_alone() {
        // A host without IPv6 has nothing to set.
        if let Ok(socket) = UdpSocket::bind("[::1]:0") {
            take_without_checksum(&socket).unwrap();
        }
        let pair = std::os::unix::net::UnixDatagram::unbound().unwrap();
        assert!(take_without_checksum(&pair).is_err());
        assert!(set_receive_offload(&pair, true).is_err());
    }

    #[test]
    fn receive_offload_is_as_it_was_set() {
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        assert_eq!(receive_offload(&socket), Ok(false));
        for on in [true, false] {
            set_receive_offload(&socket, on).unwrap();
            assert_eq!(receive_offload(&socket), Ok(on));
        }
    }

    #[test]
    fn a_program_that_makes_no_sense_is_refused() {
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        assert!(steer(&socket, &mut []).is_err());
    }
}
