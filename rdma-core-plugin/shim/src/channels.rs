//! What the shim keeps of each channel of `rdma_cm`, by the channel's number: whose it is, and how
//! many records have been taken out of its descriptor. Copies of a descriptor are the same channel.

use crate::lock::{Guard, Lock};
use ferroce_cabi::ucma_frame::MAX_CHANNELS;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};

/// One channel.
pub(crate) struct Channel {
    /// The generation of the process that opened it; a child of its must not touch the lock, which
    /// a thread of its parent's may hold.
    owner: AtomicU32,
    taken: AtomicU32,
    inode: AtomicU64,
    /// A peer's answer to a step of a connection is due.
    is_due: AtomicBool,
    lock: Lock,
}

/// All channels that there can be. The pages of those that are not in use do not exist.
static CHANNELS: [Channel; MAX_CHANNELS] = [const {
    Channel {
        owner: AtomicU32::new(0),
        taken: AtomicU32::new(0),
        inode: AtomicU64::new(0),
        is_due: AtomicBool::new(false),
        lock: Lock::new(),
    }
}; MAX_CHANNELS];

/// The channel of a number.
pub(crate) fn by_number(number: u16) -> &'static Channel {
    &CHANNELS[usize::from(number)]
}

impl Channel {
    /// It is new, and of a process of generation `owner`.
    pub(crate) fn open(&self, owner: u32, inode: u64) {
        self.lock.reset();
        self.is_due.store(false, Ordering::Relaxed);
        self.taken.store(0, Ordering::Relaxed);
        self.inode.store(inode, Ordering::Relaxed);
        self.owner.store(owner, Ordering::Release);
    }

    /// Whether a process of that generation has opened it.
    pub(crate) fn is_of(&self, generation: u32) -> bool {
        self.owner.load(Ordering::Acquire) == generation
    }

    /// The inode number of its descriptor.
    pub(crate) fn inode(&self) -> u64 {
        self.inode.load(Ordering::Relaxed)
    }

    /// The right to take records, of the process that has opened it only.
    pub(crate) fn lock(&self) -> Guard<'_> {
        self.lock.lock()
    }

    /// How many records have been taken, modulo 2^32; exactly so many for whoever holds the lock.
    pub(crate) fn taken(&self) -> u32 {
        self.taken.load(Ordering::Relaxed)
    }

    /// Some more have been taken, under the lock.
    pub(crate) fn add_taken(&self, n: u32) {
        self.taken.fetch_add(n, Ordering::Relaxed);
    }

    /// A peer's answer to a step of a connection is due.
    pub(crate) fn expect_answer(&self) {
        self.is_due.store(true, Ordering::Relaxed);
    }

    /// Whether one is, once.
    pub(crate) fn take_due(&self) -> bool {
        self.is_due.load(Ordering::Relaxed) && self.is_due.swap(false, Ordering::Relaxed)
    }
}
