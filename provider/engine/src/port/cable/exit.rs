//! The way out by the cable of an InfiniBand port, to one slot at a LID or to a group.

use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use ferroce_transport::Time;
use ferroce_wire::icrc::Icrc;
use ferroce_wire::link::Head;
use socket2::SockAddr;

use crate::error::{Error, Result};
use crate::port::address::PathKey;
use crate::port::ib::Link;
use crate::port::pacing::{self, Pacer, Unknown};
use crate::port::udp::{OptionKind, Sender, bind, option, socket};
use crate::port::{Capacity, Outgoing, socket_window};

/// A cable is two UDP sockets, and what goes through it whole InfiniBand packets.
pub(crate) struct CableExit {
    sender: Sender,
    dest: SockAddr,
    /// Where a copy goes of all that leaves for a multicast group: members on this side of the cable get it from there.
    echo: Option<SockAddr>,
    /// LRH and perhaps GRH.
    head: Head,
    link: Arc<Link>,
    window: u32,
    /// Nothing is known of receivers at the far end.
    pacer: Pacer<Unknown>,
}

impl CableExit {
    /// `own_slot` and `receive_buffer` as of RoCEv2's ([`UdpExit`](crate::port::UdpExit)).
    pub(crate) fn open(
        key: PathKey,
        link: &Arc<Link>,
        own_slot: u8,
        receive_buffer: u32,
        gso: bool,
    ) -> Result<CableExit> {
        let absent = Error::Invalid("a path by a cable has LIDs");
        let lids = key.lids.ok_or(absent)?;
        let dest = link.destination(&lids);
        let socket = socket(dest.ip())?;
        bind(&socket, key, 0, own_slot)?;
        let gso = gso && option(&socket, key.remote, OptionKind::Segment, 0).is_ok();
        Ok(CableExit {
            sender: Sender::new(socket, gso),
            dest: dest.into(),
            echo: key.is_multicast().then(|| link.end().into()),
            head: lids.head(),
            link: link.clone(),
            window: socket_window(receive_buffer),
            pacer: Pacer::new(Unknown, pacing::limit(receive_buffer)),
        })
    }
}

impl Outgoing for CableExit {
    #[inline]
    fn capacity(&self) -> Capacity {
        self.sender.capacity()
    }

    fn window(&self) -> u32 {
        self.window
    }

    #[inline]
    fn lead_len(&self) -> usize {
        self.head.len()
    }

    #[inline]
    fn begin(&self, transport: usize, _: u16, out: &mut [u8]) -> Option<Icrc> {
        Some(self.head.emit(transport, out))
    }

    /// Nothing goes out while the port is not active.
    fn send(&self, iov: &mut [libc::iovec], segment: Option<u16>) -> io::Result<()> {
        if !self.link.active.load(Relaxed) {
            return Err(io::ErrorKind::NetworkDown.into());
        }
        self.sender.send(&self.dest, iov, segment)?;
        if let Some(echo) = &self.echo {
            self.sender.repeat(echo, iov, segment);
        }
        Ok(())
    }

    fn allowance(&self, now: Time) -> Result<u64, Time> {
        self.pacer.allowance(now)
    }

    fn spend(&self, bytes: usize, run: bool) {
        self.pacer.sent(bytes, run);
    }

    fn number(&self) -> Option<u8> {
        Some(self.link.number)
    }
}
