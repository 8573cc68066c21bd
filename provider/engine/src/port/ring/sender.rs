//! The sender's end of a ring.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use ferroce_control::{ControlError, InboxFds, InboxHead, RING_BYTES, RingMemory};

use super::copying::Copying;
use super::{
    Form, HEADER, Label, Record, SKIP, STRETCH_HEADER, STRETCH_MARK, are_sensible, place, span,
};
use crate::locks;
use crate::memory::guard;
use crate::own::Own;
use crate::port::address::address_gid;
use crate::progress::driver::wake;
use crate::progress::{marks, timers};
use crate::tuning::{COPY_LIMIT, RING_RESTART};

/// The sender's end, shared by all paths to one slot.
pub(crate) struct RingSender {
    inbox: InboxHead,
    wake: Own,
    pub(super) memory: RingMemory,
    /// The word and the bit of the ring in the inbox's head.
    pub(super) mark: (usize, u64),
    pub(super) position: locks::Mutex<Position, { locks::RING }>,
    /// Some ring of this process has memory that may be given back, or may be given up.
    holds: Arc<AtomicBool>,
}

/// What the sender alone changes or need not look up each time.
pub(super) struct Position {
    tail: u64,
    /// Where the ring last began at its start.
    restart: u64,
    /// Taken out at least so far.
    head: u64,
    /// Bytes from the start of the ring that may have memory.
    pub(super) extent: usize,
    /// Something was put in since the last look at what could be given back.
    used: bool,
    /// The last record has not been shown to the receiver.
    hidden: bool,
    pub(super) copying: Copying,
}

impl RingSender {
    /// The ring of `own_slot` in the inbox of another, or in its own. Its last owner may have left
    /// it anywhere. `holds` becomes true with what is put in.
    pub(crate) fn open(
        inbox: InboxFds,
        own_slot: u8,
        holds: Arc<AtomicBool>,
    ) -> Result<RingSender, ControlError> {
        let head = InboxHead::map(inbox.memory)?;
        let memory = head.ring(own_slot)?;
        let mut position = Position {
            tail: memory.tail().load(Ordering::Relaxed),
            restart: memory.restart().load(Ordering::Relaxed),
            head: memory.head().load(Ordering::Acquire),
            extent: RING_BYTES,
            used: true,
            hidden: false,
            copying: Copying::new(),
        };

        if !are_sensible(position.tail, position.head, position.restart) {
            // Nothing that is there can be taken out, so it begins anew where the receiver is.
            position.tail = position.head;
            position.restart = position.head;
        }

        holds.store(true, Ordering::Relaxed);
        let is_empty = position.tail == position.head;
        let ring = RingSender {
            inbox: head,
            wake: inbox.wake.into(),
            memory,
            mark: (usize::from(own_slot) / 64, 1 << (own_slot % 64)),
            position: locks::Mutex::new(position),
            holds,
        };

        if !is_empty {
            // Who put it in may have been killed before he could say so, and it may be all that
            // there is room for.
            ring.tell();
        }

        Ok(ring)
    }

    /// Whether the receiving process has gone. Its slot may be another's by now.
    pub(super) fn is_closed(&self) -> bool {
        self.inbox.is_closed()
    }

    /// Bytes that have been put in and not taken out.
    pub(crate) fn in_flight(&self) -> u64 {
        let taken = self.taken();
        self.memory
            .tail()
            .load(Ordering::Relaxed)
            .saturating_sub(taken)
    }

    /// Bytes that the receiver has taken out in all.
    pub(crate) fn taken(&self) -> u64 {
        self.memory.head().load(Ordering::Acquire)
    }

    /// Puts in what `iov` describes, in the form that it has.
    ///
    /// A stretch is not shown yet: with what follows at once, an ACK perhaps, the receiver has both
    /// in one look. [`show`](Self::show) is called when nothing does.
    ///
    /// Fails with `WouldBlock` when there is no room, and with `EFAULT` when memory is not mapped
    /// any more; nothing is put in then.
    pub(crate) fn send(&self, label: &Label, iov: &[libc::iovec], form: Form) -> io::Result<()> {
        let (segment, mtu) = match form {
            Form::Packets(segment) => (segment.unwrap_or(0), None),
            Form::Stretch(mtu) => (STRETCH_MARK, Some(mtu)),
        };
        let before = mtu.map_or(0, |_| STRETCH_HEADER);
        let len = before + iov.iter().map(|piece| piece.iov_len).sum::<usize>();
        let mut position = self.position.lock();
        if mtu.is_some() && position.hidden {
            // It can be taken out while this one is copied.
            self.publish(&mut position);
            self.tell();
        }
        let at = self.room(&mut position, span(len))?;
        let record = Record {
            len: len as u32,
            segment,
            traffic_class: label.traffic_class,
            hop_limit: label.hop_limit,
            from: address_gid(label.from),
            to: address_gid(label.to),
        };

        // SAFETY: `room` found `span(len)` bytes at `at`, inside the ring and not the receiver's
        // before the tail says so. `at` is a multiple of ALIGN.
        let mut to = unsafe {
            let to = self.memory.bytes().add(at);
            to.cast::<Record>().write(record);
            let to = to.add(HEADER);
            if let Some(mtu) = mtu {
                to.cast::<u16>().write(mtu);
            }
            to.add(before)
        };

        let past_caches = position.copying.next(timers::now, len);
        for piece in iov {
            // SAFETY: the pieces are the engine's own or of registered ranges, whose keys our
            // caller holds the table's lock of; the short ones are all the engine's. The sum of
            // their lengths is `len`.
            unsafe {
                let from = piece.iov_base.cast();
                if piece.iov_len <= COPY_LIMIT {
                    to.copy_from_nonoverlapping(from, piece.iov_len);
                } else {
                    let copied = match past_caches {
                        true => guard::copy_past_caches(to, from, piece.iov_len),
                        false => guard::copy(to, from, piece.iov_len),
                    };
                    copied.map_err(|_| io::Error::from_raw_os_error(libc::EFAULT))?;
                }
            };
            to = to.wrapping_add(piece.iov_len);
        }

        position.tail = position.tail.wrapping_add(span(len) as u64);
        position.extent = position.extent.max(at + span(len));
        position.used = true;
        if !self.holds.load(Ordering::Relaxed) {
            self.holds.store(true, Ordering::Relaxed);
        }

        match mtu {
            Some(_) => position.hidden = true,
            None => {
                self.publish(&mut position);
                drop(position);
                self.tell();
            }
        }
        Ok(())
    }

    /// Shows the receiver what he has not been shown yet, if there is anything.
    pub(crate) fn show(&self) {
        let mut position = self.position.lock();
        if position.hidden {
            self.publish(&mut position);
            drop(position);
            self.tell();
        }
    }

    /// Shows the receiver how far the ring is filled.
    fn publish(&self, position: &mut Position) {
        position.hidden = false;
        let Position { tail, restart, .. } = *position;
        marks::publish((self.memory.tail(), tail), (self.memory.restart(), restart));
    }

    /// Marks the ring, and wakes the receiver if he sleeps.
    fn tell(&self) {
        let (word, bit) = self.mark;
        if marks::mark(self.inbox.pending(word), bit, self.inbox.sleeping()) {
            wake(&self.wake);
        }
    }

    /// Finds room for so many bytes in one piece; returns where. What is skipped for that is part
    /// of the tail then, though not published before the record is.
    fn room(&self, position: &mut Position, needed: usize) -> io::Result<usize> {
        let at = self.begin_again_if_empty(position);
        let left = RING_BYTES - at;
        let skipped = if needed > left { left } else { 0 };
        let there = |position: &Position| position.tail.wrapping_sub(position.head);
        let fits = |there: u64| there + (skipped + needed) as u64 <= RING_BYTES as u64;
        if there(position) > RING_BYTES as u64 || !fits(there(position)) {
            position.head = self.taken();
            if there(position) > RING_BYTES as u64 {
                // Somebody has written where only one end may. The receiver, who believes himself
                // alone, sees this and says where he is.
                self.publish(position);
                self.tell();
                return Err(io::ErrorKind::WouldBlock.into());
            }
            if !fits(there(position)) {
                return Err(io::ErrorKind::WouldBlock.into());
            }
        }

        if skipped == 0 {
            return Ok(at);
        }

        // SAFETY: `at` is inside the ring and a multiple of ALIGN, which a Record does not exceed;
        // the bytes are ours.
        unsafe { self.memory.bytes().add(at).cast::<u32>().write(SKIP) };
        position.tail = position.tail.wrapping_add(skipped as u64);
        Ok(0)
    }

    /// Where in the ring the next record comes: at the start, if there is nothing in it any more.
    fn begin_again_if_empty(&self, position: &mut Position) -> usize {
        let at = place(position.tail, position.restart);
        if at < RING_RESTART {
            return at;
        }
        position.head = self.taken();
        if position.head != position.tail {
            return at;
        }
        position.restart = position.tail;
        0
    }

    /// A path has no use for it any more.
    pub(super) fn leave(&self) {
        self.holds.store(true, Ordering::Relaxed);
    }

    /// Gives the ring's memory back, if there is nothing in it and nothing was put in since the
    /// last call. Returns whether it may still have some.
    pub(crate) fn give_back(&self) -> bool {
        let Some(mut position) = self.position.try_lock() else {
            return true;
        };
        if std::mem::take(&mut position.used) || self.taken() != position.tail {
            return true;
        }

        if position.extent != 0 {
            // Where it cannot be given back it is kept, and not asked for again before more is
            // used. The next record begins at the start: what a receiver has not seen yet is
            // nothing.
            position.restart = position.tail;
            // SAFETY: there is nothing in the ring, and only its sender puts something in, who
            // holds the lock. A receiver reads what is published, which is nothing.
            unsafe { self.memory.give_back(position.extent) };
            position.extent = 0;
        }

        false
    }
}
