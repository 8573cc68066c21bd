//! Descriptors that are ours as long as they are of the file that they were made for.
//!
//! A program may close them all (`closefrom(3)`) and open files of its own, which get their
//! numbers. What is rare, or comes after a failure, looks first: what is written to the program's
//! file, or closed in its place, is the program's loss. What is done for each packet does not look.

use std::mem::ManuallyDrop;
use std::ops::Deref;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, IntoRawFd, OwnedFd, RawFd};

use crate::verbs::descriptor;

/// What a descriptor was of when it was made.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Mark {
    fd: RawFd,
    file: Option<(u64, u64)>,
}

impl Mark {
    pub(crate) fn of(fd: &impl AsRawFd) -> Mark {
        let fd = fd.as_raw_fd();
        Mark {
            fd,
            file: file_of(fd),
        }
    }

    /// Whether it still is that. A system call.
    pub(crate) fn is_ours(self) -> bool {
        self.file.is_some() && file_of(self.fd) == self.file
    }
}

/// Such a descriptor. Closed in the end, if it is ours by then.
#[derive(Debug)]
pub(crate) struct Own {
    fd: ManuallyDrop<OwnedFd>,
    mark: Mark,
}

/// Device and inode of what is open there.
pub(crate) fn file_of(fd: RawFd) -> Option<(u64, u64)> {
    descriptor::identify(fd, "looking at a descriptor").ok()
}

impl Own {
    /// Whether it still is what it was made as. A system call.
    pub(crate) fn is_ours(&self) -> bool {
        self.mark.is_ours()
    }
}

impl From<OwnedFd> for Own {
    fn from(fd: OwnedFd) -> Own {
        Own {
            mark: Mark::of(&fd),
            fd: ManuallyDrop::new(fd),
        }
    }
}

impl Deref for Own {
    type Target = OwnedFd;

    fn deref(&self) -> &OwnedFd {
        &self.fd
    }
}

impl AsFd for Own {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

impl AsRawFd for Own {
    fn as_raw_fd(&self) -> RawFd {
        self.fd.as_raw_fd()
    }
}

impl Drop for Own {
    fn drop(&mut self) {
        let ours = self.is_ours();
        // SAFETY: taken once, here.
        let fd = unsafe { ManuallyDrop::take(&mut self.fd) };
        match ours {
            true => drop(fd),
            false => drop(fd.into_raw_fd()),
        }
    }
}

/// Stands in for a program that has closed all descriptors: another file has the number of this
/// one, which is open at a number of its own from now on.
#[cfg(test)]
pub(crate) fn taken_by(fd: RawFd, other: &impl AsRawFd) -> OwnedFd {
    use std::os::fd::FromRawFd;
    // SAFETY: touches no memory; the copy is new, and whoever has `fd` looks first.
    unsafe {
        let copy = libc::fcntl(fd, libc::F_DUPFD_CLOEXEC, 0);
        assert!(copy >= 0 && libc::dup2(other.as_raw_fd(), fd) == fd);
        OwnedFd::from_raw_fd(copy)
    }
}

#[cfg(test)]
mod tests {
    use std::fs::File;

    use super::*;

    #[test]
    fn only_what_is_ours_is_closed() {
        let (reader, _writer) = std::io::pipe().unwrap();
        let own = Own::from(OwnedFd::from(reader));
        let fd = own.as_raw_fd();
        assert!(own.is_ours());

        let null = File::open("/dev/null").unwrap();
        let _kept = taken_by(fd, &null);
        assert!(!own.is_ours());
        drop(own);
        assert_eq!(file_of(fd), file_of(null.as_raw_fd()));
        // SAFETY: the copy that the test has made.
        unsafe { libc::close(fd) };
    }
}
