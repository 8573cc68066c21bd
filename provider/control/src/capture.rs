//! The memory through which a program hands what it sends and receives to who captures it.
//!
//! Each program has a ring of its own for each capture: the program alone writes to it, the reader
//! alone takes out. The daemon makes it, gives one descriptor to each of them, and says in it when
//! one of the two has gone. A program never waits: what finds no room is counted and left out, and
//! nobody is woken, as the reader looks by itself. What is in a ring is another process's; a
//! reader, who may be root, takes all of it for bytes ([`record`]).

mod reader;
pub mod record;
mod writer;

use std::fs::File;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use memmap2::{MmapOptions, MmapRaw};
use rustix::fs::{MemfdFlags, SealFlags};
use serde::{Deserialize, Serialize};

use crate::ControlError;

pub use reader::CaptureReader;
pub use writer::CaptureWriter;

const PAGE: usize = 4096;

/// Words of the first page, those of one writer in a cache line. The program's:
const TAIL: usize = 0;
const LOST: usize = 8;
/// The reader's.
const HEAD: usize = 128;
/// The daemon's.
const SNAP: usize = 256;
const VERBS: usize = 260;
const OVER: usize = 264;
const GONE: usize = 268;

/// All of these, for the test that holds them to the protocol's version.
#[cfg(test)]
pub(crate) const PLACES: [usize; 9] = [
    TAIL,
    LOST,
    HEAD,
    SNAP,
    VERBS,
    OVER,
    GONE,
    PAGE,
    record::HEADER,
];

/// The least and the most bytes of records that a ring may hold: 64 KiB and 1 GiB.
pub const LEAST_ROOM: u32 = 64 << 10;
/// See [`LEAST_ROOM`].
pub const MOST_ROOM: u32 = 1 << 30;

/// What a reader wants.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CaptureWish {
    /// Bytes that a program's ring holds, a multiple of 4096 from [`LEAST_ROOM`] to [`MOST_ROOM`].
    pub room: u32,
    /// Bytes that are kept of a packet, from its BTH or LRH on.
    pub snap: u32,
    /// Whether posts, completions and states of queue pairs are wanted, too.
    pub verbs: bool,
}

/// Whose packets a ring has.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CaptureSource {
    /// The program's slot; 0: the daemon itself, which sends and receives at QP0 and QP1.
    pub slot: u8,
    /// The process.
    pub pid: u32,
    /// The program's name.
    pub name: String,
}

/// The first page of a ring: how far it is filled and emptied, and who is still there.
#[derive(Debug)]
pub struct CaptureHead(MmapRaw);

impl CaptureHead {
    /// An empty ring, and its descriptor. Its memory is sealed against changes of size, which would
    /// end whoever has it mapped. `EINVAL`: no such ring can be.
    pub fn create(wish: &CaptureWish) -> Result<(CaptureHead, OwnedFd), ControlError> {
        let whole = wish.room.is_multiple_of(PAGE as u32);
        if !whole || !(LEAST_ROOM..=MOST_ROOM).contains(&wish.room) {
            return Err(ControlError::Refused {
                errno: crate::Errno::INVAL.raw_os_error(),
                message: format!(
                    "a buffer of {} bytes: it must be a multiple of {PAGE} from {LEAST_ROOM} to \
                     {MOST_ROOM}",
                    wish.room
                ),
            });
        }

        let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
        let memory = rustix::fs::memfd_create("ferroce-capture", flags)
            .map_err(ControlError::io("creating a ring of a capture"))?;
        let len = PAGE as u64 + u64::from(wish.room);
        rustix::fs::ftruncate(&memory, len)
            .map_err(ControlError::io("sizing a ring of a capture"))?;
        let seals = SealFlags::SHRINK | SealFlags::GROW | SealFlags::SEAL;
        rustix::fs::fcntl_add_seals(&memory, seals)
            .map_err(ControlError::io("sealing a ring of a capture"))?;

        let head = CaptureHead(map(memory.as_fd(), PAGE)?);
        head.flag(SNAP).store(wish.snap, Ordering::Relaxed);
        head.flag(VERBS).store(wish.verbs.into(), Ordering::Relaxed);
        Ok((head, memory))
    }

    /// The reader takes nothing out any more.
    pub fn end(&self) {
        self.flag(OVER).store(1, Ordering::Release);
    }

    /// The program puts nothing in any more.
    pub fn leave(&self) {
        self.flag(GONE).store(1, Ordering::Release);
    }

    fn is_set(&self, flag: usize) -> bool {
        self.flag(flag).load(Ordering::Acquire) != 0
    }

    fn word(&self, at: usize) -> &AtomicU64 {
        debug_assert!(at < PAGE && at.is_multiple_of(8));
        // SAFETY: inside the mapping's first page, which is page-aligned, shared, readable and
        // writable, lives as long as `self`, and is accessed through atomics only.
        unsafe { AtomicU64::from_ptr(self.0.as_mut_ptr().add(at).cast()) }
    }

    fn flag(&self, at: usize) -> &AtomicU32 {
        debug_assert!(at < PAGE && at.is_multiple_of(4));
        // SAFETY: as above.
        unsafe { AtomicU32::from_ptr(self.0.as_mut_ptr().add(at).cast()) }
    }
}

/// How many bytes of records the ring behind a descriptor holds.
fn room(memory: &File) -> Result<usize, ControlError> {
    let len = memory.metadata().map_err(|source| ControlError::Io {
        what: "measuring a ring of a capture",
        source,
    })?;
    let room = len.len().checked_sub(PAGE as u64);
    let room = room.filter(|room| room.is_multiple_of(PAGE as u64) && *room > 0);
    match room.and_then(|room| usize::try_from(room).ok()) {
        Some(room) => Ok(room),
        None => Err(ControlError::Malformed(format!(
            "a ring of a capture of {} bytes",
            len.len()
        ))),
    }
}

fn map(memory: BorrowedFd<'_>, len: usize) -> Result<MmapRaw, ControlError> {
    let mapped = MmapOptions::new().len(len).map_raw(&memory);
    mapped.map_err(|source| ControlError::Io {
        what: "mapping a ring of a capture",
        source,
    })
}

#[cfg(test)]
#[path = "capture_tests.rs"]
mod tests;
