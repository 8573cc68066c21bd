//! Small system calls for the shim's own use, made directly so that they meet no interposed
//! function and are no cancellation points, but where it is said.

mod copy;
mod lent;
mod path;
mod socket;

pub(crate) use copy::copy_out;
pub(crate) use lent::Lent;
pub(crate) use path::PathBuffer;
pub(crate) use socket::*;

use crate::next::call_next;
use libc::{c_char, c_int, c_long, c_void, iovec, msghdr, stat};
use std::ffi::CStr;
use std::mem::{MaybeUninit, size_of};
use std::ptr::null_mut;
use std::sync::atomic::AtomicU32;
use std::time::Duration;

/// Sets the calling thread's `errno`.
pub(crate) fn set_errno(value: c_int) {
    // SAFETY: the C library returns a valid pointer to the calling thread's errno.
    unsafe { *libc::__errno_location() = value };
}

/// Sets `errno` and gives the value that says so.
pub(crate) fn fail(errno: c_int) -> c_int {
    set_errno(errno);
    -1
}

/// Opens a path; -1 on failure.
pub(crate) fn open(path: &CStr, flags: c_int) -> c_int {
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
pub(crate) fn close(fd: c_int) {
    // SAFETY: closing a descriptor number touches no memory.
    unsafe { libc::syscall(libc::SYS_close, fd) };
}

/// Writes to the program's standard error, as far as that goes.
pub(crate) fn say(text: &[u8]) {
    // SAFETY: the text is readable for its length.
    unsafe {
        libc::syscall(
            libc::SYS_write,
            libc::STDERR_FILENO,
            text.as_ptr(),
            text.len(),
        )
    };
}

/// Reads a whole small file; `None` if it cannot be opened or read.
pub(crate) fn read_file<'a>(path: &CStr, buffer: &'a mut [u8]) -> Option<&'a [u8]> {
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
pub(crate) fn is_null_device(fd: c_int) -> bool {
    status(fd).is_some_and(|st| {
        st.st_mode & libc::S_IFMT == libc::S_IFCHR && st.st_rdev == libc::makedev(1, 3)
    })
}

/// The inode number of a socket; `None` if the descriptor is none.
pub(crate) fn socket_inode(fd: c_int) -> Option<u64> {
    status(fd)
        .filter(|st| st.st_mode & libc::S_IFMT == libc::S_IFSOCK)
        .map(|st| st.st_ino)
}

/// The inode number of whatever a descriptor is.
pub(crate) fn inode(fd: c_int) -> Option<u64> {
    status(fd).map(|st| st.st_ino)
}

/// The mode of whatever a descriptor is.
pub(crate) fn mode(fd: c_int) -> Option<libc::mode_t> {
    status(fd).map(|st| st.st_mode)
}

/// The number of the kind of file system that a descriptor's file is on.
pub(crate) fn file_system(fd: c_int) -> Option<u64> {
    let mut known = MaybeUninit::<libc::statfs>::uninit();
    // SAFETY: the buffer has the kernel's layout, which on these architectures is the C library's.
    let r = unsafe { libc::syscall(libc::SYS_fstatfs, fd, known.as_mut_ptr()) };
    // SAFETY: filled in by the successful call.
    (r == 0).then(|| unsafe { known.assume_init() }.f_type as u64)
}

/// Has a descriptor outlive `execve(2)`.
pub(crate) fn keep_over_exec(fd: c_int) {
    // SAFETY: flags of a descriptor touch no memory.
    unsafe { libc::syscall(libc::SYS_fcntl, fd, libc::F_SETFD, 0) };
}

fn status(fd: c_int) -> Option<stat> {
    let mut st = MaybeUninit::<stat>::uninit();
    // SAFETY: the empty path with AT_EMPTY_PATH asks for the descriptor itself; the buffer has the
    // kernel's layout.
    let r = unsafe {
        libc::syscall(
            libc::SYS_newfstatat,
            fd,
            c"".as_ptr() as *const c_char,
            st.as_mut_ptr(),
            libc::AT_EMPTY_PATH,
        )
    };
    // SAFETY: filled in by the successful call.
    (r == 0).then(|| unsafe { st.assume_init() })
}

/// The calling thread's `errno`.
pub(crate) fn errno() -> c_int {
    // SAFETY: the C library returns a valid pointer to the calling thread's errno.
    unsafe { *libc::__errno_location() }
}

/// Sleeps while `word` is `value`, or for no reason at all.
pub(crate) fn futex_wait(word: &AtomicU32, value: u32) {
    let operation = libc::FUTEX_WAIT | libc::FUTEX_PRIVATE_FLAG;
    // SAFETY: the word outlives the call; there is no timeout.
    unsafe { libc::syscall(libc::SYS_futex, word.as_ptr(), operation, value, 0usize) };
}

/// Wakes one of those who sleep on `word`.
pub(crate) fn futex_wake(word: &AtomicU32) {
    let operation = libc::FUTEX_WAKE | libc::FUTEX_PRIVATE_FLAG;
    // SAFETY: the word's address only is used.
    unsafe { libc::syscall(libc::SYS_futex, word.as_ptr(), operation, 1) };
}

/// Sends a message, whatever signals come. The error is an errno.
pub(crate) fn sendmsg(fd: c_int, message: &msghdr) -> Result<usize, c_int> {
    loop {
        let message = &raw const *message;
        // SAFETY: the kernel checks what the message points at.
        let n = unsafe { libc::syscall(libc::SYS_sendmsg, fd, message, libc::MSG_NOSIGNAL) };
        match usize::try_from(n) {
            Ok(n) => return Ok(n),
            Err(_) if errno() == libc::EINTR => {}
            Err(_) => return Err(errno()),
        }
    }
}

/// Receives a message, whatever signals come. The error is an errno.
pub(crate) fn recvmsg(fd: c_int, message: &mut msghdr, flags: c_int) -> Result<usize, c_int> {
    loop {
        let message = &raw mut *message;
        // SAFETY: the kernel checks what the message points at.
        let n = unsafe { libc::syscall(libc::SYS_recvmsg, fd, message, flags) };
        match usize::try_from(n) {
            Ok(n) => return Ok(n),
            Err(_) if errno() == libc::EINTR => {}
            Err(_) => return Err(errno()),
        }
    }
}

/// Whether a socket's other end has closed, or does within `wait`, whatever is left to read.
pub(crate) fn is_abandoned(fd: c_int, wait: Duration) -> bool {
    let mut poll = libc::pollfd {
        fd,
        events: 0,
        revents: 0,
    };
    let wait = timespec(wait);
    let (poll_at, time) = (&raw mut poll, &raw const wait);
    // SAFETY: one descriptor, a time, no signals.
    let n = unsafe { libc::syscall(libc::SYS_ppoll, poll_at, 1usize, time, 0usize, 0usize) };
    n == 1 && poll.revents & libc::POLLHUP != 0
}

/// Waits, or until a signal comes. A thread that is cancelled ends here, as in the call of the
/// program's that this is part of: nobody who calls this has anything locked, or to drop.
pub(crate) fn sleep(time: Duration) {
    let time = timespec(time);
    call_next!(nanosleep(&raw const time => *const libc::timespec,
        null_mut() => *mut libc::timespec) -> c_int, -1);
}

fn timespec(time: Duration) -> libc::timespec {
    libc::timespec {
        tv_sec: time.as_secs() as _,
        tv_nsec: libc::c_long::from(time.subsec_nanos() as i32),
    }
}

/// Lets others have this processor who wait for it.
pub(crate) fn offer_processor() {
    // SAFETY: this has no arguments.
    unsafe { libc::syscall(libc::SYS_sched_yield) };
}

/// Maps the beginning of a file, to be read; null on failure.
pub(crate) fn map_shared(fd: c_int, len: usize) -> *mut c_void {
    map(len, libc::PROT_READ, libc::MAP_SHARED, fd)
}

/// New memory of zeros; null on failure.
pub(crate) fn map_private(len: usize) -> *mut c_void {
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
    map(len, libc::PROT_READ | libc::PROT_WRITE, flags, -1)
}

fn map(len: usize, access: c_int, flags: c_int, fd: c_int) -> *mut c_void {
    // SAFETY: the kernel chooses where.
    let at = unsafe {
        let (access, flags, fd) = (access as c_long, flags as c_long, fd as c_long);
        libc::syscall(libc::SYS_mmap, 0usize, len, access, flags, fd, 0usize)
    };
    match at {
        -1 => null_mut(),
        at => at as *mut c_void,
    }
}

/// The bytes of a value, as a part of a message.
pub(crate) fn vector_of<T>(value: &T) -> iovec {
    iovec {
        iov_base: (&raw const *value).cast_mut().cast(),
        iov_len: size_of::<T>(),
    }
}

/// Whether `O_NONBLOCK` is set.
pub(crate) fn is_nonblocking(fd: c_int) -> bool {
    // SAFETY: asking for a descriptor's flags touches no memory.
    let flags = unsafe { libc::syscall(libc::SYS_fcntl, fd, libc::F_GETFL, 0) };
    flags & c_long::from(libc::O_NONBLOCK) != 0
}

/// Sets `O_NONBLOCK`.
pub(crate) fn set_nonblocking(fd: c_int) {
    // SAFETY: changing a descriptor's flags touches no memory.
    unsafe {
        let flags = libc::syscall(libc::SYS_fcntl, fd, libc::F_GETFL, 0);
        libc::syscall(
            libc::SYS_fcntl,
            fd,
            libc::F_SETFL,
            flags | c_long::from(libc::O_NONBLOCK),
        );
    }
}

/// Whether the process has `CAP_NET_ADMIN`.
pub(crate) fn is_net_admin() -> bool {
    const VERSION_3: u32 = 0x2008_0522;
    const CAP_NET_ADMIN: u32 = 12;
    // Version and process, here the caller; effective, permitted and inheritable, of the lower
    // capabilities and of the upper.
    let header: [u32; 2] = [VERSION_3, 0];
    let mut sets: [[u32; 3]; 2] = [[0; 3]; 2];
    let (header, at) = (&raw const header, &raw mut sets);
    // SAFETY: both have the kernel's layout.
    let r = unsafe { libc::syscall(libc::SYS_capget, header, at) };
    r == 0 && sets[0][0] & 1 << CAP_NET_ADMIN != 0
}

/// Moves a descriptor near the end of what the process may have, if there is room.
fn raise(fd: c_int) -> c_int {
    let Some(raised) = duplicate(fd) else {
        return fd;
    };
    close(fd);
    raised
}

/// A copy of a descriptor with a number that programs do not count on; `None`: there is no room.
pub(crate) fn duplicate(fd: c_int) -> Option<c_int> {
    let mut limit = MaybeUninit::<libc::rlimit>::uninit();
    // SAFETY: the kernel fills the structure in.
    let limit = unsafe {
        match libc::syscall(libc::SYS_getrlimit, libc::RLIMIT_NOFILE, limit.as_mut_ptr()) {
            0 => limit.assume_init().rlim_cur,
            _ => return None,
        }
    };
    let limit = limit.min(1 << 16) as c_long;
    let least = (limit - limit / 4).max(3);
    // SAFETY: copying a descriptor touches no memory.
    let copy = unsafe { libc::syscall(libc::SYS_fcntl, fd, libc::F_DUPFD_CLOEXEC, least) };
    (copy >= 0).then_some(copy as c_int)
}

/// A pipe with one descriptor open for both directions, close-on-exec; -1 and `errno` on failure.
pub(crate) fn pipe_both_ways() -> c_int {
    let mut ends = [-1 as c_int; 2];
    // SAFETY: the array has room for the two descriptors.
    if unsafe { libc::syscall(libc::SYS_pipe2, ends.as_mut_ptr(), libc::O_CLOEXEC) } != 0 {
        return -1;
    }
    let mut path = PathBuffer::new();
    path.push(b"/proc/thread-self/fd/");
    path.push_number(ends[0].unsigned_abs());
    let both = path.as_cstr().map_or(-1, |p| open(p, libc::O_RDWR));
    ends.into_iter().for_each(close);
    both
}

#[cfg(test)]
mod tests {
    use super::*;

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
