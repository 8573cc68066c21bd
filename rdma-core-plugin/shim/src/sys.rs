//! Small system calls for the shim's own use, made directly so that they meet no interposed function.

use libc::{c_char, c_int, c_long, stat};
use std::ffi::CStr;
use std::mem::MaybeUninit;

/// Sets the calling thread's `errno`.
pub fn set_errno(value: c_int) {
    // SAFETY: the C library returns a valid pointer to the calling thread's errno.
    unsafe { *libc::__errno_location() = value };
}

/// Sets `errno` and gives the value that says so.
pub fn fail(errno: c_int) -> c_int {
    set_errno(errno);
    -1
}

/// Opens a path; -1 on failure.
pub fn open(path: &CStr, flags: c_int) -> c_int {
    // SAFETY: a NUL-terminated path; no mode is needed as nothing is created.
    let fd: c_long = unsafe {
        libc::syscall(
            libc::SYS_openat,
            libc::AT_FDCWD,
            path.as_ptr(),
            flags | libc::O_CLOEXEC,
            0,
        )
    };
    fd as c_int
}

/// Closes a descriptor of the shim's own.
pub fn close(fd: c_int) {
    // SAFETY: closing a descriptor number touches no memory.
    unsafe { libc::syscall(libc::SYS_close, fd) };
}

/// Reads a whole small file; `None` if it cannot be opened or read.
pub fn read_file<'a>(path: &CStr, buffer: &'a mut [u8]) -> Option<&'a [u8]> {
    let fd = open(path, libc::O_RDONLY);
    if fd < 0 {
        return None;
    }
    // SAFETY: the buffer is writable for its length.
    let n = unsafe { libc::syscall(libc::SYS_read, fd, buffer.as_mut_ptr(), buffer.len()) };
    close(fd);
    let text = buffer.get(..usize::try_from(n).ok()?)?;
    Some(text.trim_ascii_end())
}

/// Is this descriptor `/dev/null`, to which the image's device files lead?
pub fn is_null_device(fd: c_int) -> bool {
    let mut st = MaybeUninit::<stat>::uninit();
    // SAFETY: the empty path with AT_EMPTY_PATH asks for the descriptor itself; the buffer has the kernel's layout.
    let r = unsafe {
        libc::syscall(
            libc::SYS_newfstatat,
            fd,
            c"".as_ptr() as *const c_char,
            st.as_mut_ptr(),
            libc::AT_EMPTY_PATH,
        )
    };
    if r != 0 {
        return false;
    }
    // SAFETY: filled in by the successful call.
    let st = unsafe { st.assume_init() };
    st.st_mode & libc::S_IFMT == libc::S_IFCHR && st.st_rdev == libc::makedev(1, 3)
}

/// A pipe with one descriptor open for both directions, close-on-exec; -1 and `errno` on failure.
pub fn pipe_both_ways() -> c_int {
    let mut ends = [-1 as c_int; 2];
    // SAFETY: the array has room for the two descriptors.
    if unsafe { libc::syscall(libc::SYS_pipe2, ends.as_mut_ptr(), libc::O_CLOEXEC) } != 0 {
        return -1;
    }
    let mut path = PathBuffer::new();
    path.push(b"/proc/self/fd/");
    path.push_number(ends[0].unsigned_abs());
    let both = path.as_cstr().map_or(-1, |p| open(p, libc::O_RDWR));
    ends.into_iter().for_each(close);
    both
}

/// A path put together on the stack.
pub struct PathBuffer {
    bytes: [u8; 512],
    len: usize,
}

impl PathBuffer {
    /// An empty path.
    pub fn new() -> Self {
        PathBuffer {
            bytes: [0; 512],
            len: 0,
        }
    }

    /// Appends; a path that grows too long stays too long.
    pub fn push(&mut self, part: &[u8]) {
        // One byte stays zero as the end.
        if let Some(room) = self
            .bytes
            .get_mut(self.len..self.len.saturating_add(part.len()))
            && self.len + part.len() < 512
        {
            room.copy_from_slice(part);
            self.len += part.len();
        } else {
            self.len = usize::MAX;
        }
    }

    /// Appends a decimal number.
    pub fn push_number(&mut self, mut value: u32) {
        let mut digits = [0; 10];
        let mut n = 0;
        for digit in digits.iter_mut().rev() {
            *digit = b'0' + (value % 10) as u8;
            value /= 10;
            n += 1;
            if value == 0 {
                break;
            }
        }
        if let Some(written) = digits.get(10 - n..) {
            self.push(written);
        }
    }

    /// The path, if it fitted.
    pub fn as_cstr(&self) -> Option<&CStr> {
        if self.len >= self.bytes.len() {
            return None;
        }
        CStr::from_bytes_until_nul(&self.bytes).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_put_together_and_overflow_is_seen() {
        let mut path = PathBuffer::new();
        path.push(b"/a/");
        path.push_number(0);
        path.push(b"/");
        path.push_number(4_294_967_295);
        assert_eq!(path.as_cstr(), Some(c"/a/0/4294967295"));
        path.push(&[b'x'; 600]);
        assert_eq!(path.as_cstr(), None);
        path.push(b"y");
        assert_eq!(path.as_cstr(), None);

        let mut full = PathBuffer::new();
        full.push(&[b'x'; 511]);
        assert_eq!(full.as_cstr().unwrap().to_bytes().len(), 511);
        full.push(b"y");
        assert_eq!(full.as_cstr(), None);
    }

    #[test]
    fn a_pipe_carries_both_ways() {
        let fd = pipe_both_ways();
        assert!(fd >= 0);
        let mut byte = [0u8; 1];
        // SAFETY: one readable and one writable byte.
        unsafe {
            assert_eq!(libc::write(fd, b"x".as_ptr().cast(), 1), 1);
            assert_eq!(libc::read(fd, byte.as_mut_ptr().cast(), 1), 1);
            assert_eq!(libc::fcntl(fd, libc::F_GETFD), libc::FD_CLOEXEC);
        }
        assert_eq!(&byte, b"x");
        assert!(!is_null_device(fd));
        close(fd);
        let null = open(c"/dev/null", libc::O_RDWR);
        assert!(is_null_device(null));
        close(null);
        assert!(!is_null_device(-1));
    }
}
