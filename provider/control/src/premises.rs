//! A runtime directory that is in use. A file in it, the *marker*, says that the directory is
//! ferroce's: what is there without it is somebody's, and is left alone. Who uses the directory
//! holds the marker's lock, and the last one to go removes the marker, and the directory if it was
//! made here.

use std::ffi::OsString;
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStringExt;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, Dir, FileType, FlockOperation, Mode, OFlags};
use rustix::io::Errno;

use crate::trust::{self, Distrust};

/// The marker's name.
pub(crate) const MARKER: &str = ".ferroce-runtime";
/// Bytes of the marker's first line.
const LINE: usize = 16;
/// The marker's first line where the directory was made here.
const MADE: &[u8; LINE] = b"made by ferroce\n";
/// And where it was there before, empty.
const FOUND: &[u8; LINE] = b"used by ferroce\n";
/// For who finds it.
const MEANING: &[u8] = b"This is a runtime directory of ferroce, an RDMA device in software.\n\
    What the daemon has put here is removed when it leaves.\n";
/// Of a directory without the marker.
const NOT_OURS: &str = "is not empty, and not ferroce's (there is no .ferroce-runtime in it): choose an empty directory, or one \
    that does not exist yet, with --runtime-dir or $FERROCE_RUNTIME_DIR";

/// A runtime directory that this process uses, and keeps from being removed. Dropped, it is removed
/// with whatever is ferroce's own, if nobody else uses it and nothing else is in it.
#[derive(Debug)]
pub struct Premises {
    path: PathBuf,
    directory: OwnedFd,
    parent: OwnedFd,
    name: OsString,
    marker: File,
}

impl Premises {
    /// Makes a directory, or takes one that has the marker or is empty. Other directories are
    /// refused.
    pub(crate) fn take(path: &Path) -> Result<Self, Distrust> {
        // Who leaves removes the directory: what was opened may be gone.
        for _ in 0..1_000 {
            if let Some(premises) = Self::try_take(path)? {
                return Ok(premises);
            }
        }
        Err(Distrust::unusable(path, "comes and goes"))
    }

    /// `None`: it has gone in this moment.
    fn try_take(path: &Path) -> Result<Option<Self>, Distrust> {
        let failed = |errno: Errno| Distrust::unusable(path, errno);
        let (parent, name) = trust::open_parent(path, true)?;
        let made = match trust::make_directory(&parent, &name, Mode::RWXU) {
            Ok(made) => made,
            Err(errno) => {
                return Err(Distrust::unusable(
                    path,
                    format!(
                        "cannot be created: {errno}; choose another directory with --runtime-dir or \
                         $FERROCE_RUNTIME_DIR"
                    ),
                ));
            }
        };

        let directory = match open_directory(&parent, &name, path, OFlags::RDONLY) {
            Err(Distrust::Missing(_)) => return Ok(None),
            opened => opened?,
        };

        let turn = Turn::take(&directory).map_err(failed)?;
        let Some(marker) = Self::mark(path, &directory, made)? else {
            return Ok(None);
        };

        drop(turn);
        Ok(Some(Self {
            path: path.to_path_buf(),
            directory,
            parent,
            name,
            marker,
        }))
    }

    /// Finds or makes the marker and locks it. `made`: this process has just made the directory.
    fn mark(path: &Path, directory: &OwnedFd, made: bool) -> Result<Option<File>, Distrust> {
        let failed = |errno: Errno| Distrust::unusable(path, errno);
        let flags = OFlags::RDWR | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let marker = match rustix::fs::openat(directory, MARKER, flags, Mode::empty()) {
            Ok(marker) => marker,
            Err(Errno::NOENT) => {
                match names(directory) {
                    // A directory that has been removed.
                    Err(Errno::NOENT) => return Ok(None),
                    Ok(names) if names.is_empty() => {}
                    Ok(_) => return Err(Distrust::unusable(path, NOT_OURS)),
                    Err(errno) => return Err(failed(errno)),
                }
                let new = flags | OFlags::CREATE | OFlags::EXCL;
                match open_or_make(directory, MARKER, new) {
                    Err(Errno::NOENT) => return Ok(None),
                    other => other.map_err(failed)?,
                }
            }
            Err(errno) => return Err(failed(errno)),
        };

        let place = path.join(MARKER);
        let stat = rustix::fs::fstat(&marker).map_err(failed)?;
        trust::owned(&place, &stat)?;
        if FileType::from_raw_mode(stat.st_mode) != FileType::RegularFile {
            return Err(Distrust::unusable(&place, "is no file"));
        }

        rustix::fs::flock(&marker, FlockOperation::LockShared).map_err(failed)?;
        let marker = File::from(marker);
        let os = |error: io::Error| Distrust::unusable(&place, error);
        let text = first_line(&marker).map_err(os)?;
        let write = |line: &[u8; LINE]| marker.write_all_at(line, 0).map_err(os);
        match &text {
            // Empty: of a process that was killed in the middle, or new.
            None => {
                marker.write_all_at(MEANING, LINE as u64).map_err(os)?;
                write(if made { MADE } else { FOUND })?;
            }
            // Somebody has found what this process has made.
            Some(line) if line == FOUND && made => write(MADE)?,
            Some(line) if line == FOUND || line == MADE => {}
            Some(_) => {
                return Err(Distrust::unusable(
                    &place,
                    "is not what ferroce writes there",
                ));
            }
        }

        Ok(Some(marker))
    }

    /// The directory's path.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The marker, for locks of other kinds than `flock`.
    pub fn marker(&self) -> BorrowedFd<'_> {
        self.marker.as_fd()
    }

    /// The directory itself, for what is deeper in it.
    pub fn descriptor(&self) -> BorrowedFd<'_> {
        self.directory.as_fd()
    }

    /// Removes a file, socket or symbolic link of the directory.
    pub fn remove(&self, name: &str) -> Result<(), Errno> {
        rustix::fs::unlinkat(&self.directory, name, AtFlags::empty())
    }

    /// Opens a directory in the directory; with `make`, makes it if it is missing. Symbolic links
    /// are not followed (`ELOOP`).
    pub fn directory(&self, name: &str, make: bool) -> Result<OwnedFd, Errno> {
        if make {
            trust::make_directory(&self.directory, name.as_ref(), Mode::RWXU)?;
        }
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        rustix::fs::openat(&self.directory, name, flags, Mode::empty())
    }

    /// Removes the symbolic links of a directory whose names are wanted, and the directory if
    /// nothing else is in it.
    pub fn remove_links(&self, name: &str, wanted: impl Fn(&str) -> bool) -> Result<(), Errno> {
        let directory = match self.directory(name, false) {
            Err(Errno::NOENT) => return Ok(()),
            opened => opened?,
        };
        for entry in names(&directory)? {
            let is_link = rustix::fs::readlinkat(&directory, &entry, Vec::new()).is_ok();
            if is_link && entry.to_str().is_some_and(&wanted) {
                rustix::fs::unlinkat(&directory, &entry, AtFlags::empty())?;
            }
        }
        match rustix::fs::unlinkat(&self.directory, name, AtFlags::REMOVEDIR) {
            Err(Errno::NOTEMPTY) => Ok(()),
            other => other,
        }
    }

    /// Opens a file of the directory; symbolic links are not followed (`ELOOP`). Files that are
    /// made are for this user alone.
    pub fn open(&self, name: &str, flags: OFlags) -> Result<File, Errno> {
        let flags = flags | OFlags::NOFOLLOW | OFlags::CLOEXEC | OFlags::NONBLOCK;
        open_or_make(&self.directory, name, flags).map(Into::into)
    }

    /// Whether the directory has that file under that name.
    pub fn has(&self, name: &str, file: &File) -> bool {
        let stat = rustix::fs::fstat(file);
        stat.is_ok_and(|stat| trust::is_there(&self.directory, name.as_ref(), &stat))
    }

    /// Gives a file of the directory another name there.
    pub fn rename(&self, from: &str, to: &str) -> Result<(), Errno> {
        rustix::fs::renameat(&self.directory, from, &self.directory, to)
    }

    fn leave(&self) -> Result<(), Errno> {
        let _turn = Turn::take(&self.directory)?;
        // Fails if anybody else holds it.
        rustix::fs::flock(&self.marker, FlockOperation::NonBlockingLockExclusive)?;
        if names(&self.directory)? != [MARKER] {
            return Ok(());
        }
        let made = first_line(&self.marker).is_ok_and(|line| line.as_ref() == Some(MADE));
        self.remove(MARKER)?;
        let stat = rustix::fs::fstat(&self.directory)?;
        if made && trust::is_there(&self.parent, &self.name, &stat) {
            rustix::fs::unlinkat(&self.parent, &self.name, AtFlags::REMOVEDIR)?;
        }
        Ok(())
    }
}

impl Drop for Premises {
    fn drop(&mut self) {
        // Where others use the directory it is theirs to remove.
        let _ = self.leave();
    }
}

/// Opens a file, or makes it if the flags say so, which this user can open again, whatever the
/// umask.
fn open_or_make(directory: &OwnedFd, name: &str, flags: OFlags) -> Result<OwnedFd, Errno> {
    let own = Mode::RUSR | Mode::WUSR;
    let file = rustix::fs::openat(directory, name, flags, own)?;
    let mode = Mode::from_raw_mode(rustix::fs::fstat(&file)?.st_mode);
    if flags.contains(OFlags::CREATE) && !mode.contains(own) {
        rustix::fs::fchmod(&file, own)?;
    }
    Ok(file)
}

/// Opens a directory that may be trusted with what is put there: root's or this user's, and nobody
/// else may write to it.
pub(crate) fn open_directory(
    parent: &OwnedFd,
    name: &OsString,
    path: &Path,
    flags: OFlags,
) -> Result<OwnedFd, Distrust> {
    let flags = flags | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let opened = match rustix::fs::openat(parent, name, flags, Mode::empty()) {
        Ok(opened) => opened,
        Err(Errno::NOENT) => return Err(Distrust::Missing(path.to_path_buf())),
        // A symbolic link is the one or the other, depending on the flags.
        Err(Errno::LOOP | Errno::NOTDIR) => {
            return Err(Distrust::unusable(
                path,
                "is a symbolic link or a file; give the directory itself",
            ));
        }
        Err(errno) => return Err(Distrust::unusable(path, errno)),
    };

    let stat = rustix::fs::fstat(&opened).map_err(|errno| Distrust::unusable(path, errno))?;
    trust::owned(path, &stat)?;
    trust::private(path, &stat)?;
    Ok(opened)
}

/// The right to make or remove the marker: a lock on the directory that is held for that long only.
struct Turn<'a>(&'a OwnedFd);

impl<'a> Turn<'a> {
    fn take(directory: &'a OwnedFd) -> Result<Self, Errno> {
        rustix::io::retry_on_intr(|| rustix::fs::flock(directory, FlockOperation::LockExclusive))?;
        Ok(Self(directory))
    }
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        let _ = rustix::fs::flock(self.0, FlockOperation::Unlock);
    }
}

/// The first line of a marker; `None` of an empty one.
fn first_line(marker: &File) -> io::Result<Option<[u8; LINE]>> {
    let mut line = [0; LINE];
    match marker.read_at(&mut line, 0)? {
        0 => Ok(None),
        _ => Ok(Some(line)),
    }
}

/// What is in a directory.
fn names(directory: &OwnedFd) -> Result<Vec<OsString>, Errno> {
    let mut names = Vec::new();
    for entry in Dir::read_from(directory)? {
        let name = entry?.file_name().to_bytes().to_vec();
        if name != b"." && name != b".." {
            names.push(OsString::from_vec(name));
        }
    }
    Ok(names)
}

#[cfg(test)]
#[path = "premises_tests.rs"]
mod tests;
