//! The way out by a UDP socket. What stands around a packet there is a [`Framing`]: RoCEv2's or a
//! cable's.

use std::io;

use ferroce_transport::Time;
use ferroce_transport::congestion::{Controller, Gauge, Pacer, allowance_of_buffer};
use ferroce_wire::icrc::Icrc;
use socket2::{SockAddr, Socket};

use crate::port::Look;
use crate::port::udp::Sender;
use crate::port::{Capacity, Outgoing, socket_window};

/// What is around a packet, and who gets it. See [`Outgoing`] for what has the same name there.
pub(crate) trait Framing {
    /// What is known of what the receiver has taken.
    type Gauge: Gauge;

    #[inline]
    fn lead_len(&self) -> usize {
        0
    }

    fn begin(&self, transport: usize, number: u16, out: &mut [u8]) -> Option<Icrc>;

    /// Whether the port is up. Nothing goes out otherwise.
    #[inline]
    fn is_up(&self) -> bool {
        true
    }

    /// Where a copy of all that leaves goes.
    #[inline]
    fn echo(&self) -> Option<&SockAddr> {
        None
    }

    #[inline]
    fn number(&self) -> Option<u8> {
        None
    }

    /// The traffic class of the run that these pieces are, where it is not the socket's own.
    #[inline]
    fn other_class(&self, _run: &[libc::iovec]) -> Option<u8> {
        None
    }

    fn look(&self) -> Look;
}

/// To one slot of one host, or to a group.
pub(crate) struct SocketExit<F: Framing> {
    sender: Sender,
    dest: SockAddr,
    framing: F,
    window: u32,
    pacer: Pacer<F::Gauge>,
}

impl<F: Framing> SocketExit<F> {
    /// `receive_buffer`: what a socket holds, in bytes; of this host's, as the other end's is not
    /// known.
    pub(super) fn new(
        sender: Sender,
        dest: SockAddr,
        framing: F,
        gauge: F::Gauge,
        receive_buffer: u32,
    ) -> SocketExit<F> {
        SocketExit {
            sender,
            dest,
            framing,
            window: socket_window(receive_buffer),
            pacer: Pacer::new(gauge, allowance_of_buffer(receive_buffer)),
        }
    }

    pub(super) fn socket(&self) -> &Socket {
        self.sender.socket()
    }
}

impl<F: Framing> Outgoing for SocketExit<F> {
    #[inline]
    fn capacity(&self) -> Capacity {
        self.sender.capacity()
    }

    /// Where the kernel takes runs.
    #[inline]
    fn prefers_one_length(&self) -> bool {
        self.capacity() == Capacity::RUN
    }

    fn window(&self) -> u32 {
        self.window
    }

    #[inline]
    fn lead_len(&self) -> usize {
        self.framing.lead_len()
    }

    #[inline]
    fn begin(&self, transport: usize, number: u16, out: &mut [u8]) -> Option<Icrc> {
        self.framing.begin(transport, number, out)
    }

    #[inline]
    fn send(&self, iov: &mut [libc::iovec], segment: Option<u16>) -> io::Result<()> {
        if !self.framing.is_up() {
            return Err(io::ErrorKind::NetworkDown.into());
        }
        let class = self.framing.other_class(iov);
        self.sender.send(&self.dest, iov, segment, class)?;

        if let Some(echo) = self.framing.echo() {
            self.sender.repeat(echo, iov, segment);
        }
        Ok(())
    }

    fn allowance(&self, now: Time) -> Result<u64, Time> {
        self.pacer.allowance(now)
    }

    fn sent(&self, now: Time, bytes: usize, run: bool) {
        self.pacer.sent(now, bytes, run);
    }

    #[inline]
    fn number(&self) -> Option<u8> {
        self.framing.number()
    }

    fn look(&self) -> Look {
        self.framing.look()
    }
}
