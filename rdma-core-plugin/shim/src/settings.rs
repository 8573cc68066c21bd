//! Files of the image that a program opens to write. Most of the kernel's cannot be, whoever
//! asks, and those that can take each write as a whole. Here what is written is appended, so that
//! the daemon can tell it from what was there.

use crate::sys;
use libc::c_int;
use std::ffi::CStr;

/// What the kernel's own file system of that kind says that it is (`statfs(2)`).
const SYSFS_MAGIC: u64 = 0x6265_6572;

/// What is to become of a file that is opened to be written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Writing {
    /// What the program asks for.
    AsAsked,
    /// It is refused with this `errno`.
    Refused(c_int),
    /// It is opened to append.
    Appended,
}

/// Whether these flags of `open(2)` are for writing.
pub(crate) fn writes(flags: c_int) -> bool {
    flags & libc::O_ACCMODE != libc::O_RDONLY
}

/// What is to become of `target`, to which the image leads for the path that a program has named.
pub(crate) fn look(named: &CStr, target: &CStr, creates: bool) -> Writing {
    if !named.to_bytes().starts_with(b"/sys/") {
        return Writing::AsAsked;
    }
    let fd = sys::open(target, libc::O_PATH);
    if fd < 0 {
        return match creates && sys::errno() == libc::ENOENT {
            true => Writing::Refused(libc::EACCES),
            false => Writing::AsAsked,
        };
    }
    let mode = sys::mode(fd);
    // Of a real device the image has links only.
    let real = sys::file_system(fd) == Some(SYSFS_MAGIC);
    sys::close(fd);
    match mode {
        Some(mode) if !real && mode & libc::S_IFMT == libc::S_IFREG => match mode & 0o222 {
            0 => Writing::Refused(libc::EACCES),
            _ => Writing::Appended,
        },
        _ => Writing::AsAsked,
    }
}

/// Opens a file to append, whatever these flags say of what is in it.
pub(crate) fn open(target: &CStr, flags: c_int) -> c_int {
    let other = libc::O_CREAT | libc::O_EXCL | libc::O_TRUNC;
    let fd = sys::open(target, flags & !other | libc::O_APPEND);
    if fd >= 0 && flags & libc::O_CLOEXEC == 0 {
        sys::keep_over_exec(fd);
    }
    fd
}

/// The mode by which `fopen(3)` opens a file to append, instead of this one. `None`: this one is
/// for reading.
pub(crate) fn appending(mode: &CStr) -> Option<&'static CStr> {
    let mode = mode.to_bytes();
    let reads_too = mode.contains(&b'+');
    let cloexec = mode.contains(&b'e');
    match (reads_too, cloexec) {
        (false, _) if mode.first() == Some(&b'r') => None,
        (true, true) => Some(c"a+e"),
        (true, false) => Some(c"a+"),
        (false, true) => Some(c"ae"),
        (false, false) => Some(c"a"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_writes_appends_and_what_reads_does_not() {
        for (mode, appending_by) in [
            (c"r", None),
            (c"re", None),
            (c"w", Some(c"a")),
            (c"we", Some(c"ae")),
            (c"r+", Some(c"a+")),
            (c"a+be", Some(c"a+e")),
        ] {
            assert_eq!(appending(mode), appending_by);
        }
        assert!(writes(libc::O_WRONLY) && writes(libc::O_RDWR | libc::O_CLOEXEC));
        assert!(!writes(libc::O_RDONLY | libc::O_NONBLOCK));
    }

    #[test]
    fn only_what_is_writable_is_written() {
        let named = c"/sys/class/infiniband/ferroce0/x";
        let look = |target: &CStr, creates| look(named, target, creates);
        assert_eq!(look(c"/no/such/file", false), Writing::AsAsked);
        let refused = Writing::Refused(libc::EACCES);
        assert_eq!(look(c"/no/such/file", true), refused);
        assert_eq!(look(c"/", true), Writing::AsAsked);
        // A real one, and one that is none.
        assert_eq!(look(c"/sys/kernel/uevent_seqnum", false), Writing::AsAsked);
        assert_eq!(look(c"/proc/self/maps", false), refused);
        assert_eq!(look(c"/proc/self/comm", false), Writing::Appended);
        let device = super::look(c"/dev/infiniband/x", c"/proc/self/maps", false);
        assert_eq!(device, Writing::AsAsked);
    }
}
