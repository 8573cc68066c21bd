//! Where packets leave and enter. What each kind of port has around a packet, what shows that one
//! is as it was sent, what a port takes at a time, and how fast.
//!
//! Three kinds are here: UDP sockets (RoCEv2), cables of an InfiniBand port, and shared-memory
//! rings between the programs of one device. What comes by any of them is decoded, steered and
//! delivered in the same way (`rx::run`), and what leaves is gathered in the same way (`tx`).
//!
//! A kind is a folder with an [`Incoming`] and an [`Outgoing`], and a line in [`Exit`]. Which one a
//! path has is decided when it is opened (`route`); nothing on the way of a packet asks for the
//! kind.

pub(crate) mod address;
mod cable;
mod calls;
mod exit;
mod flows;
pub(crate) mod ib;
#[cfg(any(test, feature = "in-process"))]
pub(crate) mod in_process;
mod kinds;
pub(crate) mod mgid;
pub(crate) mod pacing;
pub(crate) mod receiver;
pub(crate) mod recvmsg;
pub(crate) mod ring;
mod socket_exit;
mod udp;

use std::io;

use ferroce_control::{Counter, PortCounter};
use ferroce_transport::Time;
use ferroce_wire::Octets;
use ferroce_wire::icrc::Icrc;
use ferroce_wire::link::LinkPacket;

use crate::port::ib::Port;
use crate::tuning::MAX_SOCKET_WINDOW;

pub(crate) use cable::{Cable, CableExit};
pub(crate) use exit::Exit;
pub(crate) use flows::Flows;
pub(crate) use kinds::{Carrier, Medium, Ports};
pub(crate) use ring::{Form, Ring, RingExit};
pub(crate) use udp::{Udp, UdpExit, first_port};

/// The way out of one path. What it says may change with every packet.
pub(crate) trait Outgoing {
    /// What it takes at a time.
    fn capacity(&self) -> Capacity;

    /// Whether it passes packets on more cheaply where those behind the first of a message are as
    /// long as the first.
    #[inline]
    fn prefers_one_length(&self) -> bool {
        false
    }

    /// Bytes of requests that may be unacknowledged at most.
    fn window(&self) -> u32;

    /// Bytes before the BTH.
    #[inline]
    fn lead_len(&self) -> usize {
        0
    }

    /// Writes what stands before the BTH of a packet that has `transport` bytes from there to the
    /// end of its ICRC, and begins the ICRC. `number` is its place in the run. `None`: zeros will
    /// do in the ICRC's place.
    fn begin(&self, transport: usize, number: u16, out: &mut [u8]) -> Option<Icrc>;

    /// Sends the run of packets that `iov` describes; `segment` is their size when there are
    /// several. On an error all of it is lost.
    fn send(&self, iov: &mut [libc::iovec], segment: Option<u16>) -> io::Result<()>;

    /// Payload bytes of one message that it takes in one piece, as a stretch; 0: none.
    #[inline]
    fn stretch(&self) -> u32 {
        0
    }

    /// Sends the stretch that `iov` describes, whose packets are of `mtu` bytes. On an error all of
    /// it is lost. It need not arrive before [`show`](Self::show), or before what is sent next.
    fn send_stretch(&self, _iov: &mut [libc::iovec], _mtu: u16) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }

    /// Nothing follows for now.
    #[inline]
    fn show(&self) {}

    /// How many bytes of what nobody acknowledges may go out now, or when to ask again. No port is
    /// run over unless it says so.
    #[inline]
    fn allowance(&self, _now: Time) -> Result<u64, Time> {
        Ok(u64::MAX)
    }

    /// Counts a send of what nobody acknowledges, which follows at `now`.
    #[inline]
    fn sent(&self, _now: Time, _bytes: usize, _run: bool) {}

    /// Whether it leads nowhere any more, and a new path is to be opened to the same place.
    fn is_stale(&self) -> bool {
        false
    }

    /// The number of the port at which packets are counted, beside the device.
    #[inline]
    fn number(&self) -> Option<u8> {
        None
    }

    /// How its packets look on their way.
    fn look(&self) -> Look;

    /// What else is counted of the packets.
    #[inline]
    fn also_counted(&self) -> Option<Counter> {
        None
    }
}

/// How packets go, as who sees them on their way would say.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Look {
    /// In datagrams from this port.
    Udp(u16),
    /// Through memory.
    Memory,
    /// By the cable of this port.
    Cable(u8),
}

/// What a port takes at a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Capacity {
    /// Packets of one size, the last one excepted.
    pub(crate) segments: usize,
    /// Bytes of them all.
    pub(crate) bytes: usize,
}

impl Capacity {
    /// A run: what one GSO send takes (`UDP_MAX_SEGMENTS` of every kernel that has it, and the UDP
    /// payload of IPv4).
    pub(crate) const RUN: Capacity = Capacity {
        segments: 64,
        bytes: MAX_RUN,
    };
    /// A packet.
    pub(crate) const SINGLE: Capacity = Capacity {
        segments: 1,
        bytes: MAX_RUN,
    };
}

/// Most bytes of a run by any port.
pub(crate) const MAX_RUN: usize = 65_507;

/// The window to a socket, of which a buffer on this host is the best guess.
pub(crate) fn socket_window(receive_buffer: u32) -> u32 {
    // The kernel accounts about twice the payload against the buffer.
    (receive_buffer / 2).min(MAX_SOCKET_WINDOW)
}

/// What a port knows of the run that it has brought.
pub(crate) trait Incoming {
    /// The port off whose cable it came, if it did.
    #[inline]
    fn ib_port(&self) -> Option<&Port> {
        None
    }

    /// Takes off what the link has around a packet: nothing, unless the port says otherwise.
    #[inline]
    fn open<'a>(&self, frame: Octets<'a>) -> Result<Opened<'a>, Refused> {
        Ok(Opened {
            transport: frame,
            local: None,
        })
    }

    /// How the packets looked on their way, from this source port if they had one.
    fn look(&self, source_port: u16) -> Look;

    /// Whether the packet, the run's `place`th, is as it was sent; asked once it is known to be
    /// one. Returns its identification: IPv4's, or any number where there is none.
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
