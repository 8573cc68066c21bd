//! `/dev/infiniband/umadN` and `issmN`: opening them, and what libibumad does with them.
//!
//! The descriptor is one end of a `SOCK_SEQPACKET` pair that ferroced made. MADs with their headers
//! are datagrams in it, so it polls as the kernel's does, whoever polls, and waits as a blocking or
//! non-blocking descriptor should. Only reading looks first whether the buffer is long enough,
//! because a MAD that does not fit must stay. Writes and ioctls are carried to ferroced and
//! answered from there. What a MAD says is nothing to this module.

use crate::carrier::UMAD;
use crate::image::MadFile;
use crate::{descriptors, sys};
use ferroce_cabi::ucma_frame::{
    ISSM_OPEN, MAX_UMAD, NO_CHANNEL, Reply, Request, UMAD_IOCTL, UMAD_OPEN, UMAD_WRITE, VERSION,
};
use ferroce_cabi::umad::{argument_len, ib_user_mad_hdr, ib_user_mad_hdr_old};
use libc::{c_char, c_int, c_ulong, c_void, iovec};
use std::ffi::CStr;
use std::mem::size_of;
use std::ptr::null_mut;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

const NOTHING: iovec = iovec {
    iov_base: null_mut(),
    iov_len: 0,
};

fn bytes(base: *const c_void, len: usize) -> iovec {
    iovec {
        iov_base: base.cast_mut(),
        iov_len: len,
    }
}

fn request(kind: u32, channel: u64, from: u64, command_len: usize) -> Request {
    Request {
        version: VERSION,
        kind,
        channel,
        from,
        command_len: command_len as u32,
        ..Request::default()
    }
}

/// Does a path of the image lead to a file of ferroced's? A real device's leads to the host's
/// `/dev`.
pub(crate) fn is_ours(target: *const c_char) -> bool {
    // SAFETY: the caller has put the path together, with its end.
    let fd = sys::open(unsafe { CStr::from_ptr(target) }, libc::O_PATH);
    let ours = fd >= 0 && sys::is_null_device(fd);
    if fd >= 0 {
        sys::close(fd);
    }
    ours
}

/// Opens a file, with `O_CLOEXEC` and `O_NONBLOCK` as they are in `flags`; -1 and `errno` on
/// failure.
pub(crate) fn open(file: MadFile, flags: c_int) -> c_int {
    let nonblocking = flags & libc::O_NONBLOCK != 0;
    let request = match file {
        MadFile::Umad(number) => request(UMAD_OPEN, 0, number.into(), 0),
        MadFile::Issm(number) => request(ISSM_OPEN, nonblocking.into(), number.into(), 0),
    };

    let cloexec = if flags & libc::O_CLOEXEC != 0 {
        libc::MSG_CMSG_CLOEXEC
    } else {
        0
    };

    let fd = match UMAD.lock().open(&request, cloexec) {
        Ok((Reply { result: 0, .. }, [Some(fd), _])) => fd,
        // The kernel had no number left to give it.
        Ok((Reply { result: 0, .. }, _)) => return sys::fail(libc::EMFILE),
        Ok((reply, received)) => {
            received.into_iter().flatten().for_each(sys::close);
            return sys::fail(reply.result.wrapping_neg());
        }
        Err(errno) => return sys::fail(errno),
    };

    if matches!(file, MadFile::Issm(_)) {
        // Whoever holds the port gives it up when he closes his.
        let lent = sys::Lent::new(fd);
        let refused = match sys::wait_for_message(fd) {
            Ok(true) => None,
            Ok(false) => Some(libc::EIO),
            Err(errno) => Some(errno),
        };
        if let Some(errno) = refused {
            lent.close();
            return sys::fail(errno);
        }
        lent.keep();
    }

    if nonblocking {
        sys::set_nonblocking(fd);
    }

    if !descriptors::set_umad(fd, matches!(file, MadFile::Umad(_))) {
        sys::close(fd);
        return sys::fail(libc::EMFILE);
    }

    fd
}

/// Carries a MAD that is written. `None`: the descriptor is no umad file any more. The error is an
/// errno.
///
/// # Safety
/// `mad` is readable for `len` bytes, or the kernel finds out that it is not.
pub(crate) unsafe fn write(
    fd: c_int,
    mad: *const c_void,
    len: usize,
) -> Option<Result<usize, c_int>> {
    let inode = sys::socket_inode(fd)?;
    if len > MAX_UMAD {
        return Some(Err(libc::ENOMEM));
    }
    let request = request(UMAD_WRITE, inode, 0, len);
    // SAFETY: as the caller promises.
    let done = unsafe { carry(fd, &request, bytes(mad, len), NOTHING) };
    Some(done?.map(|()| len))
}

/// Carries an ioctl. `None`: the descriptor is no umad file any more. The error is an errno.
///
/// # Safety
/// `argument` is as the umad ABI asks.
pub(crate) unsafe fn ioctl(
    fd: c_int,
    number: c_ulong,
    argument: *mut c_void,
) -> Option<Result<(), c_int>> {
    let inode = sys::socket_inode(fd)?;
    let Some(len) = argument_len(number) else {
        // `FIONBIO` and its like are the socket's own business.
        return (number >> 8 & 0xff == 0x1b).then_some(Err(libc::ENOTTY));
    };
    let request = request(UMAD_IOCTL, inode, number, len);
    // SAFETY: as the caller promises.
    unsafe { carry(fd, &request, bytes(argument, len), bytes(argument, len)) }
}

/// # Safety
/// The parts are the program's memory.
unsafe fn carry(
    fd: c_int,
    request: &Request,
    part: iovec,
    answer: iovec,
) -> Option<Result<(), c_int>> {
    // SAFETY: as the caller promises.
    let exchanged = unsafe {
        UMAD.lock()
            .exchange(request, [part, NOTHING], answer, libc::MSG_CMSG_CLOEXEC)
    };

    let reply = match exchanged {
        Ok((reply, received)) => {
            received.into_iter().flatten().for_each(sys::close);
            reply
        }
        Err(errno) => return Some(Err(errno)),
    };

    match reply.result {
        // Another ferroced has answered than the one whose file it is.
        NO_CHANNEL if sys::is_abandoned(fd, Duration::ZERO) => Some(Err(libc::EIO)),
        NO_CHANNEL => None,
        0 => Some(Ok(())),
        errno => Some(Err(errno.wrapping_neg())),
    }
}

/// How many reads of a process whose device is gone fail at once, and how long each takes after
/// them.
const PROMPT: u32 = 8;
const GONE: Duration = Duration::from_millis(500);

/// OpenSM reads on and on then, and writes a line about each read: gigabytes in minutes. Its
/// descriptors do not block, as all of libibumad's; but there is nothing else to come. Where it
/// leaves, it cancels the thread that reads, which has to end here: elsewhere it holds the log.
#[cold]
fn linger() {
    static FAILED: AtomicU32 = AtomicU32::new(0);
    if FAILED.load(Ordering::Relaxed) < PROMPT {
        FAILED.fetch_add(1, Ordering::Relaxed);
    } else {
        sys::sleep(GONE);
    }
}

/// Reads one MAD, or waits for it if the descriptor is a blocking one. One for which `room` is too
/// small stays, and of a long one the first 256 bytes and the header, with the length that is
/// needed, are given (`ENOSPC`). `None`: the descriptor is no umad file any more. The error is an
/// errno, of a device that is gone `EIO`, after [`GONE`] from the ninth time on.
///
/// # Safety
/// `buffer` is writable for `room` bytes, or the kernel finds out that it is not.
pub(crate) unsafe fn read(
    fd: c_int,
    buffer: *mut c_void,
    room: usize,
) -> Option<Result<usize, c_int>> {
    sys::socket_inode(fd)?;
    if room < size_of::<ib_user_mad_hdr_old>() {
        return Some(Err(libc::EINVAL));
    }

    loop {
        // The second receive takes it off the queue.
        // SAFETY: as the caller promises.
        let len = match unsafe { sys::peek_raw(fd, buffer, room) } {
            Ok(0) => {
                linger();
                return Some(Err(libc::EIO));
            }
            Ok(len) => len,
            Err(errno) => return Some(Err(errno)),
        };

        if len > room {
            // What was given so far is the front of the MAD; is it enough of it?
            let one_segment = size_of::<ib_user_mad_hdr>() + 256;
            let errno = if len > one_segment && room >= one_segment {
                libc::ENOSPC
            } else {
                libc::EINVAL
            };
            return Some(Err(errno));
        }

        // SAFETY: as the caller promises.
        match unsafe { sys::receive_raw(fd, buffer, room, libc::MSG_DONTWAIT) } {
            // Another thread was faster.
            Err(libc::EAGAIN) => {}
            done => return Some(done),
        }
    }
}
