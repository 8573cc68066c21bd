//! The sockets of one address: a `SO_REUSEPORT` group on the RoCE port with a member for each slot,
//! and where several users have had a slot, one for each of them. Who holds which slot is nothing
//! to this module.

use std::io;
use std::net::{IpAddr, SocketAddr, SocketAddrV6};
use std::os::fd::OwnedFd;

use ferroce_control::{FlowFile, udp};
use ferroce_wire::ROCE_V2_PORT;
use rustix::io::Errno;
use rustix::net::RecvFlags;

use crate::DaemonError;
use crate::steering::{self, Packets};
use crate::udp_sockets::{bind, claim, enlarge, granted, lock, vacated};

/// Sockets that a group has at most. Each user of a slot has one of his own, which stays.
const MOST: usize = 4096;

/// A socket of a group.
#[derive(Debug)]
struct Member {
    socket: OwnedFd,
    /// The one slot whose packets it ever gets.
    slot: u8,
    /// The user who has it, or had it, and may hold it still.
    user: Option<u32>,
}

/// The group of one address. Members are never closed while it lives: closing one would change the
/// kernel's numbering of the others, at once or, if a program still has it, at any time later.
#[derive(Debug)]
pub(crate) struct Group {
    address: SocketAddr,
    packets: Packets,
    receive_buffer: usize,
    /// In the kernel's order.
    members: Vec<Member>,
    /// By slot, the member that gets its packets; with none the daemon gets them.
    steered: Vec<Option<u16>>,
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
            steered: Vec::new(),
            _flow: None,
            _claim: claim,
        };
        group.socket(0, None)?;
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

    /// How many slots have, or had, a socket so far.
    pub(crate) fn len(&self) -> usize {
        self.steered.len()
    }

    /// All of its sockets.
    pub(crate) fn sockets(&self) -> impl Iterator<Item = &OwnedFd> {
        self.members.iter().map(|member| &member.socket)
    }

    /// Whether sockets of it were handed out where the device is several users'.
    pub(crate) fn is_of_users(&self) -> bool {
        self.members.iter().any(|member| member.user.is_some())
    }

    /// Another descriptor of slot 0's socket.
    pub(crate) fn socket_of_daemon(&self) -> io::Result<OwnedFd> {
        self.members[0].socket.try_clone()
    }

    /// The socket of a slot if it exists.
    pub(crate) fn existing(&self, slot: u8) -> Option<&OwnedFd> {
        self.member(slot).map(|member| &member.socket)
    }

    fn member(&self, slot: u8) -> Option<&Member> {
        let index = (*self.steered.get(usize::from(slot))?)?;
        self.members.get(usize::from(index))
    }

    /// The socket of a slot. It and all of lower slots are created if they do not exist; where the
    /// slot was [vacated](Self::vacate) it is one that nobody but `user` ever had.
    pub(crate) fn socket(&mut self, slot: u8, user: Option<u32>) -> Result<&OwnedFd, DaemonError> {
        let at = usize::from(slot);
        let before = self.steered.len();
        let mut result = Ok(());
        while self.steered.len() <= at && result.is_ok() {
            let added = self.add(self.steered.len() as u8);
            result = added.map(|member| self.steered.push(Some(member)));
        }
        if self.steered.len() > before {
            self.steer()?;
        }
        result?;

        let index = match self.steered[at] {
            Some(index) => index,
            None => {
                let index = self.of_user(slot, user)?;
                self.steered[at] = Some(index);
                self.steer()?;
                index
            }
        };
        Ok(&self.members[usize::from(index)].socket)
    }

    /// A member for a slot that nobody has had but this user, whom it hears again.
    fn of_user(&mut self, slot: u8, user: Option<u32>) -> Result<u16, DaemonError> {
        let fits =
            |member: &Member| member.slot == slot && (member.user.is_none() || member.user == user);
        let Some(index) = self.members.iter().position(fits) else {
            return self.add(slot);
        };
        if self.members[index].user.is_some() {
            udp::silence(&self.members[index].socket, self.address.is_ipv4(), false).map_err(
                DaemonError::os(format!("opening a socket at {} again", self.address)),
            )?;
        }
        Ok(index as u16)
    }

    /// Another member, to which nothing is steered yet.
    fn add(&mut self, slot: u8) -> Result<u16, DaemonError> {
        if self.members.len() >= MOST {
            let doing = format!(
                "keeping the sockets of users apart at {}, of which there are {MOST} until ferroced is started again",
                self.address
            );
            return Err(DaemonError::os(doing)(Errno::NFILE));
        }
        let socket = bind(self.address, true)?;
        if self.address.is_ipv6()
            && let Err(error) = udp::take_without_checksum(&socket)
        {
            tracing::debug!(%error, "IPv6 peers must send a UDP checksum");
        }
        enlarge(&socket, self.receive_buffer);
        self.members.push(Member {
            socket,
            slot,
            user: None,
        });
        Ok(self.members.len() as u16 - 1)
    }

    /// Makes the socket of a slot ready for a program of `user`, who is named where the device is
    /// several users': receive offload on, and what is for others kept from it, whatever its holder
    /// does.
    ///
    /// Who holds one member can have packets for all others come to it: by taking the group's
    /// program away, or by `connect` and `SO_INCOMING_CPU`, which the kernel heeds before it asks
    /// the program. So the socket has a filter of its own, which he cannot take away.
    pub(crate) fn hand_out(&mut self, slot: u8, user: Option<u32>) -> Result<(), DaemonError> {
        let packets = self.packets;
        let index = self.steered.get(usize::from(slot)).copied().flatten();
        let Some(index) = index else { return Ok(()) };
        let member = &mut self.members[usize::from(index)];
        offload(&member.socket, true);

        if user.is_some() && member.user.is_none() {
            udp::filter(&member.socket, &mut steering::of_slot(packets, slot))
                .map_err(DaemonError::os("giving a socket a filter"))?;
            lock(&member.socket)?;
            member.user = user;
        }
        Ok(())
    }

    /// Whether the socket of a slot was handed out to another user than this one.
    pub(crate) fn is_anothers(&self, slot: u8, user: Option<u32>) -> bool {
        let had = self.member(slot).and_then(|member| member.user);
        had.is_some() && had != user
    }

    /// Takes the socket of a slot from whoever may still hold it. The slot has none until it is
    /// [asked for](Self::socket); the old one stays a member, but gets nothing any more.
    pub(crate) fn vacate(&mut self, slot: u8) -> Result<(), DaemonError> {
        let Some(socket) = self.existing(slot) else {
            return Ok(());
        };
        udp::silence(socket, self.address.is_ipv4(), true).map_err(DaemonError::os(format!(
            "keeping a socket at {} from its last user",
            self.address
        )))?;
        self.steered[usize::from(slot)] = None;
        self.steer()
    }

    /// Tells the kernel the member of each slot.
    fn steer(&self) -> Result<(), DaemonError> {
        let members = self.steered.iter();
        let members: Vec<u16> = members.map(|member| member.unwrap_or(0)).collect();
        let mut program = steering::of_group(self.packets, &members);
        udp::steer(&self.members[0].socket, &mut program)
            .map_err(|errno| not_steered(self.address, errno))
    }

    /// The receive buffer that the kernel granted, as it counts it.
    pub(crate) fn granted_receive_buffer(&self) -> u32 {
        granted(&self.members[0].socket)
    }
}

/// There is no going on without: the kernel would give a packet to any process that holds a slot.
fn not_steered(address: SocketAddr, errno: Errno) -> DaemonError {
    match errno {
        Errno::NOPROTOOPT => DaemonError::NoSteering { address },
        errno => DaemonError::os(format!("steering packets at {address}"))(errno),
    }
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
#[path = "group_tests.rs"]
mod tests;
