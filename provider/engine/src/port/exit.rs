//! The ways out that there are. One is chosen when a path is opened, and a branch at each use is
//! all that it costs.

use std::io;

use ferroce_control::{Counter, GidEntry};
use ferroce_transport::Time;
use ferroce_wire::icrc::Icrc;

use crate::port::Look;
use crate::port::address::PathKey;

use super::{CableExit, Capacity, Outgoing, RingExit, UdpExit};

macro_rules! exits {
    ($($(#[$when:meta])* $kind:ident($exit:ty)),* $(,)?) => {
        /// A path's way out.
        pub(crate) enum Exit {
            $($(#[$when])* $kind($exit),)*
        }

        $($(#[$when])* impl From<$exit> for Exit {
            fn from(exit: $exit) -> Exit {
                Exit::$kind(exit)
            }
        })*

        /// Does the same with whichever it is.
        macro_rules! by_kind {
            ($of:expr, $way:ident => $done:expr) => {
                match $of {
                    $($(#[$when])* Exit::$kind($way) => $done,)*
                }
            };
        }
    };
}

exits! {
    Udp(UdpExit),
    Cable(CableExit),
    Ring(RingExit),
    #[cfg(any(test, feature = "in-process"))]
    InProcess(super::in_process::InProcessExit),
}

impl Exit {
    /// The GID that its packets are from is on another interface now, and `out` is the way that
    /// there is by it.
    pub(crate) fn follow(&self, key: PathKey, gid: &GidEntry, out: Option<u32>) {
        match self {
            Exit::Udp(udp) => udp.follow(key, gid, out),
            Exit::Ring(ring) => ring.follow(key, gid, out),
            _ => {}
        }
    }
}

impl Outgoing for Exit {
    #[inline]
    fn capacity(&self) -> Capacity {
        by_kind!(self, exit => exit.capacity())
    }

    #[inline]
    fn prefers_one_length(&self) -> bool {
        by_kind!(self, exit => exit.prefers_one_length())
    }

    fn window(&self) -> u32 {
        by_kind!(self, exit => exit.window())
    }

    #[inline]
    fn lead_len(&self) -> usize {
        by_kind!(self, exit => exit.lead_len())
    }

    #[inline]
    fn begin(&self, transport: usize, number: u16, out: &mut [u8]) -> Option<Icrc> {
        by_kind!(self, exit => exit.begin(transport, number, out))
    }

    #[inline]
    fn send(&self, iov: &mut [libc::iovec], segment: Option<u16>) -> io::Result<()> {
        by_kind!(self, exit => exit.send(iov, segment))
    }

    #[inline]
    fn stretch(&self) -> u32 {
        by_kind!(self, exit => exit.stretch())
    }

    #[inline]
    fn send_stretch(&self, iov: &mut [libc::iovec], mtu: u16) -> io::Result<()> {
        by_kind!(self, exit => exit.send_stretch(iov, mtu))
    }

    #[inline]
    fn show(&self) {
        by_kind!(self, exit => exit.show());
    }

    #[inline]
    fn allowance(&self, now: Time) -> Result<u64, Time> {
        by_kind!(self, exit => exit.allowance(now))
    }

    #[inline]
    fn sent(&self, now: Time, bytes: usize, run: bool) {
        by_kind!(self, exit => exit.sent(now, bytes, run))
    }

    fn is_stale(&self) -> bool {
        by_kind!(self, exit => exit.is_stale())
    }

    #[inline]
    fn number(&self) -> Option<u8> {
        by_kind!(self, exit => exit.number())
    }

    fn look(&self) -> Look {
        by_kind!(self, exit => exit.look())
    }

    #[inline]
    fn also_counted(&self) -> Option<Counter> {
        by_kind!(self, exit => exit.also_counted())
    }
}
