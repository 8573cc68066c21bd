//! The way out to the other end.

use std::io;
use std::net::IpAddr;
use std::sync::Arc;

use ferroce_transport::{Duration, Time};
use ferroce_wire::ROCE_V2_PORT;
use ferroce_wire::icrc::{Flow, Icrc};

use super::queue::{Frame, Label, Queue, ROOM};
use crate::error::{Error, Result};
use crate::memory::guard;
use crate::port::Look;
use crate::port::address::PathKey;
use crate::port::{Capacity, Outgoing};
use crate::tuning::COPY_LIMIT;

/// Requests of a path; with the answers to the other end's they have room.
const WINDOW: usize = ROOM / 4;
/// How often a sender that is held back looks again.
const ALLOWANCE_RETRY: Duration = Duration::from_micros(8);
/// Linux's own.
const DEFAULT_HOP_LIMIT: u8 = 64;
/// The first of the source ports that RoCEv2 has for path entropy.
const PORT: u16 = 0xc000;

pub(crate) struct InProcessExit {
    to: Arc<Queue>,
    label: Label,
    flow: Flow,
}

impl InProcessExit {
    pub(super) fn open(key: PathKey, to: &Arc<Queue>) -> Result<InProcessExit> {
        let (IpAddr::V4(from), IpAddr::V4(dest)) = (key.local, key.remote) else {
            return Err(Error::Invalid("devices of one program have IPv4 addresses"));
        };

        let label = Label {
            from: key.local,
            port: PORT,
            to: key.remote,
            traffic_class: key.traffic_class,
            hop_limit: match key.hop_limit {
                0 | 1 => DEFAULT_HOP_LIMIT,
                limit => limit,
            },
        };

        Ok(InProcessExit {
            to: to.clone(),
            label,
            flow: Flow::v4(from, dest, PORT, ROCE_V2_PORT),
        })
    }
}

impl Outgoing for InProcessExit {
    fn capacity(&self) -> Capacity {
        Capacity::RUN
    }

    fn window(&self) -> u32 {
        WINDOW as u32
    }

    fn begin(&self, transport: usize, number: u16, _: &mut [u8]) -> Option<Icrc> {
        Some(self.flow.start(transport, number))
    }

    fn send(&self, iov: &mut [libc::iovec], segment: Option<u16>) -> io::Result<()> {
        let mut bytes = self.to.memory();
        bytes.reserve(iov.iter().map(|piece| piece.iov_len).sum());

        for piece in iov.iter() {
            let (from, len) = (piece.iov_base.cast::<u8>(), piece.iov_len);
            // SAFETY: there is room for all pieces. They are the engine's own or of registered
            // ranges, whose keys our caller holds the table's lock of; the short ones are all the
            // engine's.
            unsafe {
                let to = bytes.as_mut_ptr().add(bytes.len());
                match len <= COPY_LIMIT {
                    true => to.copy_from_nonoverlapping(from, len),
                    false => guard::copy(to, from, len)
                        .map_err(|_| io::Error::from_raw_os_error(libc::EFAULT))?,
                }
                bytes.set_len(bytes.len() + len);
            }
        }

        self.to.put(Frame {
            label: self.label,
            segment: segment.unwrap_or(0).into(),
            bytes,
        })
    }

    fn look(&self) -> Look {
        Look::Udp(PORT)
    }

    /// What there is room for, but for what others send at the same time.
    fn allowance(&self, now: Time) -> std::result::Result<u64, Time> {
        match self.to.room().checked_sub(ROOM / 2) {
            Some(room @ 1..) => Ok(room as u64),
            _ => Err(now + ALLOWANCE_RETRY),
        }
    }
}
