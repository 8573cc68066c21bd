//! The way out to a process of this device, through memory. A socket is used only when that process
//! has gone.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use ferroce_control::{Counter, GidEntry};
use ferroce_transport::Time;
use ferroce_transport::congestion::{Controller, Gauge, Pacer};
use ferroce_wire::icrc::Icrc;

use super::{Form, Label, RingSender};
use crate::port::Look;
use crate::port::address::PathKey;
use crate::port::{Capacity, Outgoing, UdpExit};
use crate::tuning::{RING_WINDOW, STRETCH};

/// Linux's own (`net.ipv4.ip_default_ttl`).
const DEFAULT_HOP_LIMIT: u8 = 64;

pub(crate) struct RingExit {
    ring: Arc<RingSender>,
    /// What the packets would bear in their IP header.
    label: Label,
    /// The ring has no receiver any more: from then on as to any other host.
    left: AtomicBool,
    beyond: UdpExit,
    /// RC uses the ring too.
    pacer: Pacer<Taken>,
}

impl RingExit {
    /// `beyond` leads to the same slot of the same address.
    pub(crate) fn new(key: PathKey, ring: Arc<RingSender>, beyond: UdpExit) -> RingExit {
        let label = Label {
            from: key.local,
            to: key.remote,
            traffic_class: key.traffic_class,
            // As a socket would have it.
            hop_limit: match key.hop_limit {
                0 | 1 => DEFAULT_HOP_LIMIT,
                limit => limit,
            },
        };

        RingExit {
            pacer: Pacer::new(Taken(ring.clone()), RING_WINDOW as u64),
            ring,
            label,
            left: AtomicBool::new(false),
            beyond,
        }
    }

    /// As of [`UdpExit`].
    pub(crate) fn follow(&self, key: PathKey, gid: &GidEntry, out: Option<u32>) {
        self.beyond.follow(key, gid, out);
    }

    #[inline]
    fn has_left(&self) -> bool {
        self.left.load(Relaxed)
    }

    fn put_in(&self, iov: &[libc::iovec], form: Form) -> io::Result<()> {
        if self.ring.is_closed() {
            // What is to go has no ICRC, so it is lost.
            self.left.store(true, Relaxed);
            return Err(io::ErrorKind::NotConnected.into());
        }
        self.ring.send(&self.label, iov, form)
    }
}

impl Outgoing for RingExit {
    /// A run is one record, whatever sockets can do.
    #[inline]
    fn capacity(&self) -> Capacity {
        match self.has_left() {
            false => Capacity::RUN,
            true => self.beyond.capacity(),
        }
    }

    fn window(&self) -> u32 {
        RING_WINDOW as u32
    }

    #[inline]
    fn begin(&self, transport: usize, number: u16, out: &mut [u8]) -> Option<Icrc> {
        match self.has_left() {
            false => None,
            true => self.beyond.begin(transport, number, out),
        }
    }

    fn send(&self, iov: &mut [libc::iovec], segment: Option<u16>) -> io::Result<()> {
        if self.has_left() {
            return self.beyond.send(iov, segment);
        }
        self.put_in(iov, Form::Packets(segment))
    }

    #[inline]
    fn stretch(&self) -> u32 {
        match self.has_left() {
            false => STRETCH,
            true => 0,
        }
    }

    fn send_stretch(&self, iov: &mut [libc::iovec], mtu: u16) -> io::Result<()> {
        self.put_in(iov, Form::Stretch(mtu))
    }

    fn show(&self) {
        self.ring.show();
    }

    fn allowance(&self, now: Time) -> Result<u64, Time> {
        self.pacer.allowance(now)
    }

    fn sent(&self, now: Time, bytes: usize, run: bool) {
        self.pacer.sent(now, bytes, run);
    }

    /// The slot may be another's, to whom there is a new path.
    fn is_stale(&self) -> bool {
        self.ring.is_closed()
    }

    fn look(&self) -> Look {
        match self.has_left() {
            false => Look::Memory,
            true => self.beyond.look(),
        }
    }

    fn also_counted(&self) -> Option<Counter> {
        (!self.has_left()).then_some(Counter::TxLoopback)
    }
}

impl Drop for RingExit {
    fn drop(&mut self) {
        self.ring.leave();
    }
}

/// What its receiver has taken out of a ring.
struct Taken(Arc<RingSender>);

impl Gauge for Taken {
    fn room(&self, limit: u64) -> Option<u64> {
        Some(limit.saturating_sub(self.0.in_flight()))
    }

    fn taken(&self) -> u64 {
        self.0.taken()
    }
}
