//! The receiver's end of a ring.

use std::sync::atomic::{AtomicU8, Ordering};

use ferroce_control::{RING_BYTES, RingMemory};
use ferroce_wire::Octets;

use super::{
    Form, HEADER, Label, Record, SKIP, STRETCH_HEADER, STRETCH_MARK, are_sensible, place, span,
};
use crate::memory::shared;
use crate::port::address::gid_address;
use crate::progress::marks;

/// A ring's positions or lengths cannot be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Nonsense;

/// The receiver's end.
pub(crate) struct RingReceiver {
    memory: RingMemory,
    head: u64,
}

/// A record, as long as it has not been taken.
pub(crate) struct Arrived<'a> {
    pub(crate) label: Label,
    pub(crate) form: Form,
    /// The packets, or the stretch.
    pub(crate) bytes: Octets<'a>,
}

impl RingReceiver {
    pub(super) fn new(memory: RingMemory) -> RingReceiver {
        let head = memory.head().load(Ordering::Relaxed);
        RingReceiver { memory, head }
    }

    /// Gives the next record to `f` and takes it out. `Ok(None)`: there is none. `Err`: what is
    /// there makes no sense, and all of it is thrown away.
    pub(crate) fn take<R>(
        &mut self,
        f: impl FnOnce(Arrived<'_>) -> R,
    ) -> Result<Option<R>, Nonsense> {
        let (tail, restart) = (self.memory.tail(), self.memory.restart());
        let Some((tail, restart)) = marks::published(tail, restart, self.head) else {
            return Ok(None);
        };

        let mut there = tail.wrapping_sub(self.head);
        if !are_sensible(tail, self.head, restart) {
            return self.throw_away(tail);
        }

        let mut at = place(self.head, restart);
        let mut record = self.record(at);
        if record.len == SKIP && at != 0 && there > (RING_BYTES - at) as u64 {
            self.head = self.head.wrapping_add((RING_BYTES - at) as u64);
            there -= (RING_BYTES - at) as u64;
            at = 0;
            record = self.record(at);
        }

        let len = record.len as usize;
        if len > RING_BYTES || span(len) as u64 > there || at + span(len) > RING_BYTES {
            return self.throw_away(tail);
        }

        let bytes = Octets::Shared(&self.bytes()[at + HEADER..][..len]);
        let label = Label {
            from: gid_address(record.from),
            to: gid_address(record.to),
            traffic_class: record.traffic_class,
            hop_limit: record.hop_limit,
        };

        let (form, bytes) = match record.segment {
            0 => (Form::Packets(None), bytes),
            STRETCH_MARK => {
                let (before, bytes) = bytes.split_at(STRETCH_HEADER.min(len));
                let mut mtu = [0; 2];
                before.copy_to(&mut mtu);
                (Form::Stretch(u16::from_ne_bytes(mtu)), bytes)
            }
            segment => (Form::Packets(Some(segment)), bytes),
        };
        let result = f(Arrived { label, form, bytes });

        self.advance(self.head.wrapping_add(span(len) as u64));
        Ok(Some(result))
    }

    /// Says again how far it is taken out, if somebody else has said otherwise.
    pub(super) fn restate(&self) {
        if self.memory.head().load(Ordering::Relaxed) != self.head {
            self.memory.head().store(self.head, Ordering::Release);
        }
    }

    fn record(&self, at: usize) -> Record {
        let mut header = [0; HEADER];
        shared::copy(&self.bytes()[at..][..HEADER], &mut header);
        // SAFETY: any bytes make a Record, and these are as many.
        unsafe { header.as_ptr().cast::<Record>().read_unaligned() }
    }

    /// The ring. The sender's process may write to it at any moment.
    fn bytes(&self) -> &[AtomicU8] {
        // SAFETY: RING_BYTES bytes, mapped as long as `self` is; nobody in this process writes to
        // them but by `RingSender`, which does not hold references to them.
        unsafe { std::slice::from_raw_parts(self.memory.bytes().cast(), RING_BYTES) }
    }

    fn throw_away<R>(&mut self, tail: u64) -> Result<Option<R>, Nonsense> {
        self.advance(tail);
        Err(Nonsense)
    }

    fn advance(&mut self, head: u64) {
        self.head = head;
        self.memory.head().store(head, Ordering::Release);
    }
}
