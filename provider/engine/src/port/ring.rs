//! Shared-memory rings: the one way from one process to another of the same device, in memory that
//! both have.
//!
//! What would be one send, a packet or a run of them, is one record. Records follow each other in a
//! ring of bytes; each is in one piece, so a run that does not fit before the end begins at the
//! start. Two positions, which only grow, say what has been put in and what has been taken out; a
//! third, of the sender's too, at which of them the ring last began at its start. A sender that
//! finds the ring empty begins there again: so a ring costs the memory that was ever on its way in
//! it, not all of its length. The sender publishes a record with its position, then marks the ring
//! in the inbox's head, and wakes the receiver if he sleeps.
//!
//! The memory of a ring that has been empty and unused for a second the sender gives back.
//!
//! What is read here was written by another process, which may go on writing. A receiver believes
//! nothing but that it is bytes: positions and lengths are read once and checked, headers are
//! copied before they are looked at, payload is copied unseen (see
//! [`shared`](crate::memory::shared)), and a ring that makes no sense is emptied. Nor does a sender
//! believe positions: those that cannot be, left behind by the slot's last owner or written by
//! somebody meanwhile, are made good by the two ends, each of which keeps its own.

mod copying;
mod exit;
mod inbox;
mod receiver;
mod sender;
mod ways;

use std::net::IpAddr;

use ferroce_control::RING_BYTES;

use super::{Incoming, Opened};
use crate::port::Look;

pub(crate) use exit::RingExit;
pub(crate) use inbox::{Inbox, Rings};
pub(crate) use receiver::Arrived;
pub(crate) use sender::RingSender;
pub(crate) use ways::Ways;

/// Records begin at multiples of this, a cache line.
const ALIGN: usize = 64;
/// A record of this length is none: the next is at the start of the ring.
const SKIP: u32 = u32::MAX;

/// What a record holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Form {
    /// Packets, of this size but for the last if there are several.
    Packets(Option<u16>),
    /// A stretch of packets ([`ferroce_wire::stretch`]) whose path MTU is this.
    Stretch(u16),
}

/// What stands before the packets of a record.
#[derive(Clone, Copy)]
#[repr(C)]
struct Record {
    /// Bytes behind this.
    len: u32,
    /// Bytes of each packet but the last; 0: there is one; STRETCH_MARK: it is a stretch.
    segment: u16,
    traffic_class: u8,
    hop_limit: u8,
    /// As in a GID.
    from: [u8; 16],
    to: [u8; 16],
}

const HEADER: usize = size_of::<Record>();
/// Longer than any packet.
const STRETCH_MARK: u16 = u16::MAX;
/// A stretch has its path MTU before it, and so much in all that the payload of most begins at a
/// multiple of 16 bytes.
const STRETCH_HEADER: usize = 12;

/// Where the packets of a path come from and go to, and what would stand in their IP header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Label {
    pub(crate) from: IpAddr,
    pub(crate) to: IpAddr,
    pub(crate) traffic_class: u8,
    pub(crate) hop_limit: u8,
}

/// Room that a record needs with so many bytes behind its label.
const fn span(len: usize) -> usize {
    (HEADER + len).next_multiple_of(ALIGN)
}

/// Where in the ring a position is.
fn place(position: u64, restart: u64) -> usize {
    (position.wrapping_sub(restart) % RING_BYTES as u64) as usize
}

/// Whether positions can be: no more is there than a ring holds, and records are where they begin.
fn are_sensible(tail: u64, head: u64, restart: u64) -> bool {
    tail.wrapping_sub(head) <= RING_BYTES as u64
        && place(tail, restart).is_multiple_of(ALIGN)
        && place(head, restart).is_multiple_of(ALIGN)
}

/// A run that a program of this device has put into the inbox: it has been in memory only, and
/// nothing is around it or could have changed it.
pub(crate) struct Ring;

impl Incoming for Ring {
    fn look(&self, _: u16) -> Look {
        Look::Memory
    }

    #[inline]
    fn verify(&mut self, _: &Opened<'_>, place: u16) -> Option<u16> {
        Some(place)
    }
}

#[cfg(feature = "fuzzing")]
pub(crate) use hostile::hostile;
#[cfg(feature = "fuzzing")]
mod hostile;
#[cfg(test)]
mod tests;
