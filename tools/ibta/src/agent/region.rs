//! Registered memory. The device reads and writes it whenever a peer says so, at the same time as
//! the agent looks at it: therefore there are no references to it, only copies, byte by byte.

use std::alloc::{Layout, alloc_zeroed, dealloc, handle_alloc_error};
use std::cell::Cell;
use std::mem::ManuallyDrop;
use std::ptr::NonNull;
use std::rc::Rc;

use ferroce_cabi::ibv_mr;

use super::library::{Verb, VerbsError};
use super::objects::{Pd, created};

const PAGE: usize = 4096;

/// Pages of memory.
struct Pages {
    start: NonNull<u8>,
    layout: Layout,
}

impl Pages {
    fn new(len: usize) -> Option<Pages> {
        let layout = Layout::from_size_align(len.max(1), PAGE).ok()?;
        // SAFETY: the layout's size is not 0.
        let start = unsafe { alloc_zeroed(layout) };
        let start = NonNull::new(start).unwrap_or_else(|| handle_alloc_error(layout));
        Some(Pages { start, layout })
    }
}

impl Drop for Pages {
    fn drop(&mut self) {
        // SAFETY: allocated with this layout, freed once, after the registration has gone.
        unsafe { dealloc(self.start.as_ptr(), self.layout) };
    }
}

/// A registered memory region.
pub(super) struct Region {
    pd: Rc<Pd>,
    raw: NonNull<ibv_mr>,
    lkey: u32,
    rkey: u32,
    pages: ManuallyDrop<Pages>,
    len: usize,
    deregistered: Cell<bool>,
}

impl Region {
    /// `ibv_reg_mr(3)` of so many fresh bytes, all zeros.
    ///
    /// # Errors
    /// What the device says; `EINVAL` for a length that no memory has.
    pub(super) fn new(pd: &Rc<Pd>, len: usize, access: i32) -> Verb<Rc<Region>> {
        let call = "ibv_reg_mr";
        let pages = Pages::new(len).ok_or(VerbsError {
            call,
            errno: libc::EINVAL,
        })?;

        let register = pd.device.library.ibv_reg_mr;

        // SAFETY: a live domain, and memory that lives until after the region is deregistered.
        let raw = unsafe { register(pd.raw.as_ptr(), pages.start.as_ptr().cast(), len, access) };
        let raw = created(call, raw)?;

        // SAFETY: made by the library; the keys never change.
        let (lkey, rkey) = unsafe { ((*raw.as_ptr()).lkey, (*raw.as_ptr()).rkey) };
        Ok(Rc::new(Region {
            pd: pd.clone(),
            raw,
            lkey,
            rkey,
            pages: ManuallyDrop::new(pages),
            len,
            deregistered: Cell::new(false),
        }))
    }

    /// `ibv_dereg_mr(3)`, once; a region that was deregistered can no longer be used, save for its
    /// bytes.
    pub(super) fn deregister(&self) -> Verb {
        if self.deregistered.get() {
            return Ok(());
        }
        // SAFETY: made by the library, and still registered.
        let returned = unsafe { (self.pd.device.library.ibv_dereg_mr)(self.raw.as_ptr()) };
        VerbsError::check("ibv_dereg_mr", returned)?;
        self.deregistered.set(true);
        Ok(())
    }

    /// Whether it is still registered.
    pub(super) fn is_live(&self) -> bool {
        !self.deregistered.get()
    }

    /// Address of the first byte.
    pub(super) fn address(&self) -> u64 {
        self.pages.start.as_ptr().addr() as u64
    }

    /// Whether all of these addresses are its own.
    pub(super) fn holds(&self, address: u64, len: u64) -> bool {
        let offset = address.checked_sub(self.address());
        let end = offset.and_then(|offset| offset.checked_add(len));
        end.is_some_and(|end| end <= self.len as u64)
    }

    /// Its L_Key.
    pub(super) fn lkey(&self) -> u32 {
        self.lkey
    }

    /// Its R_Key.
    pub(super) fn rkey(&self) -> u32 {
        self.rkey
    }

    /// For requests that bind a window to it; null if it was deregistered.
    pub(super) fn raw(&self) -> *mut ibv_mr {
        match self.deregistered.get() {
            true => std::ptr::null_mut(),
            false => self.raw.as_ptr(),
        }
    }

    /// Writes bytes from `offset` on; `None` if it is shorter, and then nothing is written.
    pub(super) fn write(&self, offset: usize, bytes: &[u8]) -> Option<()> {
        let end = offset.checked_add(bytes.len())?;
        (end <= self.len).then_some(())?;
        for (index, byte) in bytes.iter().enumerate() {
            // SAFETY: within the memory; volatile, as the device may use it at the same time.
            unsafe {
                self.pages
                    .start
                    .as_ptr()
                    .add(offset + index)
                    .write_volatile(*byte)
            };
        }
        Some(())
    }

    /// Reads `len` bytes from `offset` on; `None` if it is shorter.
    pub(super) fn read(&self, offset: usize, len: usize) -> Option<Vec<u8>> {
        let end = offset.checked_add(len)?;
        (end <= self.len).then_some(())?;
        // SAFETY: within the memory; volatile, as the device may use it at the same time.
        let byte = |at| unsafe { self.pages.start.as_ptr().add(at).read_volatile() };
        Some((offset..end).map(byte).collect())
    }
}

impl Drop for Region {
    fn drop(&mut self) {
        // What the device does not let go of (a window may be bound to it) it may still write to:
        // that memory stays.
        if self.deregister().is_ok() {
            // SAFETY: dropped once, here, and the device has let go of it.
            unsafe { ManuallyDrop::drop(&mut self.pages) };
        }
    }
}
