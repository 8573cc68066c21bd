//! The sockets of one address: a `SO_REUSEPORT` group on the RoCE port with one member for each
//! slot, in the order of slots, and the program by which the kernel picks the member. Who holds
//! which slot is nothing to this module.

use std::io;
use std::net::{IpAddr, SocketAddr, SocketAddrV6};
use std::os::fd::OwnedFd;

use ferroce_control::{FlowFile, udp};
use ferroce_wire::ROCE_V2_PORT;
use ferroce_wire::mad::MULTICAST_QPN;
use rustix::io::Errno;
use rustix::net::RecvFlags;

use crate::DaemonError;
use crate::udp_sockets::{bind, claim, enlarge, granted, vacated};

/// Where in a packet the top byte of its destination QPN lies, from the start of the BTH.
const DEST_QP_OFFSET: u32 = 5;
/// Where from the start of the BTH the word is that ends in the destination QPN.
const DEST_QP_WORD: u32 = 4;
/// Bytes of an LRH, and of LRH and GRH.
const LRH: u32 = 8;
const LRH_GRH: u32 = 48;

/// What the packets of a group begin with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Packets {
    /// The BTH.
    Roce,
    /// An LRH, which says whether a GRH comes before the BTH.
    Infiniband,
}

/// The group of one address. Members are never closed while it lives: closing one would change the
/// kernel's numbering of the others.
#[derive(Debug)]
pub(crate) struct Group {
    address: SocketAddr,
    packets: Packets,
    receive_buffer: usize,
    members: Vec<OwnedFd>,
    /// Where those who send here and those who receive count; without it, senders go by the clock.
    _flow: Option<FlowFile>,
    /// Keeps a second daemon off the address between this one's look at the port and its first
    /// bind.
    _claim: OwnedFd,
}

impl Group {
    /// Takes the port at `ip` for good. `scope_id` is that of a link-local address, else 0.
    pub(crate) fn open(
        ip: IpAddr,
        scope_id: u32,
        receive_buffer: usize,
    ) -> Result<Self, DaemonError> {
        let address = match ip {
            IpAddr::V4(_) => SocketAddr::new(ip, ROCE_V2_PORT),
            IpAddr::V6(v6) => SocketAddr::V6(SocketAddrV6::new(v6, ROCE_V2_PORT, 0, scope_id)),
        };
        let mut group = Self::take(address, Packets::Roce, receive_buffer)?;
        // Only now that the address is ours: the file may be another daemon's.
        group._flow = flow_file(ip, scope_id);
        Ok(group)
    }

    /// Takes a cable's end for good.
    pub(crate) fn open_cable(end: SocketAddr, receive_buffer: usize) -> Result<Self, DaemonError> {
        Self::take(end, Packets::Infiniband, receive_buffer).map_err(|error| match error {
            DaemonError::PortTaken { holder, .. } => DaemonError::EndTaken { end, holder },
            error => error,
        })
    }

    fn take(
        address: SocketAddr,
        packets: Packets,
        receive_buffer: usize,
    ) -> Result<Self, DaemonError> {
        let claim = claim(address)?;
        // Without SO_REUSEPORT this fails if anybody at all is bound there, and with it it would
        // succeed beside others of this user.
        drop(vacated(address)?);
        let mut group = Self {
            address,
            packets,
            receive_buffer,
            members: Vec::new(),
            _flow: None,
            _claim: claim,
        };
        group.socket(0)?;
        Ok(group)
    }

    /// Whether this is the group of that address and scope.
    pub(crate) fn serves(&self, ip: IpAddr, scope_id: u32) -> bool {
        let scope = match self.address {
            SocketAddr::V4(_) => 0,
            SocketAddr::V6(v6) => v6.scope_id(),
        };
        self.address.ip() == ip && scope == scope_id
    }

    /// The address.
    pub(crate) fn ip(&self) -> IpAddr {
        self.address.ip()
    }

    /// The address and port.
    #[cfg(test)]
    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    /// How many slots have a socket so far.
    pub(crate) fn len(&self) -> usize {
        self.members.len()
    }

    /// Another descriptor of slot 0's socket.
    pub(crate) fn socket_of_daemon(&self) -> io::Result<OwnedFd> {
        self.members[0].try_clone()
    }

    /// The socket of a slot if it exists.
    pub(crate) fn existing(&self, slot: u8) -> Option<&OwnedFd> {
        self.members.get(usize::from(slot))
    }

    /// The socket of a slot. It and all of lower slots are created if they do not exist.
    pub(crate) fn socket(&mut self, slot: u8) -> Result<&OwnedFd, DaemonError> {
        let wanted = usize::from(slot) + 1;
        let before = self.members.len();
        let mut result = Ok(());
        while self.members.len() < wanted && result.is_ok() {
            match bind(self.address, true) {
                Ok(socket) => {
                    if self.address.is_ipv6()
                        && let Err(error) = udp::take_without_checksum(&socket)
                    {
                        tracing::debug!(%error, "IPv6 peers must send a UDP checksum");
                    }
                    enlarge(&socket, self.receive_buffer);
                    self.members.push(socket);
                }
                Err(error) => result = Err(error),
            }
        }
        if self.members.len() > before {
            self.steer()?;
        }
        result?;
        Ok(&self.members[usize::from(slot)])
    }

    /// Tells the kernel to choose the member by the slot in the packet; packets for slots without a
    /// socket, those too short to have one, and off a cable those of multicast go to slot 0.
    fn steer(&self) -> Result<(), DaemonError> {
        let op = |code: u32, jt: u8, jf: u8, k: u32| libc::sock_filter {
            code: code as u16,
            jt,
            jf,
            k,
        };
        let load = |offset| op(libc::BPF_LD | libc::BPF_B | libc::BPF_ABS, 0, 0, offset);
        let word = |offset| op(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, 0, 0, offset);
        let equal = |value, jt, jf| op(libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K, jt, jf, value);
        let to_slot_0 = op(libc::BPF_RET | libc::BPF_K, 0, 0, 0);
        let mut program = match self.packets {
            Packets::Roce => vec![load(DEST_QP_OFFSET)],
            // The low bits of the second byte say what follows: 2 a BTH, 3 a GRH and a BTH.
            Packets::Infiniband => vec![
                load(1),
                op(libc::BPF_ALU | libc::BPF_AND | libc::BPF_K, 0, 0, 3),
                equal(2, 2, 0),
                equal(3, 3, 0),
                to_slot_0,
                word(LRH + DEST_QP_WORD),
                op(libc::BPF_JMP | libc::BPF_JA, 0, 0, 1),
                word(LRH_GRH + DEST_QP_WORD),
                op(
                    libc::BPF_ALU | libc::BPF_AND | libc::BPF_K,
                    0,
                    0,
                    MULTICAST_QPN,
                ),
                // Beyond the shift and the comparison below.
                equal(MULTICAST_QPN, 2, 0),
                op(libc::BPF_ALU | libc::BPF_RSH | libc::BPF_K, 0, 0, 16),
            ],
        };

        program.extend([
            op(
                libc::BPF_JMP | libc::BPF_JGE | libc::BPF_K,
                0,
                1,
                self.members.len() as u32,
            ),
            to_slot_0,
            op(libc::BPF_RET | libc::BPF_A, 0, 0, 0),
        ]);

        udp::steer(&self.members[0], &mut program).map_err(|errno| not_steered(self.address, errno))
    }

    /// The receive buffer that the kernel granted, as it counts it.
    pub(crate) fn granted_receive_buffer(&self) -> u32 {
        granted(&self.members[0])
    }
}

/// There is no going on without: the kernel would give a packet to any process that holds a slot.
fn not_steered(address: SocketAddr, errno: Errno) -> DaemonError {
    match errno {
        Errno::NOPROTOOPT => DaemonError::NoSteering { address },
        errno => DaemonError::os(format!("steering packets at {address}"))(errno),
    }
}

/// Makes a socket ready for a client: receive offload on.
pub(crate) fn hand_out(socket: &OwnedFd) {
    offload(socket, true);
}

/// Makes a socket ready for the daemon to drain: receive offload off, so that datagrams count as
/// one packet each.
pub(crate) fn take_back(socket: &OwnedFd) {
    offload(socket, false);
}

fn offload(socket: &OwnedFd, on: bool) {
    // Old kernels lack it; clients look whether packets come merged and need not be told.
    if let Err(error) = udp::set_receive_offload(socket, on) {
        tracing::debug!(%error, "UDP_GRO is not to be had");
    }
}

/// Throws away up to `limit` packets. Returns how many there were and their bytes; fewer than
/// `limit` means that the socket is empty.
pub(crate) fn drain(socket: &OwnedFd, limit: usize) -> (u64, u64) {
    let (mut packets, mut bytes) = (0, 0);
    let mut buffer = [0u8; 0];
    // Errors that a peer's ICMP left on the socket come up here too, once each.
    for _ in 0..limit {
        let flags = RecvFlags::DONTWAIT | RecvFlags::TRUNC;
        match rustix::net::recv(socket, &mut buffer[..], flags) {
            Ok((_, length)) => {
                packets += 1;
                bytes += length as u64;
            }
            Err(Errno::AGAIN) => break,
            Err(_) => {}
        }
    }
    (packets, bytes)
}

fn flow_file(ip: IpAddr, scope_id: u32) -> Option<FlowFile> {
    match FlowFile::create(ip, scope_id) {
        Ok(file) => Some(file),
        Err(error) => {
            tracing::warn!(%error, %ip, "UC and UD traffic to this address is paced by the clock");
            None
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::UdpSocket;

    const BUFFER: usize = 1 << 20;

    fn packet(slot: u8) -> [u8; 16] {
        let mut packet = [0; 16];
        packet[DEST_QP_OFFSET as usize] = slot;
        packet
    }

    fn waiting(group: &Group, slot: u8) -> u64 {
        drain(group.existing(slot).unwrap(), 1000).0
    }

    #[test]
    fn packets_go_to_the_slot_of_their_destination() {
        for ip in ["127.0.7.1", "::1"] {
            let ip: IpAddr = ip.parse().unwrap();
            let mut group = match Group::open(ip, 0, BUFFER) {
                Ok(group) => group,
                Err(error) if ip.is_ipv6() => {
                    eprintln!("skipped for {ip}: {error}");
                    continue;
                }
                Err(error) => panic!("{error}"),
            };
            group.socket(5).unwrap();
            assert_eq!(group.len(), 6);
            let sender = UdpSocket::bind((ip, 0)).unwrap();
            for slot in 0..=5 {
                for _ in 0..=slot {
                    sender.send_to(&packet(slot), group.address()).unwrap();
                }
            }
            // No such slot, and too short to name one.
            sender.send_to(&packet(6), group.address()).unwrap();
            sender.send_to(&packet(255), group.address()).unwrap();
            sender.send_to(&[1, 2, 3, 4, 5], group.address()).unwrap();
            sender.send_to(&[], group.address()).unwrap();
            for slot in 1..=5 {
                assert_eq!(
                    waiting(&group, slot),
                    u64::from(slot) + 1,
                    "slot {slot} of {ip}"
                );
            }
            assert_eq!(waiting(&group, 0), 5);

            group.socket(255).unwrap();
            for slot in [0, 3, 6, 200, 255] {
                sender.send_to(&packet(slot), group.address()).unwrap();
                assert_eq!(waiting(&group, slot), 1, "slot {slot} of {ip}");
            }
        }
    }

    #[test]
    fn packets_of_a_cable_go_to_the_slot_of_their_destination() {
        let end: SocketAddr = "127.0.7.4:7101".parse().unwrap();
        let mut group = Group::open_cable(end, BUFFER).unwrap();
        group.socket(5).unwrap();
        let sender = UdpSocket::bind("127.0.7.4:0").unwrap();
        let send = |next: u8, at: usize, slot: u8, len: usize| {
            let mut packet = vec![0xff; len];
            packet[1] = 0xf0 | next;
            if let Some(byte) = packet.get_mut(at) {
                *byte = slot;
            }
            sender.send_to(&packet, end).unwrap();
        };
        for slot in 1..=5 {
            send(2, 13, slot, 60);
            send(3, 53, slot, 60);
            assert_eq!(waiting(&group, slot), 2, "slot {slot}");
        }
        // No such slot, no such header, too short; management.
        send(2, 13, 6, 60);
        send(1, 13, 5, 60);
        send(0, 13, 5, 60);
        send(3, 53, 5, 53);
        send(2, 13, 0, 60);
        assert_eq!(waiting(&group, 0), 5);
        // Multicast, whoever has the last slot.
        group.socket(255).unwrap();
        send(2, 13, 255, 60);
        send(3, 53, 255, 60);
        assert_eq!((waiting(&group, 0), waiting(&group, 255)), (2, 0));
        send(2, 15, 0xfe, 60);
        assert_eq!((waiting(&group, 0), waiting(&group, 255)), (0, 1));
    }

    #[test]
    fn a_taken_port_is_told_with_its_address() {
        let other = UdpSocket::bind("127.0.7.2:4791").unwrap();
        let ip = "127.0.7.2".parse().unwrap();
        let message = Group::open(ip, 0, BUFFER).unwrap_err().to_string();
        assert!(message.contains("4791 of 127.0.7.2 is taken"), "{message}");
        drop(other);
        let group = Group::open(ip, 0, BUFFER).unwrap();
        let message = Group::open(ip, 0, BUFFER).unwrap_err().to_string();
        assert!(message.contains("by another ferroced"), "{message}");
        drop(group);
        Group::open(ip, 0, BUFFER).unwrap();
    }

    #[test]
    fn a_kernel_that_cannot_steer_is_told_apart() {
        let address = "127.0.7.5:4791".parse().unwrap();
        let said = |errno| not_steered(address, errno).to_string();
        assert!(said(Errno::NOPROTOOPT).contains("SO_ATTACH_REUSEPORT_CBPF"));
        assert!(!said(Errno::NOMEM).contains("SO_ATTACH_REUSEPORT_CBPF"));
    }

    #[test]
    fn an_address_of_another_host_is_told() {
        let error = Group::open("203.0.113.77".parse().unwrap(), 0, BUFFER).unwrap_err();
        assert!(
            matches!(error, DaemonError::NoSuchAddress { .. }),
            "{error}"
        );
    }

    #[test]
    fn receive_buffers_are_as_large_as_allowed() {
        let group = Group::open("127.0.7.3".parse().unwrap(), 0, BUFFER).unwrap();
        assert!(group.granted_receive_buffer() >= 200_000);
    }
}
