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
//! have been lost.
//!
//! The daemon trusts nothing that it reads but for showing it, and for what concerns this client's
//! own connections.

mod object;

use std::fmt;
use std::fs::File;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use memmap2::{MmapOptions, MmapRaw};
use rustix::fs::{MemfdFlags, SealFlags};

use crate::ControlError;

pub use object::{Object, QueuePair};

/// Entries: more than a client can have objects. The numbers of the device's objects have the slot
/// above these bits.
pub const MAX_OBJECTS: u32 = 1 << 21;
/// Words of 8 bytes of an entry, and of the head, whose first word is how many entries were ever
/// used.
const WORDS: usize = 8;
const ROWS: usize = 1 + MAX_OBJECTS as usize;
/// Rows of the bits of queue pairs, one for each of the 2^16 numbers that a process has.
const HEARD: usize = (1 << 16) / (WORDS * u64::BITS as usize);
const SPAN: usize = (ROWS + HEARD) * WORDS * size_of::<u64>();
/// What the protocol's version says of the layout: see [`VERSION`](crate::protocol::VERSION).
#[cfg(test)]
pub(crate) const PLACES: [usize; 2] = [ROWS * WORDS * size_of::<u64>(), SPAN];
/// The word of an entry that counts its users.
const USERS: usize = 1;

/// The table, mapped.
pub struct ObjectTable {
    map: MmapRaw,
    /// The process that enters objects. A forked child has the same memory, but not these objects.
    owner: u32,
    free: Mutex<Free>,
}

/// Numbers that may be used: those given back, and all from `next`.
#[derive(Default)]
struct Free {
    back: Vec<u32>,
    next: u32,
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
        let table = Self::map(fd.as_fd())?;
        Ok((table, fd))
    }

    /// Maps the table behind a descriptor that came from [`create`](Self::create) in some process.
    pub fn from_fd(fd: OwnedFd) -> Result<Self, ControlError> {
        let file = File::from(fd);
        let len = file.metadata().map_err(|source| ControlError::Io {
            what: "measuring a table of objects",
            source,
        })?;
        if len.len() != SPAN as u64 {
            let why = format!("a table of objects of {} bytes", len.len());
            return Err(ControlError::Malformed(why));
        }
        Self::map(file.as_fd())
    }

    fn map(fd: BorrowedFd<'_>) -> Result<Self, ControlError> {
        let map = MmapOptions::new().len(SPAN).map_raw(&fd);
        let map = map.map_err(|source| ControlError::Io {
            what: "mapping a table of objects",
            source,
        })?;
        Ok(Self {
            map,
            owner: std::process::id(),
            free: Mutex::default(),
        })
    }

    /// Enters an object.
    pub fn enter(self: &Arc<Self>, object: Object) -> Listing {
        let mut free = self.free.lock().unwrap_or_else(PoisonError::into_inner);
        let number = match free.back.pop() {
            Some(number) => Some(number),
            None if free.next < MAX_OBJECTS => {
                free.next += 1;
                self.word(0, 0).store(free.next.into(), Ordering::Release);
                Some(free.next - 1)
            }
            None => None,
        };

        drop(free);
        let listing = Listing {
            table: self.clone(),
            number,
            gone: AtomicBool::new(false),
        };
        if let Some(number) = number {
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
        if self.owner != std::process::id() {
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

    fn entry(&self, number: u32, word: usize) -> &AtomicU64 {
        self.word(number as usize + 1, word)
    }

    fn word(&self, row: usize, word: usize) -> &AtomicU64 {
        assert!(row < ROWS + HEARD && word < WORDS);
        let base = self.map.as_mut_ptr().cast::<u64>();
        // SAFETY: inside the mapping (asserted above), which is page-aligned, readable and writable
        // and lives as long as `self`. The memory is shared with another process, and both access
        // it through atomics only.
        unsafe { AtomicU64::from_ptr(base.add(row * WORDS + word)) }
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
            let mut free = self
                .table
                .free
                .lock()
                .unwrap_or_else(PoisonError::into_inner);
            free.back.push(number);
        }
    }

    /// The entry, if there is one and it is this process's.
    fn writable(&self) -> Option<u32> {
        let gone = self.gone.load(Ordering::Relaxed);
        self.number
            .filter(|_| !gone && self.table.owner == std::process::id())
    }
}

impl Drop for Listing {
    fn drop(&mut self) {
        self.remove();
    }
}

#[cfg(test)]
mod tests {
    use super::object::QP;
    use super::*;

    fn all() -> [Object; 8] {
        let qp = QueuePair {
            number: 0xff_fffe,
            qp_type: 10,
            state: 6,
            port: 8,
            pd: None,
            srq: None,
            remote: 0xab_cdef,
            sq_psn: 0xff_ffff,
            rq_psn: 1,
        };

        [
            Object::Context,
            Object::Pd {
                context: 0,
                users: 3,
            },
            Object::Cq {
                context: 7,
                cqe: u32::MAX,
                users: 0,
            },
            Object::Mr {
                pd: MAX_OBJECTS - 1,
                key: u32::MAX,
                len: u64::MAX,
            },
            Object::Srq {
                pd: 1,
                cq: None,
                srq_type: 0,
            },
            Object::Srq {
                pd: 1,
                cq: Some(0),
                srq_type: 2,
            },
            Object::Qp(qp),
            Object::Qp(QueuePair {
                pd: Some(0),
                srq: Some(MAX_OBJECTS - 1),
                ..QueuePair::default()
            }),
        ]
    }

    #[test]
    fn what_a_client_enters_the_daemon_sees() {
        let (daemon, fd) = ObjectTable::create().unwrap();
        let client = Arc::new(ObjectTable::from_fd(fd).unwrap());
        assert!(daemon.objects().is_empty());
        let listings = all().map(|object| client.enter(object));
        let numbered: Vec<_> = (0..).zip(all()).collect();
        assert_eq!(daemon.objects(), numbered);

        listings[1].add_user();
        listings[1].add_user();
        listings[1].remove_user();
        listings[1].set(Object::Pd {
            context: 5,
            users: 99,
        });

        listings[2].set(Object::Context);
        listings[4].remove();
        listings[4].set(Object::Context);
        let seen = daemon.objects();
        assert_eq!(seen.len(), 7);
        let domain = Object::Pd {
            context: 5,
            users: 4,
        };
        assert_eq!((seen[1].1, seen[2].1), (domain, Object::Context));

        // A number is used again.
        let next = client.enter(Object::Context);
        assert_eq!(next.number(), 4);
        drop(listings);
        assert_eq!(daemon.objects(), [(4, Object::Context)]);
    }

    #[test]
    fn of_which_queue_pairs_the_peers_were_heard() {
        let (daemon, fd) = ObjectTable::create().unwrap();
        let client = Arc::new(ObjectTable::from_fd(fd).unwrap());
        let last = client.enter(Object::Context);
        let some = [0, 1, 63, 64, 511, 512, 0x8000, u16::MAX];
        for qp in some {
            client.set_heard(qp, true);
        }
        let heard: Vec<u16> = (0..=u16::MAX).filter(|qp| daemon.heard(*qp)).collect();
        assert_eq!(heard, some);
        client.set_heard(64, false);
        client.set_heard(65, false);
        assert!(daemon.heard(63) && !daemon.heard(64));
        assert_eq!(daemon.objects(), [(last.number(), Object::Context)]);
    }

    #[test]
    fn a_table_cannot_be_shrunk_and_nothing_in_it_is_believed() {
        let (daemon, fd) = ObjectTable::create().unwrap();
        assert!(rustix::fs::ftruncate(&fd, 0).is_err());
        let write = |word: u64, at: usize| {
            rustix::io::pwrite(&fd, &word.to_ne_bytes(), (at * 8) as u64).unwrap();
        };
        write(3, 0);
        write(77, WORDS);
        write(QP, 2 * WORDS);
        write(u64::MAX, 2 * WORDS + 1);
        assert_eq!(daemon.objects().len(), 1);

        // More than there are.
        write(u64::MAX, 0);
        assert_eq!(daemon.objects().len(), 1);
        let file = tempfile::tempfile().unwrap();
        assert!(ObjectTable::from_fd(file.into()).is_err());
    }
}
