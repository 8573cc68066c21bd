//! The functions of `<ferroce_dv.h>`. Their documentation is the header's.
//!
//! All but those that return something else answer 0, or a positive errno, which is in `errno`,
//! too; what was wrong is then in [`ferroce_dv_error`].

#![allow(non_camel_case_types)]

use std::ffi::{CStr, c_char, c_int, c_void};
use std::os::fd::{FromRawFd, OwnedFd};
use std::ptr::null_mut;

use ferroce_cabi::direct::{
    ferroce_dv_completion_fn, ferroce_dv_device_attr, ferroce_dv_histogram, ferroce_dv_qp_attr,
};
use ferroce_cabi::{ibv_context, ibv_device, ibv_qp};
use ferroce_control::latency;

use crate::capture::{self, Capture};
use crate::device;
use crate::failure::{self, Failure, answer, guarded};
use crate::faults;
use crate::provider;
use crate::queue_pair;

/// A capture under way.
pub struct ferroce_dv_capture(Capture);

/// Whether a device is ferroce's, and the functions below can be used with it. Not with NULL, nor
/// where no provider is loaded that answers.
///
/// # Safety
/// `device` is null, or of a list of `ibv_get_device_list(3)`, or of an open context.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ferroce_dv_is_supported(device: *mut ibv_device) -> bool {
    // SAFETY: as the caller promises.
    let found = guarded(|| Ok(unsafe { provider::of_device(device) }.is_some()));
    found.unwrap_or(false)
}

/// In words, why a function below has failed last in the calling thread; "" if none has. The text
/// stays until another one fails there.
#[unsafe(no_mangle)]
pub extern "C" fn ferroce_dv_error() -> *const c_char {
    failure::last()
}

/// Tells what a device is, and what this process has counted. size is sizeof(*attr).
///
/// EINVAL: an argument is NULL, or size is less than 8. EOPNOTSUPP: the device is none of
/// ferroce's. EIO: the context is the parent's, in a forked child.
///
/// # Safety
/// `context` is null or open; `attr` is null or has `size` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ferroce_dv_query_device(
    context: *mut ibv_context,
    attr: *mut ferroce_dv_device_attr,
    size: libc::size_t,
) -> c_int {
    answer(|| {
        // SAFETY: as the caller promises.
        let answer = unsafe { (provider::of_context(context)?.query_device)(context, attr, size) };
        Failure::of(answer, device::WORDS)
    })
}

/// Tells how a queue pair is from inside, at one moment. size is sizeof(*attr).
///
/// EINVAL: an argument is NULL, size is less than 8, or the queue pair is destroyed. EOPNOTSUPP:
/// the device is none of ferroce's. EIO: the queue pair is the parent's, in a forked child.
///
/// # Safety
/// `qp` is null or a queue pair that was not destroyed; `attr` is null or has `size` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ferroce_dv_query_qp(
    qp: *mut ibv_qp,
    attr: *mut ferroce_dv_qp_attr,
    size: libc::size_t,
) -> c_int {
    answer(|| {
        // SAFETY: as the caller promises.
        let answer = unsafe { (provider::of_qp(qp)?.query_qp)(qp, attr, size) };
        Failure::of(answer, queue_pair::WORDS)
    })
}

/// Has something go wrong from now on. fault is TOML, the keys of one table of `ferroce fault
/// load`: "drop = 'opcode=ACK'\ncount = 1". It is for this queue pair, or, with NULL, for whom the
/// text says: for all programs of the device if it says nothing. id, unless it is NULL, gets the
/// fault's number. When this returns this process goes by it, and so does every other that has
/// run within a second.
///
/// EINVAL: an argument is NULL, the text makes no sense, or the queue pair is of another context.
/// EOPNOTSUPP: the device is none of ferroce's. EPERM: the device is of several users, and this one
/// does not administer it. ENOSPC: there are 64 faults already. ENODEV: the daemon has gone.
///
/// # Safety
/// `context` is null or open, `qp` null or one of its queue pairs; `fault` is null or ends in NUL,
/// `id` is null or may be written to.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ferroce_dv_fault_add(
    context: *mut ibv_context,
    qp: *mut ibv_qp,
    fault: *const c_char,
    id: *mut u32,
) -> c_int {
    answer(|| {
        if fault.is_null() {
            return Err(Failure::new(libc::EINVAL, "the text is NULL"));
        }
        // SAFETY: as the caller promises.
        let text = unsafe { CStr::from_ptr(fault) }.to_str();
        let text = text.map_err(|error| Failure::new(libc::EINVAL, error.to_string()))?;
        // SAFETY: likewise.
        let added = unsafe { faults::add(context, qp, text) }?;
        if !id.is_null() {
            // SAFETY: likewise.
            unsafe { id.write(added) };
        }
        Ok(())
    })
}

/// Tells how often a fault has hit, in all programs.
///
/// EINVAL: an argument is NULL. EOPNOTSUPP: the device is none of ferroce's. ENOENT: there is no
/// fault of this number. ENODEV: the daemon has gone.
///
/// # Safety
/// `context` is null or open; `hits` is null or may be written to.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ferroce_dv_fault_hits(
    context: *mut ibv_context,
    id: u32,
    hits: *mut u64,
) -> c_int {
    answer(|| {
        if hits.is_null() {
            return Err(Failure::new(libc::EINVAL, "there is no place for the hits"));
        }
        // SAFETY: as the caller promises.
        let status = unsafe { faults::status(context, id) }?;
        // SAFETY: likewise.
        unsafe { hits.write(status.hits) };
        Ok(())
    })
}

/// Ends a fault, whoever has added it; with id 0 all faults of the device.
///
/// EINVAL: the context is NULL. EOPNOTSUPP: the device is none of ferroce's. ENOENT: there is no
/// fault of this number. EPERM: the device is of several users, and this one does not administer
/// it. ENODEV: the daemon has gone.
///
/// # Safety
/// `context` is null or open.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ferroce_dv_fault_clear(context: *mut ibv_context, id: u32) -> c_int {
    let id = (id != 0).then_some(id);
    // SAFETY: as the caller promises.
    answer(|| unsafe { faults::clear(context, id) })
}

/// Captures what programs of the device send and receive from now on, as pcapng, into a file: of
/// one queue pair, or, with NULL, of all programs of the device that this user may see. flags is
/// FERROCE_DV_CAPTURE_* or 0. The descriptor is duplicated, and may be closed. A thread writes, and
/// blocks no other.
///
/// NULL with errno: EINVAL: the context is NULL, a flag is unknown, or the queue pair is of another
/// context. EOPNOTSUPP: the device is none of ferroce's. EBADF: the descriptor is none, or cannot
/// be written to. EBUSY: there are 8 captures already. ENODEV: the daemon has gone. Others are
/// those of write(2) and pthread_create(3).
///
/// # Safety
/// `context` is null or open, `qp` null or one of its queue pairs.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ferroce_dv_capture_start(
    context: *mut ibv_context,
    qp: *mut ibv_qp,
    fd: c_int,
    flags: u32,
) -> *mut ferroce_dv_capture {
    let started = guarded(|| {
        // SAFETY: as the caller promises.
        unsafe { provider::of_context(context) }?;
        let out = duplicate(fd)?;
        // SAFETY: as the caller promises.
        let capture = unsafe { capture::start(context, qp, out, flags) }?;
        Ok(Box::into_raw(Box::new(ferroce_dv_capture(capture))))
    });
    started.unwrap_or(null_mut())
}

/// Ends a capture, whose memory is freed in any case. When this returns, the file has all that this
/// process has sent and received before. packets and dropped, unless they are NULL, get how many
/// packets are in it, and how many records found no room.
///
/// EINVAL: the capture is NULL. ENODEV: the daemon has gone, and the file has what there was until
/// then. EIO: the capture is the parent's, in a forked child. Others are those of write(2).
///
/// # Safety
/// `capture` is null, or of `ferroce_dv_capture_start` and not ended; the others are null or may be
/// written to.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ferroce_dv_capture_stop(
    capture: *mut ferroce_dv_capture,
    packets: *mut u64,
    dropped: *mut u64,
) -> c_int {
    answer(|| {
        if capture.is_null() {
            return Err(Failure::new(libc::EINVAL, "the capture is NULL"));
        }
        // SAFETY: as the caller promises.
        let mut capture = unsafe { Box::from_raw(capture) };
        let (captured, ended) = capture.0.end();
        for (to, value) in [(packets, captured.packets), (dropped, captured.dropped)] {
            if !to.is_null() {
                // SAFETY: likewise.
                unsafe { to.write(value) };
            }
        }
        ended
    })
}

/// Begins to measure how long send requests of a queue pair take, from post to completion, or
/// begins anew. Those are counted that are posted from now on, raise a completion and succeed.
///
/// EINVAL: the queue pair is NULL or destroyed. EOPNOTSUPP: the device is none of ferroce's, or the
/// queue pair's messages are matched by tag. EIO: the queue pair is the parent's, in a forked
/// child.
///
/// # Safety
/// `qp` is null or a queue pair that was not destroyed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ferroce_dv_histogram_start(qp: *mut ibv_qp) -> c_int {
    answer(|| {
        // SAFETY: as the caller promises.
        let answer = unsafe { (provider::of_qp(qp)?.histogram_start)(qp) };
        Failure::of(answer, queue_pair::WORDS)
    })
}

/// Tells what was measured so far. size is sizeof(*histogram).
///
/// EINVAL: an argument is NULL, size is less than 8, or the queue pair is destroyed. EOPNOTSUPP:
/// the device is none of ferroce's. ENODATA: nobody measures.
///
/// # Safety
/// `qp` is null or a queue pair that was not destroyed; `histogram` is null or has `size` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ferroce_dv_histogram_read(
    qp: *mut ibv_qp,
    histogram: *mut ferroce_dv_histogram,
    size: libc::size_t,
) -> c_int {
    answer(|| {
        // SAFETY: as the caller promises.
        let answer = unsafe { (provider::of_qp(qp)?.histogram_read)(qp, histogram, size) };
        Failure::of(answer, queue_pair::WORDS)
    })
}

/// Measures no more, and forgets what was measured.
///
/// EINVAL: the queue pair is NULL or destroyed. EOPNOTSUPP: the device is none of ferroce's.
/// ENODATA: nobody measures.
///
/// # Safety
/// `qp` is null or a queue pair that was not destroyed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ferroce_dv_histogram_stop(qp: *mut ibv_qp) -> c_int {
    answer(|| {
        // SAFETY: as the caller promises.
        let answer = unsafe { (provider::of_qp(qp)?.histogram_stop)(qp) };
        Failure::of(answer, queue_pair::WORDS)
    })
}

/// The least latency in nanoseconds of a bucket of a histogram; UINT64_MAX of one beyond the last,
/// so that the next one's is always the upper end of a bucket.
#[unsafe(no_mangle)]
pub extern "C" fn ferroce_dv_histogram_floor(bucket: u32) -> u64 {
    latency::floor(bucket as usize)
}

/// Has callback called, with arg, for each completion that the device makes for this context from
/// now on, whether or not it is polled: in the order in which it makes them, across all completion
/// queues. A thread of the library's calls, one call after the other; it holds no lock, so the
/// callback may do what the program may, except end itself. With NULL no callback is called any
/// more, once it has been called for all completions that there were; closing the context does
/// that, too.
///
/// EINVAL: the context is NULL. EOPNOTSUPP: the device is none of ferroce's. EBUSY: there is a
/// callback already, or another thread is changing it. EDEADLK: the callback would end itself. EIO:
/// the context is the parent's, in a forked child. Others are those of pthread_create(3).
///
/// # Safety
/// `context` is null or open; the callback may be called with `arg`, by another thread, until it is
/// ended.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ferroce_dv_completion_callback(
    context: *mut ibv_context,
    callback: ferroce_dv_completion_fn,
    arg: *mut c_void,
) -> c_int {
    // SAFETY: as the caller promises.
    answer(|| unsafe { device::callback(context, callback, arg) })
}

fn duplicate(fd: c_int) -> Result<OwnedFd, Failure> {
    // SAFETY: touches no memory.
    match unsafe { libc::fcntl(fd, libc::F_DUPFD_CLOEXEC, 0) } {
        -1 => {
            let error = std::io::Error::last_os_error();
            let errno = error.raw_os_error().unwrap_or(libc::EBADF);
            Err(Failure::new(errno, format!("descriptor {fd}: {error}")))
        }
        // SAFETY: just made, and nobody else's.
        copy => Ok(unsafe { OwnedFd::from_raw_fd(copy) }),
    }
}
