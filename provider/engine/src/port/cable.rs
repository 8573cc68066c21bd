//! InfiniBand ports: each datagram off a cable has a whole InfiniBand packet.

mod exit;

use std::net::IpAddr;

use ferroce_wire::Octets;
use ferroce_wire::link::LinkPacket;

use super::{Incoming, Opened, Refused};
use crate::port::Look;
use crate::port::ib::{Port, Source};

pub(crate) use exit::CableExit;

/// A run off the cable of one port.
pub(crate) struct Cable<'p> {
    port: &'p Port,
    from: From,
}

/// Whose the run is.
#[derive(Clone, Copy, PartialEq, Eq)]
enum From {
    /// The cable's other end's.
    Far,
    /// The port's own.
    Own,
    /// The daemon's: copies of what has come for a multicast group, which it has counted.
    Copies,
}

impl<'p> Cable<'p> {
    /// A run from this address. `None`: nobody's who has anything to say here.
    pub(crate) fn of_port(port: &'p Port, from: IpAddr) -> Option<Cable<'p>> {
        let from = match port.source(from) {
            Source::Far => From::Far,
            Source::Own => From::Own,
            Source::Stranger => return None,
        };
        Some(Cable { port, from })
    }

    /// Copies of what has come to the port for a group.
    pub(crate) fn of_group(port: &'p Port) -> Cable<'p> {
        Cable {
            port,
            from: From::Copies,
        }
    }

    fn takes(&self, packet: &LinkPacket<'_>) -> Result<(), Refused> {
        let port = self.port;
        if self.from == From::Own && !port.sent(packet) {
            return Err(Refused::BadPeer);
        }
        let taken = match self.from {
            From::Copies => port.takes_of_group(packet),
            From::Far | From::Own => port.takes(packet),
        };
        taken.then_some(()).ok_or(Refused::Misdirected)
    }
}

impl Incoming for Cable<'_> {
    #[inline]
    fn ib_port(&self) -> Option<&Port> {
        Some(self.port)
    }

    fn look(&self, _: u16) -> Look {
        Look::Cable(self.port.number)
    }

    fn open<'a>(&self, frame: Octets<'a>) -> Result<Opened<'a>, Refused> {
        let packet = frame.private().and_then(LinkPacket::parse);
        let packet = packet.ok_or(Refused::Malformed)?;
        self.takes(&packet)?;
        Ok(Opened {
            transport: packet.transport.into(),
            local: Some(packet),
        })
    }

    /// By the CRCs of the packet (sections 7.8.1 and 7.8.2).
    fn verify(&mut self, opened: &Opened<'_>, place: u16) -> Option<u16> {
        let intact = opened.local.as_ref().is_some_and(LinkPacket::is_intact);
        intact.then_some(place)
    }
}
