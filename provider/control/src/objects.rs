//! Which verbs objects a client has: a table in memory that the client writes and the daemon reads,
//! for whoever asks what there is.
//!
//! The client enters an object when it makes it, changes the entry when something in it changes,
//! and takes it out at the end; so the daemon can tell of all clients at any time, of those that
//! are stopped or busy too, and asks nobody. Nothing of it is in the way of data. An entry has no
//! memory before it is used, and numbers are used again, so the table takes as much as the client
//! had objects at most.
//!
//! Behind the table there is a bit for each queue pair: whether its peer has been heard of. The
//! daemon's connection manager looks at it, where a message of the peer's that says the same may
//! have been lost. Behind the bits are rows of numbers ([`QpRow`]), of which each has one, that its
//! entry names; those of a completion queue are in its entry ([`CqNumbers`]).
//!
//! The daemon trusts nothing that it reads but for showing it, and for what concerns this client's
//! own connections.

mod numbers;
mod object;
mod queue;
mod row;

use std::fmt;
use std::fs::File;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use memmap2::{MmapOptions, MmapRaw};
use rustix::fs::{MemfdFlags, Mode, SealFlags};

use crate::ControlError;
use object::OBJECT;

pub use numbers::{LastError, Pace, QpAttributes, QpNumbers, QpProgress};
pub use object::{Object, QueuePair};
pub use queue::CqNumbers;
pub use row::{QP_COUNTERS, QpMoment, QpRow};

/// Entries: more than a client can have objects. The numbers of the device's objects have the slot
/// above these bits.
pub const MAX_OBJECTS: u32 = 1 << 21;
/// Words of 8 bytes of an entry, and of the head, whose first word is how many entries were ever
/// used.
const WORDS: usize = 8;
const ROWS: usize = 1 + MAX_OBJECTS as usize;
/// Queue pairs that a process can have.
const QUEUE_PAIRS: usize = 1 << 16;
/// Rows of the bits of queue pairs, one for each of the numbers that a process has.
const HEARD: usize = QUEUE_PAIRS / (WORDS * u64::BITS as usize);
/// Where the rows of numbers begin, in words.
const NUMBERS: usize = (ROWS + HEARD) * WORDS;
/// All that there is, in words: behind the bits a row for each queue pair.
const ALL: usize = NUMBERS + QUEUE_PAIRS * row::WORDS;
const SPAN: usize = ALL * size_of::<u64>();
/// What the protocol's version says of the layout: see [`VERSION`](crate::protocol::VERSION).
#[cfg(test)]
pub(crate) const PLACES: [usize; 3] = [
    ROWS * WORDS * size_of::<u64>(),
    NUMBERS * size_of::<u64>(),
    SPAN,
];
/// The word of an entry that counts its users.
const USERS: usize = 1;

/// The table, mapped.
pub struct ObjectTable {
    map: MmapRaw,
    /// The generation of the process that enters objects. A forked child has the same memory, but
    /// not these objects.
    owner: u32,
    free: Mutex<Free>,
    /// The same of rows.
    rows: Mutex<Free>,
    /// Of a table that was made here: the descriptor for who may read it.
    shared: Option<OwnedFd>,
}

/// Numbers that may be used: those given back, and all from `next`.
#[derive(Default)]
struct Free {
    back: Vec<u32>,
    next: u32,
}

impl Free {
    /// One of the numbers below `most`, if there is one.
    fn take(&mut self, most: u32) -> Option<u32> {
        let again = self.back.pop();
        if again.is_none() && self.next < most {
            self.next += 1;
            return Some(self.next - 1);
        }
        again
    }

    /// A look at them does not fail half-way, so that a thread that panics leaves nothing wrong.
    fn locked(free: &Mutex<Free>) -> MutexGuard<'_, Free> {
        free.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl ObjectTable {
    /// A new table, and the descriptor to hand to a client. Like a page of counters it cannot be
    /// made smaller.
    pub fn create() -> Result<(Self, OwnedFd), ControlError> {
        let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
        let fd = rustix::fs::memfd_create("ferroce-objects", flags)
            .map_err(ControlError::io("creating a table of objects"))?;
        rustix::fs::ftruncate(&fd, SPAN as u64)
            .map_err(ControlError::io("sizing a table of objects"))?;
        rustix::fs::fcntl_add_seals(&fd, SealFlags::SHRINK | SealFlags::GROW | SealFlags::SEAL)
            .map_err(ControlError::io("sealing a table of objects"))?;

        // Another user's program shall not open it for writing by way of `/proc`.
        rustix::fs::fchmod(&fd, Mode::RUSR | Mode::WUSR)
            .map_err(ControlError::io("closing a table of objects to others"))?;
        let shared = File::open(format!("/proc/thread-self/fd/{}", fd.as_raw_fd()));
        let shared = shared.map_err(|source| ControlError::Io {
            what: "opening a table of objects for reading",
            source,
        })?;

        let mut table = Self::map(fd.as_fd())?;
        table.shared = Some(shared.into());
        Ok((table, fd))
    }

    /// The descriptor for who may read the table, and through which nobody can write; only of one
    /// that was made here.
    pub fn shared(&self) -> Option<BorrowedFd<'_>> {
        self.shared.as_ref().map(AsFd::as_fd)
    }

    /// Maps the table behind a descriptor that came from [`create`](Self::create) in some process.
    pub fn from_fd(fd: OwnedFd) -> Result<Self, ControlError> {
        Self::map(measured(fd)?.as_fd())
    }

    fn map(fd: BorrowedFd<'_>) -> Result<Self, ControlError> {
        let map = MmapOptions::new().len(SPAN).map_raw(&fd);
        map.map(Self::mapped).map_err(not_mapped)
    }

    fn mapped(map: MmapRaw) -> Self {
        Self {
            map,
            owner: ferroce_process::generation(),
            free: Mutex::default(),
            rows: Mutex::default(),
            shared: None,
        }
    }

    /// Enters an object.
    pub fn enter(self: &Arc<Self>, object: Object) -> Listing {
        let mut free = Free::locked(&self.free);
        let number = free.take(MAX_OBJECTS);
        self.word(0, 0).store(free.next.into(), Ordering::Release);
        drop(free);
        let listing = Listing {
            table: self.clone(),
            number,
            gone: AtomicBool::new(false),
        };
        if let Some(number) = number {
            for word in 1 + OBJECT..WORDS {
                self.entry(number, word).store(0, Ordering::Relaxed);
            }
            listing.write(number, &object, false);
        }

        listing
    }

    /// The objects as of now, by number.
    pub fn objects(&self) -> Vec<(u32, Object)> {
        let used = self.word(0, 0).load(Ordering::Acquire);
        let used = u32::try_from(used).unwrap_or(MAX_OBJECTS).min(MAX_OBJECTS);
        let read = |number: u32| {
            let kind = self.entry(number, 0).load(Ordering::Acquire);
            let words = std::array::from_fn(|i| self.entry(number, i + 1).load(Ordering::Relaxed));
            Some((number, Object::from_words(kind, words)?))
        };
        (0..used).filter_map(read).collect()
    }

    /// Says whether a request of its peer's has arrived at a queue pair, which is named by the
    /// lower half of its number.
    pub fn set_heard(&self, qp: u16, heard: bool) {
        if !self.is_own() {
            return;
        }
        let (word, bit) = self.heard_bit(qp);
        match heard {
            true => word.fetch_or(bit, Ordering::Relaxed),
            false => word.fetch_and(!bit, Ordering::Relaxed),
        };
    }

    /// Whether a request of its peer's has arrived at a queue pair since it became ready to
    /// receive.
    pub fn heard(&self, qp: u16) -> bool {
        let (word, bit) = self.heard_bit(qp);
        word.load(Ordering::Relaxed) & bit != 0
    }

    fn heard_bit(&self, qp: u16) -> (&AtomicU64, u64) {
        let word = usize::from(qp) / u64::BITS as usize;
        let bit = 1 << (u32::from(qp) % u64::BITS);
        (self.word(ROWS + word / WORDS, word % WORDS), bit)
    }

    /// Whether it is this process's, and not its parent's from before a fork.
    fn is_own(&self) -> bool {
        self.owner == ferroce_process::generation()
    }

    fn entry(&self, number: u32, word: usize) -> &AtomicU64 {
        self.word(number as usize + 1, word)
    }

    fn word(&self, row: usize, word: usize) -> &AtomicU64 {
        assert!(row < ROWS + HEARD && word < WORDS);
        self.at(row * WORDS + word)
    }

    /// The word of all that has this place.
    #[inline]
    fn at(&self, index: usize) -> &AtomicU64 {
        assert!(index < ALL);
        let base = self.map.as_mut_ptr().cast::<u64>();
        // SAFETY: inside the mapping (asserted above), which is page-aligned and readable and lives
        // as long as `self`; it is writable but for [`Seen`], which writes nothing. The memory is
        // shared with other processes, and all access it through atomics only.
        unsafe { AtomicU64::from_ptr(base.add(index)) }
    }
}

/// A table of another process's, to look at: it cannot be written to.
#[derive(Debug)]
pub struct Seen(ObjectTable);

impl Seen {
    /// Maps the table behind [`ObjectTable::shared`] of some process.
    pub fn from_fd(fd: OwnedFd) -> Result<Self, ControlError> {
        let file = measured(fd)?;
        let map = MmapOptions::new().len(SPAN).map_raw_read_only(&file);
        map.map(|map| Self(ObjectTable::mapped(map)))
            .map_err(not_mapped)
    }

    /// The objects as of now, by number.
    pub fn objects(&self) -> Vec<(u32, Object)> {
        self.0.objects()
    }

    /// As [`ObjectTable::numbers`].
    pub fn numbers(&self, row: u16) -> QpNumbers {
        self.0.numbers(row)
    }

    /// As [`ObjectTable::cq_numbers`].
    pub fn cq_numbers(&self, number: u32) -> CqNumbers {
        self.0.cq_numbers(number)
    }
}

/// The file behind a descriptor, if it has a table's size.
fn measured(fd: OwnedFd) -> Result<File, ControlError> {
    let file = File::from(fd);
    let len = file.metadata().map_err(|source| ControlError::Io {
        what: "measuring a table of objects",
        source,
    })?;
    match len.len() == SPAN as u64 {
        true => Ok(file),
        false => Err(ControlError::Malformed(format!(
            "a table of objects of {} bytes",
            len.len()
        ))),
    }
}

fn not_mapped(source: std::io::Error) -> ControlError {
    ControlError::Io {
        what: "mapping a table of objects",
        source,
    }
}

impl fmt::Debug for ObjectTable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ObjectTable").finish_non_exhaustive()
    }
}

/// An object's place in the table. It leaves the table with this, or before.
#[derive(Debug)]
pub struct Listing {
    table: Arc<ObjectTable>,
    /// None where the table is full.
    number: Option<u32>,
    gone: AtomicBool,
}

impl Listing {
    /// The object's number.
    pub fn number(&self) -> u32 {
        self.number.unwrap_or(MAX_OBJECTS)
    }

    /// Something has changed, other than the number of users. One thread at a time may say so of an
    /// object.
    pub fn set(&self, object: Object) {
        if let Some(number) = self.writable() {
            self.write(number, &object, object.counts_users());
        }
    }

    /// Writes an entry, or all but how many users it has.
    fn write(&self, number: u32, object: &Object, but_users: bool) {
        let (kind, words) = object.words();
        for (i, word) in (1..).zip(words) {
            if i != USERS || !but_users {
                self.table.entry(number, i).store(word, Ordering::Relaxed);
            }
        }
        self.table.entry(number, 0).store(kind, Ordering::Release);
    }

    /// A domain or a completion queue has one user more.
    pub fn add_user(&self) {
        if let Some(number) = self.writable() {
            self.table
                .entry(number, USERS)
                .fetch_add(1, Ordering::Relaxed);
        }
    }

    /// It has one less.
    pub fn remove_user(&self) {
        if let Some(number) = self.writable() {
            self.table
                .entry(number, USERS)
                .fetch_sub(1, Ordering::Relaxed);
        }
    }

    /// The object is no more.
    pub fn remove(&self) {
        if let Some(number) = self.writable()
            && !self.gone.swap(true, Ordering::Relaxed)
        {
            self.table.entry(number, 0).store(0, Ordering::Relaxed);
            Free::locked(&self.table.free).back.push(number);
        }
    }

    /// The entry, if there is one and it is this process's.
    fn writable(&self) -> Option<u32> {
        let gone = self.gone.load(Ordering::Relaxed);
        self.number.filter(|_| !gone && self.table.is_own())
    }
}

impl Drop for Listing {
    fn drop(&mut self) {
        self.remove();
    }
}

#[cfg(test)]
mod tests;
