//! Registered memory and event queues.

use std::ffi::{c_int, c_void};
use std::sync::Arc;
use std::time::Instant;

use libc::timeval;

use super::{INVALID, call};
use crate::abi::*;
use crate::errno::{Errno, Result};
use crate::library::Library;
use crate::memory::{self, Memory, Use};
use crate::queue::{Queue, Signal, Wait};

/// Registers memory.
#[unsafe(no_mangle)]
pub(super) extern "C" fn exs_mregister(addr: *mut c_void, size: usize, flags: c_int) -> usize {
    call(EXS_MHANDLE_INVALID, || {
        let library = Library::running()?;
        let known = EXS_MRF_SHARED | EXS_MRF_SEND_DISABLE | EXS_MRF_RECV_DISABLE;
        let end = (addr as usize).checked_add(size).ok_or(INVALID)?;
        // Sizes come as ssize_t from many a program: a negative one is no size.
        if addr.is_null() || size == 0 || end > isize::MAX as usize || flags & !known != 0 {
            return Err(INVALID);
        }
        let memory = Memory::register(&library.any_device()?, addr as usize, size, flags)?;
        Ok(library.add_memory(Arc::new(memory)))
    })
}

/// Ends a registration.
#[unsafe(no_mangle)]
pub(super) extern "C" fn exs_mderegister(mhandle: usize, flags: c_int) -> c_int {
    call(-1, || {
        let library = Library::running()?;
        if flags != 0 {
            return Err(INVALID);
        }
        library.remove_memory(mhandle).map(|()| 0)
    })
}

/// Makes an event queue.
#[unsafe(no_mangle)]
pub(super) extern "C" fn exs_qcreate(depth: c_int) -> usize {
    call(EXS_QHANDLE_INVALID, || {
        let library = Library::running()?;
        library.add_queue(Queue::new(self::depth(depth)?))
    })
}

fn depth(depth: c_int) -> Result<usize> {
    const DEFAULT: usize = 128;
    match depth {
        0 => Ok(DEFAULT),
        1..=EXS_QDEPTH_MAX => Ok(depth as usize),
        _ => Err(INVALID),
    }
}

/// Deletes an event queue.
#[unsafe(no_mangle)]
pub(super) extern "C" fn exs_qdelete(qhandle: usize) -> c_int {
    call(-1, || {
        let library = Library::running()?;
        library.delete_queue(qhandle).map(|()| 0)
    })
}

/// Takes events.
#[unsafe(no_mangle)]
pub(super) extern "C" fn exs_qdequeue(
    qhandle: usize,
    evtvec: *mut Event,
    evtvec_cnt: c_int,
    timeout: *const timeval,
) -> c_int {
    call(-1, || {
        let library = Library::running()?;
        let queue = library.queue(qhandle)?;
        let most = evtvec_cnt.unsigned_abs() as usize;
        if most == 0 || most > EXS_EVTVEC_MAX {
            return Err(INVALID);
        }

        let least = if evtvec_cnt < 0 { most } else { 1 };
        let until = super::timeout(timeout)?.and_then(|wait| Instant::now().checked_add(wait));
        if evtvec.is_null() {
            return Err(Errno(libc::EFAULT));
        }

        // The place is tried before a long wait, so that nothing waits for an event that has no
        // place to go.
        let place = || memory::check(evtvec as usize, most * size_of::<Event>(), Use::Receive);
        let events = queue.take(least, most, until, &library, place)?;
        if events.is_empty() {
            place()?;
        }

        // SAFETY: the events' own bytes.
        let written = unsafe {
            memory::write_from(
                evtvec as usize,
                events.as_ptr().cast(),
                size_of_val(&events[..]),
            )
        };

        match written {
            Ok(()) => Ok(events.len() as c_int),
            Err(error) => {
                queue.give_back(events);
                Err(error)
            }
        }
    })
}

/// Changes an attribute of a queue.
#[unsafe(no_mangle)]
pub(super) extern "C" fn exs_qmodify(
    qhandle: usize,
    attribute: c_int,
    value: *const c_void,
    size: usize,
) -> c_int {
    call(-1, || {
        let library = Library::running()?;
        let queue = library.queue(qhandle)?;
        let wanted = match attribute {
            EXS_QATTR_DEPTH | EXS_QATTR_WAIT => size_of::<c_int>(),
            EXS_QATTR_SIGNAL => size_of::<ExsSignal>(),
            _ => return Err(INVALID),
        };
        if size != wanted {
            return Err(INVALID);
        }

        let bytes = memory::read_bytes(value as usize, size)?;
        let number = || c_int::from_ne_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]);
        match attribute {
            EXS_QATTR_DEPTH => {
                let depth = number();
                if depth < 1 {
                    return Err(INVALID);
                }
                queue.set_depth(self::depth(depth)?)?;
            }
            EXS_QATTR_WAIT => queue.set_wait(match number() {
                EXS_WAIT_ADAPTIVE => Wait::Adaptive,
                EXS_WAIT_NOTIFY => Wait::Notify,
                EXS_WAIT_BUSY_POLL => Wait::BusyPoll,
                _ => return Err(INVALID),
            }),
            _ => {
                // SAFETY: integers only, of which any bytes are good.
                let signal = unsafe { bytes.as_ptr().cast::<ExsSignal>().read_unaligned() };
                queue.set_signal(match signal.exs_sig_state {
                    EXS_SIG_DISABLE => None,
                    EXS_SIG_ENABLE if (1..=libc::SIGRTMAX()).contains(&signal.exs_sig_signo) => {
                        Some(Signal {
                            number: signal.exs_sig_signo,
                            value: signal.exs_sig_value,
                        })
                    }
                    _ => return Err(INVALID),
                });
            }
        }

        Ok(0)
    })
}

/// Tells an attribute of a queue.
#[unsafe(no_mangle)]
pub(super) extern "C" fn exs_qstatus(
    qhandle: usize,
    attribute: c_int,
    value: *mut c_void,
    size: usize,
) -> c_int {
    call(-1, || {
        let library = Library::running()?;
        let queue = library.queue(qhandle)?;
        let (depth, events) = queue.depth();
        let bytes = match attribute {
            EXS_QATTR_DEPTH => (depth as c_int).to_ne_bytes().to_vec(),
            EXS_QATTR_EVENTS => (events as c_int).to_ne_bytes().to_vec(),
            EXS_QATTR_WAIT => match queue.wait() {
                Wait::Adaptive => EXS_WAIT_ADAPTIVE,
                Wait::Notify => EXS_WAIT_NOTIFY,
                Wait::BusyPoll => EXS_WAIT_BUSY_POLL,
            }
            .to_ne_bytes()
            .to_vec(),
            EXS_QATTR_SIGNAL => {
                let signal = queue.signal();
                let state = if signal.is_some() {
                    EXS_SIG_ENABLE
                } else {
                    EXS_SIG_DISABLE
                };
                let number = signal.map_or(0, |signal| signal.number);
                let value = signal.map_or(0, |signal| signal.value);
                let mut bytes = Vec::with_capacity(size_of::<ExsSignal>());
                bytes.extend(state.to_ne_bytes());
                bytes.extend(number.to_ne_bytes());
                bytes.extend(value.to_ne_bytes());
                bytes
            }
            _ => return Err(INVALID),
        };

        if size != bytes.len() {
            return Err(INVALID);
        }

        memory::write_bytes(value as usize, &bytes).map(|()| 0)
    })
}
