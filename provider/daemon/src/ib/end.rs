//! A cable's near end: datagrams in and out, and how many switches a packet may still cross.
//!
//! Forwarding tables may lead in a circle, and InfiniBand packets without a GRH carry no count of hops. The datagram around each
//! does: its TTL (hop limit with IPv6). Whoever makes a packet sends it with the host's default, a switch passes it on with one less
//! than it came with, and does not pass on what came with one. What is in the packet is nothing to this module.

use std::io::{IoSlice, IoSliceMut};
use std::net::SocketAddr;
use std::os::fd::{AsRawFd, OwnedFd};

use nix::errno::Errno;
use nix::sys::socket::{
    ControlMessage, ControlMessageOwned, MsgFlags, SockaddrStorage, recvmsg, sendmsg, setsockopt,
    sockopt,
};

/// What a datagram is taken to have left if the kernel does not say: nothing.
const UNKNOWN: u8 = 1;

/// The end of a cable.
#[derive(Debug)]
pub(super) struct End {
    socket: OwnedFd,
    remote: SockaddrStorage,
    is_v4: bool,
    /// Room for what the kernel says beside a datagram.
    control: Vec<u8>,
}

impl End {
    /// The end whose datagrams go to `remote`. The kernel's saying of TTLs concerns this socket alone.
    pub(super) fn new(socket: OwnedFd, remote: SocketAddr) -> Self {
        let is_v4 = remote.is_ipv4();
        let asked = match is_v4 {
            true => setsockopt(&socket, sockopt::Ipv4RecvTtl, &true),
            false => setsockopt(&socket, sockopt::Ipv6RecvHopLimit, &true),
        };
        if let Err(error) = asked {
            tracing::error!(%error, "a port cannot see what crosses too many switches, and passes nothing on");
        }
        Self {
            socket,
            remote: remote.into(),
            is_v4,
            control: nix::cmsg_space!(libc::c_int),
        }
    }

    /// The next datagram: its length, which may be more than the buffer holds, and how many switches it may still cross, this
    /// one included. Never waits.
    pub(super) fn receive(&mut self, buffer: &mut [u8]) -> Result<(usize, u8), Errno> {
        let mut parts = [IoSliceMut::new(buffer)];
        let flags = MsgFlags::MSG_DONTWAIT | MsgFlags::MSG_TRUNC;
        let fd = self.socket.as_raw_fd();
        let came = recvmsg::<()>(fd, &mut parts, Some(&mut self.control), flags)?;
        let left = came.cmsgs()?.find_map(|message| match message {
            ControlMessageOwned::Ipv4Ttl(left) | ControlMessageOwned::Ipv6HopLimit(left) => {
                Some(left)
            }
            _ => None,
        });
        let left = left.map_or(UNKNOWN, |left| u8::try_from(left).unwrap_or(UNKNOWN));
        Ok((came.bytes, left))
    }

    /// Sends a datagram, that may cross so many switches; as many as the host's default if none is said. Never waits.
    pub(super) fn send(&self, bytes: &[u8], hops: Option<u8>) -> Result<(), Errno> {
        self.send_to(&self.remote, bytes, hops)
    }

    /// Sends a datagram to an endpoint of this host. Never waits.
    pub(super) fn copy_to(&self, to: SocketAddr, bytes: &[u8]) -> Result<(), Errno> {
        self.send_to(&to.into(), bytes, None)
    }

    fn send_to(&self, to: &SockaddrStorage, bytes: &[u8], hops: Option<u8>) -> Result<(), Errno> {
        let parts = [IoSlice::new(bytes)];
        let flags = MsgFlags::MSG_NOSIGNAL | MsgFlags::MSG_DONTWAIT;
        let hops = hops.map(libc::c_int::from);
        let control = hops.as_ref().map(|hops| match self.is_v4 {
            true => ControlMessage::Ipv4Ttl(hops),
            false => ControlMessage::Ipv6HopLimit(hops),
        });
        let fd = self.socket.as_raw_fd();
        sendmsg(fd, &parts, control.as_slice(), flags, Some(to))?;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::UdpSocket;

    fn pair(address: &str) -> [End; 2] {
        let sockets = [(); 2].map(|()| UdpSocket::bind(address).unwrap());
        let remotes = [&sockets[1], &sockets[0]].map(|socket| socket.local_addr().unwrap());
        let mut ends = sockets.into_iter().zip(remotes);
        [(); 2].map(|()| {
            let (socket, remote) = ends.next().unwrap();
            End::new(socket.into(), remote)
        })
    }

    #[test]
    fn a_packet_crosses_as_many_switches_as_it_may() {
        for address in ["127.0.0.1:0", "[::1]:0"] {
            let [mut a, mut b] = pair(address);
            let mut buffer = [0; 100];
            a.send(&[1; 40], None).unwrap();
            let (len, mut left) = b.receive(&mut buffer).unwrap();
            assert_eq!(len, 40);
            let mut crossed = 0;
            // A loop of two switches.
            while left > 1 {
                b.send(&buffer[..len], Some(left - 1)).unwrap();
                (_, left) = a.receive(&mut buffer).unwrap();
                std::mem::swap(&mut a, &mut b);
                crossed += 1;
            }
            assert!((31..=255).contains(&crossed), "{crossed}");
            assert_eq!(a.receive(&mut buffer), Err(Errno::EAGAIN));
            assert_eq!(b.receive(&mut buffer), Err(Errno::EAGAIN));
        }
    }

    #[test]
    fn what_is_too_long_says_how_long() {
        let [a, mut b] = pair("127.0.0.1:0");
        a.send(&[1; 300], Some(7)).unwrap();
        assert_eq!(b.receive(&mut [0; 100]), Ok((300, 7)));
    }
}
