//! The memory that messages travel in, and how much of everything a connection has.

use std::alloc::{Layout, alloc_zeroed, dealloc};
use std::ptr::NonNull;

use crate::errno::{Errno, Result};
use crate::proto::ASIDE;
use crate::proto::message::HEADER;
use crate::verbs::{Device, Mr};

/// Receive slots for data messages.
pub(super) const DATA_SLOTS: usize = 16;
/// Receive slots for control messages.
pub(super) const CONTROL_SLOTS: usize = 32;
pub(super) const SLOTS: usize = DATA_SLOTS + CONTROL_SLOTS;
/// Bytes of payload in a slot.
pub(super) const PAYLOAD: usize = 4096;
pub(super) const SLOT: usize = HEADER + PAYLOAD;
/// Messages that can be posted at once.
pub(super) const DATA_POSTS: usize = 16;
pub(super) const CONTROL_POSTS: usize = 32;
pub(super) const RDMA_POSTS: usize = 16;
pub(super) const HEADERS: usize = DATA_POSTS + CONTROL_POSTS;
pub(super) const POSTS: usize = HEADERS + RDMA_POSTS;
/// Bytes of one RDMA READ or WRITE: well below any device's limit, large enough to fill the link.
pub(super) const PIECE: u64 = 4 << 20;

/// The memory that messages travel in: receive slots, then headers and payloads of what is posted,
/// and what is read aside.
/// The device reads and writes it, so that it is never borrowed as a whole.
pub(super) struct Slots {
    base: NonNull<u8>,
    mr: Option<Mr>,
}

// SAFETY: it owns its memory.
unsafe impl Send for Slots {}

impl Slots {
    pub(super) const SEND_HEADERS: usize = SLOTS * SLOT;
    pub(super) const SEND_PAYLOADS: usize = Self::SEND_HEADERS + HEADERS * HEADER;
    /// Where READs go whose receive has no registered memory.
    pub(super) const ASIDE: usize = Self::SEND_PAYLOADS + DATA_POSTS * PAYLOAD;
    const LENGTH: usize = Self::ASIDE + ASIDE as usize;
    const LAYOUT: Layout = match Layout::from_size_align(Self::LENGTH, 64) {
        Ok(layout) => layout,
        Err(_) => panic!("the layout of the slots"),
    };

    pub(super) fn new(device: &Device) -> Result<Self> {
        // SAFETY: the layout is not empty.
        let base =
            NonNull::new(unsafe { alloc_zeroed(Self::LAYOUT) }).ok_or(Errno(libc::ENOMEM))?;
        let mut slots = Self { base, mr: None };
        // SAFETY: it is ours alone; slots are read once their receive has completed. No peer is
        // told the key.
        let mr = unsafe { device.register(base.as_ptr() as usize, Self::LENGTH, true, false) }?;
        slots.mr = Some(mr);
        Ok(slots)
    }

    pub(super) fn lkey(&self) -> u32 {
        self.mr.as_ref().map_or(0, |mr| mr.lkey)
    }

    pub(super) fn address(&self, offset: usize) -> u64 {
        self.base.as_ptr() as u64 + offset as u64
    }

    /// A slot whose receive has completed.
    pub(super) fn slot(&self, slot: u32, length: usize) -> &[u8] {
        let slot = (slot as usize).min(SLOTS - 1);
        // SAFETY: within the memory; the device is done with the slot until it is posted again.
        unsafe { std::slice::from_raw_parts(self.base.as_ptr().add(slot * SLOT), length.min(SLOT)) }
    }

    /// What a READ has put aside, once it has completed.
    pub(super) fn aside(&self, length: usize) -> &[u8] {
        // SAFETY: within the memory; the device is done with it until another READ is posted.
        unsafe {
            std::slice::from_raw_parts(
                self.base.as_ptr().add(Self::ASIDE),
                length.min(ASIDE as usize),
            )
        }
    }

    /// Copies into the part that is sent from.
    ///
    /// # Safety
    /// There are `length` bytes at `from`.
    pub(super) unsafe fn fill(&mut self, place: usize, from: *const u8, length: usize) {
        assert!(place >= Self::SEND_HEADERS && place + length <= Self::LENGTH);
        // SAFETY: within our memory, in a place whose last post has completed; the caller answers
        // for the source.
        unsafe { std::ptr::copy_nonoverlapping(from, self.base.as_ptr().add(place), length) };
    }
}

impl Drop for Slots {
    fn drop(&mut self) {
        self.mr = None;
        // SAFETY: allocated with this layout, and the device has let go of it.
        unsafe { dealloc(self.base.as_ptr(), Self::LAYOUT) };
    }
}
