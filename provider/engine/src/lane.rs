//! A lane: the one way from one process to another of the same device, in memory that both have.
//!
//! What would be one send, a packet or a run of them, is one record. Records follow each other in a ring of bytes; each is in one
//! piece, so a run that does not fit before the end begins at the start. Two positions, which only grow, say what has been put
//! in and what has been taken out; a third, of the sender's too, at which of them the ring last began at its start. A sender that finds the lane
//! empty begins there again: so a lane costs the memory that was ever on its way in it, not that of the ring. The sender publishes
//! a record with its position, then marks the lane in the inbox's head, and wakes the receiver if he sleeps.
//!
//! The memory of a lane that has been empty and unused for a second the sender gives back.
//!
//! What is read here was written by another process, which may go on writing. A receiver believes nothing but that it is bytes: positions
//! and lengths are read once and checked, headers are copied before they are looked at, payload is copied unseen (see
//! [`shared`]), and a lane that makes no sense is emptied. Nor does a sender believe
//! positions: those that cannot be, left behind by the slot's last owner or written by somebody meanwhile, are made good by the two ends, each
//! of which keeps its own.

use std::io;
use std::net::IpAddr;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};

use ferroce_control::{ControlError, InboxFds, InboxHead, LANE, LaneMemory};
use ferroce_wire::Octets;
use parking_lot::Mutex;

use crate::driver::wake;
use crate::guard;
use crate::marks;
use crate::path::{address_gid, gid_address};
use crate::shared;
use crate::tx::COPY_LIMIT;

/// Records begin at multiples of this, a cache line.
const ALIGN: usize = 64;
/// Beyond this place a sender that finds the lane empty begins at the start: what few messages go through stays in a near cache, and
/// lanes by the thousand take little memory.
const HOT: usize = 16 << 10;
/// Payload that a path may have in a lane. With headers, requests and the responses to the receiver's always fit.
pub(crate) const WINDOW: usize = LANE / 5;
/// A record of this length is none: the next is at the start of the lane.
const SKIP: u32 = u32::MAX;

/// What stands before the packets of a record.
#[derive(Clone, Copy)]
#[repr(C)]
struct Record {
    /// Bytes of the packets.
    len: u32,
    /// Bytes of each packet but the last; 0: there is one.
    segment: u16,
    traffic_class: u8,
    hop_limit: u8,
    /// As in a GID.
    from: [u8; 16],
    to: [u8; 16],
}

const HEADER: usize = size_of::<Record>();

/// Where the packets of a path come from and go to, and what would stand in their IP header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Label {
    pub(crate) from: IpAddr,
    pub(crate) to: IpAddr,
    pub(crate) traffic_class: u8,
    pub(crate) hop_limit: u8,
}

/// Room that a record needs.
const fn span(len: usize) -> usize {
    (HEADER + len).next_multiple_of(ALIGN)
}

/// The sender's end, shared by all paths to one slot.
pub(crate) struct Outgoing {
    inbox: InboxHead,
    wake: OwnedFd,
    memory: LaneMemory,
    /// The word and the bit of the lane in the inbox's head.
    mark: (usize, u64),
    position: Mutex<Position>,
    /// Some lane of this process has memory that may be given back.
    holds: Arc<AtomicBool>,
}

/// What the sender alone changes or need not look up each time.
struct Position {
    tail: u64,
    /// Where the ring last began at its start.
    restart: u64,
    /// Taken out at least so far.
    head: u64,
    /// Bytes from the start of the ring that may have memory.
    extent: usize,
    /// Something was put in since the last look at what could be given back.
    used: bool,
}

/// Where in the ring a position is.
fn place(position: u64, restart: u64) -> usize {
    (position.wrapping_sub(restart) % LANE as u64) as usize
}

/// Whether positions can be: no more is there than a lane holds, and records are where they begin.
fn are_sensible(tail: u64, head: u64, restart: u64) -> bool {
    tail.wrapping_sub(head) <= LANE as u64
        && place(tail, restart).is_multiple_of(ALIGN)
        && place(head, restart).is_multiple_of(ALIGN)
}

impl Outgoing {
    /// The lane of `own_slot` in the inbox of another, or in its own. Its last owner may have left it anywhere. `holds` becomes
    /// true with what is put in.
    pub(crate) fn open(
        inbox: InboxFds,
        own_slot: u8,
        holds: Arc<AtomicBool>,
    ) -> Result<Outgoing, ControlError> {
        let head = InboxHead::map(inbox.memory)?;
        let memory = head.lane(own_slot)?;
        let mut position = Position {
            tail: memory.tail().load(Ordering::Relaxed),
            restart: memory.restart().load(Ordering::Relaxed),
            head: memory.head().load(Ordering::Acquire),
            extent: LANE,
            used: true,
        };
        if !are_sensible(position.tail, position.head, position.restart) {
            // Nothing that is there can be taken out, so it begins anew where the receiver is.
            position.tail = position.head;
            position.restart = position.head;
        }
        holds.store(true, Ordering::Relaxed);
        let is_empty = position.tail == position.head;
        let lane = Outgoing {
            inbox: head,
            wake: inbox.wake,
            memory,
            mark: (usize::from(own_slot) / 64, 1 << (own_slot % 64)),
            position: Mutex::new(position),
            holds,
        };
        if !is_empty {
            // Who put it in may have been killed before he could say so, and it may be all that there is room for.
            lane.tell();
        }
        Ok(lane)
    }

    /// Whether the receiving process has gone. Its slot may be another's by now.
    pub(crate) fn is_closed(&self) -> bool {
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

    /// Puts in the packets that `iov` describes; `segment` is their size when there are several.
    ///
    /// Fails with `WouldBlock` when there is no room, and with `EFAULT` when memory is not mapped any more; nothing is put in then.
    pub(crate) fn send(
        &self,
        label: &Label,
        iov: &[libc::iovec],
        segment: Option<u16>,
    ) -> io::Result<()> {
        let len: usize = iov.iter().map(|piece| piece.iov_len).sum();
        let mut position = self.position.lock();
        let at = self.room(&mut position, span(len))?;
        let record = Record {
            len: len as u32,
            segment: segment.unwrap_or(0),
            traffic_class: label.traffic_class,
            hop_limit: label.hop_limit,
            from: address_gid(label.from),
            to: address_gid(label.to),
        };
        // SAFETY: `room` found `span(len)` bytes at `at`, inside the lane and not the receiver's before the tail says so. `at` is a
        // multiple of ALIGN.
        let mut to = unsafe {
            let to = self.memory.bytes().add(at);
            to.cast::<Record>().write(record);
            to.add(HEADER)
        };
        for piece in iov {
            // SAFETY: the pieces are the engine's own or of registered ranges, whose keys our caller holds the table's lock of;
            // the short ones are all the engine's. The sum of their lengths is `len`.
            unsafe {
                match piece.iov_len <= COPY_LIMIT {
                    true => to.copy_from_nonoverlapping(piece.iov_base.cast(), piece.iov_len),
                    false => guard::copy(to, piece.iov_base.cast(), piece.iov_len)
                        .map_err(|_| io::Error::from_raw_os_error(libc::EFAULT))?,
                }
            };
            to = to.wrapping_add(piece.iov_len);
        }
        position.tail = position.tail.wrapping_add(span(len) as u64);
        position.extent = position.extent.max(at + span(len));
        position.used = true;
        self.publish(&position);
        drop(position);
        if !self.holds.load(Ordering::Relaxed) {
            self.holds.store(true, Ordering::Relaxed);
        }
        self.tell();
        Ok(())
    }

    /// Shows the receiver how far the lane is filled.
    fn publish(&self, position: &Position) {
        let Position { tail, restart, .. } = *position;
        marks::publish((self.memory.tail(), tail), (self.memory.restart(), restart));
    }

    /// Marks the lane, and wakes the receiver if he sleeps.
    fn tell(&self) {
        let (word, bit) = self.mark;
        if marks::mark(self.inbox.pending(word), bit, self.inbox.sleeping()) {
            wake(&self.wake);
        }
    }

    /// Finds room for so many bytes in one piece; returns where. What is skipped for that is part of the tail then, though not
    /// published before the record is.
    fn room(&self, position: &mut Position, needed: usize) -> io::Result<usize> {
        let at = self.begin_again_if_empty(position);
        let left = LANE - at;
        let skipped = if needed > left { left } else { 0 };
        let there = |position: &Position| position.tail.wrapping_sub(position.head);
        let fits = |there: u64| there + (skipped + needed) as u64 <= LANE as u64;
        if there(position) > LANE as u64 || !fits(there(position)) {
            position.head = self.taken();
            if there(position) > LANE as u64 {
                // Somebody has written where only one end may. The receiver, who believes himself alone, sees this and says where he is.
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
        // SAFETY: `at` is inside the lane and a multiple of ALIGN, which a Record does not exceed; the bytes are ours.
        unsafe { self.memory.bytes().add(at).cast::<u32>().write(SKIP) };
        position.tail = position.tail.wrapping_add(skipped as u64);
        Ok(0)
    }

    /// Where in the ring the next record comes: at the start, if there is nothing in it any more.
    fn begin_again_if_empty(&self, position: &mut Position) -> usize {
        let at = place(position.tail, position.restart);
        if at < HOT {
            return at;
        }
        position.head = self.taken();
        if position.head != position.tail {
            return at;
        }
        position.restart = position.tail;
        0
    }

    /// Gives the lane's memory back, if there is nothing in it and nothing was put in since the last call. Returns whether it may
    /// still have some.
    pub(crate) fn give_back(&self) -> bool {
        let Some(mut position) = self.position.try_lock() else {
            return true;
        };
        if std::mem::take(&mut position.used) || self.taken() != position.tail {
            return true;
        }
        if position.extent != 0 {
            // Where it cannot be given back it is kept, and not asked for again before more is used. The next record begins at the
            // start: what a receiver has not seen yet is nothing.
            position.restart = position.tail;
            // SAFETY: there is nothing in the lane, and only its sender puts something in, who holds the lock. A receiver
            // reads what is published, which is nothing.
            unsafe { self.memory.give_back(position.extent) };
            position.extent = 0;
        }
        false
    }
}

/// A lane's positions or lengths cannot be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Nonsense;

/// The receiver's end.
pub(crate) struct Incoming {
    memory: LaneMemory,
    head: u64,
}

/// A record, as long as it has not been taken.
pub(crate) struct Arrived<'a> {
    pub(crate) label: Label,
    /// Bytes of each packet but the last; 0: there is one.
    pub(crate) segment: usize,
    /// The packets.
    pub(crate) bytes: Octets<'a>,
}

impl Incoming {
    fn new(memory: LaneMemory) -> Incoming {
        let head = memory.head().load(Ordering::Relaxed);
        Incoming { memory, head }
    }

    /// Gives the next record to `f` and takes it out. `Ok(None)`: there is none. `Err`: what is there makes no sense, and all of it
    /// is thrown away.
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
        if record.len == SKIP && at != 0 && there > (LANE - at) as u64 {
            self.head = self.head.wrapping_add((LANE - at) as u64);
            there -= (LANE - at) as u64;
            at = 0;
            record = self.record(at);
        }
        let len = record.len as usize;
        if len > LANE || span(len) as u64 > there || at + span(len) > LANE {
            return self.throw_away(tail);
        }
        let bytes = Octets::Shared(&self.bytes()[at + HEADER..][..len]);
        let label = Label {
            from: gid_address(record.from),
            to: gid_address(record.to),
            traffic_class: record.traffic_class,
            hop_limit: record.hop_limit,
        };
        let result = f(Arrived {
            label,
            segment: record.segment.into(),
            bytes,
        });
        self.advance(self.head.wrapping_add(span(len) as u64));
        Ok(Some(result))
    }

    /// Says again how far it is taken out, if somebody else has said otherwise.
    fn restate(&self) {
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
        // SAFETY: LANE bytes, mapped as long as `self` is; nobody in this process writes to them but by `Outgoing`, which does not
        // hold references to them.
        unsafe { std::slice::from_raw_parts(self.memory.bytes().cast(), LANE) }
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

/// All lanes that lead to this process.
pub(crate) struct Inbox {
    head: InboxHead,
    /// The receiver has stopped somewhere in the middle.
    unfinished: AtomicBool,
}

/// What the receiver knows of the lanes, under the lock of receiving.
#[derive(Default)]
pub(crate) struct Lanes {
    lanes: Vec<(u8, Incoming)>,
    /// Marks that were cleared in the head, of lanes that may hold more.
    marked: [u64; 4],
    /// The slot whose turn is next, so that a busy sender does not keep others waiting.
    next: u8,
}

impl Inbox {
    pub(crate) fn new(memory: OwnedFd) -> Result<Inbox, ControlError> {
        Ok(Inbox {
            head: InboxHead::map(memory)?,
            unfinished: AtomicBool::new(false),
        })
    }

    /// Whether there may be something to take.
    pub(crate) fn is_marked(&self) -> bool {
        self.unfinished.load(Ordering::Relaxed)
            || (0..4).any(|word| self.head.pending(word).load(Ordering::Relaxed) != 0)
    }

    /// Announces a sleep. `false`: there is something to take first.
    pub(crate) fn falling_asleep(&self) -> bool {
        marks::announce(self.head.sleeping(), || self.is_marked())
    }

    pub(crate) fn awake(&self) {
        marks::over(self.head.sleeping());
    }

    /// Gives records to `f`, from one marked lane after the other, until it says that this is enough or nothing is left. `broken` is
    /// called for a lane that made no sense.
    pub(crate) fn take(
        &self,
        lanes: &mut Lanes,
        mut f: impl FnMut(Arrived<'_>) -> bool,
        mut broken: impl FnMut(),
    ) {
        for word in 0..4 {
            lanes.marked[word] |= marks::take(self.head.pending(word));
        }
        'lanes: for slot in lanes.in_turn() {
            let (word, bit) = (usize::from(slot) / 64, 1 << (slot % 64));
            let Some(lane) = self.lane(lanes, slot) else {
                lanes.marked[word] &= !bit;
                broken();
                continue;
            };
            loop {
                match lane.take(&mut f) {
                    Ok(Some(true)) => {}
                    Ok(Some(false)) => {
                        lanes.next = slot.wrapping_add(1);
                        break 'lanes;
                    }
                    Ok(None) => {
                        lane.restate();
                        break;
                    }
                    Err(Nonsense) => broken(),
                }
            }
            lanes.marked[word] &= !bit;
        }
        let unfinished = lanes.marked != [0; 4];
        self.unfinished.store(unfinished, Ordering::Relaxed);
    }

    fn lane<'a>(&self, lanes: &'a mut Lanes, slot: u8) -> Option<&'a mut Incoming> {
        let lanes = &mut lanes.lanes;
        let found = lanes.iter().position(|(known, _)| *known == slot);
        let index = match found {
            Some(index) => index,
            None => {
                let memory = self.head.lane(slot).ok()?;
                lanes.push((slot, Incoming::new(memory)));
                lanes.len() - 1
            }
        };
        Some(&mut lanes[index].1)
    }
}

impl Lanes {
    /// The slots of the marked lanes, from `next` on and around.
    fn in_turn(&self) -> impl Iterator<Item = u8> + use<> {
        let (marked, next) = (self.marked, self.next);
        let from = |slot: u8| {
            let (word, bit) = (usize::from(slot) / 64, slot % 64);
            let rest = marked[word] >> bit << bit;
            let later = (word + 1..4).map(move |word| (word, marked[word]));
            std::iter::once((word, rest)).chain(later)
        };
        let before = move |slot: &u8| *slot < next;
        bits(from(next)).chain(bits(from(0)).take_while(before))
    }
}

/// The numbers of the bits that are set.
fn bits(words: impl Iterator<Item = (usize, u64)>) -> impl Iterator<Item = u8> {
    words.flat_map(|(word, mut left)| {
        std::iter::from_fn(move || {
            let bit = (left != 0).then(|| left.trailing_zeros())?;
            left &= left - 1;
            Some((word * 64) as u8 + bit as u8)
        })
    })
}

/// For `fuzzing`: a lane whose sender writes `bytes` to its start again and again, each time says that it has put in `step` bytes
/// more, and marks it. What makes no sense is thrown away, and the lane is empty afterwards. Returns whether anything made sense.
#[cfg(feature = "fuzzing")]
pub(crate) fn hostile(fds: InboxFds, step: u64, times: u8, bytes: &[u8]) -> bool {
    let theirs = fds.duplicate().expect("the inbox's descriptors");
    let sender = Outgoing::open(theirs, 1, Arc::default()).expect("the lane");
    let inbox = Inbox::new(fds.memory).expect("the inbox");
    let mut lanes = Lanes::default();
    let mut taken = false;
    for n in 1..=u64::from(times % 16) {
        let len = bytes.len().min(LANE);
        // SAFETY: the lane has LANE bytes, and nobody reads or writes them at the moment.
        unsafe {
            let start = sender.memory.bytes();
            start.copy_from_nonoverlapping(bytes.as_ptr(), len);
        }
        let tail = step.wrapping_mul(n);
        sender.memory.tail().store(tail, Ordering::Release);
        let (word, bit) = sender.mark;
        inbox.head.pending(word).fetch_or(bit, Ordering::SeqCst);

        let mut records = 0;
        let each = |arrived: Arrived<'_>| {
            assert!(arrived.bytes.len() <= LANE);
            records += 1;
            true
        };
        inbox.take(&mut lanes, each, || {});
        assert!(records <= LANE / ALIGN);
        assert_eq!(sender.taken(), tail, "something is left");
        taken |= records > 0;
    }
    taken
}

#[cfg(test)]
#[path = "lane_tests.rs"]
mod tests;
