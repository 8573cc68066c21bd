//! Where packets enter: what each kind of port has around a packet, and what shows that it is as it was sent.
//!
//! Three kinds are here: UDP sockets (RoCEv2), cables of an InfiniBand port, and shared-memory rings between the programs of one device. What comes
//! by any of them is decoded, steered and delivered in the same way (`rx::run`).

mod cable;
mod flows;
pub(crate) mod ring;
mod udp;

use ferroce_control::{Counter, PortCounter};
use ferroce_wire::Octets;
use ferroce_wire::link::LinkPacket;

pub(crate) use cable::Cable;
pub(crate) use flows::Flows;
pub(crate) use ring::Ring;
pub(crate) use udp::Udp;

/// What a port knows of the run that it has brought.
pub(crate) trait Incoming {
    /// Takes off what the link has around a packet: nothing, unless the port says otherwise.
    #[inline]
    fn open<'a>(&self, frame: Octets<'a>) -> Result<Opened<'a>, Refused> {
        Ok(Opened {
            transport: frame,
            local: None,
        })
    }

    /// Whether the packet, the run's `place`th, is as it was sent; asked once it is known to be one. Returns its identification: IPv4's,
    /// or any number where there is none.
    fn verify(&mut self, opened: &Opened<'_>, place: u16) -> Option<u16>;
}

/// A packet from its BTH to its ICRC.
pub(crate) struct Opened<'a> {
    pub(crate) transport: Octets<'a>,
    /// Off a cable: the whole packet.
    pub(crate) local: Option<LinkPacket<'a>>,
}

/// Why a frame is dropped before anything is known of its transport.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Refused {
    /// It is no packet of this link.
    Malformed,
    /// It is for somebody else.
    Misdirected,
    /// Whoever sent it has nothing to say here.
    BadPeer,
}

impl Refused {
    /// What is counted of the device, and of the port if it is the port's fault.
    pub(crate) fn counters(self) -> (Counter, Option<PortCounter>) {
        match self {
            Refused::Malformed => (Counter::RxParseErrors, Some(PortCounter::RxErrors)),
            Refused::Misdirected => (Counter::RxMisdirected, None),
            Refused::BadPeer => (Counter::RxBadPeer, None),
        }
    }
}
