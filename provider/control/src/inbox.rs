//! The memory through which processes of one device hand packets to each other, without a socket.
//!
//! Each attached process has an inbox: a head that all senders share, and behind it a ring for each
//! slot that may send. Only that slot's process writes to a ring, and only the owner of the inbox
//! reads it; so nobody ever waits for another sender, dead or alive. A ring that nobody uses has no
//! memory, and what a sender has used is given back when he has gone. What is in the rings, and in
//! which order it is written and read, is the engine's to know.
//!
//! The daemon makes an inbox, hands it to its owner and to those who ask for it, and marks it when
//! the owner goes. All are processes of one user (see [`Client::connect`](crate::Client::connect)).

use std::fs::File;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use memmap2::{MmapOptions, MmapRaw};
use rustix::event::EventfdFlags;
use rustix::fs::{FallocateFlags, MemfdFlags, SealFlags};

use crate::ControlError;

/// Rings of an inbox, one for each number that a slot can have.
const LANES: usize = 256;
const PAGE: usize = 4096;
/// Bytes of a ring that packets go through.
pub const RING_BYTES: usize = 2 << 20;
/// A ring: a page of its own for the two ends' positions, then the packets.
const LANE_SPAN: usize = PAGE + RING_BYTES;
const SPAN: usize = PAGE + LANES * LANE_SPAN;

/// Words of the head, each in a cache line of its own that suits who writes it.
const PENDING: usize = 0;
const SLEEPING: usize = 128;
const CLOSED: usize = 256;
/// Words of a ring's page; those of the sender's in one cache line.
const TAIL: usize = 0;
const RESTART: usize = 8;
const HEAD: usize = 128;

/// All of these, for the test that holds them to the protocol's version.
#[cfg(test)]
pub(crate) const PLACES: [usize; 9] = [
    PENDING, SLEEPING, CLOSED, TAIL, RESTART, HEAD, LANES, PAGE, RING_BYTES,
];

/// The descriptors of an inbox.
#[derive(Debug)]
pub struct InboxFds {
    /// The memory.
    pub memory: OwnedFd,
    /// An eventfd that wakes the owner.
    pub wake: OwnedFd,
}

impl InboxFds {
    /// An inbox that is empty. Its memory is sealed against changes of size, which would end
    /// whoever has it mapped.
    pub fn create() -> Result<InboxFds, ControlError> {
        let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
        let memory = rustix::fs::memfd_create("ferroce-inbox", flags)
            .map_err(ControlError::io("creating an inbox"))?;
        rustix::fs::ftruncate(&memory, SPAN as u64).map_err(ControlError::io("sizing an inbox"))?;
        rustix::fs::fcntl_add_seals(
            &memory,
            SealFlags::SHRINK | SealFlags::GROW | SealFlags::SEAL,
        )
        .map_err(ControlError::io("sealing an inbox"))?;
        let wake = rustix::event::eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)
            .map_err(ControlError::io("creating an eventfd"))?;
        Ok(InboxFds { memory, wake })
    }

    /// Others of the same.
    pub fn duplicate(&self) -> Result<InboxFds, ControlError> {
        let copy = |fd: &OwnedFd| {
            fd.try_clone().map_err(|source| ControlError::Io {
                what: "duplicating a descriptor of an inbox",
                source,
            })
        };
        Ok(InboxFds {
            memory: copy(&self.memory)?,
            wake: copy(&self.wake)?,
        })
    }

    /// For senders: nobody takes anything out any more.
    pub fn close(&self) -> Result<(), ControlError> {
        rustix::io::pwrite(&self.memory, &1u32.to_ne_bytes(), CLOSED as u64)
            .map(drop)
            .map_err(ControlError::io("closing an inbox"))
    }

    /// Gives the memory of a ring back, if all that was put in has been taken out, or never can be.
    /// For the daemon, when nobody has the slot.
    pub fn reclaim(&self, slot: u8) -> Result<(), ControlError> {
        let ring = (PAGE + usize::from(slot) * LANE_SPAN) as u64;
        let position = |at: usize| -> Result<u64, ControlError> {
            let mut bytes = [0; 8];
            rustix::io::pread(&self.memory, &mut bytes, ring + at as u64)
                .map_err(ControlError::io("reading a ring's positions"))?;
            Ok(u64::from_ne_bytes(bytes))
        };
        let (tail, head) = (position(TAIL)?, position(HEAD)?);
        let is_corrupt = tail.wrapping_sub(head) > RING_BYTES as u64;
        if tail == 0 && head == 0 || tail != head && !is_corrupt {
            return Ok(());
        }
        punch(&self.memory, ring + PAGE as u64, RING_BYTES)
    }
}

/// The head of an inbox, mapped. Clones are the same memory.
#[derive(Clone, Debug)]
pub struct InboxHead {
    map: Arc<MmapRaw>,
    memory: Arc<File>,
}

impl InboxHead {
    /// Maps what [`InboxFds::create`] made in some process.
    pub fn map(memory: OwnedFd) -> Result<InboxHead, ControlError> {
        let memory = File::from(memory);
        let len = memory.metadata().map_err(|source| ControlError::Io {
            what: "measuring an inbox",
            source,
        })?;
        if len.len() != SPAN as u64 {
            let why = format!("an inbox of {} bytes", len.len());
            return Err(ControlError::Malformed(why));
        }
        let map = map(memory.as_fd(), 0, PAGE)?;
        Ok(InboxHead {
            map: Arc::new(map),
            memory: Arc::new(memory),
        })
    }

    /// Bits of the rings into which something was put since they were last cleared: 64 to a word, 4
    /// words.
    pub fn pending(&self, word: usize) -> &AtomicU64 {
        assert!(word < LANES / 64);
        // SAFETY: inside the first page (see `cell`), and 8-byte aligned.
        unsafe { AtomicU64::from_ptr(self.cell(PENDING + word * 8).cast()) }
    }

    /// 1: the owner sleeps, and whoever puts something in and finds it so makes it 0 and wakes him.
    pub fn sleeping(&self) -> &AtomicU32 {
        // SAFETY: inside the first page, and 4-byte aligned.
        unsafe { AtomicU32::from_ptr(self.cell(SLEEPING).cast()) }
    }

    /// Whether the owner has gone.
    pub fn is_closed(&self) -> bool {
        // SAFETY: inside the first page, and 4-byte aligned.
        unsafe { AtomicU32::from_ptr(self.cell(CLOSED).cast()) }.load(Ordering::Relaxed) != 0
    }

    fn cell(&self, at: usize) -> *mut u8 {
        debug_assert!(at < PAGE);
        // SAFETY: the mapping is PAGE bytes long, page-aligned, readable and writable, and lives as
        // long as `self`. Other processes have it too, and all go through atomics.
        unsafe { self.map.as_mut_ptr().add(at) }
    }

    /// The ring of a slot, mapped.
    pub fn ring(&self, slot: u8) -> Result<RingMemory, ControlError> {
        let at = (PAGE + usize::from(slot) * LANE_SPAN) as u64;
        Ok(RingMemory {
            map: map(self.memory.as_fd(), at, LANE_SPAN)?,
            memory: self.memory.clone(),
            at,
        })
    }
}

/// A ring, mapped.
#[derive(Debug)]
pub struct RingMemory {
    map: MmapRaw,
    /// The inbox, and where in it the ring begins.
    memory: Arc<File>,
    at: u64,
}

impl RingMemory {
    /// How many bytes have been put in since the ring was made. The sender's.
    pub fn tail(&self) -> &AtomicU64 {
        // SAFETY: inside the mapping's first page, which is page-aligned, shared, and accessed
        // through atomics only.
        unsafe { AtomicU64::from_ptr(self.map.as_mut_ptr().add(TAIL).cast()) }
    }

    /// How many had been put in when the ring last began at its start. The sender's.
    pub fn restart(&self) -> &AtomicU64 {
        // SAFETY: as above.
        unsafe { AtomicU64::from_ptr(self.map.as_mut_ptr().add(RESTART).cast()) }
    }

    /// How many bytes have been taken out. The receiver's.
    pub fn head(&self) -> &AtomicU64 {
        // SAFETY: as above.
        unsafe { AtomicU64::from_ptr(self.map.as_mut_ptr().add(HEAD).cast()) }
    }

    /// Gives the memory of the first `len` bytes back, in whole pages; they are zero then. Where
    /// the system does not do that they stay as they are.
    ///
    /// # Safety
    /// No process reads or writes these bytes at the moment, or expects anything of them.
    pub unsafe fn give_back(&self, len: usize) {
        let len = len.next_multiple_of(PAGE).min(RING_BYTES);
        let _ = punch(&self.memory, self.at + PAGE as u64, len);
    }

    /// The first of [`RING_BYTES`] bytes, page-aligned, which live as long as `self`. The other
    /// process may write at any moment.
    pub fn bytes(&self) -> *mut u8 {
        self.map.as_mut_ptr().wrapping_add(PAGE)
    }
}

/// Gives memory back.
fn punch(memory: impl AsFd, at: u64, len: usize) -> Result<(), ControlError> {
    let flags = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
    rustix::fs::fallocate(memory, flags, at, len as u64)
        .map_err(ControlError::io("giving a ring's memory back"))
}

fn map(memory: BorrowedFd<'_>, at: u64, len: usize) -> Result<MmapRaw, ControlError> {
    let mapped = MmapOptions::new().offset(at).len(len).map_raw(&memory);
    mapped.map_err(|source| ControlError::Io {
        what: "mapping an inbox",
        source,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_see_the_same_ring_and_no_other() {
        let inbox = InboxFds::create().unwrap();
        let ours = InboxHead::map(inbox.duplicate().unwrap().memory).unwrap();
        let theirs = InboxHead::map(inbox.duplicate().unwrap().memory).unwrap();
        let rings = [3, 4, 255].map(|slot| (ours.ring(slot).unwrap(), theirs.ring(slot).unwrap()));
        for (n, (a, b)) in rings.iter().enumerate() {
            a.tail().store(n as u64 + 1, Ordering::Relaxed);
            b.head().store(n as u64 + 7, Ordering::Relaxed);
            // SAFETY: the last byte of the ring.
            unsafe { a.bytes().add(RING_BYTES - 1).write(n as u8 + 20) };
        }

        for (n, (a, b)) in rings.iter().enumerate() {
            assert_eq!(b.tail().load(Ordering::Relaxed), n as u64 + 1);
            assert_eq!(a.head().load(Ordering::Relaxed), n as u64 + 7);
            assert_eq!(
                // SAFETY: as above.
                unsafe { b.bytes().add(RING_BYTES - 1).read() },
                n as u8 + 20
            );
        }

        ours.pending(3).store(1 << 63, Ordering::Relaxed);
        assert_eq!(theirs.pending(3).load(Ordering::Relaxed), 1 << 63);
        assert!(!theirs.is_closed());
        inbox.close().unwrap();
        assert!(theirs.is_closed() && ours.is_closed());
    }

    #[test]
    fn a_ring_gives_its_memory_back_when_it_has_been_emptied() {
        let inbox = InboxFds::create().unwrap();
        let ring = InboxHead::map(inbox.duplicate().unwrap().memory).unwrap();
        let ring = ring.ring(8).unwrap();

        // SAFETY: the whole ring.
        unsafe { ring.bytes().write_bytes(1, RING_BYTES) };
        let blocks = || rustix::fs::fstat(&inbox.memory).unwrap().st_blocks;
        ring.tail().store(RING_BYTES as u64, Ordering::Relaxed);
        let full = blocks();
        inbox.reclaim(8).unwrap();
        assert_eq!(blocks(), full, "something is in it");
        ring.head().store(RING_BYTES as u64, Ordering::Relaxed);
        inbox.reclaim(7).unwrap();
        assert_eq!(blocks(), full, "another ring");
        inbox.reclaim(8).unwrap();
        assert_eq!(full - blocks(), RING_BYTES as i64 / 512);
        assert_eq!(ring.tail().load(Ordering::Relaxed), RING_BYTES as u64);

        // Positions that cannot be will never agree.
        // SAFETY: the whole ring.
        unsafe { ring.bytes().write_bytes(1, RING_BYTES) };
        assert_eq!(blocks(), full);
        ring.tail().store(7, Ordering::Relaxed);
        inbox.reclaim(8).unwrap();
        assert_eq!(full - blocks(), RING_BYTES as i64 / 512);
    }

    #[test]
    fn a_sender_gives_back_what_it_has_used() {
        let inbox = InboxFds::create().unwrap();
        let ring = InboxHead::map(inbox.duplicate().unwrap().memory).unwrap();
        let ring = ring.ring(8).unwrap();
        let blocks = || rustix::fs::fstat(&inbox.memory).unwrap().st_blocks;
        let empty = blocks();
        // SAFETY: the first bytes of the ring, which is nobody else's.
        unsafe {
            ring.bytes().write_bytes(1, 100_000);
            assert!(blocks() > empty);
            ring.give_back(100_000);
            assert_eq!(blocks(), empty);
            assert_eq!(ring.bytes().read(), 0);
        }
    }

    #[test]
    fn its_size_is_fixed_and_other_files_are_refused() {
        let inbox = InboxFds::create().unwrap();
        assert!(rustix::fs::ftruncate(&inbox.memory, 0).is_err());
        let file = tempfile::tempfile().unwrap();
        assert!(InboxHead::map(file.into()).is_err());
    }
}
