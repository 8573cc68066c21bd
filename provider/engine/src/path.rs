//! The way to one destination: a UDP socket with its own source port, the ICRC's pseudo header, the congestion window. To a
//! process of the same device it is a ring of memory, and the socket is used only when that process has gone.
//!
//! A path leads to one slot of one host, because a receiving kernel merges packets of one UDP flow and steers the whole by its
//! first. The socket is never connected and has DF set, so that Linux numbers the datagrams of one send 0, 1, 2 …, which the ICRC covers.

mod socket;

use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, SocketAddrV6};
use std::os::fd::AsRawFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use ferroce_control::GidEntry;
use ferroce_wire::ROCE_V2_PORT;
use ferroce_wire::icrc::{Flow, Icrc};
use ferroce_wire::link::Head;
use ferroce_wire::smp::is_multicast_lid;
use socket2::{Domain, Protocol, SockAddr, Socket, Type};

use crate::congestion::Congestion;
use crate::error::{Error, Result};
use crate::ib::{Lids, Link};
use crate::pacing::Pacer;
use crate::port::ring::{Label, RingSender};
use socket::{OptionKind, bind, option, through_interface};

/// What makes two QPs share a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct PathKey {
    pub(crate) local: IpAddr,
    pub(crate) remote: IpAddr,
    /// Top byte of the destination QPN.
    pub(crate) slot: u8,
    pub(crate) traffic_class: u8,
    pub(crate) hop_limit: u8,
    /// Of an InfiniBand port, whose cable's ends the addresses are.
    pub(crate) lids: Option<Lids>,
}

/// What stands before the transport's headers, and begins the ICRC.
pub(crate) enum Lead {
    /// Nothing; the ICRC covers a pseudo header.
    Roce(Flow),
    /// LRH and perhaps GRH. Nothing goes out while the port is not active.
    Infiniband(Head, Arc<Link>),
}

pub(crate) struct Path {
    pub(crate) key: PathKey,
    socket: Socket,
    pub(crate) dest: SockAddr,
    /// Where a copy goes of all that leaves by a cable for a multicast group: members on this side of it get it from there.
    echo: Option<SockAddr>,
    lead: Lead,
    /// The way to a process of this device, and what the packets would bear in their IP header.
    ring: Option<(Arc<RingSender>, Label)>,
    /// The ring has no receiver any more.
    left: AtomicBool,
    pub(crate) congestion: Congestion,
    /// The pace of what nobody acknowledges.
    pub(crate) pacer: Pacer,
    /// It leads to a group.
    pub(crate) multicast: bool,
    /// Runs may be sent as one GSO datagram.
    pub(crate) gso: AtomicBool,
}

/// Linux's own (`net.ipv4.ip_default_ttl`).
const DEFAULT_HOP_LIMIT: u8 = 64;

impl Path {
    /// `own_slot` spreads the processes of one host over source ports; `receive_buffer` is what this host's sockets hold; `ring`
    /// leads to the process that has the slot, if it is one of this device.
    pub(crate) fn open(
        key: PathKey,
        gid: &GidEntry,
        own_slot: u8,
        receive_buffer: u32,
        gso: bool,
        ring: Option<Arc<RingSender>>,
    ) -> Result<Path> {
        let domain = if key.remote.is_ipv4() {
            Domain::IPV4
        } else {
            Domain::IPV6
        };
        let io = |what| move |e| Error::io(what, e);
        let socket = Socket::new(domain, Type::DGRAM, Some(Protocol::UDP))
            .map_err(io("creating a send socket"))?;
        // A larger send buffer only matters where the link is slower than the processor; refusal is harmless.
        let _ = socket.set_send_buffer_size(4 << 20);
        option(&socket, key.remote, OptionKind::DontFragment, 1).map_err(io("setting DF"))?;
        if key.traffic_class != 0 {
            option(
                &socket,
                key.remote,
                OptionKind::TrafficClass,
                key.traffic_class.into(),
            )
            .map_err(io("setting the traffic class"))?;
        }
        let multicast = key.remote.is_multicast();
        if key.hop_limit > 1 {
            let kind = if multicast {
                OptionKind::MulticastHops
            } else {
                OptionKind::HopLimit
            };
            option(&socket, key.remote, kind, key.hop_limit.into())
                .map_err(io("setting the hop limit"))?;
        }
        if multicast {
            through_interface(&socket, key, gid)?;
        }
        let port = bind(&socket, key, gid.scope_id, own_slot)?;
        let address = |ip, port| match ip {
            IpAddr::V4(_) => SockAddr::from(SocketAddr::new(ip, port)),
            IpAddr::V6(ip) => SockAddr::from(SocketAddrV6::new(
                ip,
                port,
                0,
                scope(ip.into(), gid.scope_id),
            )),
        };
        let flow = match (key.local, key.remote) {
            (IpAddr::V4(s), IpAddr::V4(d)) => Flow::v4(s, d, port, ROCE_V2_PORT),
            (IpAddr::V6(s), IpAddr::V6(d)) => Flow::v6(s, d, port, ROCE_V2_PORT),
            _ => {
                return Err(Error::Invalid(
                    "source and destination GID are of different families",
                ));
            }
        };
        let gso = gso && option(&socket, key.remote, OptionKind::Segment, 0).is_ok();
        let scope_id = scope(key.remote, gid.scope_id);
        let (congestion, pacer) = match &ring {
            Some(ring) => (
                Congestion::of_ring(),
                Pacer::of_ring(ring.clone(), key.slot),
            ),
            None => (
                Congestion::new(receive_buffer),
                Pacer::new(key.remote, scope_id, key.slot, receive_buffer),
            ),
        };
        // A run is one record, whatever sockets can do.
        let gso = gso || ring.is_some();
        let label = Label {
            from: key.local,
            to: key.remote,
            traffic_class: key.traffic_class,
            // As set above.
            hop_limit: if key.hop_limit > 1 {
                key.hop_limit
            } else {
                DEFAULT_HOP_LIMIT
            },
        };
        Ok(Path {
            key,
            socket,
            dest: address(key.remote, ROCE_V2_PORT),
            echo: None,
            lead: Lead::Roce(flow),
            ring: ring.map(|ring| (ring, label)),
            left: AtomicBool::new(false),
            congestion,
            pacer,
            multicast,
            gso: AtomicBool::new(gso),
        })
    }

    /// A path by an InfiniBand port's cable. `own_slot` and `receive_buffer` as of [`open`](Self::open).
    pub(crate) fn open_cable(
        key: PathKey,
        lids: &Lids,
        link: &Arc<Link>,
        own_slot: u8,
        receive_buffer: u32,
        gso: bool,
    ) -> Result<Path> {
        let dest = link.destination(lids);
        let domain = Domain::for_address(dest);
        let socket = Socket::new(domain, Type::DGRAM, Some(Protocol::UDP))
            .map_err(|e| Error::io("creating a send socket", e))?;
        let _ = socket.set_send_buffer_size(4 << 20);
        bind(&socket, key, 0, own_slot)?;
        let gso = gso && option(&socket, key.remote, OptionKind::Segment, 0).is_ok();
        let multicast = is_multicast_lid(lids.dlid);
        Ok(Path {
            key,
            socket,
            dest: dest.into(),
            echo: multicast.then(|| link.end().into()),
            lead: Lead::Infiniband(lids.head(), link.clone()),
            ring: None,
            left: AtomicBool::new(false),
            congestion: Congestion::new(receive_buffer),
            pacer: Pacer::by_the_clock(key.slot, receive_buffer),
            multicast,
            gso: AtomicBool::new(gso),
        })
    }

    /// Bytes before the BTH.
    pub(crate) fn lead_len(&self) -> usize {
        match &self.lead {
            Lead::Roce(_) => 0,
            Lead::Infiniband(head, _) => head.len(),
        }
    }

    /// Writes what stands before the BTH of a packet that has `transport` bytes from there to the end of its ICRC, and begins
    /// the ICRC, if it gets one. `number` is its place in the run.
    pub(crate) fn begin(&self, transport: usize, number: u16, out: &mut [u8]) -> Option<Icrc> {
        match &self.lead {
            Lead::Roce(_) if self.is_in_device() => None,
            Lead::Roce(flow) => Some(flow.start(transport, number)),
            Lead::Infiniband(head, _) => Some(head.emit(transport, out)),
        }
    }

    /// Whether what is sent goes to a process of this device, through memory.
    pub(crate) fn is_in_device(&self) -> bool {
        self.ring.is_some() && !self.left.load(Relaxed)
    }

    /// Whether it leads to a process that has gone. Its slot may be another's, to whom there is a new path.
    pub(crate) fn is_stale(&self) -> bool {
        self.ring.as_ref().is_some_and(|(ring, _)| ring.is_closed())
    }

    /// Whether packets may go out at all.
    fn is_open(&self) -> bool {
        match &self.lead {
            Lead::Roce(_) => true,
            Lead::Infiniband(_, link) => link.active.load(Relaxed),
        }
    }

    /// Sends the run of datagrams that `iov` describes; `segment` is their size when there are several.
    pub(crate) fn send(&self, iov: &mut [libc::iovec], segment: Option<u16>) -> io::Result<()> {
        if !self.is_open() {
            return Err(io::ErrorKind::NetworkDown.into());
        }
        if let Some((ring, label)) = self.ring.as_ref().filter(|_| self.is_in_device()) {
            if !ring.is_closed() {
                return ring.send(label, iov, segment);
            }
            // From now on as to any other host. This run has no ICRC, so it is lost.
            self.left.store(true, Relaxed);
            return Err(io::ErrorKind::NotConnected.into());
        }
        let mut control = Control([0; CONTROL]);
        // SAFETY: all zeroes is a valid msghdr.
        let mut msg: libc::msghdr = unsafe { std::mem::zeroed() };
        msg.msg_name = self.dest.as_ptr() as *mut _;
        msg.msg_namelen = self.dest.len();
        msg.msg_iov = iov.as_mut_ptr();
        msg.msg_iovlen = iov.len() as _;
        if let Some(segment) = segment {
            msg.msg_control = control.0.as_mut_ptr().cast();
            msg.msg_controllen = CONTROL as _;
            // SAFETY: `control` is aligned for a cmsghdr and CMSG_SPACE(2) large, so the first header and its data are inside.
            unsafe {
                let c = libc::CMSG_FIRSTHDR(&msg);
                (*c).cmsg_level = libc::SOL_UDP;
                (*c).cmsg_type = libc::UDP_SEGMENT;
                (*c).cmsg_len = libc::CMSG_LEN(2) as _;
                libc::CMSG_DATA(c).cast::<u16>().write_unaligned(segment);
            }
        }
        for _ in 0..3 {
            // SAFETY: `msg` points at a name, iovecs and control data that outlive the call; the kernel checks the memory behind the iovecs.
            let sent = unsafe {
                libc::sendmsg(
                    self.socket.as_raw_fd(),
                    &msg,
                    libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL,
                )
            };
            if sent >= 0 {
                self.repeat(&mut msg);
                return Ok(());
            }
            let e = io::Error::last_os_error();
            match e.raw_os_error() {
                Some(libc::EINTR) => {}
                Some(libc::EAGAIN | libc::ENOBUFS) => self.wait_writable(),
                // an interface without checksum offload, or a path whose MTU shrank: send singly from now on
                Some(libc::EINVAL | libc::EIO | libc::EMSGSIZE | libc::EOPNOTSUPP)
                    if segment.is_some() =>
                {
                    self.gso.store(false, Relaxed);
                    return Err(e);
                }
                _ => return Err(e),
            }
        }
        Err(io::ErrorKind::WouldBlock.into())
    }

    /// Sends the same to whom it is echoed, if there is room.
    fn repeat(&self, msg: &mut libc::msghdr) {
        let Some(echo) = &self.echo else { return };
        msg.msg_name = echo.as_ptr() as *mut _;
        msg.msg_namelen = echo.len();
        let flags = libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL;
        // SAFETY: `msg` is the caller's, of which all is still there, with another name that outlives the call.
        unsafe { libc::sendmsg(self.socket.as_raw_fd(), msg, flags) };
    }

    /// The link is slower than we are: give it a moment, as dropping would only cost a retransmission.
    fn wait_writable(&self) {
        let mut p = libc::pollfd {
            fd: self.socket.as_raw_fd(),
            events: libc::POLLOUT,
            revents: 0,
        };
        // SAFETY: one valid pollfd.
        unsafe { libc::poll(&mut p, 1, 2) };
    }
}

/// Room for one `UDP_SEGMENT` control message.
const CONTROL: usize = 24;

#[repr(align(8))]
struct Control([u8; CONTROL]);

/// Only link-local addresses need an interface (a multicast group's is an option of the socket).
pub(crate) fn scope(ip: IpAddr, scope_id: u32) -> u32 {
    match ip {
        IpAddr::V6(ip) if ip.is_unicast_link_local() => scope_id,
        _ => 0,
    }
}

/// The GID that stands for an IP address.
pub(crate) fn address_gid(ip: IpAddr) -> [u8; 16] {
    match ip {
        IpAddr::V4(ip) => ip.to_ipv6_mapped().octets(),
        IpAddr::V6(ip) => ip.octets(),
    }
}

/// The IP address that a GID stands for.
pub(crate) fn gid_address(gid: [u8; 16]) -> IpAddr {
    match gid {
        [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, a, b, c, d] => Ipv4Addr::new(a, b, c, d).into(),
        _ => std::net::Ipv6Addr::from(gid).into(),
    }
}
