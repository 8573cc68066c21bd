//! The tester's end of RoCEv2: UDP port 4791 at an address of its own, every packet made and read
//! by hand.
//!
//! The socket is never connected, so that Linux sends the IPv4 Identification as 0, which the ICRC
//! covers. When a packet came is the kernel's word, not the moment at which the tester got round to
//! it.

use super::stamp::Receiver;
use crate::packet::TxPacket;
use anyhow::{Context, Result, bail};
use ferroce_wire::ROCE_V2_PORT;
use ferroce_wire::icrc::Flow;
use rand::rngs::OsRng;
use rand::{Rng, TryRngCore};
use rustix::net::sockopt as options;
use std::io::ErrorKind;
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::os::fd::{AsFd, BorrowedFd};
use std::time::Instant;

/// Flow ports of RoCEv2 senders.
const SOURCE_PORTS: std::ops::RangeInclusive<u16> = 0xc000..=0xffff;
/// What the kernel keeps for the tester while it does something else, if it may.
const RECEIVE_BUFFER: usize = 4 << 20;

/// The two ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Ends {
    /// The tester, at the port of RoCE; a link-local address has its interface.
    pub tester: SocketAddr,
    /// The device.
    pub device: IpAddr,
}

/// The tester's sockets.
pub(super) struct Roce {
    ends: Ends,
    receiver: UdpSocket,
    arrivals: Receiver,
    sender: UdpSocket,
    /// Where the sender is, and of what its packets' ICRC is made.
    from: SocketAddr,
    flow: Flow,
}

/// A datagram from the device.
pub(super) struct Datagram {
    /// When it came.
    pub at: Instant,
    /// From where.
    pub from: SocketAddr,
    /// From the BTH to the ICRC.
    pub bytes: Vec<u8>,
    /// The ICRC is right.
    pub intact: bool,
}

impl Roce {
    /// At the tester's address.
    ///
    /// # Errors
    /// If it is no address of this host, or somebody speaks RoCE there.
    pub(super) fn new(ends: Ends) -> Result<Roce> {
        let tester = ends.tester;
        let (at, tester) = (tester, tester.ip());
        let receiver = match UdpSocket::bind(at) {
            Ok(socket) => socket,
            Err(error) => match error.kind() {
                ErrorKind::AddrInUse => bail!(
                    "UDP port {ROCE_V2_PORT} of {tester} is in use: give the tester an address at which no RDMA device is (--tester)"
                ),
                ErrorKind::AddrNotAvailable => {
                    bail!("{tester} is no address of this host: give the tester one (--tester)")
                }
                _ => {
                    return Err(error)
                        .with_context(|| format!("UDP port {ROCE_V2_PORT} of {tester}"));
                }
            },
        };

        Receiver::prepare(&receiver)?;

        // It gets less where net.core.rmem_max is less; a test needs little.
        let _ = options::set_socket_recv_buffer_size(&receiver, RECEIVE_BUFFER);
        let sender = source(at)?;
        let from = sender.local_addr()?;
        let flow = match (from.ip(), ends.device) {
            (IpAddr::V4(from_ip), IpAddr::V4(to)) => {
                options::set_ip_mtu_discover(&sender, options::Ipv4PathMtuDiscovery::DO)?;
                Flow::v4(from_ip, to, from.port(), ROCE_V2_PORT)
            }
            (IpAddr::V6(from_ip), IpAddr::V6(to)) => {
                ferroce_control::udp::take_without_checksum(&receiver)?;
                Flow::v6(from_ip, to, from.port(), ROCE_V2_PORT)
            }
            _ => bail!("{tester} and {} are of different families", ends.device),
        };

        Ok(Roce {
            ends,
            receiver,
            arrivals: Receiver::new(),
            sender,
            from,
            flow,
        })
    }

    /// Where packets to the device come from and go to.
    pub(super) fn outward(&self) -> (SocketAddr, SocketAddr) {
        (self.from, self.device())
    }

    /// Where packets of the device go to.
    pub(super) fn here(&self) -> SocketAddr {
        self.ends.tester
    }

    /// A packet's bytes as they go out.
    pub(super) fn encode(&self, packet: &TxPacket) -> Vec<u8> {
        packet.encode(|len| self.flow.start(len, 0))
    }

    /// Sends bytes from the BTH to the ICRC.
    ///
    /// # Errors
    /// If there is no way to the device.
    pub(super) fn send(&self, bytes: &[u8]) -> Result<()> {
        let to = self.device();
        self.sender
            .send_to(bytes, to)
            .with_context(|| format!("sending to {to}"))?;
        Ok(())
    }

    /// The next datagram of the device, if one has come. What others send is not looked at.
    ///
    /// # Errors
    /// The socket's.
    pub(super) fn receive(&mut self) -> Result<Option<Datagram>> {
        loop {
            let datagram = self.arrivals.receive(&self.receiver);
            let Some(datagram) = datagram.context("receiving at the tester's address")? else {
                return Ok(None);
            };

            let (at, from) = (datagram.at, datagram.from);
            if from.ip() != self.ends.device {
                continue;
            }

            let bytes = datagram.bytes.to_vec();
            let flow = match (from.ip(), self.ends.tester.ip()) {
                (IpAddr::V4(from_ip), IpAddr::V4(to)) => {
                    Flow::v4(from_ip, to, from.port(), ROCE_V2_PORT)
                }
                (IpAddr::V6(from_ip), IpAddr::V6(to)) => {
                    Flow::v6(from_ip, to, from.port(), ROCE_V2_PORT)
                }
                _ => continue,
            };

            return Ok(Some(Datagram {
                at,
                from,
                intact: flow.verify(&bytes, 0).is_good(),
                bytes,
            }));
        }
    }

    /// Where the device is: on the tester's link, if its address is of one.
    fn device(&self) -> SocketAddr {
        let mut device = self.ends.tester;
        device.set_ip(self.ends.device);
        device
    }
}

impl AsFd for Roce {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.receiver.as_fd()
    }
}

/// A socket to send from: at the address, with a port as RoCEv2 senders have.
fn source(mut address: SocketAddr) -> Result<UdpSocket> {
    for _ in 0..64 {
        address.set_port(OsRng.unwrap_err().random_range(SOURCE_PORTS));
        match UdpSocket::bind(address) {
            Ok(socket) => return Ok(socket),
            Err(error) if error.kind() == ErrorKind::AddrInUse => {}
            Err(error) => {
                return Err(error).with_context(|| format!("a UDP port of {}", address.ip()));
            }
        }
    }
    bail!("no UDP port of {} is free", address.ip())
}
