//! Sends and receives, of memory and of files.

use std::ffi::{c_int, c_void};
use std::sync::{Arc, mpsc};

use libc::ssize_t;

use super::{INVALID, Need, UNSUPPORTED, call, flags, memory_of, run};
use crate::abi::*;
use crate::errno::{Errno, Result};
use crate::file::{self, Plan};
use crate::library::Library;
use crate::memory::Use;
use crate::progress;
use crate::queue::Target;
use crate::socket::{Admission, Socket, Transfer};

/// What a send or receive of memory is asked for.
struct Asked {
    sockno: c_int,
    buffer: usize,
    length: usize,
    flags: c_int,
    handles: (usize, usize),
    mhandle: usize,
}

fn transfer(used: Use, asked: &Asked) -> Result<ssize_t> {
    let library = Library::running()?;
    let known = match used {
        Use::Send => EXS_BLOCK | EXS_UNSIGNALED | libc::MSG_NOSIGNAL | libc::MSG_EOR,
        Use::Receive => EXS_BLOCK | EXS_UNSIGNALED | libc::MSG_WAITALL,
    };
    let block = flags(asked.flags, known, UNSUPPORTED)?;
    let socket = library.socket(asked.sockno)?;
    if asked.buffer == 0 || asked.length > EXS_LENGTH_MAX {
        return Err(INVALID);
    }

    // An empty message is one; an empty piece of a stream, and a receive of nothing, are not.
    if asked.length == 0 && (used == Use::Receive || !socket.messages) {
        return Err(INVALID);
    }

    let memory = memory_of(library, asked.mhandle)?;
    let wait_all = asked.flags & libc::MSG_WAITALL != 0;
    let nonblocking = socket.lock().nonblocking;
    let admission = match (block, nonblocking) {
        (true, true) => Admission::Immediate,
        (true, false) => Admission::Waiting,
        (false, _) => Admission::Queued,
    };

    let start = |target| {
        let transfer = Transfer {
            address: asked.buffer,
            length: asked.length,
            memory,
            region: None,
            mhandle: asked.mhandle,
            flag: match used {
                Use::Send => socket.messages,
                Use::Receive => wait_all && !socket.messages,
            },
        };

        match used {
            Use::Send => socket.send(transfer, admission, target),
            Use::Receive => socket.receive(transfer, admission, target),
        }
    };

    let event = run(
        library,
        block,
        asked.handles,
        asked.flags,
        Need::Queue,
        start,
    )?;

    Ok(event.map_or(0, |event| event.xfer().exs_evt_length as ssize_t))
}

/// Sends from memory.
#[unsafe(no_mangle)]
pub(super) extern "C" fn exs_send(
    sockno: c_int,
    buffer: *const c_void,
    length: usize,
    flags: c_int,
    qhandle: usize,
    ahandle: usize,
    mhandle: usize,
) -> ssize_t {
    let asked = Asked {
        sockno,
        buffer: buffer as usize,
        length,
        flags,
        handles: (qhandle, ahandle),
        mhandle,
    };
    call(-1, || transfer(Use::Send, &asked))
}

/// Receives into memory.
#[unsafe(no_mangle)]
pub(super) extern "C" fn exs_recv(
    sockno: c_int,
    buffer: *mut c_void,
    length: usize,
    flags: c_int,
    qhandle: usize,
    ahandle: usize,
    mhandle: usize,
) -> ssize_t {
    let asked = Asked {
        sockno,
        buffer: buffer as usize,
        length,
        flags,
        handles: (qhandle, ahandle),
        mhandle,
    };
    call(-1, || transfer(Use::Receive, &asked))
}

/// The body of the file transfers.
fn transfer_file(
    used: Use,
    sockno: c_int,
    (vector, count): (usize, c_int),
    flags: c_int,
    handles: (usize, usize),
) -> Result<Option<Event>> {
    let library = Library::running()?;
    let known = match used {
        Use::Send => EXS_BLOCK | EXS_UNSIGNALED | EXS_SHUT_WR,
        Use::Receive => EXS_BLOCK | EXS_UNSIGNALED,
    };
    let block = super::flags(flags, known, INVALID)?;
    let socket = library.socket(sockno)?;
    match used {
        Use::Send => socket.may_send()?,
        Use::Receive => socket.may_receive()?,
    }

    super::queue(library, block, handles.0, flags, Need::Queue)?;
    let limit = socket.lock().file_limit;
    let mut plan = file::plan(library, vector, count, used, limit)?;
    plan.shut |= flags & EXS_SHUT_WR != 0;
    let work = move |plan: Plan, socket: &Arc<Socket>, target: Target| {
        let (moved, result) = match used {
            Use::Send => file::send(library, socket, &plan),
            Use::Receive => file::receive(library, socket, plan),
        };

        let kind = match used {
            Use::Send => EXS_EVT_SENDFILE,
            Use::Receive => EXS_EVT_RECVFILE,
        };

        let detail = EventDetail::Xferfile(EvtXferfile {
            exs_evt_xfervec: vector,
            exs_evt_xfervec_cnt: count,
            exs_evt_length: moved.bytes as i64,
            exs_evt_flags: moved.flags.bits(),
        });
        target.end(kind, sockno, result, detail);
    };

    let start = |target: Target| {
        // The plan and the target come with the turn: one that is refused a turn has ended, and let
        // go of its queue, before the call does.
        let (turn, turned) = mpsc::channel();
        let turn = Box::new(move || turn.send((plan, target)).unwrap_or(()));
        if block {
            socket.queue_file(used, turn)?;
            let (plan, target) = turned.recv().map_err(|_| Errno(libc::ECANCELED))?;
            work(plan, &socket, target);
            return Ok(());
        }

        // The thread is there before the transfer is queued: a transfer that has its turn cannot
        // lack one.
        let own = Arc::clone(&socket);
        progress::spawn("exs-file", move || {
            if let Ok((plan, target)) = turned.recv() {
                progress::guarded(|| work(plan, &own, target));
            }
        })?;

        socket.queue_file(used, turn)
    };

    run(library, block, handles, flags, Need::Queue, start)
}

/// Sends files.
#[unsafe(no_mangle)]
pub(super) extern "C" fn exs_sendfile(
    socket: c_int,
    sendvec: *mut XferFile,
    sendvec_cnt: c_int,
    flags: c_int,
    qhandle: usize,
    ahandle: usize,
) -> ssize_t {
    call(-1, || {
        let vector = (sendvec as usize, sendvec_cnt);
        transfer_file(Use::Send, socket, vector, flags, (qhandle, ahandle)).map(|_| 0)
    })
}

/// Receives into files.
#[unsafe(no_mangle)]
pub(super) extern "C" fn exs_recvfile(
    socket: c_int,
    recvvec: *mut XferFile,
    recvvec_cnt: c_int,
    flags: c_int,
    qhandle: usize,
    ahandle: usize,
) -> ssize_t {
    call(-1, || {
        let vector = (recvvec as usize, recvvec_cnt);
        let event = transfer_file(Use::Receive, socket, vector, flags, (qhandle, ahandle))?;
        Ok(event.map_or(0, |event| event.xferfile().exs_evt_length as ssize_t))
    })
}

/// Sends and waits.
#[unsafe(no_mangle)]
pub(super) extern "C" fn exs_blocking_send(
    sockno: c_int,
    buffer: *const c_void,
    max_bytes: usize,
    flags: c_int,
    mhandle: usize,
) -> ssize_t {
    exs_send(sockno, buffer, max_bytes, flags | EXS_BLOCK, 0, 0, mhandle)
}

/// Receives and waits.
#[unsafe(no_mangle)]
pub(super) extern "C" fn exs_blocking_recv(
    sockno: c_int,
    buffer: *mut c_void,
    max_bytes: usize,
    flags: c_int,
    mhandle: usize,
) -> ssize_t {
    exs_recv(sockno, buffer, max_bytes, flags | EXS_BLOCK, 0, 0, mhandle)
}

/// Sends files and waits.
#[unsafe(no_mangle)]
pub(super) extern "C" fn exs_blocking_sendfile(
    socket: c_int,
    sendvec: *mut XferFile,
    sendvec_cnt: c_int,
    flags: c_int,
) -> ssize_t {
    exs_sendfile(socket, sendvec, sendvec_cnt, flags | EXS_BLOCK, 0, 0)
}

/// Receives into files and waits.
#[unsafe(no_mangle)]
pub(super) extern "C" fn exs_blocking_recvfile(
    socket: c_int,
    recvvec: *mut XferFile,
    recvvec_cnt: c_int,
    flags: c_int,
) -> ssize_t {
    exs_recvfile(socket, recvvec, recvvec_cnt, flags | EXS_BLOCK, 0, 0)
}

/// Receives without registration, and waits.
#[unsafe(no_mangle)]
pub(super) extern "C" fn exs_read(sockno: c_int, buffer: *mut c_void, max_bytes: usize) -> ssize_t {
    exs_recv(sockno, buffer, max_bytes, EXS_BLOCK, 0, 0, 0)
}

/// Sends without registration, and waits.
#[unsafe(no_mangle)]
pub(super) extern "C" fn exs_write(
    sockno: c_int,
    buffer: *const c_void,
    max_bytes: usize,
) -> ssize_t {
    exs_send(sockno, buffer, max_bytes, EXS_BLOCK, 0, 0, 0)
}
