//! Datagrams with what the kernel says, or is told, beside them: one thing each. The safe libraries
//! do not pass it on.

use std::mem::MaybeUninit;
use std::net::SocketAddr;
use std::os::fd::{AsFd, AsRawFd};

use libc::{c_int, cmsghdr};
use rustix::io::Errno;
use rustix::net::SocketAddrAny;
use rustix::net::addr::SocketAddrArg;

/// The level and the type of what is said.
pub type Kind = (c_int, c_int);

/// A datagram that came.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Datagram<const N: usize> {
    /// Its length, which may be more than the buffer holds.
    pub len: usize,
    /// Where from, if that is an IP endpoint.
    pub from: Option<SocketAddr>,
    /// What the kernel says, if it does: the value's first bytes.
    pub said: Option<[u8; N]>,
}

/// Bytes of the value of a control message, at most.
const VALUE: usize = 16;
/// Bytes of a control message with its header.
const ROOM: usize = size_of::<cmsghdr>() + VALUE;

/// Room for one control message, where the kernel wants it.
#[repr(C)]
union Control {
    _align: cmsghdr,
    bytes: [u8; ROOM],
}

/// The next datagram of a socket, with what the kernel says of that kind. Never waits.
///
/// # Errors
/// The kernel's.
pub fn receive<const N: usize>(
    socket: impl AsFd,
    buffer: &mut [u8],
    kind: Kind,
) -> Result<Datagram<N>, Errno> {
    const { assert!(N <= VALUE) };
    let mut from = MaybeUninit::<libc::sockaddr_storage>::zeroed();
    let mut part = libc::iovec {
        iov_base: buffer.as_mut_ptr().cast(),
        iov_len: buffer.len(),
    };

    let mut control = Control { bytes: [0; ROOM] };

    // SAFETY: it is made of numbers and pointers, and zero is one of each.
    let mut message: libc::msghdr = unsafe { std::mem::zeroed() };
    message.msg_name = from.as_mut_ptr().cast();
    message.msg_namelen = size_of::<libc::sockaddr_storage>() as libc::socklen_t;
    message.msg_iov = &raw mut part;
    message.msg_iovlen = 1;
    message.msg_control = (&raw mut control).cast();
    message.msg_controllen = ROOM as _;
    let flags = libc::MSG_DONTWAIT | libc::MSG_TRUNC;

    // SAFETY: what the message points to is alive, writable, and as long as it says.
    let len = unsafe { libc::recvmsg(socket.as_fd().as_raw_fd(), &mut message, flags) };
    let Ok(len) = usize::try_from(len) else {
        return Err(last_error());
    };

    // SAFETY: all of it was written, by us or by the kernel, and bytes have no invalid values.
    let control = unsafe { control.bytes };
    let said = control.get(..message.msg_controllen as usize);

    // SAFETY: the kernel has written an address of that length, and the rest is zero.
    let from = unsafe { SocketAddrAny::new(cast(from), message.msg_namelen) };
    Ok(Datagram {
        len,
        from: SocketAddr::try_from(from).ok(),
        said: said.and_then(|control| value(control, kind)),
    })
}

fn cast(
    from: MaybeUninit<libc::sockaddr_storage>,
) -> MaybeUninit<rustix::net::addr::SocketAddrStorage> {
    let mut to = MaybeUninit::<rustix::net::addr::SocketAddrStorage>::zeroed();
    let len = size_of_val(&from).min(size_of_val(&to));
    // SAFETY: both are at least that long, and distinct.
    unsafe {
        std::ptr::copy_nonoverlapping(from.as_ptr().cast::<u8>(), to.as_mut_ptr().cast(), len)
    };
    to
}

/// The value of the control message of a kind.
fn value<const N: usize>(control: &[u8], (level, kind): Kind) -> Option<[u8; N]> {
    let word = |at| {
        let bytes: &[u8; 4] = control.get(at..)?.first_chunk()?;
        Some(c_int::from_ne_bytes(*bytes))
    };
    let is_it = word(std::mem::offset_of!(cmsghdr, cmsg_level))? == level
        && word(std::mem::offset_of!(cmsghdr, cmsg_type))? == kind;
    let value = control.get(size_of::<cmsghdr>()..)?;
    value.first_chunk().copied().filter(|_| is_it)
}

/// Sends a datagram to an endpoint, and tells the kernel something of that kind. Never waits.
///
/// # Errors
/// The kernel's.
pub fn send(
    socket: impl AsFd,
    bytes: &[u8],
    to: SocketAddr,
    said: Option<(Kind, c_int)>,
) -> Result<(), Errno> {
    let mut part = libc::iovec {
        iov_base: bytes.as_ptr().cast_mut().cast(),
        iov_len: bytes.len(),
    };

    let mut control = Control { bytes: [0; ROOM] };

    // SAFETY: it is made of numbers and pointers, and zero is one of each.
    let mut message: libc::msghdr = unsafe { std::mem::zeroed() };
    message.msg_iov = &raw mut part;
    message.msg_iovlen = 1;
    if let Some(((level, kind), value)) = said {
        let head = size_of::<cmsghdr>();
        let len = head + size_of_val(&value);
        // SAFETY: it is made of numbers; musl's has some that nobody names.
        let mut header: cmsghdr = unsafe { std::mem::zeroed() };
        header.cmsg_len = len as _;
        header.cmsg_level = level;
        header.cmsg_type = kind;
        control._align = header;
        // SAFETY: both views are of plain bytes, all of which were written.
        let bytes = unsafe { &mut control.bytes };
        bytes[head..len].copy_from_slice(&value.to_ne_bytes());
        message.msg_control = (&raw mut control).cast();
        message.msg_controllen = len.next_multiple_of(align_of::<cmsghdr>()) as _;
    }

    let flags = libc::MSG_NOSIGNAL | libc::MSG_DONTWAIT;
    let mut send = |name: *mut libc::c_void, len| {
        message.msg_name = name;
        message.msg_namelen = len;
        // SAFETY: what the message points to is alive and as long as it says; the kernel only reads
        // it.
        unsafe { libc::sendmsg(socket.as_fd().as_raw_fd(), &message, flags) }
    };

    // SAFETY: the pointer and the length are passed to the kernel as they are, while they hold.
    let sent = unsafe { to.with_sockaddr(|name, len| send(name.cast_mut().cast(), len)) };
    match sent {
        0.. => Ok(()),
        _ => Err(last_error()),
    }
}

fn last_error() -> Errno {
    let error = std::io::Error::last_os_error();
    Errno::from_io_error(&error).unwrap_or(Errno::IO)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::UdpSocket;

    #[test]
    fn what_is_said_is_heard() {
        let kinds = |v6| match v6 {
            false => ((libc::IPPROTO_IP, libc::IP_TTL), libc::IP_RECVTTL),
            true => (
                (libc::IPPROTO_IPV6, libc::IPV6_HOPLIMIT),
                libc::IPV6_RECVHOPLIMIT,
            ),
        };

        for (address, v6) in [("127.0.0.1:0", false), ("[::1]:0", true)] {
            let Ok(socket) = UdpSocket::bind(address) else {
                assert!(v6, "a host without IPv4");
                continue;
            };
            let here = socket.local_addr().unwrap();
            let (kind, option) = kinds(v6);
            let mut buffer = [0; 4];
            let mut received = || receive::<4>(&socket, &mut buffer, kind);
            assert_eq!(received(), Err(Errno::AGAIN));

            send(&socket, b"unheard", here, Some((kind, 9))).unwrap();
            let expected = Datagram {
                len: 7,
                from: Some(here),
                said: None,
            };
            assert_eq!(received(), Ok(expected));
            crate::udp::set(&socket, (kind.0, option), 1).unwrap();
            send(&socket, b"heard", here, Some((kind, 9))).unwrap();
            let expected = Datagram {
                len: 5,
                said: Some(9i32.to_ne_bytes()),
                ..expected
            };
            assert_eq!(received(), Ok(expected));

            // What is of another kind is nothing.
            send(&socket, b"", here, Some((kind, 9))).unwrap();
            let other = (kind.0, kind.1 + 1);
            let received = receive::<4>(&socket, &mut buffer, other).unwrap();
            assert_eq!((received.len, received.said), (0, None));
            assert_eq!(buffer, *b"hear");
        }
    }

    #[test]
    fn an_error_is_the_kernels() {
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        let nowhere = "[::1]:9".parse().unwrap();
        assert!(send(&socket, b"", nowhere, None).is_err());
    }
}
