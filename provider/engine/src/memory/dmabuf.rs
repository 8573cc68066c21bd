//! dma-bufs: buffers of other devices, reached by mapping their descriptor.
//!
//! A hardware adapter would take the buffer's bus addresses. Here the processor makes the accesses,
//! so the exporter must allow a mapping, and the accesses are announced to it
//! (`DMA_BUF_IOCTL_SYNC`) for as long as the region lives.

use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd, RawFd};

use crate::error::{Error, Result};
use crate::memory::paging;

/// `DMA_BUF_MAGIC`: the type of the file system that dma-bufs are files of.
const MAGIC: i64 = 0x444d_4142;
/// `_IOW('b', 0, struct dma_buf_sync)`
const IOCTL_SYNC: libc::c_ulong = 0x4008_6200;
const SYNC_READ: u64 = 1;
const SYNC_WRITE: u64 = 2;
const SYNC_END: u64 = 4;

/// A mapped part of a dma-buf.
pub(crate) struct DmaBuf {
    fd: OwnedFd,
    /// What is mapped: the buffer up to the part's end.
    map: *mut libc::c_void,
    map_len: usize,
    /// Where the part begins in it.
    skip: usize,
    rights: u64,
}

// SAFETY: plain memory, accessed as registered memory is: by the guarded copies and atomics only.
unsafe impl Send for DmaBuf {}
// SAFETY: as above.
unsafe impl Sync for DmaBuf {}

impl DmaBuf {
    /// Maps `len` bytes from `offset`.
    pub(crate) fn map(fd: RawFd, offset: u64, len: u64, iova: u64, write: bool) -> Result<DmaBuf> {
        let outside = Error::Invalid("the range lies outside the dma-buf");
        let size = size(fd)?;
        if !paging::same_offset(offset, iova) {
            return Err(Error::Invalid("iova and offset differ within the page"));
        }
        if offset.checked_add(len).is_none_or(|end| end > size) {
            return Err(outside);
        }

        // SAFETY: `size` found the descriptor open; the program keeps it so during the call.
        let fd = unsafe { BorrowedFd::borrow_raw(fd) }
            .try_clone_to_owned()
            .map_err(|e| Error::io("dup of the dma-buf", e))?;
        let (Ok(skip), Ok(map_len)) = (usize::try_from(offset), usize::try_from(offset + len))
        else {
            return Err(outside);
        };

        let (protection, rights) = if write {
            (libc::PROT_READ | libc::PROT_WRITE, SYNC_READ | SYNC_WRITE)
        } else {
            (libc::PROT_READ, SYNC_READ)
        };

        // From the buffer's start: exporters built on the kernel's shmem helpers take no notice of
        // the offset of a mapping.
        // SAFETY: a new mapping at an address of the kernel's choice.
        let map = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                map_len,
                protection,
                libc::MAP_SHARED,
                fd.as_raw_fd(),
                0,
            )
        };

        if map == libc::MAP_FAILED {
            return Err(Error::last_os("mmap of the dma-buf"));
        }

        let buffer = DmaBuf {
            fd,
            map,
            map_len,
            skip,
            rights,
        };
        buffer.sync(0);
        Ok(buffer)
    }

    /// The process address of the part's first byte.
    pub(crate) fn addr(&self) -> u64 {
        self.map as u64 + self.skip as u64
    }

    /// Begins or ends the accesses. Exporters whose memory is coherent do nothing, and an error
    /// changes nothing for us.
    fn sync(&self, end: u64) {
        let flags = self.rights | end;
        // SAFETY: the request reads one 64-bit number.
        unsafe { libc::ioctl(self.fd.as_raw_fd(), IOCTL_SYNC as _, &raw const flags) };
    }
}

impl Drop for DmaBuf {
    fn drop(&mut self) {
        self.sync(SYNC_END);
        // SAFETY: our own mapping, to which no region refers any more.
        unsafe { libc::munmap(self.map, self.map_len) };
    }
}

/// The size of a dma-buf in bytes (`EBADF`: no such descriptor, `EINVAL`: of something else).
fn size(fd: RawFd) -> Result<u64> {
    // SAFETY: all zeroes is a valid value of these plain structures, which the calls fill in.
    unsafe {
        let mut system: libc::statfs = std::mem::zeroed();
        if libc::fstatfs(fd, &mut system) != 0 {
            return Err(Error::last_os("the dma-buf"));
        }
        #[allow(clippy::unnecessary_cast)]
        if system.f_type as i64 != MAGIC {
            return Err(Error::Invalid("the descriptor is not of a dma-buf"));
        }
        // A dma-buf has no size in its inode; seeking to its end is how it is asked.
        match libc::lseek(fd, 0, libc::SEEK_END) {
            -1 => Err(Error::last_os("lseek of the dma-buf")),
            size => Ok(size as u64),
        }
    }
}
