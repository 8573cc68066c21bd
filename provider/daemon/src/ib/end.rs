//! A cable's near end: datagrams in and out, and how many switches a packet may still cross.
//!
//! Forwarding tables may lead in a circle, and InfiniBand packets without a GRH carry no count of
//! hops. The datagram around each does: its TTL (hop limit with IPv6). Whoever makes a packet sends
//! it with the host's default, a switch passes it on with one less than it came with, and does not
//! pass on what came with one. What is in the packet is nothing to this module.

use std::net::SocketAddr;
use std::os::fd::OwnedFd;

use ferroce_control::datagram::{self, Kind};
use ferroce_control::udp;
use ferroce_fabric::link::Cable;
use libc::c_int;
use rustix::io::Errno;

/// What a datagram is taken to have left if the kernel does not say: nothing.
const UNKNOWN: u8 = 1;

/// Who sent a datagram, by its source address, which nobody should be able to forge on the way
/// between the two ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Source {
    /// The daemon at the other end: training, management, and what a switch passes on.
    Far,
    /// A process at the other end's address, from a port of its own: data.
    FarHost,
    /// A process at our own address: data for the port that it is sent by.
    Own,
    /// Nobody who has anything to say here.
    Stranger,
}

/// What [`End::receive`] takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Came {
    /// Its length, which may be more than the buffer holds.
    pub(super) len: usize,
    /// How many switches it may still cross, this one included.
    pub(super) hops: u8,
    pub(super) source: Source,
}

/// The end of a cable.
#[derive(Debug)]
pub(super) struct End {
    socket: OwnedFd,
    cable: Cable,
    /// How the kernel calls what a datagram has left.
    hops: Kind,
    /// Nothing goes out, and what comes is thrown away.
    pub(super) cut: bool,
}

impl End {
    /// The near end of a cable, with the socket that is bound to it. The kernel's saying of TTLs
    /// concerns this socket alone.
    pub(super) fn new(socket: OwnedFd, cable: Cable) -> Self {
        let (hops, say) = match cable.remote.is_ipv4() {
            true => ((libc::IPPROTO_IP, libc::IP_TTL), libc::IP_RECVTTL),
            false => (
                (libc::IPPROTO_IPV6, libc::IPV6_HOPLIMIT),
                libc::IPV6_RECVHOPLIMIT,
            ),
        };
        if let Err(error) = udp::set(&socket, (hops.0, say), 1) {
            tracing::error!(%error, "a port cannot see what crosses too many switches, and passes nothing on");
        }

        Self {
            socket,
            cable,
            hops,
            cut: false,
        }
    }

    /// The next datagram. Never waits.
    pub(super) fn receive(&self, buffer: &mut [u8]) -> Result<Came, Errno> {
        if self.cut {
            while datagram::receive::<{ size_of::<c_int>() }>(&self.socket, buffer, self.hops)
                .is_ok()
            {}
            return Err(Errno::AGAIN);
        }
        let received = datagram::receive(&self.socket, buffer, self.hops)?;
        let left = received.said.map(c_int::from_ne_bytes);
        let left = left.and_then(|left| u8::try_from(left).ok());
        Ok(Came {
            len: received.len,
            hops: left.unwrap_or(UNKNOWN),
            source: source(&self.cable, received.from),
        })
    }

    /// Sends a datagram, that may cross so many switches; as many as the host's default if none is
    /// said. Never waits.
    pub(super) fn send(&self, bytes: &[u8], hops: Option<u8>) -> Result<(), Errno> {
        self.send_to(self.cable.remote, bytes, hops)
    }

    /// Sends a datagram to an endpoint of this host. Never waits.
    pub(super) fn copy_to(&self, to: SocketAddr, bytes: &[u8]) -> Result<(), Errno> {
        self.send_to(to, bytes, None)
    }

    fn send_to(&self, to: SocketAddr, bytes: &[u8], hops: Option<u8>) -> Result<(), Errno> {
        if self.cut {
            return Ok(());
        }
        let hops = hops.map(|hops| (self.hops, hops.into()));
        datagram::send(&self.socket, bytes, to, hops)
    }
}

fn source(cable: &Cable, from: Option<SocketAddr>) -> Source {
    let Cable { local, remote } = cable;
    match from.map(|from| (from.ip(), from.port())) {
        Some((ip, port)) if (ip, port) == (remote.ip(), remote.port()) => Source::Far,
        Some((ip, _)) if ip == remote.ip() => Source::FarHost,
        Some((ip, _)) if ip == local.ip() => Source::Own,
        _ => Source::Stranger,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::UdpSocket;

    fn pair(address: &str) -> [End; 2] {
        let sockets = [(); 2].map(|()| UdpSocket::bind(address).unwrap());
        let [local, remote] = [&sockets[0], &sockets[1]].map(|s| s.local_addr().unwrap());
        let [a, b] = sockets.map(OwnedFd::from);
        let back = Cable {
            local: remote,
            remote: local,
        };
        [End::new(a, Cable { local, remote }), End::new(b, back)]
    }

    #[test]
    fn who_sent_a_datagram_is_told_by_its_source() {
        let far = UdpSocket::bind("127.0.8.2:0").unwrap();
        let socket = UdpSocket::bind("127.0.8.1:0").unwrap();
        let [local, remote] = [&socket, &far].map(|s| s.local_addr().unwrap());
        let end = End::new(socket.into(), Cable { local, remote });
        let other = |address| UdpSocket::bind((address, 0)).unwrap();
        for (socket, source) in [
            (far, Source::Far),
            (other("127.0.8.2"), Source::FarHost),
            (other("127.0.8.1"), Source::Own),
            (other("127.0.8.3"), Source::Stranger),
        ] {
            socket.send_to(&[1; 40], local).unwrap();
            assert_eq!(end.receive(&mut [0; 100]).unwrap().source, source);
        }
    }

    #[test]
    fn a_packet_crosses_as_many_switches_as_it_may() {
        for address in ["127.0.0.1:0", "[::1]:0"] {
            let [mut a, mut b] = pair(address);
            let mut buffer = [0; 100];
            a.send(&[1; 40], None).unwrap();
            let received = b.receive(&mut buffer).unwrap();
            assert_eq!((received.len, received.source), (40, Source::Far));
            let (len, mut left) = (received.len, received.hops);
            let mut crossed = 0;

            // A loop of two switches.
            while left > 1 {
                b.send(&buffer[..len], Some(left - 1)).unwrap();
                left = a.receive(&mut buffer).unwrap().hops;
                std::mem::swap(&mut a, &mut b);
                crossed += 1;
            }

            assert!((31..=255).contains(&crossed), "{crossed}");
            assert_eq!(a.receive(&mut buffer), Err(Errno::AGAIN));
            assert_eq!(b.receive(&mut buffer), Err(Errno::AGAIN));
        }
    }

    #[test]
    fn what_is_too_long_says_how_long() {
        let [a, b] = pair("127.0.0.1:0");
        a.send(&[1; 300], Some(7)).unwrap();
        let received = b.receive(&mut [0; 100]).unwrap();
        assert_eq!((received.len, received.hops), (300, 7));
    }
}
