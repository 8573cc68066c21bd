//! A socket option for which the safe libraries have no name.

use std::io;
use std::os::fd::{AsFd, AsRawFd};

/// Linux's `UDP_NO_CHECK6_RX`.
const UDP_NO_CHECK6_RX: libc::c_int = 102;

/// Has an IPv6 UDP socket take datagrams without a UDP checksum, which Linux drops otherwise: RoCEv2 may leave it out, since there
/// is the ICRC, and rdma_rxe does.
///
/// # Errors
/// The kernel's, for one of before 3.16 or another kind of socket.
pub fn take_without_checksum(socket: impl AsFd) -> io::Result<()> {
    let on: libc::c_int = 1;
    // SAFETY: the option's value is an int, which is valid for the call, and the descriptor is open.
    let result = unsafe {
        libc::setsockopt(
            socket.as_fd().as_raw_fd(),
            libc::SOL_UDP,
            UDP_NO_CHECK6_RX,
            (&raw const on).cast(),
            size_of_val(&on) as libc::socklen_t,
        )
    };
    match result {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
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
    }
}
