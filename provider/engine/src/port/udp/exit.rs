//! RoCEv2's way out to one slot of one host, or to a group: a UDP socket with its own source port,
//! and the ICRC's pseudo header.

use std::net::{IpAddr, SocketAddr, SocketAddrV6};
use std::os::fd::OwnedFd;

use ferroce_control::udp::set_send_offload;
use ferroce_control::{GidEntry, Outlet};
use ferroce_wire::icrc::{Flow, Icrc};
use ferroce_wire::{Operation, ROCE_V2_PORT, Service, opcode};
use socket2::Socket;

use super::Sender;
use super::socket::{OptionKind, option};
use crate::error::{Error, Result};
use crate::port::Look;
use crate::port::address::{PathKey, scope};
use crate::port::pacing::Counters;
use crate::port::socket_exit::{Framing, SocketExit};

/// A receiving kernel merges packets of one UDP flow and steers the whole by its first, so each
/// slot has a flow of its own.
pub(crate) type UdpExit = SocketExit<Roce>;

/// The ICRC covers a pseudo header, and nothing stands before the BTH.
pub(crate) struct Roce {
    flow: Flow,
    source_port: u16,
    /// The traffic class of what is not capable of ECN, where the socket's is.
    incapable: Option<u8>,
}

/// The bits of a traffic class that are ECN's (RFC 3168), and what they are of a packet that is
/// capable of it.
const ECN: u8 = 3;
const ECT_0: u8 = 2;

impl UdpExit {
    /// By a socket that is bound to the path's address; `receive_buffer` is what this host's
    /// sockets hold; `ecn`: whether data is marked as capable of it.
    pub(crate) fn open(
        key: PathKey,
        gid: &GidEntry,
        socket: OwnedFd,
        receive_buffer: u32,
        gso: bool,
        ecn: bool,
    ) -> Result<UdpExit> {
        let io = |what| move |e| Error::io(what, e);
        let socket = Socket::from(socket);
        let own = socket
            .local_addr()
            .map_err(io("looking at a send socket"))?;
        let own = own.as_socket().filter(|own| own.ip() == key.local);
        // Of a table that has changed since the daemon was asked.
        let own = own.ok_or(Error::Invalid("sgid_index: another entry of the GID table"))?;

        // DF has Linux number the datagrams of a send.
        option(&socket, key.remote, OptionKind::DontFragment, 1).map_err(io("setting DF"))?;
        let multicast = key.is_multicast();
        let capable = ecn && !multicast;
        let class = match capable {
            true => key.traffic_class & !ECN | ECT_0,
            false => key.traffic_class,
        };
        if class != 0 {
            let class = class.into();
            option(&socket, key.remote, OptionKind::TrafficClass, class)
                .map_err(io("setting the traffic class"))?;
        }

        if key.hop_limit > 1 {
            let kind = match multicast {
                true => OptionKind::MulticastHops,
                false => OptionKind::HopLimit,
            };
            option(&socket, key.remote, kind, key.hop_limit.into())
                .map_err(io("setting the hop limit"))?;
        }

        let flow = match (key.local, key.remote) {
            (IpAddr::V4(s), IpAddr::V4(d)) => Flow::v4(s, d, own.port(), ROCE_V2_PORT),
            (IpAddr::V6(s), IpAddr::V6(d)) => Flow::v6(s, d, own.port(), ROCE_V2_PORT),
            _ => {
                return Err(Error::Invalid(
                    "source and destination GID are of different families",
                ));
            }
        };

        let gso = gso && set_send_offload(&socket, 0).is_ok();
        let scope_id = scope(key.remote, gid.scope_id);
        let dest = match key.remote {
            IpAddr::V4(_) => SocketAddr::new(key.remote, ROCE_V2_PORT).into(),
            IpAddr::V6(ip) => SocketAddrV6::new(ip, ROCE_V2_PORT, 0, scope_id).into(),
        };

        let counters = match multicast {
            true => Counters::of_group(key.remote, gid.ifindex),
            false => Counters::of_slot(key.remote, scope_id, key.slot),
        };
        let sender = Sender::new(socket, gso);
        Ok(SocketExit::new(
            sender,
            dest,
            Roce {
                flow,
                source_port: own.port(),
                incapable: capable.then_some(key.traffic_class & !ECN),
            },
            counters,
            receive_buffer,
        ))
    }

    /// The GID is on another interface now, and `out` is the way that there is by it.
    pub(crate) fn follow(&self, key: PathKey, gid: &GidEntry, out: Option<u32>) {
        let outlet = Outlet::of_gid(gid, key.remote);
        if let Err(error) = outlet.leave_by(self.socket(), out) {
            tracing::debug!(%error, "packets may not leave");
        }
    }
}

impl Framing for Roce {
    type Gauge = Counters;

    #[inline]
    fn begin(&self, transport: usize, number: u16, _: &mut [u8]) -> Option<Icrc> {
        Some(self.flow.start(transport, number))
    }

    #[inline]
    fn other_class(&self, run: &[libc::iovec]) -> Option<u8> {
        let class = self.incapable?;
        let first = run.first().filter(|piece| piece.iov_len > 0)?;
        // SAFETY: a run begins with the headers of its first packet, in the engine's own memory.
        let opcode = unsafe { first.iov_base.cast::<u8>().read() };
        (!is_capable(opcode)).then_some(class)
    }

    fn look(&self) -> Look {
        Look::Udp(self.source_port)
    }
}

/// Whether a packet is one whose sender goes slower when it is marked: data of connections. A run
/// is all of one kind: an acknowledgement is shorter than anything that could follow it there.
fn is_capable(opcode: u8) -> bool {
    opcode::info(opcode).is_some_and(|info| {
        use Operation::{Acknowledge, SelectiveAcknowledge};
        matches!(info.service, Service::Rc | Service::Uc | Service::Xrc)
            && !matches!(info.operation, Acknowledge | SelectiveAcknowledge)
    })
}
