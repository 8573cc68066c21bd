//! RoCEv2's way out to one slot of one host, or to a group: a UDP socket with its own source port,
//! and the ICRC's pseudo header.

use std::net::{IpAddr, SocketAddr, SocketAddrV6};

use ferroce_control::GidEntry;
use ferroce_control::udp::set_send_offload;
use ferroce_wire::ROCE_V2_PORT;
use ferroce_wire::icrc::{Flow, Icrc};
use socket2::{Domain, Protocol, Socket, Type};

use super::Sender;
use super::socket::{OptionKind, bind, option, through_interface};
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
}

impl UdpExit {
    /// `own_slot` spreads the processes of one host over source ports; `receive_buffer` is what
    /// this host's sockets hold.
    pub(crate) fn open(
        key: PathKey,
        gid: &GidEntry,
        own_slot: u8,
        receive_buffer: u32,
        gso: bool,
    ) -> Result<UdpExit> {
        let io = |what| move |e| Error::io(what, e);
        let socket = socket(key.remote)?;

        // DF has Linux number the datagrams of a send.
        option(&socket, key.remote, OptionKind::DontFragment, 1).map_err(io("setting DF"))?;
        if key.traffic_class != 0 {
            let class = key.traffic_class.into();
            option(&socket, key.remote, OptionKind::TrafficClass, class)
                .map_err(io("setting the traffic class"))?;
        }

        let multicast = key.is_multicast();
        if key.hop_limit > 1 {
            let kind = match multicast {
                true => OptionKind::MulticastHops,
                false => OptionKind::HopLimit,
            };
            option(&socket, key.remote, kind, key.hop_limit.into())
                .map_err(io("setting the hop limit"))?;
        }

        if multicast {
            through_interface(&socket, key, gid)?;
        }

        let port = bind(&socket, key, gid.scope_id, own_slot)?;
        let flow = match (key.local, key.remote) {
            (IpAddr::V4(s), IpAddr::V4(d)) => Flow::v4(s, d, port, ROCE_V2_PORT),
            (IpAddr::V6(s), IpAddr::V6(d)) => Flow::v6(s, d, port, ROCE_V2_PORT),
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

        let counters = Counters::of(key.remote, scope_id, key.slot);
        let sender = Sender::new(socket, gso);
        Ok(SocketExit::new(
            sender,
            dest,
            Roce {
                flow,
                source_port: port,
            },
            counters,
            receive_buffer,
        ))
    }
}

impl Framing for Roce {
    type Gauge = Counters;

    #[inline]
    fn begin(&self, transport: usize, number: u16, _: &mut [u8]) -> Option<Icrc> {
        Some(self.flow.start(transport, number))
    }

    fn look(&self) -> Look {
        Look::Udp(self.source_port)
    }
}

/// A socket to send by to an address.
pub(in crate::port) fn socket(to: IpAddr) -> Result<Socket> {
    let domain = match to {
        IpAddr::V4(_) => Domain::IPV4,
        IpAddr::V6(_) => Domain::IPV6,
    };
    Socket::new(domain, Type::DGRAM, Some(Protocol::UDP))
        .map_err(|e| Error::io("creating a send socket", e))
}
