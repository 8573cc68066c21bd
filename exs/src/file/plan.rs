//! Reading and checking what an application asks for.
//!
//! Nothing of a file changes before the first bytes, or the end, have come: a call that is refused,
//! or a transfer to which nothing comes, leaves files as they were, and those that it has made are
//! gone again.

use std::fs::{self, File, OpenOptions};
use std::io::ErrorKind;
use std::mem::ManuallyDrop;
use std::os::fd::{AsRawFd, FromRawFd};
use std::os::unix::ffi::OsStringExt;
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use super::{Extent, Piece};
use crate::abi::{
    EXS_FDVEC, EXS_IOVEC, EXS_PATHVEC, EXS_SHUT_WR, EXS_XFERVEC_MAX, FdVec, IoVec, PathVec,
    XferFile,
};
use crate::errno::{Errno, Result};
use crate::library::Library;
use crate::memory::{self, Use};

/// A checked vector.
pub(crate) struct Plan {
    pub(super) extents: Vec<Extent>,
    /// Shut down for writing afterwards.
    pub shut: bool,
    pub(super) files: Files,
}

/// What happens to the files of a receive when it begins.
#[derive(Default)]
pub(super) struct Files {
    /// Which of the extents are files that are cut at their offset.
    cut: Vec<usize>,
    /// Files that were made for it.
    made: Made,
}

/// Files that go again unless they are kept.
#[derive(Default)]
struct Made(Vec<(PathBuf, File)>);

impl Drop for Made {
    fn drop(&mut self) {
        for (path, file) in self.0.drain(..) {
            let same = || -> std::io::Result<bool> {
                let (named, ours) = (fs::symlink_metadata(&path)?, file.metadata()?);
                let identity = |of: &fs::Metadata| (of.dev(), of.ino());
                Ok(identity(&named) == identity(&ours) && ours.len() == 0)
            };
            // Not what somebody else has put there, or something in, meanwhile.
            if same().unwrap_or(false) {
                let _ = fs::remove_file(&path);
            }
        }
    }
}

/// Reads and checks a vector; nothing has happened when it fails, or when the plan is not begun.
pub(crate) fn plan(
    library: &Library,
    vector: usize,
    count: i32,
    used: Use,
    limit: u64,
) -> Result<Plan> {
    let elements = read(vector, count, used)?;
    let mut plan = Plan {
        extents: Vec::with_capacity(elements.len()),
        shut: elements.iter().any(Element::shuts),
        files: Files::default(),
    };

    for element in &elements {
        let extent = plan.extent(library, element, used)?;
        plan.extents.push(extent);
    }

    if used == Use::Send && limit > 0 {
        let total: u64 = plan.extents.iter().map(Extent::length).sum();
        if total > limit {
            return Err(Errno(libc::EFBIG));
        }
    }

    Ok(plan)
}

/// An element of a vector, whose numbers are in order.
enum Element {
    Memory(IoVec),
    Descriptor(FdVec),
    Path(PathVec, PathBuf),
}

impl Element {
    fn shuts(&self) -> bool {
        let flags = match self {
            Self::Memory(_) => 0,
            Self::Descriptor(fdv) => fdv.exs_flags,
            Self::Path(pathv, _) => pathv.exs_flags,
        };
        flags & EXS_SHUT_WR != 0
    }
}

fn read(vector: usize, count: i32, used: Use) -> Result<Vec<Element>> {
    let count = usize::try_from(count).map_err(|_| Errno(libc::EINVAL))?;
    if count == 0 || count > EXS_XFERVEC_MAX || vector == 0 {
        return Err(Errno(libc::EINVAL));
    }
    let bytes = memory::read_bytes(vector, count * size_of::<XferFile>())?;
    let elements = bytes.chunks_exact(size_of::<XferFile>());
    elements
        .map(|bytes| {
            // SAFETY: integers only, of which any bytes are good.
            let element = unsafe { bytes.as_ptr().cast::<XferFile>().read_unaligned() };
            read_element(&element, used)
        })
        .collect()
}

fn read_element(element: &XferFile, used: Use) -> Result<Element> {
    let known = if used == Use::Send { EXS_SHUT_WR } else { 0 };
    let good = |right: bool| right.then_some(()).ok_or(Errno(libc::EINVAL));
    match element.exs_xfv_type {
        EXS_IOVEC => {
            // SAFETY: integers only, of which any bytes are good.
            let iov = unsafe { element.exs_xfv.exs_iov };
            good(iov.exs_iov_base != 0 && iov.exs_iov_len != 0)?;
            Ok(Element::Memory(iov))
        }
        EXS_FDVEC => {
            // SAFETY: as above.
            let fdv = unsafe { element.exs_xfv.exs_fdv };
            good(fdv.exs_fildes >= 0 && fdv.exs_offset >= 0 && fdv.exs_flags & !known == 0)?;
            Ok(Element::Descriptor(fdv))
        }
        EXS_PATHVEC => {
            // SAFETY: as above.
            let pathv = unsafe { element.exs_xfv.exs_pathv };
            good(pathv.exs_path != 0 && pathv.exs_offset >= 0 && pathv.exs_flags & !known == 0)?;
            let path = memory::read_string(pathv.exs_path, libc::PATH_MAX as usize)
                .map_err(not_a_place)?;
            let path = PathBuf::from(std::ffi::OsString::from_vec(path));
            Ok(Element::Path(pathv, path))
        }
        _ => Err(Errno(libc::EINVAL)),
    }
}

impl Files {
    /// Something has come, or the end: those among these extents are cut, once, and kept.
    pub(super) fn begin(&mut self, extents: &[Extent]) -> Result<()> {
        for index in std::mem::take(&mut self.cut) {
            if let Extent::File { file, offset, .. } = &extents[index] {
                file.set_len(*offset)?;
            }
        }
        self.made.0.clear();
        Ok(())
    }
}

impl Plan {
    fn extent(&mut self, library: &Library, element: &Element, used: Use) -> Result<Extent> {
        match element {
            Element::Memory(iov) => Ok(Extent::Memory(Piece {
                address: iov.exs_iov_base,
                length: iov.exs_iov_len,
                mhandle: iov.exs_iov_mhandle,
                memory: crate::api::memory_of(library, iov.exs_iov_mhandle)?,
            })),
            Element::Descriptor(fdv) => {
                let file = borrow(fdv.exs_fildes)?;
                part(file, fdv.exs_offset, fdv.exs_length, used)
            }
            Element::Path(pathv, path) => {
                let file = match used {
                    Use::Send => open(path, OpenOptions::new().read(true)),
                    Use::Receive => {
                        self.files.cut.push(self.extents.len());
                        self.open_or_make(path)
                    }
                }?;
                part(file, pathv.exs_offset, pathv.exs_length, used)
            }
        }
    }

    fn open_or_make(&mut self, path: &Path) -> Result<File> {
        match open_plainly(path, OpenOptions::new().write(true)) {
            Err(error) if error.kind() == ErrorKind::NotFound => {}
            found => return found.map_err(not_a_file),
        }
        let mut making = OpenOptions::new();
        let file = open(path, making.write(true).create(true).mode(0o666))?;
        // Where it really is: the directory may be changed meanwhile, and the name be a link.
        let real = fs::canonicalize(path)?;
        self.files.made.0.push((real, file.try_clone()?));
        Ok(file)
    }
}

/// A descriptor of the application's, as one of our own.
fn borrow(fd: i32) -> Result<File> {
    // SAFETY: the file is not closed here; whether the descriptor is open the call finds out.
    let theirs = ManuallyDrop::new(unsafe { File::from_raw_fd(fd) });
    theirs
        .try_clone()
        .map_err(|error| match Errno::from(error) {
            Errno(libc::EBADF) => Errno(libc::EINVAL),
            error => error,
        })
}

fn open(path: &Path, options: &mut OpenOptions) -> Result<File> {
    open_plainly(path, options).map_err(not_a_file)
}

fn open_plainly(path: &Path, options: &mut OpenOptions) -> std::io::Result<File> {
    // Not to wait for the other end of a FIFO, which is refused anyway.
    options
        .custom_flags(libc::O_NONBLOCK | libc::O_NOCTTY)
        .open(path)
}

fn not_a_file(error: std::io::Error) -> Errno {
    match Errno::from(error) {
        // A directory, or a FIFO without a reader, cannot be written; nor could it be mapped.
        Errno(libc::EISDIR | libc::ENXIO) => Errno(libc::ENODEV),
        error => not_a_place(error),
    }
}

fn not_a_place(error: Errno) -> Errno {
    match error {
        Errno(libc::ENOENT | libc::ENOTDIR | libc::ENAMETOOLONG | libc::ELOOP) => {
            Errno(libc::EINVAL)
        }
        error => error,
    }
}

/// Whether it has bytes although it says that it is empty, as those of procfs do: it has none to
/// be mapped, and how much there is shows only when it is read. One that has just grown says so.
fn says_no_size(file: &File) -> Result<bool> {
    let read = file.read_at(&mut [0], 0).map_err(Errno::from)?;
    Ok(read > 0 && file.metadata()?.len() == 0)
}

/// Checks what is asked of a file, whose offset is not negative.
fn part(file: File, offset: i64, length: usize, used: Use) -> Result<Extent> {
    let metadata = file.metadata()?;
    if !metadata.is_file() {
        return Err(Errno(libc::ENODEV));
    }

    // SAFETY: asks for the flags of a descriptor of ours.
    let flags = unsafe { libc::fcntl(file.as_raw_fd(), libc::F_GETFL) };
    let barred = match used {
        Use::Send => libc::O_WRONLY,
        Use::Receive => libc::O_RDONLY,
    };
    if flags & libc::O_ACCMODE == barred {
        return Err(Errno(libc::EACCES));
    }
    // What is written goes to its end, wherever it is meant for.
    if used == Use::Receive && flags & libc::O_APPEND != 0 {
        return Err(Errno(libc::EINVAL));
    }

    let offset = u64::try_from(offset).map_err(|_| Errno(libc::EINVAL))?;
    let asked = (length > 0).then_some(length as u64);
    let length = match used {
        Use::Send => {
            let size = metadata.len();
            if size == 0 && says_no_size(&file)? {
                return Err(Errno(libc::ENODEV));
            }
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
