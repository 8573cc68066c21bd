//! The C boundary: arguments are checked here, errors become errno here, and no panic passes.
//!
//! Every function answers `EPERM` before anything else while the library is not running.

mod connection;
mod events;
mod transfer;

use std::ffi::c_int;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Duration;

use ferroce_signals::Uncancelled;
use libc::{sockaddr, socklen_t, timeval};

use crate::abi::{EXS_BLOCK, EXS_MHANDLE_UNREGISTERED, EXS_UNSIGNALED, Event};
use crate::errno::{Errno, Result};
use crate::file;
use crate::library::Library;
use crate::memory::{self, Memory};
use crate::queue::{Queue, Target};
use crate::verbs::Address;

/// The one place where an error becomes an errno. No function is a cancellation point: a thread
/// that ended among our locks would leave them locked.
fn call<T>(failure: T, body: impl FnOnce() -> Result<T>) -> T {
    let _uncancelled = Uncancelled::begin();
    let code = match catch_unwind(AssertUnwindSafe(body)) {
        Ok(Ok(value)) => return value,
        Ok(Err(Errno(code))) => code,
        Err(_) => libc::EIO,
    };
    // SAFETY: the calling thread's own.
    unsafe { *libc::__errno_location() = code };
    failure
}

const INVALID: Errno = Errno(libc::EINVAL);
const UNSUPPORTED: Errno = Errno(libc::EOPNOTSUPP);

/// Refuses flags that a function does not know, and a blocking call without an event.
fn flags(flags: c_int, known: c_int, otherwise: Errno) -> Result<bool> {
    if flags & !known != 0 {
        return Err(otherwise);
    }
    if flags & EXS_BLOCK != 0 && flags & EXS_UNSIGNALED != 0 {
        return Err(INVALID);
    }
    Ok(flags & EXS_BLOCK != 0)
}

/// Whether an operation that does not block needs a queue.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Need {
    Queue,
    Nothing,
}

/// Runs an operation: to its event if it blocks, or just starts it. The event of the former is the
/// answer.
fn run(
    library: &'static Library,
    block: bool,
    (qhandle, ahandle): (usize, usize),
    flags: c_int,
    need: Need,
    start: impl FnOnce(Target) -> Result<()>,
) -> Result<Option<Event>> {
    let queue = queue(library, block, qhandle, flags, need)?;
    if block {
        return blocking(library, start).map(Some);
    }
    let signaled = flags & EXS_UNSIGNALED == 0;
    start(Target::new(queue, ahandle, signaled)?)?;
    Ok(None)
}

/// The queue that an operation is given: a good one or, where none is needed, none.
fn queue(
    library: &Library,
    block: bool,
    qhandle: usize,
    flags: c_int,
    need: Need,
) -> Result<Option<Arc<Queue>>> {
    if qhandle != 0 {
        return library.queue(qhandle).map(Some);
    }
    let signaled = flags & EXS_UNSIGNALED == 0;
    if !block && signaled && need == Need::Queue {
        return Err(INVALID);
    }
    Ok(None)
}

/// Starts an operation and waits for it.
fn blocking(library: &'static Library, start: impl FnOnce(Target) -> Result<()>) -> Result<Event> {
    let queue = Queue::new(1);
    start(Target::new(Some(Arc::clone(&queue)), 0, true)?)?;
    let event = file::wait_one(library, &queue)?;
    match event.exs_evt_errno {
        0 => Ok(event),
        code => Err(Errno(code)),
    }
}

/// The registration that a handle names, if it names one.
pub(crate) fn memory_of(library: &Library, handle: usize) -> Result<Option<Arc<Memory>>> {
    match handle {
        0 | EXS_MHANDLE_UNREGISTERED => Ok(None),
        handle => library.memory(handle).map(Some),
    }
}

fn address(pointer: *const sockaddr, length: socklen_t, family: c_int) -> Result<Address> {
    let most = size_of::<libc::sockaddr_storage>();
    if pointer.is_null() {
        return Err(Errno(libc::EFAULT));
    }
    let bytes = memory::read_bytes(pointer as usize, (length as usize).min(most))?;
    Address::parse(&bytes, family)
}

/// A timeout: `EFAULT` if it is not there, `EINVAL` if it is none.
fn timeout(pointer: *const timeval) -> Result<Option<Duration>> {
    if pointer.is_null() {
        return Ok(None);
    }
    let bytes = memory::read_bytes(pointer as usize, size_of::<timeval>())?;
    // SAFETY: two integers, of which any bytes are good.
    let value = unsafe { bytes.as_ptr().cast::<timeval>().read_unaligned() };
    let seconds = u64::try_from(value.tv_sec).map_err(|_| INVALID)?;
    if !(0..1_000_000).contains(&value.tv_usec) {
        return Err(INVALID);
    }
    Ok(Some(Duration::new(
        seconds.min(u64::from(u32::MAX)),
        value.tv_usec as u32 * 1000,
    )))
}
