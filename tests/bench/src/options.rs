//! UDP sockets of the yardsticks, and options that no library knows.

use std::io;
use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::os::fd::AsRawFd;

use anyhow::Result;
use socket2::Socket;

const UDP_SEGMENT: libc::c_int = 103;
const UDP_GRO: libc::c_int = 104;

/// A socket on loopback whose thread polls: with room for what comes, and runs received at once.
pub(crate) fn receiver() -> Result<UdpSocket> {
    let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0))?;
    socket.set_nonblocking(true)?;
    let _ = Socket::from(socket.try_clone()?).set_recv_buffer_size(8 << 20);
    enable_gro(&socket)?;
    Ok(socket)
}

/// A socket with this host's address on the way to an IPv4 address.
pub(crate) fn towards(address: SocketAddr) -> io::Result<UdpSocket> {
    let probe = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0))?;
    probe.connect(address)?;
    UdpSocket::bind((probe.local_addr()?.ip(), 0))
}

/// What is sent at once is cut into packets of so many bytes.
pub(crate) fn set_segment_size(socket: &impl AsRawFd, bytes: usize) -> Result<()> {
    set(socket, UDP_SEGMENT, bytes as libc::c_int)
}

/// Packets of a flow are received at once.
pub(crate) fn enable_gro(socket: &impl AsRawFd) -> Result<()> {
    set(socket, UDP_GRO, 1)
}

fn set(socket: &impl AsRawFd, option: libc::c_int, value: libc::c_int) -> Result<()> {
    // SAFETY: both options take an int, which outlives the call.
    let result = unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            libc::SOL_UDP,
            option,
            (&raw const value).cast(),
            size_of_val(&value) as libc::socklen_t,
        )
    };
    match result {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error().into()),
    }
}
