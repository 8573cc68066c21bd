//! Device memory: memory of the adapter's, which programs reach by copying and by registering it.
//!
//! The adapter is this process, so its memory is anonymous pages that the program is given no
//! address of. The limit is that of a small on-chip memory and counts for each process.

use std::ptr::NonNull;
use std::sync::Arc;

use ferroce_control::faults::Verb;
use parking_lot::Mutex;

use crate::error::{Error, Result};
use crate::memory::guard;
use crate::verbs::context::Context;
use crate::verbs::handles::Kind;

/// Copies begin and end at multiples of this, as with devices that are reached by words.
const WORD: u64 = 4;
/// Largest alignment that may be asked for: a page, which every allocation has.
const MAX_LOG_ALIGN: u32 = 12;

/// A buffer of device memory.
pub struct Dm {
    context: Arc<Context>,
    memory: Pages,
    len: u64,
    handle: u32,
    life: Mutex<Life>,
}

#[derive(Default)]
struct Life {
    /// Regions registered on it.
    users: u32,
    gone: bool,
}

impl Context {
    /// Allocates `len` bytes of device memory, all zero, aligned to 2^`log_align` bytes (at most
    /// 12).
    ///
    /// `EINVAL`: no bytes, or an alignment that cannot be had. `ENOMEM`: more than is left of the
    /// device's `max_dm_size`.
    pub fn alloc_dm(self: &Arc<Self>, len: u64, log_align: u32) -> Result<Arc<Dm>> {
        self.hca().allows(Verb::AllocDm)?;
        if len == 0 || log_align > MAX_LOG_ALIGN {
            return Err(Error::Invalid(
                "device memory of no bytes, or of an alignment beyond a page",
            ));
        }

        let len = len
            .checked_next_multiple_of(WORD)
            .ok_or(Error::Full("device memory"))?;
        let used = &self.hca().device_memory;
        used.take(len)?;
        let memory = Pages::new(len).inspect_err(|_| used.give_back(len))?;
        let dm = Arc::new(Dm {
            context: self.clone(),
            memory,
            len,
            handle: self.hca().new_handle(),
            life: Mutex::default(),
        });
        self.shared().add(Kind::DeviceMemory, dm.handle(), &dm);
        Ok(dm)
    }
}

impl Dm {
    /// A number that identifies the buffer in this process.
    pub fn handle(&self) -> u32 {
        self.handle
    }

    pub(crate) fn context(&self) -> &Arc<Context> {
        &self.context
    }

    /// The process address of a range. It may begin anywhere: what is registered need not be whole
    /// words, as copies must.
    pub(crate) fn range(&self, offset: u64, len: u64) -> Result<u64> {
        let inside = offset.checked_add(len).is_some_and(|end| end <= self.len);
        if !inside {
            return Err(Error::Invalid("a range outside the device memory"));
        }
        Ok(self.memory.0.as_ptr() as u64 + offset)
    }

    fn words(&self, offset: u64, len: usize) -> Result<u64> {
        if !offset.is_multiple_of(WORD) || !(len as u64).is_multiple_of(WORD) {
            return Err(Error::Invalid(
                "device memory is copied in words of 4 bytes",
            ));
        }
        if self.life.lock().gone {
            return Err(Error::Invalid("the device memory was freed"));
        }
        self.range(offset, len as u64)
    }

    /// Copies `len` bytes at `from` to `offset`. Both must be multiples of 4 and inside (`EINVAL`).
    ///
    /// # Safety
    /// `from` is readable for `len` bytes; memory that is not mapped is `EFAULT` where the engine's
    /// guard is effective.
    pub unsafe fn copy_in(&self, offset: u64, from: *const u8, len: usize) -> Result<()> {
        let to = self.words(offset, len)?;
        guard::admit_thread();
        // SAFETY: the range is in our own pages; the source is the caller's promise.
        unsafe { guard::copy(to as *mut u8, from, len) }.map_err(|_| Error::BadMemory {
            addr: from as u64,
            len: len as u64,
        })
    }

    /// Copies `len` bytes from `offset` to `to`. Offset and length must be multiples of 4 and
    /// inside (`EINVAL`).
    ///
    /// # Safety
    /// `to` is writable for `len` bytes; memory that is not mapped is `EFAULT` where the engine's
    /// guard is effective.
    pub unsafe fn copy_out(&self, offset: u64, to: *mut u8, len: usize) -> Result<()> {
        let from = self.words(offset, len)?;
        guard::admit_thread();
        // SAFETY: the range is in our own pages; the destination is the caller's promise.
        unsafe { guard::copy(to, from as *const u8, len) }.map_err(|_| Error::BadMemory {
            addr: to as u64,
            len: len as u64,
        })
    }

    pub(super) fn add_user(&self) -> Result<()> {
        let mut life = self.life.lock();
        if life.gone {
            return Err(Error::Invalid("the device memory was freed"));
        }
        life.users += 1;
        Ok(())
    }

    pub(super) fn remove_user(&self) {
        self.life.lock().users -= 1;
    }

    /// Ends the buffer (`EBUSY` while it is registered).
    pub fn free(&self) -> Result<()> {
        let mut life = self.life.lock();
        if life.users != 0 {
            return Err(Error::Busy("device memory"));
        }
        if !std::mem::replace(&mut life.gone, true) {
            let shared = self.context.shared();
            shared.forget(Kind::DeviceMemory, self.handle);
            self.context.hca().device_memory.give_back(self.len);
        }
        Ok(())
    }
}

/// Anonymous pages, unmapped when dropped.
struct Pages(NonNull<u8>, usize);

// SAFETY: plain memory, accessed as registered memory is: by the guarded copies and atomics only.
unsafe impl Send for Pages {}
// SAFETY: as above.
unsafe impl Sync for Pages {}

impl Pages {
    fn new(len: u64) -> Result<Pages> {
        let len = len as usize;

        // SAFETY: a fresh anonymous mapping.
        let at = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                len,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_PRIVATE | libc::MAP_ANONYMOUS,
                -1,
                0,
            )
        };

        match NonNull::new(at.cast::<u8>()) {
            Some(at) if at.as_ptr().cast() != libc::MAP_FAILED => Ok(Pages(at, len)),
            _ => Err(Error::last_os("mmap of device memory")),
        }
    }
}

impl Drop for Pages {
    fn drop(&mut self) {
        // SAFETY: our own mapping, to which no region refers any more.
        unsafe { libc::munmap(self.0.as_ptr().cast(), self.1) };
    }
}
