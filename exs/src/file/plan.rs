//! Reading and checking what an application asks for.

use std::ffi::CStr;
use std::fs::{File, OpenOptions};
use std::mem::ManuallyDrop;
use std::os::fd::{AsRawFd, FromRawFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use super::{Extent, Piece, Plan};
use crate::abi::{EXS_FDVEC, EXS_IOVEC, EXS_PATHVEC, EXS_SHUT_WR, EXS_XFERVEC_MAX, XferFile};
use crate::errno::{Errno, Result};
use crate::library::Library;
use crate::memory::{self, Use};

/// Reads and checks a vector; nothing has happened when it fails.
pub fn plan(library: &Library, vector: usize, count: i32, used: Use, limit: u64) -> Result<Plan> {
    let count = usize::try_from(count).map_err(|_| Errno(libc::EINVAL))?;
    if count == 0 || count > EXS_XFERVEC_MAX || vector == 0 {
        return Err(Errno(libc::EINVAL));
    }
    let mut extents = Vec::with_capacity(count);
    let mut shut = false;
    for index in 0..count {
        let bytes = memory::read_bytes(
            vector + index * size_of::<XferFile>(),
            size_of::<XferFile>(),
        )?;
        // SAFETY: integers only, of which any bytes are good.
        let element = unsafe { bytes.as_ptr().cast::<XferFile>().read_unaligned() };
        let (extent, flags) = extent(library, &element, used)?;
        let known = if used == Use::Send { EXS_SHUT_WR } else { 0 };
        if flags & !known != 0 {
            return Err(Errno(libc::EINVAL));
        }
        shut |= flags & EXS_SHUT_WR != 0;
        extents.push(extent);
    }
    if used == Use::Send && limit > 0 {
        let total: u64 = extents.iter().map(Extent::length).sum();
        if total > limit {
            return Err(Errno(libc::EFBIG));
        }
    }
    Ok(Plan { extents, shut })
}

fn extent(library: &Library, element: &XferFile, used: Use) -> Result<(Extent, i32)> {
    match element.exs_xfv_type {
        EXS_IOVEC => {
            // SAFETY: integers only, of which any bytes are good.
            let iov = unsafe { element.exs_xfv.exs_iov };
            if iov.exs_iov_base == 0 || iov.exs_iov_len == 0 {
                return Err(Errno(libc::EINVAL));
            }
            let extent = Extent::Memory(Piece {
                address: iov.exs_iov_base,
                length: iov.exs_iov_len,
                mhandle: iov.exs_iov_mhandle,
                memory: crate::api::memory_of(library, iov.exs_iov_mhandle)?,
            });
            Ok((extent, 0))
        }
        EXS_FDVEC => {
            // SAFETY: as above.
            let fdv = unsafe { element.exs_xfv.exs_fdv };
            let file = borrow(fdv.exs_fildes)?;
            let extent = part(file, fdv.exs_offset, fdv.exs_length, used)?;
            Ok((extent, fdv.exs_flags))
        }
        EXS_PATHVEC => {
            // SAFETY: as above.
            let pathv = unsafe { element.exs_xfv.exs_pathv };
            let file = open(pathv.exs_path, pathv.exs_offset, used)?;
            let extent = part(file, pathv.exs_offset, pathv.exs_length, used)?;
            Ok((extent, pathv.exs_flags))
        }
        _ => Err(Errno(libc::EINVAL)),
    }
}

/// A descriptor of the application's, as one of our own.
fn borrow(fd: i32) -> Result<File> {
    if fd < 0 {
        return Err(Errno(libc::EINVAL));
    }
    // SAFETY: the file is not closed here; whether the descriptor is open the call finds out.
    let theirs = ManuallyDrop::new(unsafe { File::from_raw_fd(fd) });
    theirs
        .try_clone()
        .map_err(|error| match Errno::from(error) {
            Errno(libc::EBADF) => Errno(libc::EINVAL),
            error => error,
        })
}

fn open(path: usize, offset: i64, used: Use) -> Result<File> {
    if path == 0 {
        return Err(Errno(libc::EINVAL));
    }
    // SAFETY: the application gives a string.
    let path = unsafe { CStr::from_ptr(path as *const _) };
    let path = Path::new(std::ffi::OsStr::from_bytes(path.to_bytes()));
    let mut options = OpenOptions::new();
    // Not to wait for the other end of a FIFO, which is refused anyway.
    options.custom_flags(libc::O_NONBLOCK | libc::O_NOCTTY);
    match used {
        Use::Send => options.read(true),
        Use::Receive => options.write(true).create(true).mode(0o666),
    };
    let file = options
        .open(path)
        .map_err(|error| match Errno::from(error) {
            Errno(libc::ENOENT | libc::ENOTDIR | libc::ENAMETOOLONG | libc::ELOOP) => {
                Errno(libc::EINVAL)
            }
            // A directory, or a FIFO without a reader, cannot be written; nor could it be mapped.
            Errno(libc::EISDIR | libc::ENXIO) => Errno(libc::ENODEV),
            error => error,
        })?;
    if used == Use::Receive && file.metadata()?.is_file() {
        let offset = u64::try_from(offset).map_err(|_| Errno(libc::EINVAL))?;
        file.set_len(offset)?;
    }
    Ok(file)
}

/// Checks what is asked of a file.
fn part(file: File, offset: i64, length: usize, used: Use) -> Result<Extent> {
    let metadata = file.metadata()?;
    if !metadata.is_file() {
        return Err(Errno(libc::ENODEV));
    }
    // SAFETY: asks for the flags of a descriptor of ours.
    let access = unsafe { libc::fcntl(file.as_raw_fd(), libc::F_GETFL) } & libc::O_ACCMODE;
    let barred = match used {
        Use::Send => libc::O_WRONLY,
        Use::Receive => libc::O_RDONLY,
    };
    if access == barred {
        return Err(Errno(libc::EACCES));
    }
    let offset = u64::try_from(offset).map_err(|_| Errno(libc::EINVAL))?;
    let asked = (length > 0).then_some(length as u64);
    let length = match used {
        Use::Send => {
            let size = metadata.len();
            let rest = size.checked_sub(offset).ok_or(Errno(libc::EINVAL))?;
            if asked.is_some_and(|asked| asked > rest) {
                return Err(Errno(libc::EINVAL));
            }
            Some(asked.unwrap_or(rest))
        }
        Use::Receive => asked,
    };
    Ok(Extent::File {
        file,
        offset,
        length,
    })
}
