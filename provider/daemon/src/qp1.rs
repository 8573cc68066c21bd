//! QP1 of a RoCE port: MADs to and from the peers' general services interface, in datagrams as
//! every packet is. It is slot 0's socket that receives; what a MAD says is nothing to this module.

use std::collections::HashMap;
use std::net::{IpAddr, SocketAddr, SocketAddrV4, SocketAddrV6};
use std::os::fd::OwnedFd;

use ferroce_control::capture::record::Medium;
use ferroce_control::random::random;
use ferroce_control::rtnetlink::Socket;
use ferroce_control::{Counter, CounterPage, GidEntry, routes, udp};
use ferroce_wire::icrc::{Flow, Verdict};
use ferroce_wire::mad::{self, Mad, QP1};
use ferroce_wire::pkey;
use ferroce_wire::{Bth, Deth, Ext, Header, ICRC_LEN, Packet, ROCE_V2_PORT, opcode};
use rustix::io::Errno;
use rustix::net::sockopt as options;
use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType};

use crate::captures::{Tap, Way};
use crate::gids::{gid_of, ip_of};
use crate::mads::{Address, Incoming, Outgoing, Route};

/// The one port of a RoCE device.
pub(crate) const PORT: u8 = 1;
/// How many datagrams of one address are handled before others have their turn.
const DATAGRAMS: usize = 128;
/// Source ports carry path entropy in the dynamic range.
const FIRST_PORT: u16 = 0xc000;
/// BTH, DETH, MAD, ICRC.
pub(crate) const PACKET: usize = 12 + 8 + mad::LEN + ICRC_LEN;
/// Hop limit of an answer: what a host sends with.
pub(crate) const HOP_LIMIT: u8 = 64;

/// A socket to send from: one for each address, interface and traffic class.
#[derive(Debug)]
struct Sender {
    socket: OwnedFd,
    port: u16,
}

/// An address with its scope, the interface by which to leave, or 0, and the traffic class.
type Origin = (IpAddr, u32, u32, u8);

/// QP1 of the port: what it sends from, and what it reads into.
#[derive(Debug)]
pub(crate) struct Qp1 {
    /// Who sees the packets.
    pub(crate) tap: Tap,
    senders: HashMap<Origin, Sender>,
    psn: u32,
    buffer: Box<[u8]>,
}

impl Default for Qp1 {
    fn default() -> Self {
        Self {
            tap: Tap::default(),
            senders: HashMap::new(),
            psn: 0,
            buffer: vec![0; 4096].into_boxed_slice(),
        }
    }
}

/// One datagram of slot 0.
enum Received<'a> {
    /// A MAD.
    Mad {
        /// Who has sent it.
        from: IpAddr,
        /// The queue pair that has.
        src_qp: u32,
        /// The MAD.
        mad: &'a Mad,
    },
    /// Nothing for QP1; counted.
    Other,
    /// There is no more.
    Nothing,
}

impl Qp1 {
    /// Sends a MAD from one of the device's addresses. What cannot be sent is lost, as on a wire.
    pub(crate) fn send(
        &mut self,
        own: &GidEntry,
        out: &Outgoing,
        kernel: &Socket,
        counters: &CounterPage,
    ) {
        let Some(route) = out.to.grh else { return };
        let way = routes::Way::find(kernel, own.addr, ip_of(&route.gid), own.ifindex);
        let origin = (own, way.out.unwrap_or(0));
        match self.try_send(origin, &route, (out.to.qpn, out.to.qkey), &out.mad) {
            Ok(()) => {
                counters.add(Counter::TxPackets, 1);
                counters.add(Counter::TxBytes, PACKET as u64);
            }
            Err(errno) => {
                tracing::debug!(error = %errno, from = %own.addr, "a MAD was not sent");
                counters.add(Counter::TxErrors, 1);
            }
        }
    }

    /// Takes the MADs off slot 0's socket at an address, whose index in the GID table is known
    /// while it is there.
    pub(crate) fn receive(
        &mut self,
        socket: &OwnedFd,
        (local, index): (IpAddr, Option<u16>),
        counters: &CounterPage,
    ) -> Vec<Incoming> {
        let mut all = Vec::new();
        for _ in 0..DATAGRAMS {
            match receive(socket, local, &mut self.buffer, (counters, &self.tap)) {
                Received::Mad { from, src_qp, mad } => {
                    all.extend(index.map(|index| incoming(index, from, src_qp, mad)));
                }
                Received::Other => {}
                Received::Nothing => break,
            }
        }
        all
    }

    fn try_send(
        &mut self,
        (own, interface): (&GidEntry, u32),
        to: &Route,
        (dest_qp, qkey): (u32, u32),
        mad: &Mad,
    ) -> Result<(), Errno> {
        let remote = ip_of(&to.gid);
        let psn = self.psn;
        self.psn = (psn + 1) & 0x00ff_ffff;
        let key = (own.addr, own.scope_id, interface, to.traffic_class);
        let sender = match self.senders.entry(key) {
            std::collections::hash_map::Entry::Occupied(sender) => sender.into_mut(),
            std::collections::hash_map::Entry::Vacant(place) => {
                place.insert(open(own, interface, to)?)
            }
        };

        let flow = match (own.addr, remote) {
            (IpAddr::V4(src), IpAddr::V4(dst)) => Flow::v4(src, dst, sender.port, ROCE_V2_PORT),
            (IpAddr::V6(src), IpAddr::V6(dst)) => Flow::v6(src, dst, sender.port, ROCE_V2_PORT),
            _ => return Err(Errno::AFNOSUPPORT),
        };

        let mut packet = [0; PACKET];
        let header = header(dest_qp, psn, Deth { qkey, src_qp: QP1 });

        let n = header.emit(&mut packet);
        packet[n..n + mad::LEN].copy_from_slice(mad);
        let mut icrc = flow.start(PACKET, 0);
        icrc.header(&packet[..n]);
        icrc.payload(mad);
        packet[PACKET - ICRC_LEN..].copy_from_slice(&icrc.finish());
        let to = match remote {
            IpAddr::V4(ip) => SocketAddr::V4(SocketAddrV4::new(ip, ROCE_V2_PORT)),
            IpAddr::V6(ip) => {
                let scope = if ip.is_unicast_link_local() {
                    own.scope_id
                } else {
                    0
                };
                SocketAddr::V6(SocketAddrV6::new(ip, ROCE_V2_PORT, 0, scope))
            }
        };

        let flags = SendFlags::NOSIGNAL | SendFlags::DONTWAIT;
        rustix::net::sendto(&sender.socket, &packet, flags, &to)?;

        let way = Way {
            incoming: false,
            medium: Medium::Udp(sender.port),
            from: own.addr,
            to: remote,
            traffic_class: key.3,
            hop_limit: HOP_LIMIT,
            id: 0,
        };
        self.tap.record(QP1, way, &packet);
        Ok(())
    }
}

/// What stands before a MAD.
pub(crate) fn header(dest_qp: u32, psn: u32, deth: Deth) -> Header {
    Header {
        bth: Bth {
            opcode: opcode::UD_SEND_ONLY,
            pkey: mad::DEFAULT_PKEY,
            dest_qp,
            psn,
            ..Bth::default()
        },
        ext: Ext {
            deth: Some(deth),
            ..Ext::default()
        },
    }
}

/// Takes one datagram off slot 0's socket at an address.
fn receive<'a>(
    socket: &OwnedFd,
    local: IpAddr,
    buffer: &'a mut [u8],
    (counters, tap): (&CounterPage, &Tap),
) -> Received<'a> {
    let (len, from) = match rustix::net::recvfrom(socket, &mut *buffer, RecvFlags::DONTWAIT) {
        Ok((len, _, Some(from))) => (len, SocketAddr::try_from(from)),
        Ok((len, _, None)) => (len, Err(Errno::INVAL)),
        Err(Errno::AGAIN) => return Received::Nothing,
        // What a peer's ICMP left on the socket.
        Err(_) => return Received::Other,
    };

    // By which somebody has had his kernel look for this host.
    if len == 0 {
        return Received::Other;
    }

    let Some((from, bytes)) = from.ok().zip(buffer.get(..len)) else {
        counters.add(Counter::RxParseErrors, 1);
        return Received::Other;
    };

    let flow = match (from.ip(), local) {
        (IpAddr::V4(src), IpAddr::V4(dst)) => Flow::v4(src, dst, from.port(), ROCE_V2_PORT),
        (IpAddr::V6(src), IpAddr::V6(dst)) => Flow::v6(src, dst, from.port(), ROCE_V2_PORT),
        _ => return Received::Other,
    };

    // What is for no queue pair of ours is that before anything else; there is no QP0 (CA17-33).
    if Bth::parse(bytes).is_some_and(|bth| bth.dest_qp != QP1) {
        counters.add(Counter::RxUnknownQp, 1);
        return Received::Other;
    }

    let Ok(packet) = Packet::parse(bytes) else {
        counters.add(Counter::RxParseErrors, 1);
        return Received::Other;
    };

    let id = match flow.verify(bytes, 0) {
        Verdict::Exact => 0,
        Verdict::WithId(id) => id,
        Verdict::Bad => {
            counters.add(Counter::RxIcrcErrors, 1);
            return Received::Other;
        }
    };

    let way = Way {
        incoming: true,
        medium: Medium::Udp(from.port()),
        from: from.ip(),
        to: local,
        traffic_class: 0,
        hop_limit: HOP_LIMIT,
        id,
    };
    tap.record(QP1, way, bytes);

    // QP1 takes any P_Key of the table (C9-42); there is one.
    if !pkey::is_same_partition(packet.bth.pkey, mad::DEFAULT_PKEY) {
        counters.add(Counter::RxWrongPkey, 1);
        return Received::Other;
    }

    let mad = packet.payload.private();
    let mad: Option<&Mad> = mad.and_then(|mad| mad.try_into().ok());
    let deth = packet.ext.deth.filter(|deth| deth.qkey == mad::QP1_QKEY);
    let is_datagram = packet.bth.opcode == opcode::UD_SEND_ONLY;
    let (Some(mad), Some(deth), true) = (mad, deth, is_datagram) else {
        counters.add(Counter::RxParseErrors, 1);
        return Received::Other;
    };

    counters.add(Counter::RxPackets, 1);
    counters.add(Counter::RxBytes, len as u64);
    Received::Mad {
        from: from.ip(),
        src_qp: deth.src_qp,
        mad,
    }
}

/// A MAD that came to the address of that index. An address is what a GRH would name.
fn incoming(index: u16, from: IpAddr, src_qp: u32, mad: &Mad) -> Incoming {
    Incoming {
        port: PORT,
        qpn: QP1,
        from: Address {
            qpn: src_qp,
            qkey: mad::QP1_QKEY,
            grh: Some(Route {
                gid_index: index as u8,
                hop_limit: HOP_LIMIT,
                traffic_class: 0,
                gid: gid_of(from),
                flow_label: 0,
            }),
            ..Address::default()
        },
        mad: *mad,
    }
}

fn open(own: &GidEntry, interface: u32, to: &Route) -> Result<Sender, Errno> {
    let family = match own.addr {
        IpAddr::V4(_) => AddressFamily::INET,
        IpAddr::V6(_) => AddressFamily::INET6,
    };
    let socket = rustix::net::socket_with(family, SocketType::DGRAM, SocketFlags::CLOEXEC, None)?;

    // With DF set and without a connected peer, Linux sends Identification 0, which the ICRC
    // covers. What ICMP says of the path's MTU anybody may have forged.
    if own.addr.is_ipv4() {
        options::set_ip_mtu_discover(&socket, options::Ipv4PathMtuDiscovery::PROBE)?;
        options::set_ip_tos(&socket, to.traffic_class)?;
    } else {
        options::set_ipv6_mtu_discover(&socket, options::Ipv6PathMtuDiscovery::PROBE)?;
        options::set_ipv6_tclass(&socket, to.traffic_class.into())?;
    }

    if interface != 0 {
        udp::leave_through(&socket, own.addr.is_ipv4(), interface)?;
    }

    let first = random::<u16>() >> 2;
    for step in 0..0x4000u16 {
        let port = FIRST_PORT + (first + step) % 0x4000;
        let address = match own.addr {
            IpAddr::V4(ip) => SocketAddr::V4(SocketAddrV4::new(ip, port)),
            IpAddr::V6(ip) => SocketAddr::V6(SocketAddrV6::new(ip, port, 0, own.scope_id)),
        };
        match rustix::net::bind(&socket, &address) {
            Ok(()) => return Ok(Sender { socket, port }),
            Err(Errno::ADDRINUSE) => {}
            Err(errno) => return Err(errno),
        }
    }

    Err(Errno::ADDRINUSE)
}
