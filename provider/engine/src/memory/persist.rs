//! What an RDMA FLUSH asks for: that data written before is visible to all of the host, or survives
//! the host.
//!
//! Peers' data is placed by processors, so it is visible to all once their stores are done.
//! Persistent is what is in a file: a region with persistent flush access must be of memory that
//! maps files (`MAP_SHARED`) which are on some storage, and a flush writes them back before it is
//! answered. On a DAX mapping that is a matter of caches; with any other file it waits for a disk,
//! and with it waits whatever else this process receives. So only consumers that ask for it at
//! registration are exposed to that.

use std::ffi::CString;
use std::os::unix::fs::MetadataExt;

use ferroce_transport::{MemoryError, Placement};

use crate::error::{Error, Result};
use crate::memory::paging;
use crate::memory::piece::Piece;

/// File systems that are nothing but memory; `f_type` of `statfs(2)`.
const OF_MEMORY: [libc::c_long; 3] = [libc::TMPFS_MAGIC, libc::HUGETLBFS_MAGIC, 0x8584_58f6];

/// Checks that a range maps files that outlive the host's memory, shared (`EINVAL`).
pub(crate) fn check(addr: u64, len: u64) -> Result<()> {
    let of_files = paging::pages(addr, len).is_some_and(|range| {
        paging::covered("/proc/thread-self/maps", &range, |about, _| {
            is_of_file(about)
        })
    });
    if of_files {
        Ok(())
    } else {
        Err(Error::Invalid(
            "persistent flush access needs a shared mapping of a file that is on storage",
        ))
    }
}

/// Whether a mapping of which the kernel says `about` (permissions, offset, device, inode, path) is
/// one of such a file.
fn is_of_file(about: &str) -> bool {
    let mut rest = about;
    let mut word = || {
        let (word, more) = rest.trim_start().split_once(' ')?;
        rest = more;
        Some(word)
    };
    let (Some(permissions), Some(_), Some(_), Some(inode)) = (word(), word(), word(), word())
    else {
        return false;
    };
    let path = rest.trim_start();
    permissions.as_bytes().get(3) == Some(&b's') && is_stored(path, inode)
}

/// Whether a path leads to this inode (it does not if the file was removed), on a file system that
/// is not of memory.
fn is_stored(path: &str, inode: &str) -> bool {
    let (Ok(file), Ok(c_path)) = (std::fs::metadata(path), CString::new(path)) else {
        return false;
    };
    // SAFETY: all bits zero is a valid value of these integers.
    let mut system: libc::statfs = unsafe { std::mem::zeroed() };
    // SAFETY: a string that ends in zero, and a structure to fill in.
    let known = unsafe { libc::statfs(c_path.as_ptr(), &raw mut system) } == 0;
    known
        && inode == file.ino().to_string()
        && !OF_MEMORY.contains(&(system.f_type as libc::c_long))
}

/// Returns when all that was stored in a piece before is placed where it is asked for.
pub(crate) fn place(of: Piece, placement: Placement) -> Result<(), MemoryError> {
    // Persistent data need not be visible (nor the other way round), but here it is both.
    std::sync::atomic::fence(std::sync::atomic::Ordering::SeqCst);
    if placement.contains(Placement::PERSISTENT) && of.len > 0 {
        write_back(of)?;
    }
    Ok(())
}

fn write_back(of: Piece) -> Result<(), MemoryError> {
    let range = paging::pages(of.addr, of.len as u64).ok_or(MemoryError::Fault)?;
    let len = (range.end - range.start) as usize;
    // SAFETY: writing back changes no memory; the kernel refuses ranges that are not mapped.
    match unsafe { libc::msync(range.start as *mut _, len, libc::MS_SYNC) } {
        0 => Ok(()),
        _ => Err(MemoryError::Fault),
    }
}
