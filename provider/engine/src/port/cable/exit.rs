//! The way out by the cable of an InfiniBand port, to one slot at a LID or to a group.

use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use ferroce_control::udp::set_send_offload;
use ferroce_transport::congestion::Unknown;
use ferroce_wire::icrc::Icrc;
use ferroce_wire::link::Head;
use socket2::{SockAddr, Socket};

use crate::error::{Error, Result};
use crate::port::Look;
use crate::port::address::PathKey;
use crate::port::ib::Port;
use crate::port::socket_exit::{Framing, SocketExit};
use crate::port::udp::Sender;

/// A cable is two UDP sockets, and what goes through it whole InfiniBand packets.
pub(crate) type CableExit = SocketExit<Headers>;

/// LRH and perhaps GRH stand before the BTH.
pub(crate) struct Headers {
    head: Head,
    port: Arc<Port>,
    /// Where a copy goes of all that leaves for a multicast group: members on this side of the
    /// cable get it from there.
    echo: Option<SockAddr>,
}

impl CableExit {
    /// `socket` and `receive_buffer` as of RoCEv2's ([`UdpExit`](crate::port::UdpExit)).
    pub(crate) fn open(
        key: PathKey,
        port: &Arc<Port>,
        socket: OwnedFd,
        receive_buffer: u32,
        gso: bool,
    ) -> Result<CableExit> {
        let absent = Error::Invalid("a path by a cable has LIDs");
        let lids = key.lids.ok_or(absent)?;
        let dest = port.destination(&lids);
        let socket = Socket::from(socket);
        let gso = gso && set_send_offload(&socket, 0).is_ok();

        let sender = Sender::new(socket, gso);
        let headers = Headers {
            head: lids.head(),
            port: port.clone(),
            echo: key.is_multicast().then(|| port.end().into()),
        };

        // Nothing is known of receivers at the far end.
        Ok(SocketExit::new(
            sender,
            dest.into(),
            headers,
            Unknown,
            receive_buffer,
        ))
    }
}

impl Framing for Headers {
    type Gauge = Unknown;

    #[inline]
    fn lead_len(&self) -> usize {
        self.head.len()
    }

    #[inline]
    fn begin(&self, transport: usize, _: u16, out: &mut [u8]) -> Option<Icrc> {
        Some(self.head.emit(transport, out))
    }

    fn is_up(&self) -> bool {
        self.port.active.load(Relaxed)
    }

    fn echo(&self) -> Option<&SockAddr> {
        self.echo.as_ref()
    }

    fn number(&self) -> Option<u8> {
        Some(self.port.number)
    }

    fn look(&self) -> Look {
        Look::Cable(self.port.number)
    }
}
